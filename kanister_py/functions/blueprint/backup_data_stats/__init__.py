"""BackupDataStats: the size of a backup of restic."""
