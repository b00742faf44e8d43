"""DeleteData: the deletion of backups of restic."""
