"""KubeExec: a command in a container that is there."""
