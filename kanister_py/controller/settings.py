"""Settings of a controller: watched namespaces, limits and times."""

from __future__ import annotations

from typing import NamedTuple

from kanister_py.controller.actionsets.concurrency import Limit
from kanister_py.controller.machine.lease import LeaseTerms
from kanister_py.core.actionsets.partitions import ACTION_SETS, COMPOSITIONS, Scope
from kanister_py.ports.confinement import Confinement
from kanister_py.ports.notice_receivers import NoticeReceivers


class ControllerSettings(NamedTuple):
    """Settings of a controller.

    Without `namespaces` it watches all. `home` is the namespace of its Lease. Without
    `workers_per_namespace`, one of several namespaces gets at most three quarters of the workers.
    `keep_newest` is the number of ended ActionSets kept for each Blueprint; None keeps all.
    """

    namespaces: tuple[str, ...] = ()
    home: str = "default"
    identity: str = "kanister-py"
    partition: str = ""
    """Act on objects whose label `kanister-py.io/partition` has this value; empty for no label."""
    allows_other_namespaces: bool = False
    confinement: Confinement = Confinement("")
    """Restrictions on ActionSets outside of `home`."""
    impersonates: bool = False
    """Whether runs act as the ServiceAccount that their ActionSet or namespace names."""
    stands_by: bool = False
    """Whether to wait while another replica is the leader; without it, the start fails then."""
    workers: int = 32
    workers_per_namespace: int = 0
    passes: int = 4
    keep_newest: int | None = None
    limits: tuple[Limit, ...] = ()
    runs_actionsets: bool = True
    """Without ActionSets, only `parts` are run, under a separate Lease."""
    composes: bool = False
    """Whether one of `parts` composes, which only one process of a cluster may do at a time."""
    is_paused: bool = False
    """Whether new runs are held back. Active runs continue, and nothing is composed."""
    drain_seconds: float = 20.0
    checks_access: bool = False
    """Whether the permissions of all phases are checked before the first phase runs."""
    terms: LeaseTerms = LeaseTerms()
    refuses_neighbours: bool = True
    neighbours_every_seconds: float = 300.0
    """Interval of the check for another project's controller."""
    receivers: NoticeReceivers | None = None
    """Receivers that may get notices of failures; without it no notices are sent."""

    @property
    def scope(self) -> Scope:
        """The objects that this controller acts on."""
        kinds = ((ACTION_SETS, self.runs_actionsets), (COMPOSITIONS, self.composes))
        return Scope(self.partition, self.namespaces, [kind for kind, is_on in kinds if is_on])
