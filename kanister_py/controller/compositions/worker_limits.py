"""Limits on the workers that one kind, namespace or function may keep busy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.machine.breakers import Breakers
from kanister_py.controller.machine.work_loop import Groups


class WorkerLimits:
    """Groups of tasks that share workers, with the number of workers for each group.

    A kind and a function that has answered get a quarter of the workers, a namespace a half.
    A function that has not answered yet gets an eighth.
    """

    def __init__(
        self,
        workers: int,
        breakers: Breakers[Task],
        functions_of: Callable[[Task], Sequence[str]],
    ) -> None:
        self._quarter = max(1, workers // 4)
        self._eighth = max(1, workers // 8)
        self._breakers = breakers
        self._functions_of = functions_of

    def groups_of(self, task: Task) -> Groups:
        """List the groups of a task; only composite resources are limited."""
        if task.role is not Role.COMPOSITE:
            return ()
        return (
            (task.resource, self._quarter),
            (task.key.namespace, self._quarter * 2),
            *(
                (name, self._quarter if self._breakers.is_proven(name) else self._eighth)
                for name in self._functions_of(task)
            ),
        )
