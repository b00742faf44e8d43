"""Says of composed resources whether they are ready."""
