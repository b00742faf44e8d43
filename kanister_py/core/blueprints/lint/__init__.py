"""Lint: what would go wrong with a blueprint, or surprise, before it runs."""
