"""Executor: carries out the decisions of `core` through ports."""
