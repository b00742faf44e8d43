"""What a function is to us: the face that authors of functions write against."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


class Args(BaseModel):
    """What a function takes, one field for each argument.

    A field without a default is required; `Field(description=…)` documents it.
    `image_pull_policy` here is `imagePullPolicy` in a blueprint.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class Outputs(BaseModel):
    """What a function gives to later phases, one field for each key."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class AnyOutputs(Outputs):
    """Outputs under keys that only the blueprint knows, such as those a command prints."""

    model_config = ConfigDict(extra="allow")


class OnRestart(StrEnum):
    """What becomes of a call that was under way when its process died."""

    ADOPT = "adopt"
    """The function finds what it left behind and follows it to its end."""
    REPEAT = "repeat"
    """Calling again is safe."""
    FAIL = "fail"
    """The phase fails with the reason `Interrupted`, unless its `retry` says otherwise."""


class PhaseContext(Protocol):
    """What a function may use while it runs."""

    @property
    def run(self) -> Run:
        """Which run, action, phase and attempt this is."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that the blueprint acts on."""

    @property
    def cancelled(self) -> bool:
        """Whether the run has been told to stop."""

    def wait(
        self, until: Callable[[], Any], *, timeout_seconds: float | None = None, what: str = ""
    ) -> Any:
        """Wait until `until` answers something true, and give that answer.

        A waiting phase takes no working slot. Raises when the deadline passes or
        the run is cancelled; `what` says in that error what was waited for.
        """

    def progress(self, percent: int) -> None:
        """Say how far the work is, from 0 to 100."""

    def log(self, line: str) -> None:
        """Add a line to the log of the phase. Known secrets in it are masked."""


class Run(Protocol):
    """The identity of one attempt at one phase, the same after a restart."""

    @property
    def action(self) -> str: ...

    @property
    def phase(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    def key(self, part: str = "") -> str:
        """Name what this attempt creates, so that a later process recognises it."""


class Func(ABC):
    """A function of a blueprint. One instance serves one call: keep state in locals.

    A function that knows nothing of versions is v0.0.0. A class that offers a
    further version of another names it as its `parent`, and has its name,
    arguments and outputs:

        class GreetV010(Func, parent=Greet): ...
    """

    name: ClassVar[str]
    Args: ClassVar[type[BaseModel]] = Args
    Outputs: ClassVar[type[BaseModel]] = AnyOutputs
    on_restart: ClassVar[OnRestart] = OnRestart.FAIL
    renders_own_args: ClassVar[bool] = False
    """Whether arguments arrive as the blueprint has them, with their templates."""

    def __init_subclass__(cls, *, parent: type[Func] | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if parent is None:
            return
        for attribute in ("name", "Args", "Outputs", "on_restart", "renders_own_args"):
            if attribute not in vars(cls):
                setattr(cls, attribute, getattr(parent, attribute))

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


__all__ = [
    "AnyOutputs",
    "Args",
    "Func",
    "OnRestart",
    "Outputs",
    "PhaseContext",
    "Run",
    "VersionedFunc",
]
