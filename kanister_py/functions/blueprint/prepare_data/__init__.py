"""PrepareData: a command in a pod that has volumes mounted."""
