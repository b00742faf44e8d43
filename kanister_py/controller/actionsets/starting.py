"""Starting runs: from an ActionSet and its Blueprints to a run that can begin."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kanister_py.controller.actionsets.active_run import ActiveRun, Host
from kanister_py.controller.actionsets.planner import Planned, Planner
from kanister_py.controller.actionsets.projection import action_labels_of
from kanister_py.controller.actionsets.reporting import RunReporter, RunReporting
from kanister_py.controller.actionsets.status import StatusWriter, StatusWriters
from kanister_py.controller.machine.events import subject_of
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.work_loop import WorkQueue
from kanister_py.core.actionsets.creation import RETRY_FROM, RETRY_OF
from kanister_py.core.actionsets.status import Status
from kanister_py.core.errors import Fault, KanisterError
from kanister_py.core.kube.parts import annotations_of
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.run.run import ActionSetRun
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject

_LOG: Final = logging.getLogger(__name__)

WAITING: Final = "Waiting"


class RunStarter:
    """Maker of runs.

    `surroundings` is called with the namespace and the requested ServiceAccount of a run.
    """

    def __init__(
        self,
        tools: PartTools,
        queue: WorkQueue[ObjectKey],
        planner: Planner,
        functions: FunctionSource,
        reporting: RunReporting,
        writers: StatusWriters,
        surroundings: Callable[[str, str], Surroundings],
    ) -> None:
        self._tools = tools
        self._queue = queue
        self._planner = planner
        self._functions = functions
        self._reporting = reporting
        self._writers = writers
        self._surroundings = surroundings

    def writer_of(self, key: ObjectKey, obj: KubeObject) -> StatusWriter:
        """Return a writer of an ActionSet's status. It queues `key` to write progress later."""
        return self._writers.of(obj, lambda seconds: self._queue.add_after(key, seconds))

    def plan(self, obj: KubeObject, seen_at: float) -> Planned:
        """Plan a run. Raises `KanisterError` if the ActionSet cannot run."""
        notes = annotations_of(obj)
        try:
            return self._planner.plan(
                obj, seen_at, str(notes.get(RETRY_OF) or ""), str(notes.get(RETRY_FROM) or "")
            )
        except KanisterError:
            raise
        except Exception as error:
            _LOG.exception("An ActionSet could not be planned because of a bug")
            raise Fault(f"{type(error).__name__}: {error}") from error

    def make_run(
        self, key: ObjectKey, obj: KubeObject, writer: StatusWriter, planned: Planned
    ) -> ActiveRun:
        """Build the run of an ActionSet. The caller begins it."""
        metadata = obj["metadata"]
        course, status = planned.course, planned.status
        is_deleted = bool(metadata.get("deletionTimestamp"))
        if is_deleted:
            spec = course.actionset.spec.model_copy(update={"cancel": True})
            actionset = course.actionset.model_copy(update={"spec": spec})
            course = course._replace(actionset=actionset)
        status = without_condition(status, WAITING)
        writer.needs_finalizer = partial(self._planner.needs_cleanup, course)
        action_labels = action_labels_of(obj)
        host = Host(key, self._queue, self._tools.timers)
        subject = subject_of(obj)
        teller = RunReporter(
            self._reporting, key, subject, course, planned.blueprints, action_labels, lambda: run
        )
        run = ActionSetRun(
            course,
            self._functions,
            self._surroundings(key.namespace, course.actionset.spec.service_account_name)._replace(
                owner=_owner_of(obj)
            ),
            journal=writer,
            status=status,
            observer=teller,
        )
        spec_now = course.actionset.spec
        return ActiveRun(
            metadata["uid"],
            subject,
            run,
            writer,
            host,
            action_labels,
            planned.is_resumed,
            is_suspended=spec_now.suspend,
            is_cancelled=spec_now.cancel,
        )


def _owner_of(obj: KubeObject) -> dict[str, Any]:
    metadata = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "namespace": metadata.get("namespace", ""),
    }


def without_condition(status: Status, kind: str) -> Status:
    """Return a status without the condition of a type."""
    if not status.conditions:
        return status
    return status._replace(
        conditions=tuple(condition for condition in status.conditions if condition.type != kind)
    )
