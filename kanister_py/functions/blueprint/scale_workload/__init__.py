"""ScaleWorkload: the number of replicas of a workload."""
