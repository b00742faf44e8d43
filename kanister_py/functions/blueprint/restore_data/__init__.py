"""RestoreData: a backup, restored into volumes."""
