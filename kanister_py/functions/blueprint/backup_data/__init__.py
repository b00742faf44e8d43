"""BackupData: a folder of a running container, backed up with restic."""
