"""Functions for steps of compositions: one folder per function, one module per version."""
