"""Composite resources, their claims, definitions and revisions."""
