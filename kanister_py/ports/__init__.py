"""Ports: what the outside offers, as protocols."""
