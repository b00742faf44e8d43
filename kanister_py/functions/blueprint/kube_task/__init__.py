"""KubeTask: a command in a new pod."""
