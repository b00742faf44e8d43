"""DeleteCSISnapshot: the deletion of a CSI snapshot."""
