"""Runs of blueprints in the embedded cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any

import pytest

from kanister_py import Args, Func, OnRestart, PhaseContext, run
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.actionsets.course import course_of
from kanister_py.core.actionsets.model import parse_actionset
from kanister_py.core.actionsets.outcomes import CancelAsked, outcome_as_dict
from kanister_py.core.actionsets.status import State
from kanister_py.core.blueprints.model import blueprints_in
from kanister_py.core.errors import (
    JournalUnwritable,
    StreamLost,
    TransientApiError,
    UsageError,
)
from kanister_py.core.kube.resources import CONFIG_MAPS, PODS
from kanister_py.core.yaml.documents import parse_document
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.loading import load_function
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.run.background import Run, WaitingHost
from kanister_py.executor.run.run import ActionSetRun
from kanister_py.executor.timers import TimerService
from kanister_py.executor.watching import SharedWatches
from kanister_py.executor.working import Workers
from kanister_py.ports.clock import Clock
from kanister_py.runs import RunSettings, resume_run, retry_run, run_blueprint
from kanister_py.wiring import registry_of
from tests.fake_clock import FakeClock

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "login", "namespace": "default"},
    "stringData": {"password": "correct-horse"},
}
PATIENCE_SECONDS = 180.0


class Echo(Func):
    """Gives its argument back."""

    name = "Echo"

    class Args(Args):
        say: str = ""

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        ctx.log(f"echo {args.say}")
        return {"said": args.say}


class Breaks(Func):
    """Fails, and gives away a secret while it does."""

    name = "Breaks"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        ctx.log("logging in with correct-horse")
        raise RuntimeError("cannot log in as correct-horse")


class Flaky(Func):
    """Fails in a way that may pass, but for its third attempt."""

    name = "Flaky"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        if ctx.run.attempt < 3:
            raise StreamLost("the stream broke off")


class WaitsForMap(Func):
    """Waits until a ConfigMap says go."""

    name = "WaitsForMap"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        def gone() -> Any:
            found = ctx.cluster.get(CONFIG_MAPS, "gate", namespace="default")
            return found.get("data")

        return {"seen": ctx.wait(gone, what="the gate to open")["go"]}


class WaitsForPod(Func):
    """Waits for a pod to end."""

    name = "WaitsForPod"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        made = ctx.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": ctx.run.key(), "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "busybox"}]},
            }
        )
        name = made["metadata"]["name"]
        ctx.wait(
            lambda: (
                (ctx.cluster.get(PODS, name, namespace="default").get("status") or {}).get("phase")
                == "Succeeded"
            )
        )


def blueprint(
    *phases: Mapping[str, Any], deferred: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    action: dict[str, Any] = {"phases": list(phases), **more}
    if deferred is not None:
        action["deferPhase"] = deferred
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "made-up"},
        "actions": {"act": action},
    }


def echo(name: str, say: str = "", **more: Any) -> dict[str, Any]:
    return {"func": "Echo", "name": name, "args": {"say": say}, **more}


TIDY = echo("tidy", "up")


def test_outputs_travel_to_later_phases_the_deferred_one_and_the_artifacts() -> None:
    made = run(
        blueprint(
            echo("first", "{{ .Options.word }}"),
            echo("second", "{{ .Phases.first.Output.said }}!"),
            deferred=echo("tidy", "after {{ .Phases.second.Output.said }}"),
            outputArtifacts={"a": {"keyValue": {"k": "{{ .DeferPhase.Output.said }}"}}},
        ),
        "act",
        options={"word": "hello"},
        functions=[Echo],
    ).wait()
    assert made.is_complete, made.error
    assert made.outputs["second"] == {"said": "hello!"}
    assert made.artifacts == {"a": {"keyValue": {"k": "after hello!"}}}
    assert made.status["progress"]["percentCompleted"] == "100"


def test_a_phase_whose_if_says_no_is_skipped_with_an_empty_output() -> None:
    made = run(
        blueprint(echo("a", **{"if": "{{ eq 1 2 }}"}), echo("b", "ran")), "act", functions=[Echo]
    ).wait()
    phases = made.status["actions"][0]["phases"]
    assert [phase.get("skipped", False) for phase in phases] == [True, False]
    assert made.is_complete


def test_an_error_says_where_and_why_and_hides_secrets() -> None:
    phase = {
        "func": "Breaks",
        "name": "login",
        "objects": {"s": {"kind": "Secret", "name": "login", "namespace": "default"}},
    }
    made = run(blueprint(phase, deferred=TIDY), "act", objects=[SECRET], functions=[Breaks, Echo])
    status = made.wait().status
    assert status["state"] == "failed"
    assert "correct-horse" not in json.dumps(status)
    error = status["error"]
    assert (error["action"], error["phase"], error["attempt"]) == ("act", "login", 1)
    assert error["logTail"] == ["logging in with ***"]
    assert status["actions"][0]["deferPhase"]["state"] == "complete"


class Picky(Func):
    """Takes switches."""

    name = "Picky"

    class Args(Args):
        one: bool
        other: bool

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None: ...


def test_all_that_one_phase_lacks_stands_apart_and_before_a_deferred_phase_that_fails_too() -> None:
    template = "{{ .Phases.first.Output.said }}"
    phase = {"func": "Picky", "name": "pick", "args": {"one": template, "other": template}}
    tidy = {"func": "Breaks", "name": "tidy"}
    made = run(
        blueprint(echo("first", "maybe"), phase, deferred=tidy),
        "act",
        functions=[Breaks, Echo, Picky],
    )
    error = made.wait().status["error"]
    assert (error["phase"], error["reason"]) == ("pick", "InvalidArgs")
    assert ["`one`" in error["problems"][0], "`other`" in error["problems"][1]] == [True, True]
    cause, _, after = error["message"].partition("; after that: Deferred phase tidy")
    assert "Phase pick" in cause
    assert "cannot log in" in after
    assert "\n" not in error["message"]


def test_a_transient_failure_is_retried_until_it_passes() -> None:
    phase = {"func": "Flaky", "name": "f", "retry": {"limit": 2, "backoff": "1ms"}}
    made = run(blueprint(phase), "act", functions=[Flaky]).wait()
    assert made.is_complete, made.error
    assert made.status["actions"][0]["phases"][0]["attempt"] == 3


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        pytest.param({"func": "Nope", "name": "x"}, "FunctionNotRegistered", id="unknown"),
        pytest.param(
            {"func": "Echo", "name": "x", "funcVersion": ">=9"},
            "FunctionVersionNotFound",
            id="range",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_the_first_phase(
    phase: dict[str, Any], reason: str
) -> None:
    made = run(blueprint(echo("first"), phase, deferred=TIDY), "act", functions=[Echo]).wait()
    assert made.status["error"]["reason"] == reason
    assert made.outputs == {}


class Unsteady(MemoryCluster):
    """A cluster whose first answers do not come."""

    def __init__(self, failures: int) -> None:
        super().__init__(clock=SystemClock())
        self.failures = failures

    def get(self, *args: Any, **rest: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise TransientApiError("the API server is away")
        return super().get(*args, **rest)


@pytest.mark.parametrize(
    ("failures", "want"),
    [
        pytest.param(3, "", id="for a moment"),
        pytest.param(100, "Unknown", id="for good"),
    ],
)
def test_a_cluster_that_is_away_when_an_action_starts_is_asked_again(
    failures: int, want: str
) -> None:
    settings = RunSettings(
        cluster=Unsteady(failures), registry=registry_of(Echo), clock=FakeClock(jumps=True)
    )
    made = run_blueprint(blueprint(echo("e")), "act", settings=settings).wait(PATIENCE_SECONDS)
    assert made.status.get("error", {}).get("reason", "") == want


def test_a_cancel_does_not_wait_for_a_cluster_that_is_away() -> None:
    clock = FakeClock()
    settings = RunSettings(cluster=Unsteady(100), registry=registry_of(Echo), clock=clock)
    made = run_blueprint(blueprint(echo("e")), "act", settings=settings)
    assert clock.wait_for_sleepers(1)
    made.cancel("RunTimedOut")
    error = made.wait(PATIENCE_SECONDS).status["error"]
    assert error["action"] == "act"


def test_a_phase_that_had_no_turn_before_the_time_was_over_says_so() -> None:
    made = waiting()
    made.cancel("RunTimedOut")
    status = made.wait(PATIENCE_SECONDS).status
    assert "cancelled" not in json.dumps(status["error"])


def test_a_wait_ends_when_the_object_it_reads_changes() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}}])
    made = run(
        blueprint({"func": "WaitsForMap", "name": "w"}),
        "act",
        cluster=cluster,
        functions=[WaitsForMap],
    )
    gate = cluster.get(CONFIG_MAPS, "gate", namespace="default")
    cluster.replace({**gate, "data": {"go": "now"}})
    assert made.wait(PATIENCE_SECONDS).outputs == {"w": {"seen": "now"}}


def test_a_wait_for_a_pod_that_nobody_runs_fails_at_once() -> None:
    made = run(blueprint({"func": "WaitsForPod", "name": "w"}), "act", functions=[WaitsForPod])
    assert made.wait(PATIENCE_SECONDS).status["error"]["reason"] == "PodsNotRun"


def waiting(timeout: str = "", onlooker: Any = None) -> Run:
    phase = {"func": "WaitsForMap", "name": "w"}
    if timeout:
        phase["timeout"] = timeout
    cluster = MemoryCluster(clock=SystemClock())
    cluster.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}}])
    return run_blueprint(
        blueprint(phase, echo("never"), deferred=TIDY),
        "act",
        settings=RunSettings(
            cluster=cluster, registry=registry_of(WaitsForMap, Echo), onlooker=onlooker
        ),
    )


def test_a_phase_that_takes_longer_than_its_timeout_fails() -> None:
    made = waiting("20ms").wait(PATIENCE_SECONDS)
    assert made.status["error"]["reason"] == "PhaseTimedOut"
    assert made.status["actions"][0]["deferPhase"]["state"] == "complete"


def test_a_cancel_ends_the_phase_at_work_and_runs_the_deferred_one() -> None:
    made = waiting()
    made.cancel()
    status = made.wait(PATIENCE_SECONDS).status
    assert status["error"]["reason"] == "Cancelled"
    assert [each["state"] for each in status["actions"][0]["phases"]] == ["failed", "pending"]


class Deaf(Func):
    """Listens to nobody."""

    name = "Deaf"
    ends = Event()

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        self.ends.wait(PATIENCE_SECONDS)
        return {"too": "late"}


def run_of(made: dict[str, Any], clock: Clock, **surroundings: Any) -> ActionSetRun:
    """Make a run of a blueprint that nobody keeps going yet."""
    (found,) = blueprints_in([parse_document(json.dumps(made))])
    target = {"kind": "Namespace", "name": "default", "namespace": "default"}
    action = {"name": "act", "blueprint": "made-up", "object": target}
    actionset = parse_actionset(parse_document(json.dumps({"spec": {"actions": [action]}})))
    cluster = MemoryCluster(clock=SystemClock())
    return ActionSetRun(
        course_of(actionset, {"made-up": found.blueprint}),
        FunctionSource(registry_of(Deaf, Echo, Flaky), load_function),
        Surroundings(cluster, clock, Workers(1), SharedWatches(cluster, clock), **surroundings),
    )


def test_a_function_that_listens_to_nobody_does_not_keep_the_run_from_its_end() -> None:
    made = blueprint({"func": "Deaf", "name": "d", "timeout": "10ms"}, deferred=TIDY)
    clock = SystemClock()
    status = WaitingHost(clock).carry_out(run_of(made, clock, grace_seconds=0.01))
    Deaf.ends.set()
    assert status.error is not None
    assert status.error.reason == "PhaseTimedOut"
    assert status.actions[0].deferred is not None
    assert status.actions[0].deferred.state is State.COMPLETE
    assert status.actions[0].phases[0].output is None


class SetClock(FakeClock):
    """A clock that can be set; the time that passes is another thing."""

    def __init__(self) -> None:
        super().__init__()
        self.set_by = timedelta()

    def now(self) -> datetime:
        return super().now() + self.set_by


class ManualHost:
    """Host that records wake-ups, and leaves it to the test to ring."""

    def __init__(self, clock: Clock) -> None:
        self.timers = TimerService(clock)
        self.wake_ups: Queue[None] = Queue()
        self.is_over = Event()

    def wake(self) -> None:
        self.wake_ups.put(None)

    def on_over(self) -> None:
        self.is_over.set()


def wait_for_timer(clock: FakeClock, seconds: float) -> None:
    """Wait until a thread sleeps for this many seconds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not clock.has_waiter_until(clock.monotonic() + seconds):
        assert time.monotonic() < end, "no thread waits for this time"
        time.sleep(0.005)


@pytest.mark.parametrize("hours", [-1, 1], ids=["back", "forth"])
def test_setting_the_clock_does_not_change_the_wait_before_a_retry(hours: int) -> None:
    clock = SetClock()
    retry = {"limit": 2, "backoff": "10s", "factor": 1}
    run = run_of(blueprint({"func": "Flaky", "name": "f", "retry": retry}), clock)
    host = ManualHost(clock)
    run.begin(host)
    for attempt in (1, 2):
        wait_for_timer(clock, 10)
        clock.set_by += timedelta(hours=hours)
        # Other changes of the run do not move the retry either.
        run.suspend()
        run.resume()
        clock.advance(9)
        run.ring()
        phase = run.status.actions[0].phases[0]
        assert (phase.state, phase.attempt) == (State.PENDING, attempt)
        wait_for_timer(clock, 1)
        assert host.wake_ups.empty()
        clock.advance(1)
        host.wake_ups.get(timeout=PATIENCE_SECONDS)
        run.ring()
    assert host.is_over.wait(PATIENCE_SECONDS)
    host.timers.close()
    assert run.status.state is State.COMPLETE
    assert run.status.actions[0].phases[0].attempt == 3


def test_the_timers_of_a_run_that_has_ended_are_cancelled() -> None:
    clock = SetClock()
    run = run_of(blueprint({"func": "Echo", "name": "e", "args": {}, "timeout": "1h"}), clock)
    host = ManualHost(clock)
    run.begin(host)
    assert host.is_over.wait(PATIENCE_SECONDS)
    assert len(host.timers) == 0
    host.timers.close()


# What a folder remembers


class Kill(Exception):
    """The process dies here."""


_MET: list[str] = []
_DIE = Event()


class Dies(Func):
    """Is under way when its process dies; a later process may adopt it."""

    name = "Dies"
    on_restart = OnRestart.ADOPT

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        _MET.append(ctx.run.key())
        if not _DIE.is_set():
            ctx.wait(_DIE.is_set, every_seconds=3600)
        return {"key": ctx.run.key()}


class DiesOnce(Dies):
    """As the other, but cannot be taken up."""

    name = "DiesOnce"
    on_restart = OnRestart.FAIL


class _Started:
    """Says when a phase is under way."""

    def __init__(self) -> None:
        self.event = Event()

    def on_outcome(self, outcome: Any, status: Any) -> None:
        if status.totals.running:
            self.event.set()

    def on_log(self, action: str, phase: str, line: str) -> None:
        pass


def interrupted(folder: Path, func: type[Func]) -> RunSettings:
    """Run until a phase is under way, then break off as a killed process does."""
    _MET.clear()
    _DIE.clear()
    started = _Started()
    settings = RunSettings(
        state=folder,
        registry=registry_of(Dies, DiesOnce, Echo),
        name="r",
        onlooker=started,
    )
    phases = (echo("before", "kept"), {"func": func.name, "name": "p"})
    after = echo("after", "{{ .Phases.before.Output.said }}")
    made = run_blueprint(blueprint(*phases, after, deferred=TIDY), "act", settings=settings)
    while not _MET:
        started.event.wait(0.01)
    made.abort()
    made.wait(PATIENCE_SECONDS)
    _DIE.set()
    return settings


def test_a_run_whose_process_died_is_taken_up_and_nothing_is_made_twice(tmp_path: Path) -> None:
    settings = interrupted(tmp_path, Dies)
    made = resume_run("", settings).wait(PATIENCE_SECONDS)
    assert made.is_complete, made.error
    assert len(set(_MET)) == 1
    assert made.outputs["after"] == {"said": "kept"}
    assert made.status["actions"][0]["phases"][1]["attempt"] == 1


def test_a_phase_that_cannot_be_taken_up_is_interrupted_and_tidied_up(tmp_path: Path) -> None:
    settings = interrupted(tmp_path, DiesOnce)
    status = resume_run("r", settings).wait(PATIENCE_SECONDS).status
    assert status["error"]["reason"] == "Interrupted"
    assert status["actions"][0]["deferPhase"]["state"] == "complete"


def test_a_cancel_that_a_dead_process_had_written_down_stops_the_phase(tmp_path: Path) -> None:
    settings = interrupted(tmp_path, Dies)
    calls = len(_MET)
    asked = outcome_as_dict(CancelAsked(SystemClock().now()))
    with (tmp_path / "runs" / "r.jsonl").open("a", encoding="utf-8") as journal:
        journal.write(json.dumps(asked) + "\n")
    status = resume_run("r", settings).wait(PATIENCE_SECONDS).status
    assert status["error"]["reason"] == "Cancelled"
    assert [each["state"] for each in status["actions"][0]["phases"]] == [
        "complete",
        "failed",
        "pending",
    ]
    assert status["actions"][0]["deferPhase"]["state"] == "complete"
    assert len(_MET) == calls


def test_a_failed_run_is_retried_from_a_phase_with_the_outputs_before_it(tmp_path: Path) -> None:
    settings = interrupted(tmp_path, DiesOnce)
    resume_run("r", settings).wait(PATIENCE_SECONDS)
    made = retry_run("r", "p", settings._replace(name="again")).wait(PATIENCE_SECONDS)
    assert made.is_complete, made.error
    assert made.outputs["after"] == {"said": "kept"}


def test_a_run_ends_the_same_wherever_its_process_was_killed(tmp_path: Path) -> None:
    settings = RunSettings(state=tmp_path / "whole", registry=registry_of(Echo), name="r")
    made = blueprint(echo("a", "1"), echo("b", "{{ .Phases.a.Output.said }}"), deferred=TIDY)
    run_blueprint(made, "act", settings=settings).wait(PATIENCE_SECONDS)
    lines = (tmp_path / "whole" / "runs" / "r.jsonl").read_bytes().splitlines(keepends=True)

    class Again(Echo):
        name = "Echo"
        on_restart = OnRestart.REPEAT

    for cut in range(1, len(lines) + 1):
        folder = tmp_path / str(cut)
        (folder / "runs").mkdir(parents=True)
        (folder / "state.json").write_text('{"format": 1}')
        # The last line is torn, as by a process that died while writing it.
        torn = b"" if cut == len(lines) else lines[cut][: len(lines[cut]) // 2]
        (folder / "runs" / "r.jsonl").write_bytes(b"".join(lines[:cut]) + torn)
        again = resume_run("r", settings._replace(state=folder, registry=registry_of(Again)))
        assert again.wait(PATIENCE_SECONDS).outputs == {
            "a": {"said": "1"},
            "b": {"said": "1"},
            "tidy": {"said": "up"},
        }
        assert again.is_complete


def test_only_its_owner_may_look_into_a_state_folder(tmp_path: Path) -> None:
    settings = RunSettings(state=tmp_path / "deep" / "state", registry=registry_of(Echo), name="r")
    run_blueprint(blueprint(), "act", settings=settings).wait(PATIENCE_SECONDS)
    assert (tmp_path / "deep/state").stat().st_mode & 0o077 == 0
    for path in (tmp_path / "deep" / "state").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    from kanister_py.adapters.journal_files import StateFolder

    with (
        StateFolder(tmp_path, SystemClock()),
        pytest.raises(UsageError, match="is in use by process"),
    ):
        run(blueprint(), "act", state=tmp_path, functions=[Echo])


def test_a_folder_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"format": 99}')
    with pytest.raises(UsageError, match="format 99"):
        run(blueprint(), "act", state=tmp_path, functions=[Echo])


def test_a_run_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    settings = RunSettings(state=tmp_path, registry=registry_of(Echo), name="r")
    run_blueprint(blueprint(), "act", settings=settings).wait(PATIENCE_SECONDS)
    with pytest.raises(UsageError, match="available: r"):
        resume_run("other", settings)


def test_a_full_disk_stops_the_run_and_loses_nothing() -> None:
    from kanister_py.adapters.journal_files import FileJournal

    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this machine has no /dev/full")
    with pytest.raises(JournalUnwritable):
        FileJournal(full, SystemClock()).write_line({"what": "Begun"}, must_last=True)


def test_what_comes_after_the_end_of_a_journal_gets_into_no_other_file(tmp_path: Path) -> None:
    from kanister_py.adapters.journal_files import FileJournal

    journal = FileJournal(tmp_path / "r.jsonl", SystemClock())
    journal.close()
    with (tmp_path / "other").open("wb"):
        # As a rule it has the number that the journal had.
        with pytest.raises(JournalUnwritable):
            journal.write_line({"what": "Begun"}, must_last=True)
        journal.close()
    assert (tmp_path / "other").read_bytes() == b""


def test_a_folder_is_nobody_elses_business(tmp_path: Path) -> None:
    settings = RunSettings(
        state=tmp_path / "s", registry=registry_of(Echo), name="r", objects=[SECRET]
    )
    run_blueprint(blueprint(echo("a")), "act", settings=settings).wait(PATIENCE_SECONDS)
    for path in (tmp_path / "s").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
