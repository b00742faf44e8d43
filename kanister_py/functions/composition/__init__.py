"""Functions that steps of compositions name: a folder for each, a module for each version."""
