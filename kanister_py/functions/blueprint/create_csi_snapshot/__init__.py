"""CreateCSISnapshot: a snapshot of a volume through its CSI driver."""
