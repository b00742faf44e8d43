"""Environment configs: EnvironmentConfigs merged into the environment of a composition."""
