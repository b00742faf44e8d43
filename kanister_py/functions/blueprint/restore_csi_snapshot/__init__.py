"""Makes a volume out of a CSI snapshot."""
