"""Settings of the compositions part, and its adapters for calling and running functions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.revisions.functions import Runtime
from kanister_py.executor.answer_budget import AnswerBudget
from kanister_py.ports.certificates import Certificates
from kanister_py.ports.function_runner import FunctionMetrics, FunctionRunner
from kanister_py.ports.packages import Packages


class CompositionSettings(NamedTuple):
    """Settings of the compositions part.

    `uses_revisions` creates revisions of Compositions; without it a composite resource uses
    the Composition itself. `runs_functions` installs and runs packages of functions.
    `keeps_revisions` is the number of unused revisions of a Composition to keep; 0 keeps all.
    """

    namespace: str
    """Namespace of the pods, certificates and pull secrets of functions."""
    uses_revisions: bool = False
    runs_functions: bool = False
    gives_resources: bool = True
    restricts_resources: bool = False
    """Restrict the required resources of namespaced composite resources to their namespace."""
    keeps_revisions: int = 0
    poll_seconds: float = 0.0
    workers: int = 32
    default_runtime: Runtime = Runtime.DEPLOYMENT
    is_strict: bool = False
    """Refuse third-party packages whose release has no built-in counterpart."""
    authority: str = "crossplane-root-ca"
    drains_for: timedelta = timedelta(seconds=30)
    """How long the pods of an inactive function revision are kept."""
    certificate_life: timedelta = timedelta(days=90)
    is_paused: bool = False
    partition: str = ""
    """Reconcile namespaced resources whose label `kanister-py.io/partition` has this value."""

    @property
    def certificate_check_seconds(self) -> float:
        """Interval of the checks of certificates."""
        return min(timedelta(hours=1), self.certificate_life / 6).total_seconds()


class FunctionTools(NamedTuple):
    """Adapters for calling functions and running their packages."""

    runner: FunctionRunner
    entries: Registry[FunctionEntry]
    """The versions that run in this process: built-in ones and those of plugins."""
    packages: Packages
    certificates: Certificates
    keep_only: Callable[[Collection[str]], None] = lambda _names: None
    """Called with the routable revisions, to close the connections to all others."""
    metrics: FunctionMetrics | None = None
    answers: AnswerBudget = AnswerBudget()
    """Limit on the large responses that the runner processes at a time."""
    client_files: Path | None = None
    """Folder for the client certificate, if this controller issues it."""
