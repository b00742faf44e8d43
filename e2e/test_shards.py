"""Three replicas share the work on a real API server, and are killed and frozen in turn."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.conftest import make_namespace
from e2e.faults.faults import Hold
from e2e.faults.proxy import FaultProxy
from e2e.test_controller import (
    KILLED_AT,
    PATIENCE_SECONDS,
    Moment,
    Place,
    PodsSeen,
    check_its_end,
    install_definitions,
    kube_ops,
    kube_task,
    moments_of,
    stalls,
    until,
)
from kanister_py.cli.exit_codes import LEADERSHIP_LOST
from kanister_py.core.shards import shard_of

_SHARDS = 3


class Team:
    """Three replicas, and a namespace in each of their shards."""

    def __init__(self, admin: ApiClient, faults: FaultProxy, home: str, folder: Path) -> None:
        self._admin = admin
        self.home = home
        self.places: list[Place] = []
        names = (f"{home}-{number}" for number in range(1000))
        for shard in range(_SHARDS):
            name = next(each for each in names if shard_of(each, _SHARDS) == shard)
            make_namespace(admin, name)
            self.places.append(Place(admin, faults.kubeconfig, name, folder))
        self.replicas: dict[str, subprocess.Popen[bytes]] = {}
        self._started = 0

    def fill_up(self) -> None:
        """Start as many as are missing, and wait until each holds a shard."""
        while len(self.replicas) < _SHARDS:
            self._started += 1
            name = f"replica-{self._started}"
            spaces = chain.from_iterable(("--namespace", each.namespace) for each in self.places)
            self.replicas[name] = self.places[0].start(
                *("--home", self.home, "--shards", str(_SHARDS), *spaces), identity=name
            )
        until(lambda: sorted(self.holders()) == sorted(self.replicas))

    def holders(self) -> list[str]:
        """Say who holds each shard."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.home}/leases/kanister-py-controller"
        found = []
        for shard in range(_SHARDS):
            with suppress(ApiFailed):
                lease = self._admin.get(f"{path}-shard-{shard}" if shard else path)
                found.append(str(lease["spec"].get("holderIdentity") or ""))
        return found

    def close(self) -> None:
        self.places[0].close()
        for each in self.places:
            with suppress(ApiFailed):
                self._admin.delete(f"/api/v1/namespaces/{each.namespace}")


@pytest.fixture
def team(admin: ApiClient, faults: FaultProxy, namespace: str, tmp_path: Path) -> Iterator[Team]:
    install_definitions(admin)
    made = Team(admin, faults, namespace, tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.usefixtures("node")
def test_of_three_replicas_two_are_killed_and_frozen_in_turn_at_any_write(
    team: Team, faults: FaultProxy, is_long: bool
) -> None:
    for place in team.places:
        space = place.namespace
        place.blueprint(
            "three",
            kube_task(space, "first", "kando output said hello"),
            kube_ops(space),
            kube_task(space, "second", "echo '{{ .Phases.first.Output.said }}'"),
            deferPhase=kube_task(space, "tidy", "true"),
        )
    pods = [PodsSeen(place) for place in team.places]
    team.fill_up()
    for place in team.places:
        place.actionset("whole", "three")
        check_its_end(place, "whole", "nobody was killed")
    whole = team.places[0].namespace
    moments = moments_of(
        [
            each
            for each in faults.requests
            if each.is_write and each.namespace == whole and each.resource in KILLED_AT
        ],
        is_long=is_long,
    )
    if not is_long:
        # Each end of two costs a term: the gate takes some, the long form all.
        moments = moments[::5]
    runs = [1] * _SHARDS
    for number, moment in enumerate(moments):
        frozen: list[subprocess.Popen[bytes]] = []
        # One is killed, and then one of the two that are left frozen; or the other way round.
        for turn, ends in enumerate(("killed", "frozen") if number % 2 else ("frozen", "killed")):
            shard = (number + turn) % _SHARDS
            place, name = team.places[shard], f"run-{number}-{turn}"
            others = [each for at, each in enumerate(team.holders()) if at != shard]
            victim = _end_at(team, faults, moment, shard, name, ends)
            if ends == "frozen":
                frozen.append(victim)
            check_its_end(place, name, f"{ends} {moment}")
            runs[shard] += 1
            # Nobody else's share has moved, unless it was the victim's too.
            now = [each for at, each in enumerate(team.holders()) if at != shard]
            assert all(
                before == after or before not in team.replicas
                for before, after in zip(others, now, strict=True)
            ), place.logs()
        for process in frozen:
            process.send_signal(signal.SIGCONT)
            # It acts no more, and says so.
            assert process.wait(PATIENCE_SECONDS) == LEADERSHIP_LOST, team.places[0].logs()
        team.fill_up()
    for seen, count in zip(pods, runs, strict=True):
        # Each of the three pods of each run was made once.
        until(lambda: len(seen.names) >= 3 * count)  # noqa: B023 # called at once
        assert len(set(seen.names.values())) == len(seen.names) == 3 * count
    for process in team.replicas.values():
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


def _end_at(
    team: Team, faults: FaultProxy, moment: Moment, shard: int, name: str, ends: str
) -> subprocess.Popen[bytes]:
    """Have the holder of a shard end at a write of a run; see another hold it in time."""
    place = team.places[shard]
    with faults.inject(
        Hold(is_done=moment.is_done),
        verb=moment.verb,
        resource=moment.resource,
        subresource=moment.subresource,
        namespace=place.namespace,
        skip=moment.number,
        times=1,
    ) as held:
        place.actionset(name, "three")
        held.wait_for_hit(seconds=PATIENCE_SECONDS)
        who = team.holders()[shard]
        victim = team.replicas.pop(who)
        victim.send_signal(signal.SIGKILL if ends == "killed" else signal.SIGSTOP)
        if ends == "killed":
            victim.wait()
    with stalls() as stalled:
        began = time.monotonic()
        until(lambda: team.holders()[shard] in team.replicas)
        took = time.monotonic() - began
    assert took - sum(stalled) < 15.0, team.places[0].logs()
    return victim


def test_replicas_of_another_number_wait_for_the_last_of_the_former(team: Team) -> None:
    place = team.places[0]
    place.blueprint("made-up", kube_ops(place.namespace))
    team.fill_up()
    words = ("--home", team.home, "--shards", "2")
    new = place.start(*words, identity="new")
    until(lambda: "Stands by as new, which is for 2 shards" in place.logs())
    for number, process in enumerate(team.replicas.values()):
        place.actionset(f"run-{number}", "made-up")
        assert place.until_ended(f"run-{number}")["state"] == "complete", place.logs()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    place.actionset("last", "made-up")
    assert place.until_ended("last")["state"] == "complete", place.logs()
    assert new.poll() is None
    assert team.holders()[:2] == ["new", "new"]
