"""Runs of ActionSets. Each piece of their state has one owner:

- `run.ActionSetRun`: which steps are taken, and requests such as cancel, suspend and drain
- `state.RunState`: status and journal, the lock, timers, whether the run is over
- `action_worker.ActionWorker`: the thread of one action, its attempt, its wait for a retry
- `attempt.Attempt`: one call of a function with its stop signal, time limits and cleanup
- `prepared_action.PreparedAction`: versions, code, templates and secrets of one action
- `background.Run`: the thread that carries a run out for a command or a script

`header` describes what a run starts from, `left_behind` finds the pods that attempts leave.
"""
