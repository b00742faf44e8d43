"""Jinja templating: resources composed with Jinja2 templates."""
