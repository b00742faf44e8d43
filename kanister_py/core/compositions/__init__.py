"""Compositions: models, the state of a pipeline between its steps, requirements and results."""
