"""Sends an HTTP request."""
