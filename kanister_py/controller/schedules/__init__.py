"""Schedules on a cluster: their due times, and the ActionSets that are created for them."""
