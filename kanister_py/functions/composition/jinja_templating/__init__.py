"""Composes resources with Jinja2 templates."""
