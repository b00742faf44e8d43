"""Merges EnvironmentConfigs into the environment of a composition."""
