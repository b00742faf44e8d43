"""The one place that fills registries and picks adapters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kanister_py.adapters.plugins_metadata import declared_by, installed_plugins, title_of
from kanister_py.core.errors import UsageError
from kanister_py.core.objects.parts import metadata_of
from kanister_py.core.registry.declared import CatalogueMismatch, catalogued_entries, entries_of
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionRevision,
    RegistrationRefused,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.versions.catalogue import Catalogue
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.executor.loading import LOADING, PluginBroken, load_function
from kanister_py.functions.builtin import BUILTIN_FUNCTIONS, DISTRIBUTION, read_record

if TYPE_CHECKING:
    from contextlib import ExitStack
    from importlib.metadata import EntryPoint

    from kanister_py.adapters.cluster_kube.cluster import KubeCluster
    from kanister_py.adapters.journal_files import RecordedRun, StateFolder
    from kanister_py.controller.compositions.kinds import Compositions
    from kanister_py.controller.compositions.world import CompositionSettings
    from kanister_py.controller.controller import PartMaker, PartTools
    from kanister_py.core.actionsets.course import Course
    from kanister_py.core.actionsets.status import Status
    from kanister_py.core.blueprints.lint.signatures import Signature
    from kanister_py.core.blueprints.model import LocatedBlueprint
    from kanister_py.core.notices import Notice
    from kanister_py.core.objects.documents import Document
    from kanister_py.core.objects.locations import Location
    from kanister_py.embedded.cluster.cluster import MemoryCluster
    from kanister_py.embedded.pods.standing import StandingPods
    from kanister_py.executor.caching import ResponseCache
    from kanister_py.executor.calling import PythonFunction
    from kanister_py.executor.plan_action import Plan
    from kanister_py.executor.run.handle import Run
    from kanister_py.executor.run.memory import Onlooker
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
    from kanister_py.ports.composition_function import CompositionFunction
    from kanister_py.ports.function_runner import FunctionRunner
    from kanister_py.ports.object_store import ObjectStore


class Functions(NamedTuple):
    """Everything that is registered, and what could not be."""

    registry: Registry[FunctionEntry]
    broken: tuple[PluginBroken, ...] = ()

    @property
    def release(self) -> Version:
        return installed_release()


def read_versions_file() -> str:
    """Give the text of versions.yaml, which people read; its checked form is what we go by.

    A wheel carries the file inside; an editable install finds it at the top of
    the repository.
    """
    here = Path(__file__).parent
    for path in (here / "versions.yaml", here.parent / "versions.yaml"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise CatalogueMismatch("the installation", "versions.yaml is missing; install it again")


def installed_release() -> Version:
    """Say which release of ours is installed."""
    return parse_version(read_record()["release"])


def open_store(location: Location) -> ObjectStore:
    """Open the object store that a Profile names; nothing is asked of it yet."""
    from kanister_py.adapters.clock_system import SystemClock
    from kanister_py.adapters.object_store_obstore import open_store as opened

    return opened(location, SystemClock().now)


@lru_cache(maxsize=1)
def read_functions() -> Functions:
    """Register what comes with us and what the installed plugins bring."""
    return build_functions(Catalogue.of(read_record()))


def build_functions(
    catalogue: Catalogue,
    targets: Mapping[str, Mapping[str, str]] = BUILTIN_FUNCTIONS,
    plugins: Iterable[EntryPoint] | None = None,
) -> Functions:
    """Fill a registry from a record, the code it speaks of, and plugins.

    A plugin that is broken is left out and reported; the others stay.
    """
    source = Source(DISTRIBUTION, installed_release(), catalogue.releases, is_ours=True)
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    for entries in catalogued_entries(catalogue, targets, source):
        builder.add(entries, default_of(entries))
    broken = []
    found = installed_plugins() if plugins is None else plugins
    for plugin in sorted(found, key=lambda each: (each.name, each.value)):
        # An entry point names one function, or a list of them that is taken as a whole.
        trial = RegistryBuilder(builder.build())
        try:
            _register(trial, *declared_by(plugin))
        except RegistrationRefused as error:
            broken.append(PluginBroken(title_of(plugin), str(error)))
        except PluginBroken as error:
            broken.append(error)
        else:
            builder = trial
    return Functions(builder.build(), tuple(broken))


def _register(
    builder: RegistryBuilder[FunctionEntry], source: Source, declared: Iterable[Any]
) -> None:
    for function in declared:
        entries = entries_of(function, source)
        builder.add(entries, default_of(entries))


def registry_of(*functions: Any, distribution: str = "local") -> Registry[FunctionEntry]:
    """Register functions by hand, for tests and for programs that embed us."""
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    _register(builder, Source(distribution, Version(0, 0, 0)), functions)
    return builder.build()


def read_signatures() -> Mapping[tuple[str, str], Signature]:
    """Give what is known of the arguments of our own functions without loading them."""
    import json

    from kanister_py.core.blueprints.lint.signatures import Signature

    path = Path(__file__).parent / "functions" / "signatures.json"
    functions = json.loads(path.read_text(encoding="utf-8"))
    return {
        (name, version): Signature.of(each)
        for name, versions in functions.items()
        for version, each in versions.items()
    }


def check_everything(functions: Functions) -> Functions:
    """Load the code of every served version, so that no mismatch waits for its first use.

    What is wrong with ours stops here; a plugin's function is left out and reported.
    """
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    broken = [*functions.broken]
    for family in functions.registry:
        try:
            for entry in family:
                if entry.target is not None:
                    load_function(entry)
        except PluginBroken as error:
            broken.append(error)
        else:
            builder.add(family.candidates, family.default)
    return functions._replace(registry=builder.build(), broken=tuple(broken))


# Clusters


def read_definitions(only: str = "") -> list[dict[str, Any]]:
    """Read the definitions that clusters need: all, those of `blueprints` or `compositions`."""
    from kanister_py.core.objects.documents import parse_documents

    found = []
    for path in sorted((Path(__file__).parent / "crds").glob("*.yaml")):
        found += [each.value for each in parse_documents(path.read_bytes(), path.name)]
    if not only:
        return found
    is_ours = only == "blueprints"
    return [each for each in found if (each["spec"]["group"] == "cr.kanister.io") is is_ours]


def open_cluster(
    *, kubeconfig: str = "", context: str = "", namespace: str = "", in_cluster: bool = False
) -> KubeCluster:
    """Open a real cluster; whoever does closes it.

    What is named wins; without a name it is the kubeconfig of the environment, the
    cluster around this pod, or the kubeconfig at home, in this order.
    """
    from kanister_py.adapters.cluster_kube.cluster import KubeCluster
    from kanister_py.adapters.cluster_kube.connection import ClusterChoice

    return KubeCluster(ClusterChoice(kubeconfig, context, namespace, in_cluster))


# Runs


def run_blueprint(
    blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path,
    action: str,
    *,
    object: str | Mapping[str, Any] | None = None,  # noqa: A002 # as an ActionSet calls it
    options: Mapping[str, str] | None = None,
    settings: RunSettings | None = None,
    **more: Any,
) -> Run:
    """Run one action of a blueprint, and give the run, which is under way.

    `object` is what it acts on, as a reference or as `Kind/namespace/name`. All else
    that an ActionSet's action may say goes into `more`, in its words in Python
    (`preferred_version`, `pod_labels`); where and how it runs, into `settings`.
    """
    settings = settings or RunSettings()
    located = _located(blueprint)
    name = settings.name or _new_name(action)
    spec = _action_spec(located, action, object, options, settings, more)
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": name, "namespace": settings.namespace, "uid": _new_uid()},
        "spec": {"actions": [spec]},
    }
    header = {"actionSet": actionset, "blueprints": [located.found.value]}
    return _start(name, header, settings, [located])


def plan_blueprint(
    blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path,
    action: str,
    *,
    object: str | Mapping[str, Any] | None = None,  # noqa: A002 # as an ActionSet calls it
    options: Mapping[str, str] | None = None,
    at: Mapping[str, Version] | None = None,
    settings: RunSettings | None = None,
    **more: Any,
) -> Plan:
    """Say what `run_blueprint` would do, without doing it; `at` names other releases."""
    import json
    from contextlib import ExitStack

    from kanister_py.adapters.clock_system import SystemClock
    from kanister_py.adapters.effects_system import system_effects
    from kanister_py.core.actionsets.model import parse_action_spec
    from kanister_py.core.objects.documents import parse_document
    from kanister_py.executor.plan_action import Circumstances, plan_action

    settings = settings or RunSettings()
    located = _located(blueprint)
    spec = _action_spec(located, action, object, options, settings, more)
    clock = settings.clock or SystemClock()
    registry = settings.registry or read_functions().registry
    effects = system_effects(clock)
    given = Circumstances(registry, clock.now(), effects, at or {}, settings.is_strict)
    with ExitStack() as stack:
        cluster, _, _ = _cluster(settings, clock, None, stack)
        wanted = parse_action_spec(parse_document(json.dumps(spec)))
        return plan_action(located.blueprint, wanted, cluster, given)


def _action_spec(
    located: LocatedBlueprint,
    action: str,
    target: str | Mapping[str, Any] | None,
    options: Mapping[str, str] | None,
    settings: RunSettings,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Write what an ActionSet would say of the action; without a target, its namespace is it."""
    from kanister_py.core.actionsets.references import parse_object_reference
    from kanister_py.core.blueprints.model import ObjectReference

    where = settings.namespace
    if target is None:
        reference = ObjectReference(kind="Namespace", name=where, namespace=where).as_dict()
    elif isinstance(target, str):
        reference = parse_object_reference(target, where).as_dict()
    else:
        reference = dict(target)
    return {
        **{_camel(key): value for key, value in more.items()},
        "name": action,
        "blueprint": located.blueprint.name,
        "object": reference,
        "options": dict(options) if options else None,
    }


def run(
    blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path,
    action: str,
    *,
    objects: Sequence[Mapping[str, Any]] = (),
    cluster: Cluster | None = None,
    functions: Sequence[Any] = (),
    state: Path | None = None,
    pods: str = "",
    **more: Any,
) -> Run:
    """Run one action of a blueprint in the background; `wait()` for its end.

        outcome = kanister_py.run("blueprint.yaml", "hello", objects=[...]).wait()
        assert outcome.is_complete, outcome.error

    `functions` are classes of your own, in place of all others; `more` is as for
    `run_blueprint`.
    """
    settings = RunSettings(
        objects=tuple(objects),
        cluster=cluster,
        state=state,
        pods=pods,
        registry=registry_of(*functions) if functions else None,
    )
    return run_blueprint(blueprint, action, settings=settings, **more)


def run_actionset(
    actionset: Mapping[str, Any],
    blueprints: Sequence[LocatedBlueprint | Mapping[str, Any]],
    settings: RunSettings | None = None,
) -> Run:
    """Run an ActionSet as its manifest states it, with the blueprints it names.

    What its metadata leave out, the settings say.
    """
    settings = settings or RunSettings()
    stated = {key: each for key, each in metadata_of(actionset).items() if each}
    base = str(stated.get("generateName") or "actionset-")
    name = settings.name or stated.get("name") or _new_name(base.rstrip("-"))
    metadata = {"uid": _new_uid(), "namespace": settings.namespace, **stated, "name": name}
    located = [each for each in blueprints if not isinstance(each, Mapping)]
    header = {
        "actionSet": {**actionset, "metadata": metadata},
        "blueprints": [
            each if isinstance(each, Mapping) else each.found.value for each in blueprints
        ],
    }
    return _start(str(name), header, settings, located)


def resume_run(name: str, settings: RunSettings) -> Run:
    """Take up a run where its process left it; the last one, if no name is given."""
    return _start(name, None, settings)


def retry_run(name: str, from_phase: str, settings: RunSettings) -> Run:
    """Start a run anew that takes over what an earlier one completed before a phase."""
    from kanister_py.core.actionsets.transitions import status_for_retry
    from kanister_py.core.errors import NothingToRetry

    folder = _folder(settings)
    with folder:
        recorded = folder.read_run(name or _last(folder.runs()))
    course, status = _replayed(recorded)
    from kanister_py.core.actionsets.course import first_status

    began = status_for_retry(course.rules, status, first_status(course), from_phase)
    if began is None:
        raise NothingToRetry(recorded.name, from_phase)
    actionset = {**recorded.header["actionSet"]}
    new = settings.name or _new_name(recorded.name)
    actionset["metadata"] = {**actionset["metadata"], "name": new, "uid": _new_uid()}
    header = {
        "actionSet": actionset,
        "blueprints": recorded.header["blueprints"],
        "status": began.as_dict(),
    }
    return _start(new, header, settings)


def read_artifacts(name: str, settings: RunSettings) -> dict[str, Any]:
    """Give what an earlier run in a state folder left behind."""
    folder = _folder(settings)
    with folder:
        recorded = folder.read_run(name)
    status = _replayed(recorded)[1]
    if status.state != "complete":
        raise UsageError(
            f"Run {recorded.name} is {status.state}, and left no artifacts: "
            "only a run that is complete does",
            reason="NoArtifacts",
        )
    return status.output_artifacts


class RunSettings(NamedTuple):
    """Where and how a run runs.

    Without a `cluster` it gets one of its own, in memory, with `objects` in it, and
    kept in the folder `state` if one is named. `pods` may be `processes`, which runs
    commands on this machine.
    """

    objects: Sequence[Mapping[str, Any]] = ()
    cluster: Cluster | None = None
    state: Path | None = None
    pods: str = ""
    name: str = ""
    namespace: str = "default"
    registry: Registry[FunctionEntry] | None = None
    is_strict: bool = False
    onlooker: Onlooker | None = None
    clock: Clock | None = None
    workers: int = 32


def _start(
    name: str,
    header: Mapping[str, Any] | None,
    settings: RunSettings,
    located: Sequence[LocatedBlueprint] = (),
) -> Run:
    """Bring everything together that a run needs, and set it going."""
    from contextlib import ExitStack

    from kanister_py.adapters.clock_system import SystemClock

    clock = settings.clock or SystemClock()
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(settings)) if settings.state is not None else None
        cluster, own, pods = _cluster(settings, clock, folder, stack)
        # These take a while to load; the first process of pods starts meanwhile.
        from kanister_py.adapters.effects_system import system_effects
        from kanister_py.executor.phase_context import Surroundings
        from kanister_py.executor.run.actions import FunctionSource
        from kanister_py.executor.run.handle import Run
        from kanister_py.executor.run.run import ActionSetRun
        from kanister_py.executor.watching import SharedWatches
        from kanister_py.executor.working import Workers

        recorded = None
        if header is None:
            assert folder is not None  # whoever resumes has named one
            recorded = folder.read_run(name or _last(folder.runs()))
            course, status = _replayed(recorded)
        else:
            course, status = _course_of(header, located)
        journal = None
        if folder is not None:
            if recorded is not None:
                journal = folder.resume_run(recorded.name)
            else:
                journal = folder.new_run(name, header or {})
            stack.callback(journal.close)
            if own is not None:
                keep = _Keeper(own, folder)
                keep()
                journal.before_outcome = keep
                stack.callback(keep)
        work = ActionSetRun(
            course,
            FunctionSource(
                settings.registry or read_functions().registry, load_function, settings.is_strict
            ),
            Surroundings(
                cluster,
                clock,
                Workers(settings.workers),
                SharedWatches(cluster, clock),
                system_effects(clock),
                # A kept cluster knows nothing of what a killed process made last.
                may_lag=own is not None and recorded is not None,
            ),
            journal=journal,
            status=status,
            onlooker=settings.onlooker,
        )
        before = pods.wait_until_workloads_stand if pods is not None else None
        close = stack.pop_all().close
        run_name = recorded.name if recorded is not None else name
        return Run(run_name, work, clock, close, before).start()
    raise AssertionError("an exit stack swallows nothing")


class _Keeper:
    """Keeps an embedded cluster in a folder, whenever it is not what it was."""

    def __init__(self, cluster: MemoryCluster, folder: StateFolder) -> None:
        self._cluster = cluster
        self._folder = folder
        self._version = ""

    def __call__(self) -> None:
        from kanister_py.core.objects.resources import NAMESPACES

        version = self._cluster.list(NAMESPACES, limit=1).resource_version
        if version != self._version:
            self._folder.write_cluster(self._cluster.save())
            self._version = version


def _cluster(
    settings: RunSettings, clock: Clock, folder: StateFolder | None, stack: ExitStack
) -> tuple[Cluster, MemoryCluster | None, StandingPods | None]:
    """Give the cluster of a run; that it is a new one in memory; and who runs its pods."""
    if settings.cluster is not None:
        return settings.cluster, None, None
    runner = None
    if settings.pods:
        from kanister_py.embedded.pods.runner import ProcessPodRunner

        state = settings.state / "pods" if settings.state is not None else None
        runner = ProcessPodRunner(clock, state=state)
        stack.callback(runner.close)
    from kanister_py.embedded.cluster.cluster import MemoryCluster

    cluster = MemoryCluster(clock=clock, default_namespace=settings.namespace)
    kept = folder.read_cluster() if folder is not None else None
    if kept is not None:
        cluster.restore(kept)
    cluster.load(settings.objects)
    if runner is not None:
        from kanister_py.embedded.pods.standing import StandingPods

        pods = StandingPods(cluster, runner, clock)
        cluster.attach_pods(pods.node)
        stack.callback(pods.close)
        pods.start()
        return cluster, cluster, pods
    return cluster, cluster, None


def _folder(settings: RunSettings) -> StateFolder:
    from kanister_py.adapters.clock_system import SystemClock
    from kanister_py.adapters.journal_files import StateFolder

    assert settings.state is not None  # whoever asks for a folder has named one
    return StateFolder(settings.state, settings.clock or SystemClock())


def _last(runs: Sequence[str]) -> str:
    return runs[-1] if runs else "-"


def _replayed(recorded: RecordedRun) -> tuple[Course, Status]:
    from kanister_py.core.actionsets.transitions import record

    course, status = _course_of(recorded.header)
    for outcome in recorded.outcomes:
        status = record(course.rules, status, outcome)
    return course, status


def _course_of(
    header: Mapping[str, Any], located: Sequence[LocatedBlueprint] = ()
) -> tuple[Course, Status]:
    """Read what a run is to do; what was read from a file knows its lines."""
    import json

    from kanister_py.core.actionsets.course import course_of, first_status
    from kanister_py.core.actionsets.model import parse_actionset
    from kanister_py.core.actionsets.status import parse_status
    from kanister_py.core.blueprints.model import blueprints_in
    from kanister_py.core.objects.documents import parse_document

    actionset = parse_actionset(parse_document(json.dumps(header["actionSet"])))
    there = {each.blueprint.name: each.blueprint for each in located}
    documents = [parse_document(json.dumps(each)) for each in header["blueprints"]]
    read = {each.blueprint.name: each.blueprint for each in blueprints_in(documents)}
    blueprints = {**read, **there}
    course = course_of(actionset, blueprints)
    began = header.get("status")
    return course, parse_status(began) if began else first_status(course)


def _located(blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path) -> LocatedBlueprint:
    import json

    from kanister_py.core.blueprints.model import LocatedBlueprint, only_blueprint
    from kanister_py.core.objects.documents import parse_documents

    if isinstance(blueprint, LocatedBlueprint):
        return blueprint
    if isinstance(blueprint, Mapping):
        return only_blueprint(parse_documents(json.dumps(blueprint)), "the blueprint")
    path = Path(blueprint)
    return only_blueprint(parse_documents(path.read_bytes(), str(path)), str(path))


def _new_uid() -> str:
    from uuid import uuid4

    return str(uuid4())


def _new_name(base: str) -> str:
    from secrets import choice

    from kanister_py.core.objects.names import generate_name

    return generate_name(f"{base.lower()}-", choice)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


# Compositions


class RenderFunctions(NamedTuple):
    """The functions that a rendering may call, who calls them, and what should be said of them."""

    revisions: Registry[FunctionRevision]
    runner: FunctionRunner
    notices: tuple[Notice, ...]
    close: Callable[[], None]


def open_render_functions(
    documents: Sequence[Document] | None, annotations: Mapping[str, str] | None = None
) -> RenderFunctions:
    """Make ready what manifests of functions say; without any, everything that is built in."""
    from kanister_py.core.compositions.installed import built_in, installed

    entries = read_functions().registry
    found = built_in(entries) if documents is None else installed(documents, entries, annotations)
    runner = function_runner(entries)
    return RenderFunctions(found.registry(), runner, found.notices, runner.close)


def function_runner(
    entries: Registry[FunctionEntry],
    folder: Path | None = None,
    *,
    over_grpc: FunctionRunner | None = None,
) -> FunctionRunner:
    """Make what calls functions wherever they are; without certificates, in the clear."""
    from kanister_py.adapters.runner_routing import RoutingRunner
    from kanister_py.core.compositions.endpoints import BUILTIN, EXEC, GRPC, PYTHON

    @lru_cache(maxsize=256)
    def loaded(endpoint: str) -> PythonFunction:
        return python_function(endpoint, entries)

    def in_process() -> FunctionRunner:
        from kanister_py.adapters.runner_memory import MemoryRunner

        return MemoryRunner(lambda revision: loaded(revision.endpoint))

    def reached_over_grpc() -> FunctionRunner:
        if over_grpc is not None:
            return over_grpc
        from kanister_py.adapters.runner_grpc import ClientSecurity, GrpcRunner

        return GrpcRunner(ClientSecurity(folder, is_insecure=folder is None))

    def as_process() -> FunctionRunner:
        from kanister_py.adapters.runner_process import ProcessRunner

        return ProcessRunner()

    return RoutingRunner(
        {BUILTIN: in_process, PYTHON: in_process, EXEC: as_process, GRPC: reached_over_grpc}
    )


class FunctionAccess(NamedTuple):
    """How a controller reaches packages and functions."""

    package_cache: Path | None = None
    registry_authority: Path | None = None
    certificates: Path | None = None
    is_insecure: bool = False
    replaces_crossplane: bool = False


def composing_part(
    functions: Functions,
    settings: CompositionSettings,
    access: FunctionAccess,
    stack: ExitStack,
) -> PartMaker:
    """Make the part of a controller that composes. What it opens ends with the stack."""
    from tempfile import TemporaryDirectory

    from kanister_py.adapters.certificates_x509 import X509Certificates
    from kanister_py.adapters.clock_system import SystemClock
    from kanister_py.adapters.metrics_prometheus import PrometheusFunctionMetrics
    from kanister_py.adapters.packages_oci.registry import OciPackages
    from kanister_py.adapters.runner_grpc import ClientSecurity, GrpcRunner
    from kanister_py.controller.compositions.kinds import Compositions
    from kanister_py.controller.compositions.world import FunctionTools
    from kanister_py.core.compositions.endpoints import builtin_endpoint
    from kanister_py.core.compositions.installed import built_in

    folder = access.certificates
    if settings.runs_functions and folder is None and not access.is_insecure:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kanister-py-")))
    is_in_the_clear = folder is None and access.is_insecure
    over_grpc = GrpcRunner(ClientSecurity(folder, is_insecure=is_in_the_clear))
    stack.callback(over_grpc.close)
    runner = function_runner(functions.registry, over_grpc=over_grpc)
    stack.callback(runner.close)
    known = built_in(functions.registry).registry()

    def endpoint_of(function: str) -> str:
        if function not in known:
            return ""
        version = known.family(function).candidates[0].version
        return builtin_endpoint(function, str(version or ""))

    def make(tools: PartTools) -> Compositions:
        return Compositions(
            tools,
            FunctionTools(
                runner,
                known,
                endpoint_of,
                OciPackages(access.package_cache, ca_file=access.registry_authority),
                X509Certificates(SystemClock()),
                over_grpc.keep_only,
                PrometheusFunctionMetrics(tools.metrics.registry),
                folder if access.certificates is None else None,
            ),
            settings,
            replaces_crossplane=access.replaces_crossplane,
        )

    return make


def python_function(endpoint: str, entries: Registry[FunctionEntry]) -> PythonFunction:
    """Load the class behind an endpoint in this process."""
    from kanister_py.core.compositions.endpoints import PYTHON, scheme_of, target_of
    from kanister_py.executor.calling import PythonFunction

    target = target_of(endpoint)
    if scheme_of(endpoint) == PYTHON:
        return PythonFunction(_function_class(target))
    name, _, version = target.partition("@")
    entry = entries.family(name).by_identity[parse_version(version)]
    return PythonFunction(load_function(entry), entry.source.is_ours)


def _function_class(target: str) -> type[CompositionFunction]:
    from importlib import import_module

    module, _, name = target.partition(":")
    # An author's function lies beside the manifests more often than in a package.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        with LOADING, redirect_stdout(sys.stderr):
            found: type[CompositionFunction] = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # whatever the import of foreign code may raise
        raise PluginBroken(target, f"{type(error).__name__}: {error}") from error
    return found


def with_defaults(xr: Mapping[str, Any], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Give an XR with what its schema says where it says nothing itself."""
    from kanister_py.core.objects.copies import copy_json
    from kanister_py.embedded.cluster.schemas import set_defaults

    copied: dict[str, Any] = copy_json(xr)
    if schema is not None:
        set_defaults(copied, schema)
    return copied


def functions_at(addresses: Mapping[str, str]) -> RenderFunctions:
    """Take functions that run at addresses already, in the clear; without any, what is built in."""
    from kanister_py.core.compositions.installed import Installed, built_in

    entries = read_functions().registry
    given = [
        FunctionRevision(name, f"{name}-1", 1, is_healthy=True, endpoint=address)
        for name, address in addresses.items()
        if address
    ]
    runner = function_runner(entries)
    registry = (Installed(tuple(given)) if addresses else built_in(entries)).registry()
    return RenderFunctions(registry, runner, (), runner.close)


def response_cache(folder: Path | None = None) -> ResponseCache:
    """Make a cache for the answers of functions: in memory, and in a folder if one is named."""
    from kanister_py.adapters.clock_system import SystemClock
    from kanister_py.executor.caching import ResponseCache

    disk = None
    if folder is not None:
        from kanister_py.adapters.responses_files import FileStore

        disk = FileStore(folder)
    return ResponseCache(SystemClock(), disk=disk)
