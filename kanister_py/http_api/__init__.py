"""Publishes the versions of functions over HTTP."""
