"""Registry of functions, and the choice of a version or a revision."""
