"""Log lines of an ActionSet's phases, read from the logs of the controller's pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from kanister_py.controller.machine.lease import LEASE_NAME, lease_name
from kanister_py.controller.machine.logs import PHASE_LOGGER
from kanister_py.core.actionsets.partitions import partition_of
from kanister_py.core.actionsets.status import sort_key_of_time
from kanister_py.core.errors import ApiError, Forbidden, UsageError
from kanister_py.core.kube.parts import status_of
from kanister_py.core.kube.resources import LEASES, PODS
from kanister_py.ports.cluster import Cluster, KubeObject, LogOptions
from kanister_py.ports.phase_lines import PrintedLine

POD_SELECTOR: Final = "app.kubernetes.io/name=kanister-py,app.kubernetes.io/component=controller"
_UNAVAILABLE: Final = "PhaseLinesUnavailable"


class PodLogLines:
    """Reader of an ActionSet's lines in the logs of all replicas, as each may have been the leader.

    Only logs in JSON format contain the fields that are needed.
    """

    def __init__(self, cluster: Cluster, namespace: str = "") -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._read: dict[tuple[str, bool], int] = {}

    def new_lines(self, actionset: KubeObject) -> Iterator[PrintedLine]:
        """Yield the lines since the last call, in order of time. Use one reader per ActionSet."""
        lines: list[PrintedLine] = []
        pods = self._pods(partition_of(actionset))
        for pod in pods:
            statuses = status_of(pod).get("containerStatuses") or ()
            has_former = any(status.get("restartCount") for status in statuses)
            if has_former:
                lines += self._lines_of(pod, actionset, previous=True)
            lines += self._lines_of(pod, actionset, previous=False)
        # Only one replica leads at a time, so sorting by time gives the right order.
        yield from sorted(lines, key=lambda line: sort_key_of_time(line.time))

    def _pods(self, partition: str) -> list[KubeObject]:
        namespace = self._namespace or self._home(partition)
        pods = self._cluster.list(PODS, namespace=namespace, label_selector=POD_SELECTOR).items
        if not pods:
            raise UsageError(
                f"Namespace {namespace} has no pods of a controller; "
                "use --server with the address of the controller's endpoint",
                reason=_UNAVAILABLE,
            )
        return pods

    def _home(self, partition: str) -> str:
        name = lease_name(LEASE_NAME, partition)
        try:
            leases = self._cluster.list(LEASES, field_selector=f"metadata.name={name}").items
        except Forbidden as error:
            raise UsageError(
                f"You may not search for the controller ({error.message}); "
                "use --controller-namespace or --server",
                reason=_UNAVAILABLE,
            ) from error
        if not leases:
            raise UsageError(
                "No controller has ever run on this cluster; start one, or use --server",
                reason=_UNAVAILABLE,
            )
        newest = max(leases, key=lambda lease: sort_key_of_time(lease["spec"].get("renewTime")))
        self._namespace = str(newest["metadata"]["namespace"])
        return self._namespace

    def _lines_of(
        self, pod: KubeObject, actionset: KubeObject, *, previous: bool
    ) -> Iterator[PrintedLine]:
        metadata = actionset["metadata"]
        since = "" if previous else str(metadata.get("creationTimestamp") or "")
        options = LogOptions(previous=previous, since_time=since)
        name = str(pod["metadata"]["name"])
        try:
            with self._cluster.read_log(
                name, namespace=pod["metadata"]["namespace"], options=options
            ) as stream:
                text = b"".join(stream).decode("utf-8", "replace")
        except ApiError as error:
            if isinstance(error, Forbidden):
                raise
            # The pod has not started, or is gone.
            return
        own = [
            line
            for row in text.splitlines()
            if (line := _line_of(row, metadata["namespace"], metadata["name"])) is not None
        ]
        already_read = self._read.get((name, previous), 0)
        self._read[name, previous] = len(own)
        yield from own[already_read:]


def _line_of(text: str, namespace: str, name: str) -> PrintedLine | None:
    """Parse a JSON line of a log; None unless a phase of this ActionSet printed it."""
    if not text.startswith("{"):
        return None
    try:
        data = json.loads(text)
    except ValueError:
        return None
    if data.get("logger") != PHASE_LOGGER:
        return None
    if (data.get("namespace"), data.get("actionSet")) != (namespace, name):
        return None
    return PrintedLine(
        str(data.get("time") or ""),
        str(data.get("action") or ""),
        str(data.get("phase") or ""),
        str(data.get("message") or ""),
        str(data.get("function") or ""),
        str(data.get("version") or ""),
        int(data.get("attempt") or 0),
    )
