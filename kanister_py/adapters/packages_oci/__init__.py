"""Packages of functions as OCI images."""
