"""What makes a revision new, which ones stay active, and which may be collected."""
