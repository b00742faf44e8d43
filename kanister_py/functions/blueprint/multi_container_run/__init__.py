"""MultiContainerRun: two commands side by side in one pod."""
