"""Runs of ActionSets. Each part of their state has one owner:

- `run.ActionSetRun`: steps, and requests such as cancel, suspend and drain
- `state.RunState`: status and journal, the lock, timers, whether the run is over
- `action_worker.ActionWorker`: the thread of one action, its attempt, its wait for a retry
- `attempt.Attempt`: one call of a function with its stop signal, time limits and cleanup
- `prepared_action.PreparedAction`: versions, code, templates and secrets of one action
- `background.Run`: the thread that executes a run for a command or a script

`header` describes the start of a run, `orphaned_pods` finds pods that attempts left behind.
"""
