"""Functions that users call by name. Importing one registers nothing."""
