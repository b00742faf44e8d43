"""Blueprint function: the base class for authors, and its context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from kanister_py.core.actionsets.status import Moved
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.templates.render import Renderer
from kanister_py.ports.cluster import Cluster, KubeObject
from kanister_py.ports.confinement import Confinement
from kanister_py.ports.models import AnyOutputs, Args
from kanister_py.ports.object_store import ObjectStores


class OnRestart(StrEnum):
    """Handling of a call whose process died."""

    ADOPT = "adopt"
    """The function finds the objects it created, and continues."""
    REPEAT = "repeat"
    """The call can be repeated safely."""
    FAIL = "fail"
    """The phase fails with the reason `Interrupted`, unless its `retry` includes that reason."""


def interrupted(function: str) -> UsageError:
    """Return the error for a phase whose process died and that cannot be resumed."""
    return UsageError(
        f"The process that ran {function} died, and it is unknown how much it had done; "
        "retry with `on: [Interrupted]` if it is safe to do twice",
        reason="Interrupted",
    )


class PhaseContext(Protocol):
    """Context of a function while it runs."""

    @property
    def run(self) -> Run:
        """Identity of this attempt: run, action, phase and attempt number."""

    @property
    def is_resumed(self) -> bool:
        """Whether this attempt was started by a process that died, and continues here."""

    @property
    def may_lack_objects(self) -> bool:
        """Whether objects that the dead process created may be missing from the cluster.

        This happens with an embedded cluster whose folder was saved before the process died.
        """

    @property
    def cluster(self) -> Cluster:
        """The cluster on which the blueprint acts."""

    def find_if_allowed(
        self, resource: GroupVersionResource, name: str, *, namespace: str = ""
    ) -> KubeObject | None:
        """Return an object, or None if it does not exist or may not be read.

        For details that a function can do without; a refusal is cached for some minutes.
        """

    @property
    def stores(self) -> ObjectStores:
        """Object stores of Profiles."""

    @property
    def confinement(self) -> Confinement | None:
        """Restrictions on this run; None if it has all the access of its process."""

    @property
    def service_account(self) -> str:
        """ServiceAccount of this run; empty if it acts as its process."""

    @property
    def renderer(self) -> Renderer:
        """Renderer of templates, for functions that receive their arguments unrendered."""

    @property
    def cancelled(self) -> bool:
        """Whether the phase must stop because it was cancelled or timed out."""

    def check_cancelled(self) -> None:
        """Raise an error if the phase must stop; the run recognises that error."""

    def on_cancel(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `stop` from another thread if the phase must stop while the block runs.

        For blocking calls that cannot check `cancelled`, for example to close their stream. Called
        immediately if the phase must stop already.
        """

    def afterwards(self, clean: Callable[[], None]) -> None:
        """Call `clean` once the outcome of this attempt has been recorded.

        For objects that show how the work ended: if the process dies before the outcome is
        recorded, the attempt is resumed and finds them.
        """

    def wait(
        self,
        until: Callable[[], Any],
        *,
        timeout_seconds: float | None = None,
        what: str = "",
        every_seconds: float | None = None,
    ) -> Any:
        """Wait until `until` returns a true value, and return that value.

        `until` is called again when an object changes that it read through `cluster`. If it reads
        no objects, or `every_seconds` is set, it is called periodically. An exception from it ends
        the wait. A waiting phase occupies no worker. Raises `WaitTimedOut` at the deadline and if
        the phase must stop; `what` describes the awaited state in that error. Waiting for a pod on
        a cluster that does not run pods fails immediately.
        """

    def idle(self) -> AbstractContextManager[None]:
        """Release the worker during a block that only waits, such as reading a stream."""

    def sleep(self, seconds: float) -> None:
        """Sleep without occupying a worker. Raises an error if the phase must stop."""

    def now(self) -> datetime:
        """Return the current time in UTC."""

    def progress(self, percent: int, moved: Moved = ...) -> None:
        """Report the progress from 0 to 100, and optionally the amount of data moved so far."""

    def log(self, line: str) -> None:
        """Add a line to the log of the phase. Known secrets in it are masked.

        The last lines are part of the error if the phase fails.
        """

    def mask(self, text: str) -> str:
        """Return a text with all secrets known so far masked."""

    def conceal(self, secret: str) -> None:
        """Mask a secret from now on that is not in a Secret, such as an argument."""

    def read_outputs(self, stream: Iterable[bytes]) -> dict[str, str]:
        """Read the output of a command to its end: collect outputs, and log all other lines.

        Occupies no worker. An error about an output is raised after the end of the stream, so that
        the log is complete.
        """

    def labels(self, part: str = "") -> dict[str, str]:
        """Return the labels for every object that the function creates."""

    def owner_references(self, namespace: str) -> list[dict[str, Any]]:
        """Return the owner references for objects in a namespace; empty if not allowed there."""


class Run(Protocol):
    """Identity of one attempt at one phase; it is the same after a restart."""

    @property
    def action(self) -> str: ...

    @property
    def phase(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    def key(self, part: str = "", *, attempt: int | None = None) -> str:
        """Return a stable name for an object that this attempt, or an earlier one, creates."""


class Func(ABC):
    """A function of a blueprint. One instance serves one call, so state belongs in local variables.

    A function without versions is v0.0.0. A class with another version of a function sets that
    function as its `parent`, and inherits its name, arguments and outputs:

        class GreetV010(Func, parent=Greet): ...
    """

    name: ClassVar[str]
    Args: ClassVar[type[Any]] = Args
    Outputs: ClassVar[type[Any]] = AnyOutputs
    on_restart: ClassVar[OnRestart] = OnRestart.FAIL
    renders_own_args: ClassVar[bool] = False
    """Whether arguments are passed unrendered, with their templates."""
    needs_pods: ClassVar[bool] = False
    """Whether every call needs a running pod. If so, runs without pods are rejected before they
    start.
    """
    condition_functions: ClassVar[tuple[str, ...]] = ("*",)
    """Functions that a `condition` with an `objectReference` may call, in addition to Go's own.

    `*` means all functions of blueprint templates.
    """

    def __init_subclass__(cls, *, parent: type[Func] | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if parent is None:
            return
        for attribute in (
            "name",
            "Args",
            "Outputs",
            "on_restart",
            "renders_own_args",
            "access",
            "refusals",
            "condition_functions",
            "needs_pods",
        ):
            if attribute not in vars(cls):
                setattr(cls, attribute, getattr(parent, attribute))

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:  # noqa: ARG003 - for others
        """Return the permissions that a call with these arguments needs; None if unknown.

        Arguments are unrendered: a name may still be a template.
        """
        return None

    @classmethod
    def refusals(cls, args: Mapping[str, Any]) -> Iterable[tuple[str, KanisterError]]:  # noqa: ARG003 - for others
        """Return arguments that a call will always reject, with the errors.

        Arguments are unrendered, except for fully known values. The errors are reported
        by lint, and reject a run before its first phase.
        """
        return ()

    @abstractmethod
    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any] | None:
        """Run the function and return its outputs. `args` is an instance of `Args`."""


class VersionedFunc(Func):
    """A function with several versions. Its own `exec`, if defined, is v0.0.0."""

    stable_version: ClassVar[str]
    """Version for phases that do not name one."""
    versions: ClassVar[Mapping[str, type[Func] | str]]
    """Every version with its class, or with `module:Class`, which is imported when needed."""
    lifecycle: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Lifecycle of these versions, in releases of the author's package:
    `{"releases": [{"version": "1.0.0"}], "versions": {"v0.1.0": {"since": "1.0.0"}}}`."""
