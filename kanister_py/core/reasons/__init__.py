"""The table of reasons in errors, conditions and events, with their meaning and fix."""
