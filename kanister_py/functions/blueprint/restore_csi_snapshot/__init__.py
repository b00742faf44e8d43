"""RestoreCSISnapshot: a volume made out of a CSI snapshot."""
