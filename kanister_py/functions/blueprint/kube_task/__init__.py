"""KubeTask: a command in a pod of its own."""
