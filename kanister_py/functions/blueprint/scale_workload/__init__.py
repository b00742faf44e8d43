"""Sets how many replicas a workload has."""
