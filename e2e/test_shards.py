"""Three replicas share the work on a real API server, and are killed and frozen in turn."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.cluster.local import LocalCluster
from e2e.conftest import make_namespace
from e2e.faults.faults import Hold, Injection
from e2e.faults.proxy import FaultProxy
from e2e.test_compositions import EXTENSIONS, THINGS, composition, definition, template_step, thing
from e2e.test_controller import (
    KILLED_AT,
    PATIENCE_SECONDS,
    AllSeen,
    Moment,
    Place,
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
from kanister_py.executor.install_definitions import read_definitions

_SHARDS = 3
_COMPOSED = "/api/v1/namespaces/default/configmaps"


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

    def fill_up(self, *words: str) -> None:
        """Start as many as are missing, and wait until each holds a shard."""
        while len(self.replicas) < _SHARDS:
            self._started += 1
            name = f"replica-{self._started}"
            spaces = chain.from_iterable(("--namespace", each.namespace) for each in self.places)
            self.replicas[name] = self.places[0].start(
                *("--home", self.home, "--shards", str(_SHARDS), *spaces, *words), identity=name
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
    pods = [
        AllSeen(each.client, f"/api/v1/namespaces/{each.namespace}/pods") for each in team.places
    ]
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
            held = _held_at(faults, moment, place.namespace)
            begin = partial(_begin_run, place, name, shard)
            check = partial(check_its_end, place, name, f"{ends} {moment}")
            frozen += _end_at(team, held, begin, check, ends)
            runs[shard] += 1
        _thaw(team, frozen)
        team.fill_up()
    for seen, count in zip(pods, runs, strict=True):
        # Each of the three pods of each run was made once.
        until(lambda: len(seen.names) >= 3 * count)  # noqa: B023 # called at once
        assert len(set(seen.names.values())) == len(seen.names) == 3 * count
    for process in team.replicas.values():
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


def _begin_run(place: Place, name: str, shard: int) -> int:
    place.actionset(name, "three")
    return shard


def _thaw(team: Team, frozen: list[subprocess.Popen[bytes]]) -> None:
    """Have those that were frozen go on: each acts no more, and says so."""
    while frozen:
        process = frozen.pop()
        process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE_SECONDS) == LEADERSHIP_LOST, team.places[0].logs()


def _held_at(faults: FaultProxy, moment: Moment, namespace: str) -> Injection:
    """Hold a write at a moment in a namespace."""
    return faults.inject(
        Hold(is_done=moment.is_done),
        verb=moment.verb,
        resource=moment.resource,
        subresource=moment.subresource,
        namespace=namespace,
        skip=moment.number,
        times=1,
    )


def _end_at(
    team: Team, held: Injection, begin: Callable[[], int], check: Callable[[], object], ends: str
) -> list[subprocess.Popen[bytes]]:
    """Begin what falls into a shard, and have its holder end at a write that is held.

    Sees another one hold the shard in time, and what was begun come to its end; gives the
    process, if it is frozen.
    """
    with held:
        shard = begin()
        held.wait_for_hit(seconds=PATIENCE_SECONDS)
        holders = team.holders()
        victim = team.replicas.pop(holders[shard])
        victim.send_signal(signal.SIGKILL if ends == "killed" else signal.SIGSTOP)
        if ends == "killed":
            victim.wait()
    with stalls() as stalled:
        began = time.monotonic()
        until(lambda: team.holders()[shard] in team.replicas)
        took = time.monotonic() - began
    assert took - sum(stalled) < 15.0, team.places[0].logs()
    check()
    # Nobody else's share has moved, unless it was the victim's too.
    assert all(
        before == after or before not in team.replicas
        for at, (before, after) in enumerate(zip(holders, team.holders(), strict=True))
        if at != shard
    ), team.places[0].logs()
    return [victim] if ends == "frozen" else []


def test_a_composite_resource_outlives_two_of_three_replicas_that_end_at_any_write(
    new_api_server: Callable[..., LocalCluster], tmp_path: Path, is_long: bool
) -> None:
    server = new_api_server()
    client = server.client
    for each in read_definitions():
        client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
    make_namespace(client, "home")
    words = ("--enable-compositions", "--enable-composition-revisions")
    with FaultProxy(server) as faults:
        team = Team(client, faults, "home", tmp_path)
        try:
            team.fill_up(*words)
            kinds = EXTENSIONS.replace("/v1", "/v2/compositeresourcedefinitions")
            client.post(kinds, definition())
            client.post(f"{EXTENSIONS}/compositions", composition("table", template_step("x")))
            seen = AllSeen(client, _COMPOSED)
            _begin_composing(client, "whole")
            _check_composed(team, "whole", "nobody ended")
            moments = moments_of(
                [
                    each
                    for each in faults.requests
                    if each.is_write
                    and each.namespace == "default"
                    and each.resource in {"xthings", "configmaps"}
                ],
                is_long=is_long,
            )
            written = {(each.resource, each.subresource) for each in moments}
            assert written == {("xthings", ""), ("xthings", "status"), ("configmaps", "")}
            table = [(moment, ends) for moment in moments for ends in ("killed", "frozen")]
            if not is_long:
                # Each end costs a term: the gate takes one of each kind of write, and one more.
                table = table[::3]
            frozen: list[subprocess.Popen[bytes]] = []
            for number, (moment, ends) in enumerate(table):
                if len(team.replicas) == 1:
                    _thaw(team, frozen)
                    team.fill_up(*words)
                name = f"one-{number}"
                held = _held_at(faults, moment, "default")
                begin = partial(_begin_composing, client, name)
                check = partial(_check_composed, team, name, f"{ends} {moment}")
                frozen += _end_at(team, held, begin, check, ends)
            _thaw(team, frozen)
            # Each has what was composed for it, of which there never was a second one.
            composed = client.get(_COMPOSED, labelSelector="crossplane.io/composite")["items"]
            composers = [each["metadata"]["labels"]["crossplane.io/composite"] for each in composed]
            assert sorted(composers) == sorted(
                ["whole", *(f"one-{number}" for number in range(len(table)))]
            )
            uids = {each["metadata"]["uid"] for each in composed}
            until(lambda: uids <= seen.names.keys())
            assert uids == {uid for uid, name in seen.names.items() if name != "kube-root-ca.crt"}
        finally:
            team.close()


def _begin_composing(client: ApiClient, name: str) -> int:
    """Make a composite resource, and say into which shard it falls."""
    made = client.post(THINGS, thing(name, "table"))
    return shard_of(made["metadata"]["uid"], _SHARDS)


def _check_composed(team: Team, name: str, what: str) -> None:
    """See a composite resource become ready."""

    def is_ready() -> bool:
        found = team.places[0].client.get(f"{THINGS}/{name}")
        conditions = (found.get("status") or {}).get("conditions") or ()
        return {"Synced", "Ready"} <= {e["type"] for e in conditions if e["status"] == "True"}

    try:
        until(is_ready)
    except AssertionError as error:
        raise AssertionError(f"{name}, {what}\n{team.places[0].logs()}") from error


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
