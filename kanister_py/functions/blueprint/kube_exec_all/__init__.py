"""KubeExecAll: a command in several containers in parallel."""
