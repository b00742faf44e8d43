"""Runs of ActionSets: timers, attempts, what is held for each action, and the run itself."""
