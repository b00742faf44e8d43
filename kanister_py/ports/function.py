"""Blueprint function: the class that authors derive from, and its context."""

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
    """Fate of a call that was under way when its process died."""

    ADOPT = "adopt"
    """The function finds what it left behind and follows it to its end."""
    REPEAT = "repeat"
    """Calling again is safe."""
    FAIL = "fail"
    """The phase fails with the reason `Interrupted`, unless its `retry` says otherwise."""


def interrupted(function: str) -> UsageError:
    """Say that a phase was under way when its process died, and cannot be taken up again."""
    return UsageError(
        f"The process that ran {function} died, and nobody knows how far it came; "
        "retry with `on: [Interrupted]` if it is safe to do twice",
        reason="Interrupted",
    )


class PhaseContext(Protocol):
    """Context of a function while it runs."""

    @property
    def run(self) -> Run:
        """Which run, action, phase and attempt this is."""

    @property
    def is_taken_up(self) -> bool:
        """Whether a process that died has begun this very attempt."""

    @property
    def may_have_forgotten(self) -> bool:
        """Whether what that process made may be missing from the cluster, though it was made.

        So it is with an embedded cluster that was kept in a folder before the process died.
        """

    @property
    def cluster(self) -> Cluster:
        """The cluster that the blueprint acts on."""

    def find_if_allowed(
        self, resource: GroupVersionResource, name: str, *, namespace: str = ""
    ) -> KubeObject | None:
        """Return an object, or None if it is not there or may not be read.

        For details that a function can do without: a refusal is remembered for some minutes.
        """

    @property
    def stores(self) -> ObjectStores:
        """Where the object stores that Profiles name are opened."""

    @property
    def confinement(self) -> Confinement | None:
        """Restrictions on this run; None if it may use all that its process may."""

    @property
    def service_account(self) -> str:
        """ServiceAccount under which this run acts; empty if it acts as its process does."""

    @property
    def renderer(self) -> Renderer:
        """What renders the templates of the blueprint; for a function that gets its args raw."""

    @property
    def cancelled(self) -> bool:
        """Whether the phase has to stop: by a cancel, or because its time is over."""

    def check_cancelled(self) -> None:
        """Raise if the phase has to stop; the run knows that error as its own."""

    def on_cancel(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        """Have `stop` called, from another thread, if the phase has to stop inside the block.

        For whatever blocks where nobody looks at `cancelled`: close the stream
        there. Called at once if it has to already.
        """

    def afterwards(self, clean: Callable[[], None]) -> None:
        """Have something cleaned up as soon as the outcome of this attempt is written down.

        For what tells how the work ended: if the process dies before that is written,
        the attempt is taken up again and finds it.
        """

    def wait(
        self,
        until: Callable[[], Any],
        *,
        timeout_seconds: float | None = None,
        what: str = "",
        every_seconds: float | None = None,
    ) -> Any:
        """Wait until `until` answers something true, and give that answer.

        `until` is asked again whenever something changes that it has read through
        `cluster`; one that reads nothing there, or says `every_seconds`, is asked
        again and again. What it raises ends the wait. A waiting phase takes no
        working slot. Raises `WaitTimedOut` when the deadline passes, and when the
        phase has to stop; `what` says in that error what was waited for. A wait
        for a pod on a cluster that runs none fails at once.
        """

    def idle(self) -> AbstractContextManager[None]:
        """Give the working slot back for a block that only waits, such as reading a stream."""

    def sleep(self, seconds: float) -> None:
        """Let time pass without a working slot; raises when the phase has to stop."""

    def now(self) -> datetime:
        """Say what time it is, in UTC."""

    def progress(self, percent: int, moved: Moved = ...) -> None:
        """Say how far the work is, from 0 to 100, and what of the data is where it should be."""

    def log(self, line: str) -> None:
        """Add a line to the log of the phase. Known secrets in it are masked.

        The last lines stand in the error if the phase fails.
        """

    def mask(self, text: str) -> str:
        """Give a text without the secrets that are known so far."""

    def conceal(self, secret: str) -> None:
        """Have a secret masked from now on that stands in no Secret: an argument, say."""

    def read_outputs(self, stream: Iterable[bytes]) -> dict[str, str]:
        """Read what a command prints to its end: outputs are collected, the rest is logged.

        Takes no working slot meanwhile. What is wrong with an output is raised after the
        end, so that the whole log is there by then.
        """

    def labels(self, part: str = "") -> dict[str, str]:
        """Say which labels everything must carry that the function creates."""

    def owner_references(self, namespace: str) -> list[dict[str, Any]]:
        """Say who owns what is created in a namespace; nobody where that is not allowed."""


class Run(Protocol):
    """The identity of one attempt at one phase, the same after a restart."""

    @property
    def action(self) -> str: ...

    @property
    def phase(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    def key(self, part: str = "", *, attempt: int | None = None) -> str:
        """Name what this attempt creates, or an earlier one, so that it is recognised later."""


class Func(ABC):
    """A function of a blueprint. One instance serves one call: keep state in locals.

    A function that knows nothing of versions is v0.0.0. A class that offers a
    further version of another names it as its `parent`, and has its name,
    arguments and outputs:

        class GreetV010(Func, parent=Greet): ...
    """

    name: ClassVar[str]
    Args: ClassVar[type[Any]] = Args
    Outputs: ClassVar[type[Any]] = AnyOutputs
    on_restart: ClassVar[OnRestart] = OnRestart.FAIL
    renders_own_args: ClassVar[bool] = False
    """Whether arguments arrive as the blueprint has them, with their templates."""
    needs_pods: ClassVar[bool] = False
    """Whether every call needs a pod that runs: a run without pods is refused before it acts."""
    condition_functions: ClassVar[tuple[str, ...]] = ("*",)
    """What a `condition` beside an `objectReference` may call besides Go's own functions.

    `*` stands for all that the templates of blueprints may call.
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
        """Say what a call with these args does to a cluster; None where that is unknown.

        Args come as the blueprint has them: a name may still be a template.
        """
        return None

    @classmethod
    def refusals(cls, args: Mapping[str, Any]) -> Iterable[tuple[str, KanisterError]]:  # noqa: ARG003 - for others
        """Say which args a call is sure to refuse, whatever the cluster has, and with what.

        Args come as the blueprint has them, but for those that are not wholly known yet.
        What it says is found by lint and refuses a run before anything acts.
        """
        return ()

    @abstractmethod
    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any] | None:
        """Do the work, and give the outputs. `args` is an instance of `Args`."""


class VersionedFunc(Func):
    """A function with several versions. Its own `exec`, if it has one, is v0.0.0."""

    stable_version: ClassVar[str]
    """What a phase gets that names no version."""
    versions: ClassVar[Mapping[str, type[Func] | str]]
    """Each version with its class, or with `module:Class`, which is loaded when needed."""
    lifecycle: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """What the record would say of these versions, counted in the author's own releases:
    `{"releases": [{"version": "1.0.0"}], "versions": {"v0.1.0": {"since": "1.0.0"}}}`."""
