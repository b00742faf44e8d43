"""What users count as functions. Importing one registers nothing."""
