"""Deletes what stands for a CSI snapshot in the whole cluster."""
