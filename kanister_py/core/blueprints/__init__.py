"""Blueprints as data: reading, linting, planning, upgrading."""
