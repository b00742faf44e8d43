"""RestoreCSISnapshot: a volume, restored from a CSI snapshot."""
