"""Deletes a CSI snapshot."""
