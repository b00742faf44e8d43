"""Settings of a controller: what it watches, and how much it does at once."""

from __future__ import annotations

from typing import NamedTuple

from kanister_py.controller.actionsets.concurrency import Limit
from kanister_py.controller.machine.lease import LeaseTerms
from kanister_py.core.actionsets.partitions import ACTION_SETS, COMPOSITIONS, Scope
from kanister_py.ports.confinement import Confinement
from kanister_py.ports.notice_receivers import NoticeReceivers


class ControllerSettings(NamedTuple):
    """What a controller watches, and how much it does at once.

    Without `namespaces` it watches all. `home` is where its Lease is. Without
    `workers_per_namespace` one of several namespaces gets three quarters of the workers at
    the most. `keep_newest` bounds how many ActionSets that ended are kept for each
    Blueprint; None for all.
    """

    namespaces: tuple[str, ...] = ()
    home: str = "default"
    identity: str = "kanister-py"
    partition: str = ""
    """Act on objects whose label `kanister-py.io/partition` has this value; empty for no label."""
    allows_other_namespaces: bool = False
    confinement: Confinement = Confinement("")
    """Restrictions on ActionSets outside of `home`; each gets its own namespace in it."""
    impersonates: bool = False
    """Whether runs act as the ServiceAccount that their ActionSet or namespace names."""
    stands_by: bool = False
    """Whether to wait while another replica acts; without it, one that acts is refused."""
    workers: int = 32
    workers_per_namespace: int = 0
    passes: int = 4
    keep_newest: int | None = None
    limits: tuple[Limit, ...] = ()
    runs_actionsets: bool = True
    """Without them, what `parts` make is all that it does, under a Lease of its own."""
    composes: bool = False
    """Whether one of `parts` composes, which one process of a cluster does at a time."""
    is_paused: bool = False
    """Whether nothing new begins: runs that are under way go on, composing rests."""
    drain_seconds: float = 20.0
    checks_access: bool = False
    """Whether the cluster is asked for the rights of all phases before the first one acts."""
    terms: LeaseTerms = LeaseTerms()
    refuses_neighbours: bool = True
    neighbours_every_seconds: float = 300.0
    """How often is looked whether another project's controller has come meanwhile."""
    receivers: NoticeReceivers | None = None
    """Where notices of failures may go; without it nobody gets any."""

    @property
    def scope(self) -> Scope:
        """The objects that this controller acts on."""
        kinds = ((ACTION_SETS, self.runs_actionsets), (COMPOSITIONS, self.composes))
        return Scope(self.partition, self.namespaces, [kind for kind, is_on in kinds if is_on])
