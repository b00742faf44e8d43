"""Wiring: the only module that chooses adapters and builds registries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kanister_py.adapters.plugins_metadata import (
    installed_plugins,
    load_plugin,
    release_of_text,
    title_of,
)
from kanister_py.core.errors import Problem, UsageError
from kanister_py.core.registry.declared import catalogued_entries, entries_of
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
from kanister_py.core.versions.semver import Version
from kanister_py.executor.loading import PluginBroken, load_function, load_functions, load_versions
from kanister_py.functions.builtin import (
    BUILTIN_FUNCTIONS,
    DISTRIBUTION,
    installed_release,
    read_catalogue,
)

if TYPE_CHECKING:
    from contextlib import ExitStack
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from kanister_py.adapters.cluster_kube.cluster import KubeCluster
    from kanister_py.adapters.controller_http import LinesOverHttp
    from kanister_py.adapters.journal_files import StateFolder
    from kanister_py.controller.compositions.part import Compositions
    from kanister_py.controller.functions.settings import CompositionSettings
    from kanister_py.controller.machine.part import PartMaker, PartTools
    from kanister_py.core.compositions.step_inputs import ArtifactRef
    from kanister_py.core.kube.resources import GroupVersionResource
    from kanister_py.core.notices import Notice
    from kanister_py.core.yaml.documents import Document
    from kanister_py.embedded.cluster.cluster import MemoryCluster
    from kanister_py.embedded.pods.pod_host import PodHost
    from kanister_py.embedded.pods.runner import ProcessPodRunner
    from kanister_py.executor.response_cache import ResponseCache
    from kanister_py.executor.run.background import Run
    from kanister_py.executor.run.header import Header
    from kanister_py.executor.run.settings import RunSettings
    from kanister_py.executor.step_artifacts import StepArtifacts
    from kanister_py.gotemplate.effects import Effects
    from kanister_py.grpc_api.server import Served
    from kanister_py.ports.certificates import Certificates
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster, KubeObject
    from kanister_py.ports.function_runner import FunctionRunner
    from kanister_py.ports.notice_receivers import NoticeReceivers
    from kanister_py.ports.object_store import ObjectStores
    from kanister_py.ports.packages import RegistryLogin
    from kanister_py.ports.pods import PodRunner


_T = TypeVar("_T")


class Functions(NamedTuple):
    """Registered functions, and plugins that could not be loaded."""

    registry: Registry[FunctionEntry]
    broken: tuple[PluginBroken, ...] = ()

    @property
    def release(self) -> Version:
        return installed_release()


@contextmanager
def traced() -> Iterator[None]:
    """Trace the block, and export to the target in the OTEL_* variables."""
    from kanister_py.ports.tracing import set_tracer

    try:
        from kanister_py.adapters.tracing_otel import open_tracing
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Tracing needs {error.name}, which is not installed; install kanister-py[otel]",
            reason="TracingNotInstalled",
        ) from None
    tracing = open_tracing(str(installed_release()))
    set_tracer(tracing)
    try:
        yield
    finally:
        set_tracer(None)
        tracing.close()


def notice_receivers(origins: Sequence[str]) -> NoticeReceivers:
    """Return the client that delivers notices to the allowed origins."""
    from kanister_py.adapters.notices_http import HttpNotices

    return HttpNotices(origins)


def object_stores(locations: Path | None = None) -> ObjectStores:
    """Return the object stores of Profiles. `locations` replaces them by subfolders of a folder."""
    from kanister_py.adapters.object_store_obstore import ObstoreStores

    return ObstoreStores(locations)


@lru_cache(maxsize=1)
def read_functions() -> Functions:
    """Register the functions that are built in, of installed plugins, and of this program."""
    functions = build_functions(read_catalogue())
    builder = RegistryBuilder(functions.registry)
    for source, function in _registered:
        _register(builder, source, [function])
    return functions._replace(registry=builder.build())


def build_functions(
    catalogue: Catalogue,
    targets: Mapping[str, Mapping[str, str]] = BUILTIN_FUNCTIONS,
    plugins: Iterable[EntryPoint] | None = None,
) -> Functions:
    """Build a registry from versions.yaml, the built-in code and plugins.

    A broken plugin is reported and left out.
    """
    source = Source(DISTRIBUTION, installed_release(), catalogue.releases, is_ours=True)
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    for entries in catalogued_entries(catalogue, targets, source):
        builder.add(entries, default_of(entries))
    broken = []
    entry_points = installed_plugins() if plugins is None else plugins
    for plugin in sorted(entry_points, key=lambda point: (point.name, point.value)):
        # An entry point may list several functions, which are registered all or none.
        trial = RegistryBuilder(builder.build())
        try:
            _register(trial, *load_plugin(plugin))
        except RegistrationRefused as error:
            broken.append(PluginBroken(title_of(plugin), str(error)))
        except PluginBroken as error:
            broken.append(error)
        else:
            builder = trial
    builder.broken_plugins += [error.summary for error in broken]
    return Functions(builder.build(), tuple(broken))


_registered: list[tuple[Source, Any]] = []


def register(function: _T, *, package: str = "local", release: str = "0.0.0") -> _T:
    """Register a function of this program, like the entry point of an installed package.

    The class is a function, or lists the versions of one, including removed ones. Deprecations
    count in the releases of `package`, whose current release is `release`. Applies to runs that
    start later. Raises RegistrationRefused, or PluginBroken if code cannot be loaded, without
    changing anything.
    """
    source = Source(package, release_of_text(release))
    _register(RegistryBuilder(read_functions().registry), source, [function])
    load_versions(entries_of(function, source))
    _registered.append((source, function))
    read_functions.cache_clear()
    return function


def _register(
    builder: RegistryBuilder[FunctionEntry], source: Source, declared: Iterable[Any]
) -> None:
    for function in declared:
        entries = entries_of(function, source)
        builder.add(entries, default_of(entries))


def registry_of(*functions: Any, distribution: str = "local") -> Registry[FunctionEntry]:
    """Build a registry of the given functions, for tests."""
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    _register(builder, Source(distribution, Version(0, 0, 0)), functions)
    return builder.build()


def check_everything(functions: Functions, *, plugins_only: bool = False) -> Functions:
    """Load the code of all versions. Broken plugins are left out; errors in our code raise."""
    registry, broken = load_functions(functions.registry, plugins_only=plugins_only)
    return Functions(registry, (*functions.broken, *broken))


def open_cluster(
    *,
    kubeconfig: str = "",
    context: str = "",
    namespace: str = "",
    in_cluster: bool = False,
    pool_size: int = 0,
) -> KubeCluster:
    """Open a cluster. The caller must close it.

    Arguments take precedence; otherwise the kubeconfig of the environment is used, the cluster of
    this pod, or the kubeconfig in the home directory, in this order.
    """
    from kanister_py.adapters.cluster_kube.cluster import KubeCluster
    from kanister_py.adapters.cluster_kube.connection import ClusterChoice

    choice = ClusterChoice(kubeconfig, context, namespace, in_cluster)
    return KubeCluster(choice, pool_size=pool_size) if pool_size else KubeCluster(choice)


def memory_cluster(clock: Clock, **cluster_options: Any) -> MemoryCluster:
    """Create an empty cluster in memory."""
    from kanister_py.embedded.cluster.cluster import MemoryCluster

    return MemoryCluster(clock=clock, **cluster_options)


def process_pods(
    clock: Clock, state: Path | None = None, locations: Path | None = None
) -> ProcessPodRunner:
    """Create the runner of pods as local processes. The caller must close it."""
    from kanister_py.embedded.pods.runner import ProcessPodRunner

    return ProcessPodRunner(clock, state=state, locations=locations)


def pods_warning() -> str:
    """Return the warning about pods that run as processes."""
    from kanister_py.embedded.pods import WARNING

    return WARNING


def attach_pods(
    cluster: MemoryCluster, runner: PodRunner, clock: Clock, stack: ExitStack
) -> PodHost:
    """Run the pods of a cluster in memory, including those of its workloads."""
    from kanister_py.embedded.pods.pod_host import PodHost

    pods = PodHost(cluster, runner, clock)
    cluster.attach_pods(pods.node)
    stack.callback(pods.close)
    pods.start()
    return pods


def follow(
    cluster: Cluster,
    resource: GroupVersionResource,
    act: Callable[[KubeObject], None],
    clock: Clock,
    stack: ExitStack,
) -> None:
    """Call `act` for every object of a kind that appears or changes, until the stack is closed."""
    from kanister_py.embedded.pods.following import follow_objects

    cache = follow_objects(cluster, resource, act, lambda _: None, clock)
    cache.start()
    stack.callback(cache.close, waits=True)


def system_clock() -> Clock:
    from kanister_py.adapters.clock_system import SystemClock

    return SystemClock()


def system_effects(clock: Clock) -> Effects:
    """Return the access of templates to this machine."""
    from kanister_py.adapters.effects_system import system_effects as effects

    return effects(clock)


def certificates(clock: Clock) -> Certificates:
    from kanister_py.adapters.certificates_x509 import X509Certificates

    return X509Certificates(clock)


def lines_of_controller(server: str, token: str, ca_file: str = "") -> LinesOverHttp:
    """Return a client for the log lines of phases from the endpoint of a controller."""
    from kanister_py.adapters.controller_http import LinesOverHttp

    return LinesOverHttp(server, token, ca_file)


def start_run(header: Header | None, settings: RunSettings, name: str = "") -> Run:
    """Build the components of a run and start it. Without a header, resume a run."""
    from contextlib import ExitStack

    clock = settings.clock or system_clock()
    with ExitStack() as stack:
        folder = stack.enter_context(state_folder(settings)) if settings.state is not None else None
        runner = _runner(settings, clock, stack)
        cluster, own, pods = cluster_of(settings, clock, stack, folder, runner)
        # Importing these modules takes time, in which the first process for pods starts.
        from kanister_py.executor.function_source import FunctionSource
        from kanister_py.executor.phase_context import Surroundings
        from kanister_py.executor.run.background import Run
        from kanister_py.executor.run.header import Header, replay_outcomes
        from kanister_py.executor.run.run import ActionSetRun
        from kanister_py.executor.watching import SharedWatches
        from kanister_py.executor.workers import Workers

        recorded = None
        if header is None:
            assert folder is not None  # required for resuming
            recorded = folder.read_run(name)
            header = Header.of(recorded.header)
        if runner is not None and settings.locations is None:
            from kanister_py.executor.check_stores import check_stores

            check_stores(cluster, header.actionset, object_stores().open, runner.why_hidden)
        journal = None
        if folder is not None:
            saved_cluster = (own, own.save) if own is not None else None
            header_data = header.as_dict() | settings.hosting
            journal = stack.enter_context(
                folder.journal(header.name, header_data, recorded, saved_cluster)
            )
        registry = settings.registry or read_functions().registry
        surroundings = Surroundings(
            cluster,
            clock,
            Workers(settings.workers),
            SharedWatches(cluster, clock),
            system_effects(clock),
            # After a kill, a restored cluster may lack the last changes of its process.
            may_lag=own is not None and recorded is not None,
            checks_access=settings.checks_access,
            stores=object_stores(settings.locations),
        )
        course, status = replay_outcomes(header, recorded.outcomes if recorded is not None else ())
        actionset_run = ActionSetRun(
            course,
            FunctionSource(registry, load_function, settings.is_strict),
            surroundings,
            journal=journal,
            status=status,
            observer=settings.observer,
        )
        run = Run(
            header.name,
            actionset_run,
            clock,
            before=pods.wait_until_workloads_ready if pods is not None else None,
            close=partial(_close_run, stack.pop_all(), runner),
        )
        return run.start()
    raise AssertionError("unreachable: the exit stack does not suppress exceptions")


def _close_run(stack: ExitStack, runner: ProcessPodRunner | None) -> Sequence[Notice]:
    """Release the resources of a run, and return notices about lost volumes."""
    lost_claims = runner.claims_that_end() if runner is not None else ()
    stack.close()
    if not lost_claims:
        return ()
    from kanister_py.core.notices import Notice

    message = (
        f"The data in {', '.join(lost_claims)} were deleted with the run; --state DIR keeps them"
    )
    return (Notice("VolumesNotKept", message),)


def _runner(settings: RunSettings, clock: Clock, stack: ExitStack) -> ProcessPodRunner | None:
    """Return the pod runner for the cluster of a run, or None."""
    if settings.cluster is not None or not settings.pods:
        return None
    state = settings.state / "pods" if settings.state is not None else None
    runner = process_pods(clock, state, settings.locations)
    stack.callback(runner.close)
    return runner


def cluster_of(
    settings: RunSettings,
    clock: Clock,
    stack: ExitStack,
    folder: StateFolder | None = None,
    runner: ProcessPodRunner | None = None,
) -> tuple[Cluster, MemoryCluster | None, PodHost | None]:
    """Return the cluster of a run, the same if it is in memory, and the host of its pods."""
    if settings.cluster is not None:
        return settings.cluster, None, None
    cluster = memory_cluster(clock, default_namespace=settings.namespace)
    if folder is not None and (saved_state := folder.read_cluster()) is not None:
        from kanister_py.executor.run.orphaned_pods import delete_pods_of_ended

        cluster.restore(saved_state)
        delete_pods_of_ended(cluster, folder.runs(), folder.read_run)
    cluster.load(settings.objects)
    if runner is not None:
        return cluster, cluster, attach_pods(cluster, runner, clock, stack)
    if any(obj.get("kind") == "Deployment" for obj in settings.objects):
        from kanister_py.embedded.pods.workloads import Workloads

        Workloads(cluster, clock).make_replica_sets()
    return cluster, cluster, None


def state_folder(settings: RunSettings) -> StateFolder:
    """Open the state folder."""
    from kanister_py.adapters.journal_files import StateFolder

    assert settings.state is not None  # checked by the caller
    return StateFolder(settings.state, settings.clock or system_clock())


# Compositions


class RenderFunctions(NamedTuple):
    """Functions for rendering, their runner, and notices about them."""

    revisions: Registry[FunctionRevision]
    runner: FunctionRunner
    notices: tuple[Notice, ...]
    close: Callable[[], None]
    containers: tuple[tuple[str, Problem], ...] = ()
    """Functions that only run as containers, with the problem for each."""


def open_render_functions(
    documents: Sequence[Document] | None = None,
    annotations: Mapping[str, str] | None = None,
    addresses: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
) -> RenderFunctions:
    """Prepare the functions in manifests, or the functions at addresses.

    Without either, all built-in functions.
    """
    from kanister_py.core.compositions.installed import at_addresses, built_in, installed
    from kanister_py.executor.python_functions import load_python_function

    entries = read_functions().registry
    if documents is not None:
        load = partial(load_python_function, entries=entries)
        functions = installed(documents, entries, annotations, strict=strict, load=load)
    else:
        functions = at_addresses(addresses) if addresses else built_in(entries)
    runner = function_runner(entries)
    return RenderFunctions(
        functions.registry(), runner, functions.notices, runner.close, functions.containers
    )


def step_artifacts() -> StepArtifacts:
    """Return a reader of step inputs in registries that uses the logins of container tools."""
    from kanister_py.adapters.packages_oci.logins import login_for
    from kanister_py.adapters.packages_oci.registry import OciPackages
    from kanister_py.executor.step_artifacts import StepArtifacts

    def logins(reference: ArtifactRef) -> list[RegistryLogin]:
        login = login_for(reference.package.registry)
        return [login] if login is not None else []

    return StepArtifacts(OciPackages(), system_clock(), logins)


def function_runner(
    entries: Registry[FunctionEntry],
    folder: Path | None = None,
    *,
    over_grpc: FunctionRunner | None = None,
    answer_limit_bytes: int = 0,
) -> FunctionRunner:
    """Return a runner for all kinds of endpoints. Without certificates, gRPC is plaintext."""
    from kanister_py.adapters.runner_routing import RoutingRunner
    from kanister_py.core.compositions.endpoints import BUILTIN, EXEC, GRPC, PYTHON

    def in_process() -> FunctionRunner:
        from kanister_py.adapters.runner_memory import MemoryRunner
        from kanister_py.executor.python_functions import PythonFunction, load_python_function

        @lru_cache(maxsize=256)
        def loaded(endpoint: str) -> PythonFunction:
            return load_python_function(endpoint, entries)

        return MemoryRunner(lambda revision: loaded(revision.endpoint))

    def reached_over_grpc() -> FunctionRunner:
        if over_grpc is not None:
            return over_grpc
        from kanister_py.adapters.runner_grpc import ClientSecurity, GrpcRunner

        security = ClientSecurity(folder, is_insecure=folder is None)
        return GrpcRunner(security, limit_bytes=answer_limit_bytes, waits_once=True)

    def as_process() -> FunctionRunner:
        from kanister_py.adapters.runner_process import ProcessRunner

        return ProcessRunner(limit_bytes=answer_limit_bytes)

    return RoutingRunner(
        {BUILTIN: in_process, PYTHON: in_process, EXEC: as_process, GRPC: reached_over_grpc}
    )


def served_function(revision: FunctionRevision) -> Served:
    """Load a function, and return the callable that answers its requests."""
    from kanister_py.adapters.runner_memory import MemoryRunner
    from kanister_py.core.compositions.endpoints import EXEC, scheme_of
    from kanister_py.executor.python_functions import load_python_function
    from kanister_py.ports.function_runner import FunctionCall

    registry = read_functions().registry
    if scheme_of(revision.endpoint) != EXEC:
        function = load_python_function(revision.endpoint, registry)
        if function.is_async:
            return partial(MemoryRunner(lambda _: function).run_on_loop, revision)
    runner = function_runner(registry)
    return lambda request: runner.run(FunctionCall("", revision, request))


class FunctionAccess(NamedTuple):
    """Access of a controller to packages and functions."""

    package_cache: Path | None = None
    registry_authority: Path | None = None
    certificates: Path | None = None
    is_insecure: bool = False
    replaces_crossplane: bool = False
    answer_limit_bytes: int = 0


def composition_part(
    functions: Functions, settings: CompositionSettings, access: FunctionAccess, stack: ExitStack
) -> PartMaker:
    """Return the factory of the part for compositions. The stack closes its resources."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from kanister_py.adapters.metrics_prometheus import PrometheusFunctionMetrics
    from kanister_py.adapters.packages_oci.registry import OciPackages
    from kanister_py.adapters.runner_grpc import CONNECT_SECONDS, ClientSecurity, GrpcRunner
    from kanister_py.controller.compositions.part import Compositions
    from kanister_py.controller.functions.settings import FunctionTools
    from kanister_py.executor.answer_budget import AnswerBudget

    folder = access.certificates
    if settings.runs_functions and folder is None and not access.is_insecure:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kanister-py-")))
    is_in_the_clear = folder is None and access.is_insecure
    over_grpc = GrpcRunner(
        ClientSecurity(folder, is_insecure=is_in_the_clear),
        limit_bytes=access.answer_limit_bytes,
        connect_seconds=CONNECT_SECONDS,
        budget=(answers := AnswerBudget()),
    )
    stack.callback(over_grpc.close)
    runner = function_runner(
        functions.registry, over_grpc=over_grpc, answer_limit_bytes=access.answer_limit_bytes
    )
    stack.callback(runner.close)

    def make(tools: PartTools) -> Compositions:
        return Compositions(
            tools,
            FunctionTools(
                runner,
                functions.registry,
                OciPackages(access.package_cache, ca_file=access.registry_authority),
                certificates(system_clock()),
                over_grpc.keep_only,
                PrometheusFunctionMetrics(tools.metrics.registry),
                answers,
                folder if access.certificates is None else None,
            ),
            settings,
            replaces_crossplane=access.replaces_crossplane,
        )

    return make


def response_cache(folder: Path | None = None) -> ResponseCache:
    """Return a cache for function responses: in memory, and in a folder if one is given."""
    from kanister_py.executor.response_cache import ResponseCache

    disk = None
    if folder is not None:
        from kanister_py.adapters.responses_files import FileStore

        disk = FileStore(folder)
    return ResponseCache(system_clock(), disk=disk)
