"""Executor: decisions carried out through ports."""
