"""MultiContainerRun: two commands in parallel in one pod."""
