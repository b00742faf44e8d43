"""Stage: cluster in memory for tests of blueprints, and the results of their runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from kanister_py.core.actionsets.outcomes import Outcome, outcome_as_dict
from kanister_py.core.actionsets.references import parse_place
from kanister_py.core.actionsets.status import Status, Warned
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import labels_of, status_of
from kanister_py.core.kube.patches import merge_patched
from kanister_py.core.kube.resources import (
    DEPLOYMENTS,
    PODS,
    STATEFUL_SETS,
    GroupVersionResource,
)
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.executor.run.background import Run
from kanister_py.ports.cluster import KubeObject, Watch
from kanister_py.ports.pods import PodRunner
from kanister_py.runs import RunSettings, run_blueprint
from kanister_py.testing.golden import check_golden
from kanister_py.testing.scripts import (
    Answer,
    Command,
    RecordedPods,
    Reply,
    Script,
    ScriptedPods,
    is_controlled,
)
from kanister_py.testing.stage_clock import StageClock
from kanister_py.wiring import attach_pods, follow, memory_cluster, process_pods

SPEED: Final = 20.0
"""Speed of the clock with scripted pods."""

_RUN_SECONDS: Final = 60.0
_READY_SECONDS: Final = 60.0
_RUN_LABEL: Final = "kanister-py.io/run"
_FIRST: Final = ("attempt", 1)
_IGNORED_KINDS: Final = frozenset({"Pod", "Node", "Event", "PersistentVolume"})
"""Kinds whose objects are recorded separately, or created by controllers."""
_TIME: Final = re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"')
_KEY: Final = re.compile(r"\b[0-9a-f]{20}\b")
_FOLDER_OF_PLACE: Final = re.compile(r"(?<=\()[^()\s]*/(?=[^()/\s]+:\d+\))")
_RECORDED_METADATA: Final = ("namespace", "name", "labels", "annotations")
_RECORDED_CONTAINER_FIELDS: Final = (
    "name",
    "image",
    "command",
    "args",
    "env",
    "envFrom",
    "volumeMounts",
)

ObjectSource: TypeAlias = Mapping[str, Any] | str | Path
StatusOf: TypeAlias = Mapping[str, Any] | Callable[[KubeObject], Mapping[str, Any]]


class Stage:
    """Cluster in memory with scripted pods, on which blueprints run.

    A stage can have several runs in sequence, such as a backup and its restore.
    """

    def __init__(self, *, folders: Sequence[Path] = (), state: Path | None = None) -> None:
        self._folders = folders or (Path.cwd(),)
        self._state = state
        self._script = Script()
        self._clock = StageClock(speed=SPEED)
        self._uids = iter(range(1, 10**12))
        self.cluster = memory_cluster(self._clock, new_uid=self._new_uid, seed=1)
        """The cluster itself."""
        self.registry: Registry[FunctionEntry] | None = None
        """Registry of functions; None for the installed ones. See `wiring.registry_of`."""
        self._stack = ExitStack()
        self._pods: RecordedPods | None = None
        self._runner: PodRunner | None = None
        self._controllers: list[tuple[str, str, StatusOf]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete all pods and stop all threads."""
        self._stack.close()

    # Before a run

    def given(self, *what: ObjectSource) -> Self:
        """Load objects into the cluster: mappings, files, or folders of files."""
        for source in what:
            self.cluster.load([dict(source)] if isinstance(source, Mapping) else self._read(source))
        return self

    def given_text(self, text: str) -> Self:
        """Load the objects of a text in YAML or JSON into the cluster."""
        self.cluster.load([document.value for document in parse_documents(text)])
        return self

    def stand(self) -> Self:
        """Start all workloads and wait until they are ready. `run` does so itself."""
        self._start_pods()
        return self

    def script(
        self,
        pattern: str,
        reply: Reply | None = None,
        *,
        prints: str = "",
        complains: str = "",
        outputs: Mapping[str, str] | None = None,
        exit_code: int = 0,
        stays: bool = False,
        times: int | None = None,
    ) -> Self:
        """Define the result of commands whose text matches the regular expression `pattern`.

        They print `prints` to stdout and `complains` to stderr, return `outputs` as with
        `kando output`, and exit with `exit_code`. Alternatively, `reply` is an `Answer` or a
        function that returns one. With `times`, the row applies so many times; then the next
        matching row applies, for example for a command that fails once.
        """
        answer = Answer(prints, complains, dict(outputs or {}), exit_code, stays)
        self._script.add(pattern, reply or answer, times)
        return self

    def otherwise(self, reply: Reply) -> Self:
        """Define the result of commands that no row matches."""
        self._script.otherwise = reply
        return self

    def controlled(self, api_version: str, kind: str, status: StatusOf) -> Self:
        """Set the status of every object of a kind when it appears, like its controller.

        A function receives the object and may also change other fields, such as its spec.
        """
        self._controllers.append((api_version, kind, status))
        return self

    def use_processes(
        self, runner: PodRunner | None = None, *, locations: Path | None = None
    ) -> Self:
        """Run the commands of pods as processes of this machine.

        Call it before the first run. It executes the commands of the blueprint on this machine. The
        folder `locations` replaces the object stores of Profiles.
        """
        assert self._pods is None, "the pods of this stage are already running"
        self._clock.speed = 1.0
        self._runner = runner or process_pods(self._clock, self._state, locations)
        return self

    # Run

    def run(
        self,
        blueprint: ObjectSource,
        action: str,
        *,
        object: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field in an ActionSet
        options: Mapping[str, str] | None = None,
        profile: str | Mapping[str, Any] = "",
        artifacts: Mapping[str, Any] | None = None,
        timeout_seconds: float = _RUN_SECONDS,
        **more: Any,
    ) -> Ran:
        """Run an action to its end, and return the result.

        `object` and the other arguments are fields of an ActionSet (`secrets`, `config_maps`,
        `preferred_version`, `pod_labels` …). Profiles, Secrets and ConfigMaps can be given as
        `namespace/name`, and artifacts as an earlier run returned them. A run that takes longer
        than `timeout_seconds` is cancelled.
        """
        pods = self._start_pods()
        recorder = _Recorder()
        offsets = (len(pods.pods), len(pods.commands))
        before = self._own_objects()
        spec: dict[str, Any] = {**more}
        if profile:
            spec["profile"] = _place(profile)
        for key in ("secrets", "config_maps"):
            if key in more:
                spec[key] = {name: _place(place) for name, place in more[key].items()}
        if artifacts:
            spec["artifacts"] = dict(artifacts)
        run = run_blueprint(
            blueprint if isinstance(blueprint, Mapping) else self._find(blueprint),
            action,
            object=object,
            options=options,
            settings=RunSettings(
                cluster=self.cluster,
                clock=self._clock,
                name=action.lower(),
                observer=recorder,
                registry=self.registry,
            ),
            **spec,
        )
        if not run.wait(timeout_seconds).is_over:
            run.cancel("RunTimedOut")
            run.wait()
        created_pods, commands = pods.pods[offsets[0] :], pods.commands[offsets[1] :]
        after = self._own_objects()
        return Ran(
            stage=self,
            run=run,
            made_pods=tuple(created_pods),
            commands=tuple(commands),
            journal=tuple(recorder.journal),
            log=tuple(recorder.log),
            made=tuple(after[uid] for uid in after if uid not in before),
            removed=tuple(_title(before[uid]) for uid in before if uid not in after),
        )

    # After a run

    def object(self, kind: str, place: str, api_version: str = "") -> KubeObject | None:
        """Return an object by kind and `namespace/name`, or None if it does not exist.

        `api_version` is only needed for kinds that the cluster does not serve.
        """
        at = parse_place(place)
        resource = self.cluster.resource_for(api_version or self._api_version_of(kind), kind)
        namespace = at.namespace if resource.is_namespaced else ""
        try:
            return self.cluster.get(resource.gvr, at.name, namespace=namespace)
        except NotFound:
            return None

    def objects(self, kind: str) -> list[KubeObject]:
        """Return all objects of a kind, by namespace and name."""
        return [obj for obj in self.cluster.objects() if obj["kind"] == kind]

    # Internals

    def _own_objects(self) -> dict[str, KubeObject]:
        """Return objects by UID, without those that controllers create."""
        return {
            obj["metadata"]["uid"]: obj
            for obj in self.cluster.objects()
            if obj["kind"] not in _IGNORED_KINDS and not is_controlled(obj)
        }

    def _api_version_of(self, kind: str) -> str:
        from kanister_py.core.kube.resources import BUILTIN_KINDS, WELL_KNOWN_CUSTOM_KINDS

        for entry in (*BUILTIN_KINDS, *WELL_KNOWN_CUSTOM_KINDS):
            if entry.kind == kind:
                return entry.gvr.api_version
        return next((str(obj["apiVersion"]) for obj in self.objects(kind)), "v1")

    def _new_uid(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._uids):012d}"

    def _find(self, file: str | Path) -> Path:
        path = next((f / file for f in self._folders if (f / file).exists()), None)
        if path is None:
            places = ", ".join(map(str, self._folders))
            raise FileNotFoundError(f"{file} is in none of {places}")
        return path

    def _read(self, what: str | Path) -> Iterator[KubeObject]:
        path = self._find(what)
        files = sorted(path.rglob("*.y*ml")) if path.is_dir() else [path]
        for file in files:
            for document in parse_documents(file.read_bytes(), str(file)):
                yield document.value

    def _start_pods(self) -> RecordedPods:
        """Start the pod runner and controllers, and wait until all workloads are ready."""
        if self._pods is None:
            runner = self._runner or ScriptedPods(self._script, self._clock)
            self._pods = RecordedPods(runner)
            attach_pods(self.cluster, self._pods, self._clock, self._stack)
        for api_version, kind, status in self._controllers:
            self._control(api_version, kind, status)
        self._controllers.clear()
        for resource in (DEPLOYMENTS, STATEFUL_SETS):
            for obj in self.cluster.list(resource):
                self._wait_until_ready(resource, obj)
        return self._pods

    def _wait_until_ready(self, resource: GroupVersionResource, workload: KubeObject) -> None:
        metadata = workload["metadata"]
        watch = self.cluster.watch(
            resource,
            namespace=metadata["namespace"],
            field_selector=f"metadata.name={metadata['name']}",
            # The limit is in real time, independent of the clock of the stage.
            timeout_seconds=_READY_SECONDS * self._clock.speed,
        )
        if not _until(watch, _is_ready):
            raise AssertionError(f"{metadata['namespace']}/{metadata['name']} did not become ready")

    def _control(self, api_version: str, kind: str, status: StatusOf) -> None:
        """Start the controller of a kind."""
        resource = self.cluster.resource_for(api_version, kind).gvr

        def answer(obj: KubeObject) -> None:
            if obj.get("status") or obj["metadata"].get("deletionTimestamp"):
                return
            new_status = status(obj) if callable(status) else status
            changed = merge_patched(obj, {"status": new_status})
            self.cluster.load([changed])

        follow(self.cluster, resource, answer, self._clock, self._stack)


@dataclass(frozen=True, slots=True)
class Ran:
    """Result of a run, for the assertions of a test."""

    stage: Stage
    run: Run
    made_pods: tuple[Mapping[str, Any], ...]
    """Pods that the run created, without those of workloads."""
    commands: tuple[Command, ...]
    """Commands of these pods and of all exec sessions, in order."""
    journal: tuple[Mapping[str, Any], ...]
    """Journal of the run."""
    log: tuple[str, ...]
    """Log lines of the phases, as `action/phase | line`."""
    made: tuple[KubeObject, ...]
    """Objects created by the run, without pods and dependents of workloads."""
    removed: tuple[str, ...]
    """Objects deleted by the run, as `Kind namespace/name`."""

    @property
    def is_complete(self) -> bool:
        return self.run.is_complete

    @property
    def state(self) -> str:
        """pending, running, failed or complete."""
        return self.run.state

    @property
    def error(self) -> str:
        """Message of the error; empty if the run did not fail."""
        return self.run.error

    @property
    def reason(self) -> str:
        """Reason of the error; empty if the run did not fail."""
        return str((self.status.get("error") or {}).get("reason", ""))

    @property
    def status(self) -> Mapping[str, Any]:
        """The `status` of the ActionSet."""
        return self.run.status

    @property
    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Outputs by the name of the phase."""
        return self.run.outputs

    @property
    def artifacts(self) -> Mapping[str, Mapping[str, Any]]:
        """Output artifacts of the run."""
        return self.run.artifacts

    @property
    def notices(self) -> tuple[Warned, ...]:
        """Warnings, such as deprecated versions."""
        return self.run.notices

    @property
    def versions(self) -> Mapping[str, str]:
        """Function versions by the name of the phase."""
        return {
            phase.name: phase.func_version
            for action in self.run.progress.actions
            for phase in (*action.phases, *([action.deferred] if action.deferred else ()))
        }

    @property
    def pods(self) -> tuple[str, ...]:
        """Pods of the run that still exist, as `namespace/name`."""
        existing = {pod["metadata"]["uid"] for pod in self.stage.cluster.list(PODS)}
        return tuple(
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in self.made_pods
            if pod["metadata"]["uid"] in existing
        )

    def command(self, words: str) -> Command:
        """Return the only command whose text contains `words`."""
        matching = [command for command in self.commands if words in command.text]
        if len(matching) != 1:
            listing = "\n".join(f"  {command.text}" for command in self.commands)
            raise AssertionError(
                f"{len(matching)} commands contain {words!r}, of these:\n{listing}"
            )
        return matching[0]

    def as_golden(self) -> dict[str, Any]:
        """Return the record of the run without values that differ between runs."""
        course = {
            "journal": [_entry_of(entry, self.run.progress) for entry in self.journal],
            "pods": [_pod_entry(pod) for pod in self.made_pods],
            "execs": [
                {"pod": command.pod, "container": command.container, "command": list(command.words)}
                for command in self.commands
                if command.is_exec
            ],
            "made": [_object_entry(obj) for obj in self.made],
            "removed": list(self.removed),
            "status": self.status,
        }
        text = json.dumps(course)
        for number, pod in enumerate(self.made_pods):
            key = labels_of(pod).get(_RUN_LABEL)
            if key:
                text = text.replace(key, f"run-{number + 1}")
        text = _FOLDER_OF_PLACE.sub("", _TIME.sub('"TIME"', _KEY.sub("KEY", text)))
        document: dict[str, Any] = json.loads(text)
        return {key: value for key, value in document.items() if value != []}

    def check_golden(self, file: str | Path) -> None:
        """Compare the record of the run with a golden file; see `check_golden`."""
        __tracebackhide__ = True
        check_golden(self.as_golden(), file)


@dataclass(slots=True)
class _Recorder:
    """Observer that records the journal and log of a run."""

    journal: list[Mapping[str, Any]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def on_outcome(self, outcome: Outcome, status: Status) -> None:  # noqa: ARG002 - only the outcomes are recorded
        self.journal.append(outcome_as_dict(outcome))

    def on_log(self, action: str, phase: str, line: str) -> None:
        self.log.append(f"{action}/{phase} | {line}")


def _entry_of(outcome: Mapping[str, Any], status: Status) -> dict[str, Any]:
    """Return a journal entry with names instead of indexes, and without data for restarts."""
    where = ""
    if "place" in outcome:
        action, phase = outcome["place"]
        where = f"{status.actions[action].name}/{status.actions[action].phase(phase).name}"
    elif "action" in outcome:
        where = status.actions[outcome["action"]].name
    optional = {
        key: value
        for key, value in outcome.items()
        if key not in {"what", "time", "place", "action", "facts"} and (key, value) != _FIRST
    }
    return {str(outcome["what"]): where, **optional}


def _title(obj: KubeObject) -> str:
    metadata = obj["metadata"]
    return f"{obj['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def _object_entry(obj: KubeObject) -> dict[str, Any]:
    """Return the part of an object that its creator has set."""
    entry = {key: value for key, value in obj.items() if key not in {"metadata", "status"}}
    if obj["kind"] == "PersistentVolumeClaim":
        # The volume of a claim is set by its controller.
        entry["spec"] = {key: value for key, value in obj["spec"].items() if key != "volumeName"}
    metadata = {key: obj["metadata"][key] for key in _RECORDED_METADATA if key in obj["metadata"]}
    return {**entry, "metadata": metadata}


def _pod_entry(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod that its function and blueprint have set."""
    metadata, spec = pod["metadata"], pod["spec"]
    entry: dict[str, Any] = {"name": f"{metadata['namespace']}/{metadata['name']}"}
    for kind in ("initContainers", "containers"):
        if several := spec.get(kind):
            entry[kind] = [
                {key: container[key] for key in _RECORDED_CONTAINER_FIELDS if container.get(key)}
                for container in several
            ]
    if volumes := spec.get("volumes"):
        entry["volumes"] = volumes
    return entry


def _place(reference: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(reference, str):
        return dict(parse_place(reference).as_dict())
    return dict(reference)


def _until(watch: Watch, holds: Callable[[KubeObject], bool]) -> bool:
    with watch:
        return any(holds(event.object) for event in watch)


def _is_ready(workload: KubeObject) -> bool:
    replicas = workload["spec"].get("replicas", 1)
    status = status_of(workload)
    is_seen = status.get("observedGeneration") == workload["metadata"]["generation"]
    return bool(is_seen and status.get("readyReplicas", 0) == replicas)
