"""CheckRepository: whether a repository of restic can be opened."""
