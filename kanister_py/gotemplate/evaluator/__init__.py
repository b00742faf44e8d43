"""Evaluator: compiles a template's tree once into Python closures, which can run many times."""
