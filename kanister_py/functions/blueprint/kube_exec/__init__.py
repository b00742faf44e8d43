"""KubeExec: a command in a running container."""
