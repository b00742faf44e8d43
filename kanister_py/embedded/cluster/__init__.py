"""A cluster in memory: the behaviour of an API server over dicts, inside this process."""
