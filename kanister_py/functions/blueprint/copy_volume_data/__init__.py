"""Backs a volume up with restic."""
