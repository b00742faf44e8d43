"""Serves a composition function over gRPC."""
