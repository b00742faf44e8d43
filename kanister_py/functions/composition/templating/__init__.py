"""Templating: common parts of the functions that render templates."""
