"""KubeExecAll: a command in many containers at once."""
