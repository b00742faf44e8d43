"""Many kinds of ActionSets under faults for a while: all end, and nothing grows."""

from __future__ import annotations

import itertools
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from e2e.cluster.client import ApiClient, ApiFailed, ApiUnreachable
from e2e.controllers import (
    GROUP,
    Place,
    install_definitions,
    kube_ops,
    kube_task,
    until,
)
from e2e.faults.faults import Cut, Delay, Fault, Refuse
from e2e.faults.proxy import FaultProxy
from e2e.faults.requests import ApiRequest

SHORT_SECONDS: Final = 60.0
LONG_SECONDS: Final = 1800.0
PACE_SECONDS: Final = 0.4
FAULT_SECONDS: Final = 1.5

# Refused, reset before and after processing, slow.
DONE: Final[Sequence[Fault]] = (Refuse(503, is_done=True), Cut(after_bytes=0))
FAULTS: Final[Sequence[Fault]] = (
    Refuse(429, retry_after=1),
    Refuse(500),
    Cut(),
    Delay(0.3),
    *DONE,
)


class Size(NamedTuple):
    """Resources of a process at one time."""

    time: float
    megabytes: float
    threads: float
    files: float


def size_of(pid: int) -> Size:
    folder = Path(f"/proc/{pid}")
    lines = folder.joinpath("status").read_text().splitlines()
    fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    return Size(
        time.monotonic(),
        int(fields["VmRSS"][0]) / 1024,
        int(fields["Threads"][0]),
        len(list(folder.joinpath("fd").iterdir())),
    )


def rise(sizes: Sequence[Size], of: Callable[[Size], float]) -> float:
    """Return the rise of the regression line from the first to the last size."""
    slope = statistics.linear_regression([size.time for size in sizes], [*map(of, sizes)]).slope
    return slope * (sizes[-1].time - sizes[0].time)


class Ends:
    """Records how each ActionSet ended, with an independent watch."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._path = f"{GROUP}/namespaces/{namespace}/actionsets"
        self._client = client
        self.states: dict[str, set[str]] = {}
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with suppress(ApiFailed, ApiUnreachable):
            for event in self._client.watch(self._path, timeoutSeconds="7200"):
                event_object = event["object"]
                state = (event_object.get("status") or {}).get("state")
                if state in ("complete", "failed"):
                    self.states.setdefault(event_object["metadata"]["name"], set()).add(state)


@contextmanager
def in_background(act: Callable[[], None], every_seconds: float) -> Iterator[None]:
    """Repeat an action during the block; its failure fails the test."""
    is_over, failures = threading.Event(), []

    def repeat() -> None:
        try:
            while not is_over.wait(every_seconds):
                act()
        except BaseException as error:  # noqa: BLE001 # it is raised again below
            failures.append(error)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if failures:
        raise failures[0]


def is_hit(request: ApiRequest) -> bool:
    # Losing the Lease ends the process, which another test covers.
    return bool(request.resource) and request.resource != "leases" and not request.is_stream


def is_safe(request: ApiRequest) -> bool:
    # Without a response, the result is unknown: the phase fails and says so.
    return is_hit(request) and request.verb != "create"


@pytest.mark.usefixtures("node")
def test_mixed_action_sets_under_faults_all_end_and_nothing_grows(
    admin: ApiClient,
    faults: FaultProxy,
    namespace: str,
    tmp_path: Path,
    is_long: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install_definitions(admin)
    place = Place(admin, faults.kubeconfig, namespace, tmp_path)
    make_blueprints(place)
    ends, created = Ends(admin, namespace), dict[str, str]()
    numbers, bad_days = itertools.count(), itertools.cycle(FAULTS)
    injected = itertools.count()
    sizes: list[Size] = []

    def create() -> None:
        number = next(numbers)
        blueprint, want = KINDS[number % len(KINDS)]
        name = f"run-{number}"
        created[name] = want
        place.actionset(name, blueprint, ttlSecondsAfterFinished=5)
        if want == "deleted":
            place.client.delete(place.path(name))

    def have_a_bad_day() -> None:
        fault = next(bad_days)
        faults.inject(fault, where=is_safe if fault in DONE else is_hit, times=2)
        next(injected)
        if len(sizes) % 3 == 0:
            faults.cut(verb="watch")
        if len(sizes) % 7 == 0:
            faults.expire_watches("actionsets")

    try:
        controller = place.start()
        until(lambda: "Leader as" in place.logs())
        with (
            in_background(create, PACE_SECONDS),
            in_background(have_a_bad_day, FAULT_SECONDS),
            in_background(lambda: sizes.append(size_of(controller.pid)), 0.5),
        ):
            assert not wait_for(controller.poll, LONG_SECONDS if is_long else SHORT_SECONDS)
        faults.heal()
        until(lambda: not place.client.get(f"{GROUP}/namespaces/{namespace}/actionsets")["items"])
        until(lambda: not place.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"])
        controller.send_signal(signal.SIGTERM)
        assert controller.wait(180) == 0, place.logs()
    finally:
        place.close()
    wrong = {
        name: ends.states.get(name)
        for name, want in created.items()
        if want != "deleted" and ends.states.get(name) != {want}
    }
    stuck = sum(not ends.states.get(name) for name in wrong)
    with capsys.disabled():
        print(
            f"\n{next(injected)} faults, {len(created)} runs, {len(wrong) - stuck} ended otherwise "
            f"than they should, {stuck} stuck"
        )
    assert not wrong, place.logs()
    check_flat(sizes)


def wait_for(wanted: Callable[[], Any], seconds: float) -> Any:
    """Wait for something that must not happen; returns whether it happened."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if wanted() is not None:
            return True
        time.sleep(0.2)
    return False


def check_flat(sizes: Sequence[Size]) -> None:
    """Nothing grows after everything has been done once."""
    settled = sizes[len(sizes) // 2 :]
    kinds: Sequence[tuple[str, Callable[[Size], float], float]] = (
        ("megabytes", lambda size: size.megabytes, 0.08),
        ("threads", lambda size: size.threads, 0.35),
        ("files", lambda size: size.files, 0.35),
    )
    for what, of, most in kinds:
        mean = statistics.mean(map(of, settled))
        risen = rise(settled, of)
        print(f"soak: {what}: {mean:.1f} on average, rises by {risen:.2f}")
        assert risen <= most * mean, f"{what}: {[of(size) for size in sizes]}"


KINDS: Final[Sequence[tuple[str, str]]] = (
    ("ops", "complete"),
    ("task", "complete"),
    ("ops", "complete"),
    ("bad", "failed"),
    ("ten", "complete"),
    ("slow", "deleted"),
)


def make_blueprints(place: Place) -> None:
    space = place.namespace

    def patient(phase: Mapping[str, Any]) -> dict[str, Any]:
        return {**phase, "retry": {"limit": 8, "backoff": "200ms"}}

    tidy = patient(kube_ops(space, "tidy"))
    task = kube_task(space, "task", "kando output a b")
    place.blueprint("ops", patient(kube_ops(space)))
    place.blueprint("task", patient(task), deferPhase=tidy)
    place.blueprint("bad", {"func": "KubeOps", "name": "bad", "args": {"operation": "dance"}})
    place.blueprint("ten", *(patient(kube_ops(space, f"p{number}")) for number in range(10)))
    place.blueprint("slow", patient(kube_task(space, "slow", "sleep 300")), deferPhase=tidy)
