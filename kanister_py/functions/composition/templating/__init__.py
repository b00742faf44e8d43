"""Templating: what functions that render templates share."""
