"""Compositions as data: the pipeline, its requirements and its results."""
