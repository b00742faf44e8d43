"""Auto-ready: whether composed resources are ready."""
