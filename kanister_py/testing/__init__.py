"""For authors of blueprints and functions: the pytest plugin."""
