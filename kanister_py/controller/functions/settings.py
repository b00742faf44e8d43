"""Settings of composing, and the tools that functions are called and run with."""

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
    """What of compositions is switched on, and how.

    `uses_revisions` makes revisions of Compositions; without it a composite resource uses
    the Composition itself. `runs_functions` installs and runs packages of functions.
    `keeps_revisions` bounds how many revisions of a Composition that nobody uses are kept;
    0 keeps all.
    """

    namespace: str
    """Namespace of the pods, certificates and pull secrets of functions."""
    uses_revisions: bool = False
    runs_functions: bool = False
    gives_resources: bool = True
    restricts_resources: bool = False
    """Whether namespaced composite resources require resources of their own namespace only."""
    keeps_revisions: int = 0
    poll_seconds: float = 0.0
    workers: int = 32
    default_runtime: Runtime = Runtime.DEPLOYMENT
    is_strict: bool = False
    """Refuse to run, for packages of others, releases that no version here stands for."""
    authority: str = "crossplane-root-ca"
    drains_for: timedelta = timedelta(seconds=30)
    """How long a revision of a function that is no longer active still answers."""
    certificate_life: timedelta = timedelta(days=90)
    is_paused: bool = False
    partition: str = ""
    """Compose namespaced resources whose label `kanister-py.io/partition` has this value."""

    @property
    def looks_every_seconds(self) -> float:
        """How often certificates are looked at."""
        return min(timedelta(hours=1), self.certificate_life / 6).total_seconds()


class FunctionTools(NamedTuple):
    """What functions are called with, and what runs their packages."""

    runner: FunctionRunner
    entries: Registry[FunctionEntry]
    """The versions that come with us, or with plugins: they run in this process."""
    packages: Packages
    certificates: Certificates
    keep_only: Callable[[Collection[str]], None] = lambda _names: None
    """Called with the revisions that are still called, so that others are let go of."""
    metrics: FunctionMetrics | None = None
    answers: AnswerBudget = AnswerBudget()
    """Bound on the large answers that the runner processes at a time."""
    client_files: Path | None = None
    """Where the certificate is kept that functions are called with, if it is made here."""
