"""Controllers: ActionSets, Schedules, compositions and Functions of a cluster, reconciled."""
