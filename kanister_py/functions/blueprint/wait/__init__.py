"""Wait: a wait for objects of the cluster to be as conditions of a blueprint say."""
