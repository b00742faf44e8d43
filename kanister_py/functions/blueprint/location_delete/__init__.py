"""Deletes objects of the Profile's store."""
