"""WaitV2: a wait for objects of the cluster to be as templates over them say."""
