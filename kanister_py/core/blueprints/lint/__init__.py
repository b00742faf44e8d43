"""Lint: finds errors and surprises in Blueprints before they run."""
