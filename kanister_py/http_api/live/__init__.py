"""The pages of runs: a list, one run with its log as it comes, and what may be done about it."""
