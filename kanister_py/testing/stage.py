"""Stage: a cluster on which a blueprint is tried, its pods, and what came of a run."""

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
from kanister_py.testing.pace import StageClock
from kanister_py.testing.scripts import (
    Answer,
    Command,
    RecordedPods,
    Reply,
    Script,
    ScriptedPods,
    is_controlled,
)
from kanister_py.wiring import attach_pods, follow, memory_cluster, process_pods

SPEED: Final = 20.0
"""How many seconds pass in one, where pods are played from a script."""

_RUN_SECONDS: Final = 60.0
_STANDING_SECONDS: Final = 60.0
_RUN_LABEL: Final = "kanister-py.io/run"
_FIRST: Final = ("attempt", 1)
_NOBODYS: Final = frozenset({"Pod", "Node", "Event", "PersistentVolume"})
"""Kinds whose objects are seen elsewhere, or come and go by themselves."""
_TIME: Final = re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"')
_KEY: Final = re.compile(r"\b[0-9a-f]{20}\b")
_FOLDER_OF_PLACE: Final = re.compile(r"(?<=\()[^()\s]*/(?=[^()/\s]+:\d+\))")
_KEPT_OF_METADATA: Final = ("namespace", "name", "labels", "annotations")
_KEPT_OF_CONTAINERS: Final = ("name", "image", "command", "args", "env", "envFrom", "volumeMounts")

Given: TypeAlias = Mapping[str, Any] | str | Path
StatusOf: TypeAlias = Mapping[str, Any] | Callable[[KubeObject], Mapping[str, Any]]


class Stage:
    """A cluster in memory, its pods played from a script, and blueprints that run on it.

    One stage may see several runs, one after the other: a backup, then its restore.
    """

    def __init__(self, *, folders: Sequence[Path] = (), state: Path | None = None) -> None:
        self._folders = folders or (Path.cwd(),)
        self._state = state
        self._script = Script()
        self._clock = StageClock(speed=SPEED)
        self._uids = iter(range(1, 10**12))
        self.cluster = memory_cluster(self._clock, new_uid=self._new_uid, seed=1)
        """The cluster itself, for whatever has no shorter way here."""
        self.registry: Registry[FunctionEntry] | None = None
        """The functions there are; None for what is installed. See `wiring.registry_of`."""
        self._stack = ExitStack()
        self._pods: RecordedPods | None = None
        self._runner: PodRunner | None = None
        self._controllers: list[tuple[str, str, StatusOf]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End every pod, and everything else that moves."""
        self._stack.close()

    # What there is before a run

    def given(self, *what: Given) -> Self:
        """Put objects into the cluster: as they are, from files, or from folders of files."""
        for source in what:
            self.cluster.load([dict(source)] if isinstance(source, Mapping) else self._read(source))
        return self

    def given_text(self, text: str) -> Self:
        """Put the objects of a text of YAML or JSON into the cluster."""
        self.cluster.load([document.value for document in parse_documents(text)])
        return self

    def stand(self) -> Self:
        """Have every workload stand as it was asked for; a run does so by itself."""
        self._standing()
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
        """Say what a command does in whose words the regular expression `pattern` is found.

        It prints, complains (on stderr), hands over `outputs` as `kando output` does, and
        ends with the exit code; or `reply` says all that, as an `Answer`, or a function
        that gives one. With `times`, it does so that often, and the next line of the
        script that fits counts after that: a command that fails first, and then does not.
        """
        answer = Answer(prints, complains, dict(outputs or {}), exit_code, stays)
        self._script.add(pattern, reply or answer, times)
        return self

    def otherwise(self, reply: Reply) -> Self:
        """Say what the commands do that no line of the script fits."""
        self._script.otherwise = reply
        return self

    def controlled(self, api_version: str, kind: str, status: StatusOf) -> Self:
        """Give every object of a kind that appears a status, as its controller would.

        What a function of the object gives may touch all of it, such as its spec.
        """
        self._controllers.append((api_version, kind, status))
        return self

    def use_processes(
        self, runner: PodRunner | None = None, *, locations: Path | None = None
    ) -> Self:
        """Run the commands of pods as processes of this machine, with its programs.

        Before the first run. It executes what the blueprint says, here. The folder
        `locations` stands in for every store of a Profile, if one is named.
        """
        assert self._pods is None, "the pods of this stage run already"
        self._clock.speed = 1.0
        self._runner = runner or process_pods(self._clock, self._state, locations)
        return self

    # A run

    def run(
        self,
        blueprint: Given,
        action: str,
        *,
        object: str | Mapping[str, Any] | None = None,  # noqa: A002 # as an ActionSet calls it
        options: Mapping[str, str] | None = None,
        profile: str | Mapping[str, Any] = "",
        artifacts: Mapping[str, Any] | None = None,
        timeout_seconds: float = _RUN_SECONDS,
        **more: Any,
    ) -> Ran:
        """Run an action to its end, and give what came of it.

        `object` and the rest are what an ActionSet says, in its words (`secrets`,
        `config_maps`, `preferred_version`, `pod_labels` …); a Profile, Secrets and
        ConfigMaps may be given as `namespace/name`, artifacts as an earlier run left them.
        A run that takes longer than `timeout_seconds` is cancelled.
        """
        pods = self._standing()
        seen = _Witness()
        began_with = (len(pods.pods), len(pods.commands))
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
                observer=seen,
                registry=self.registry,
            ),
            **spec,
        )
        if not run.wait(timeout_seconds).is_over:
            run.cancel("RunTimedOut")
            run.wait()
        created_pods, commands = pods.pods[began_with[0] :], pods.commands[began_with[1] :]
        after = self._own_objects()
        return Ran(
            stage=self,
            run=run,
            made_pods=tuple(created_pods),
            commands=tuple(commands),
            journal=tuple(seen.journal),
            log=tuple(seen.log),
            made=tuple(after[uid] for uid in after if uid not in before),
            removed=tuple(_title(before[uid]) for uid in before if uid not in after),
        )

    # What there is afterwards

    def object(self, kind: str, place: str, api_version: str = "") -> KubeObject | None:
        """Give an object by its kind and `namespace/name`, or None if it is not there.

        The `api_version` is needed for kinds that the cluster knows from nobody else.
        """
        at = parse_place(place)
        resource = self.cluster.resource_for(api_version or self._api_version_of(kind), kind)
        namespace = at.namespace if resource.is_namespaced else ""
        try:
            return self.cluster.get(resource.gvr, at.name, namespace=namespace)
        except NotFound:
            return None

    def objects(self, kind: str) -> list[KubeObject]:
        """Give all objects of a kind, by namespace and name."""
        return [obj for obj in self.cluster.objects() if obj["kind"] == kind]

    # Inside

    def _own_objects(self) -> dict[str, KubeObject]:
        """Give every object that nobody makes and removes by himself, by uid."""
        return {
            obj["metadata"]["uid"]: obj
            for obj in self.cluster.objects()
            if obj["kind"] not in _NOBODYS and not is_controlled(obj)
        }

    def _api_version_of(self, kind: str) -> str:
        from kanister_py.core.kube.resources import BUILTIN_KINDS, WELL_KNOWN_CUSTOM_KINDS

        for each in (*BUILTIN_KINDS, *WELL_KNOWN_CUSTOM_KINDS):
            if each.kind == kind:
                return each.gvr.api_version
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

    def _standing(self) -> RecordedPods:
        """Have pods run, and all workloads stand as they were asked for."""
        if self._pods is None:
            runner = self._runner or ScriptedPods(self._script, self._clock)
            self._pods = RecordedPods(runner)
            attach_pods(self.cluster, self._pods, self._clock, self._stack)
        for api_version, kind, status in self._controllers:
            self._control(api_version, kind, status)
        self._controllers.clear()
        for resource in (DEPLOYMENTS, STATEFUL_SETS):
            for obj in self.cluster.list(resource):
                self._wait_until_it_stands(resource, obj)
        return self._pods

    def _wait_until_it_stands(self, resource: GroupVersionResource, workload: KubeObject) -> None:
        metadata = workload["metadata"]
        watch = self.cluster.watch(
            resource,
            namespace=metadata["namespace"],
            field_selector=f"metadata.name={metadata['name']}",
            # It is who runs the test that waits, whatever the stage's clock says.
            timeout_seconds=_STANDING_SECONDS * self._clock.speed,
        )
        if not _until(watch, _stands):
            raise AssertionError(f"{metadata['namespace']}/{metadata['name']} never stood up")

    def _control(self, api_version: str, kind: str, status: StatusOf) -> None:
        """Answer for the controller of a kind, from now on."""
        resource = self.cluster.resource_for(api_version, kind).gvr

        def answer(obj: KubeObject) -> None:
            if obj.get("status") or obj["metadata"].get("deletionTimestamp"):
                return
            its_status = status(obj) if callable(status) else status
            changed = merge_patched(obj, {"status": its_status})
            self.cluster.load([changed])

        follow(self.cluster, resource, answer, self._clock, self._stack)


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a run: everything a test may want to look at."""

    stage: Stage
    run: Run
    made_pods: tuple[Mapping[str, Any], ...]
    """Every pod that the run made, as it was made; those of workloads are not among them."""
    commands: tuple[Command, ...]
    """Every command of those pods, and every one that was executed in any pod, in order."""
    journal: tuple[Mapping[str, Any], ...]
    """What happened, step by step."""
    log: tuple[str, ...]
    """What the phases logged, each line as `action/phase | line`."""
    made: tuple[KubeObject, ...]
    """Every object that is there since the run, but for pods and what workloads make."""
    removed: tuple[str, ...]
    """Every object that was there before it, as `Kind namespace/name`; likewise."""

    @property
    def is_complete(self) -> bool:
        return self.run.is_complete

    @property
    def state(self) -> str:
        """One of pending, running, failed, complete."""
        return self.run.state

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not."""
        return self.run.error

    @property
    def reason(self) -> str:
        """Why it failed, in a word; empty if it did not."""
        return str((self.status.get("error") or {}).get("reason", ""))

    @property
    def status(self) -> Mapping[str, Any]:
        """The `status` that the ActionSet would have."""
        return self.run.status

    @property
    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        """What each phase gave, by its name."""
        return self.run.outputs

    @property
    def artifacts(self) -> Mapping[str, Mapping[str, Any]]:
        """What the run left for another one."""
        return self.run.artifacts

    @property
    def notices(self) -> tuple[Warned, ...]:
        """What should be heard about it, such as versions that are on their way out."""
        return self.run.notices

    @property
    def versions(self) -> Mapping[str, str]:
        """Which version of its function each phase had, by its name."""
        return {
            phase.name: phase.func_version
            for action in self.run.progress.actions
            for phase in (*action.phases, *([action.deferred] if action.deferred else ()))
        }

    @property
    def pods(self) -> tuple[str, ...]:
        """Which of the pods that the run made are still there, as `namespace/name`."""
        existing = {pod["metadata"]["uid"] for pod in self.stage.cluster.list(PODS)}
        return tuple(
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in self.made_pods
            if pod["metadata"]["uid"] in existing
        )

    def command(self, words: str) -> Command:
        """Give the only command in whose text `words` are found."""
        matching = [command for command in self.commands if words in command.text]
        if len(matching) != 1:
            listing = "\n".join(f"  {command.text}" for command in self.commands)
            raise AssertionError(f"{len(matching)} commands say {words!r}, of these:\n{listing}")
        return matching[0]

    def as_golden(self) -> dict[str, Any]:
        """Give the course of the run, without what differs from one run to the next."""
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
        """Compare the course of the run with a file; see `check_golden`."""
        __tracebackhide__ = True
        check_golden(self.as_golden(), file)


@dataclass(slots=True)
class _Witness:
    """Journal and log of a run, as an observer gets them."""

    journal: list[Mapping[str, Any]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def on_outcome(self, outcome: Outcome, status: Status) -> None:  # noqa: ARG002 # the last status is kept elsewhere
        self.journal.append(outcome_as_dict(outcome))

    def on_log(self, action: str, phase: str, line: str) -> None:
        self.log.append(f"{action}/{phase} | {line}")


def _entry_of(outcome: Mapping[str, Any], status: Status) -> dict[str, Any]:
    """Say what happened and where, by name; what is only remembered for a restart is left out."""
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
    """Give an object as its maker has made it."""
    entry = {key: value for key, value in obj.items() if key not in {"metadata", "status"}}
    if obj["kind"] == "PersistentVolumeClaim":
        # Which volume a claim is bound to, and whether it is already, is not its maker's doing.
        entry["spec"] = {key: value for key, value in obj["spec"].items() if key != "volumeName"}
    metadata = {key: obj["metadata"][key] for key in _KEPT_OF_METADATA if key in obj["metadata"]}
    return {**entry, "metadata": metadata}


def _pod_entry(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Give a pod as its function and its blueprint have made it."""
    metadata, spec = pod["metadata"], pod["spec"]
    entry: dict[str, Any] = {"name": f"{metadata['namespace']}/{metadata['name']}"}
    for kind in ("initContainers", "containers"):
        if several := spec.get(kind):
            entry[kind] = [
                {key: container[key] for key in _KEPT_OF_CONTAINERS if container.get(key)}
                for container in several
            ]
    if volumes := spec.get("volumes"):
        entry["volumes"] = volumes
    return entry


def _place(given: str | Mapping[str, Any]) -> dict[str, Any]:
    return dict(parse_place(given).as_dict()) if isinstance(given, str) else dict(given)


def _until(watch: Watch, holds: Callable[[KubeObject], bool]) -> bool:
    with watch:
        return any(holds(event.object) for event in watch)


def _stands(workload: KubeObject) -> bool:
    replicas = workload["spec"].get("replicas", 1)
    status = status_of(workload)
    is_seen = status.get("observedGeneration") == workload["metadata"]["generation"]
    return bool(is_seen and status.get("readyReplicas", 0) == replicas)
