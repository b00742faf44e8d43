"""Composes resources with Go templates."""
