"""Composition functions: their packages and what runs them."""
