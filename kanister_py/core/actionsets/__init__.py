"""ActionSets as data: the table of states, progress and outputs."""
