"""Auto-ready: readiness of composed resources."""
