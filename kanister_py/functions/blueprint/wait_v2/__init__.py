"""WaitV2: a wait until Kubernetes objects meet conditions that are Go templates."""
