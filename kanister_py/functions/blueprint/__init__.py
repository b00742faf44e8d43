"""Functions for phases of blueprints: one folder per function, one module per version."""
