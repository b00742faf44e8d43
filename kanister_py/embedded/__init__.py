"""What a laptop has instead of Kubernetes: a cluster in memory, and pods as processes."""
