"""Schedules on a cluster: their times, and the ActionSets that are made for them."""
