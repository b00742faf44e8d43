"""Decisions: data in, data out. No network, files, clock, randomness, threads or logging."""
