"""Evaluator: a template's tree becomes Python closures, once, and they run many times."""
