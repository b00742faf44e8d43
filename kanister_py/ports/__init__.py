"""Ports: interfaces to the outside world, as protocols."""
