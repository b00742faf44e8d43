"""CopyVolumeData: a volume, backed up with restic."""
