"""KubeOps: creation, deletion and patches of Kubernetes objects."""
