"""Restores a backup into volumes."""
