"""Fetches resources and puts them into the context."""
