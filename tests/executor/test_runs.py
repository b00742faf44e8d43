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
from pydantic import Field

from kanister_py import Args, Func, OnRestart, Outputs, PhaseContext, run
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
from kanister_py.executor.workers import Workers
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
    """Returns its argument."""

    name = "Echo"

    class Args(Args):
        say: str = ""

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        ctx.log(f"echo {args.say}")
        return {"said": args.say}


class Breaks(Func):
    """Fails with a message that contains a secret."""

    name = "Breaks"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        ctx.log("logging in with correct-horse")
        raise RuntimeError("cannot log in as correct-horse")


class Flaky(Func):
    """Fails with a transient error, except for its third attempt."""

    name = "Flaky"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        if ctx.run.attempt < 3:
            raise StreamLost("the stream broke off")


class WaitsForMap(Func):
    """Waits until a ConfigMap says go."""

    name = "WaitsForMap"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        def gone() -> Any:
            gate = ctx.cluster.get(CONFIG_MAPS, "gate", namespace="default")
            return gate.get("data")

        return {"seen": ctx.wait(gone, what="the gate to open")["go"]}


class WaitsForPod(Func):
    """Waits for a pod to end."""

    name = "WaitsForPod"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        pod = ctx.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": ctx.run.key(), "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "busybox"}]},
            }
        )
        name = pod["metadata"]["name"]
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


def test_outputs_reach_later_phases_the_deferred_phase_and_the_artifacts() -> None:
    execution = run(
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
    assert execution.is_complete, execution.error
    assert execution.outputs["second"] == {"said": "hello!"}
    assert execution.artifacts == {"a": {"keyValue": {"k": "after hello!"}}}
    assert execution.status["progress"]["percentCompleted"] == "100"


def test_a_phase_with_a_false_condition_is_skipped_with_an_empty_output() -> None:
    execution = run(
        blueprint(echo("a", **{"if": "{{ eq 1 2 }}"}), echo("b", "ran")), "act", functions=[Echo]
    ).wait()
    phases = execution.status["actions"][0]["phases"]
    assert [phase.get("skipped", False) for phase in phases] == [True, False]
    assert execution.is_complete


def test_an_error_names_place_and_reason_and_masks_secrets() -> None:
    phase = {
        "func": "Breaks",
        "name": "login",
        "objects": {"s": {"kind": "Secret", "name": "login", "namespace": "default"}},
    }
    execution = run(
        blueprint(phase, deferred=TIDY), "act", objects=[SECRET], functions=[Breaks, Echo]
    )
    status = execution.wait().status
    assert status["state"] == "failed"
    assert "correct-horse" not in json.dumps(status)
    error = status["error"]
    assert (error["action"], error["phase"], error["attempt"]) == ("act", "login", 1)
    assert error["logTail"] == ["logging in with ***"]
    assert "Breaks: RuntimeError: cannot log in as *** (at " in error["message"]
    assert "in Breaks.exec" in error["message"]
    assert status["actions"][0]["deferPhase"]["state"] == "complete"


class Declares(Func):
    """Returns its options as outputs, of which two are declared."""

    name = "Declares"

    class Args(Args):
        outputs: dict[str, Any] = Field(default={})

    class Outputs(Outputs):
        backup_size: int
        path: str = ""

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        return dict(args.outputs)


def test_declared_outputs_are_kept_as_returned() -> None:
    phase = {"func": "Declares", "name": "p", "args": {"outputs": {"backupSize": "3"}}}
    execution = run(blueprint(phase), "act", functions=[Declares]).wait()
    assert execution.is_complete, execution.error
    assert execution.outputs["p"] == {"backupSize": "3"}


@pytest.mark.parametrize(
    ("outputs", "problem"),
    [
        pytest.param({}, "backupSize is missing", id="a missing output"),
        pytest.param(
            {"backupSize": 3, "pth": "a"},
            "pth is not declared; did you mean path?",
            id="a near name",
        ),
        pytest.param(
            {"backupSize": "much"}, "backupSize: input should be a valid integer", id="type"
        ),
    ],
)
def test_outputs_that_differ_from_their_model_fail_the_phase(
    outputs: dict[str, Any], problem: str
) -> None:
    phase = {"func": "Declares", "name": "p", "args": {"outputs": outputs}}
    status = run(blueprint(phase), "act", functions=[Declares]).wait().status
    assert status["error"]["reason"] == "FunctionFailed"
    assert problem in status["error"]["message"]
    assert "much" not in status["error"]["message"]


class TakesSwitches(Func):
    """Accepts switches."""

    name = "TakesSwitches"

    class Args(Args):
        one: bool
        other: bool

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None: ...


def test_problems_of_a_phase_are_listed_before_those_of_the_deferred_phase() -> None:
    template = "{{ .Phases.first.Output.said }}"
    phase = {"func": "TakesSwitches", "name": "pick", "args": {"one": template, "other": template}}
    tidy = {"func": "Breaks", "name": "tidy"}
    execution = run(
        blueprint(echo("first", "maybe"), phase, deferred=tidy),
        "act",
        functions=[Breaks, Echo, TakesSwitches],
    )
    error = execution.wait().status["error"]
    assert (error["phase"], error["reason"]) == ("pick", "InvalidArgs")
    assert ["`one`" in error["problems"][0], "`other`" in error["problems"][1]] == [True, True]
    cause, _, after = error["message"].partition("; after that: Deferred phase tidy")
    assert "Phase pick" in cause
    assert "cannot log in" in after
    assert "\n" not in error["message"]


def test_a_transient_failure_is_retried_until_it_passes() -> None:
    phase = {"func": "Flaky", "name": "f", "retry": {"limit": 2, "backoff": "1ms"}}
    execution = run(blueprint(phase), "act", functions=[Flaky]).wait()
    assert execution.is_complete, execution.error
    assert execution.status["actions"][0]["phases"][0]["attempt"] == 3


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
def test_an_invalid_phase_is_refused_before_the_first_phase(
    phase: dict[str, Any], reason: str
) -> None:
    execution = run(blueprint(echo("first"), phase, deferred=TIDY), "act", functions=[Echo]).wait()
    assert execution.status["error"]["reason"] == reason
    assert execution.outputs == {}


class FailsAtFirst(MemoryCluster):
    """A cluster whose first requests fail."""

    def __init__(self, failures: int) -> None:
        super().__init__(clock=SystemClock())
        self.failures = failures

    def get(self, *args: Any, **options: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise TransientApiError("the API server is away")
        return super().get(*args, **options)


@pytest.mark.parametrize(
    ("failures", "want"),
    [
        pytest.param(3, "", id="for a moment"),
        pytest.param(100, "Unknown", id="permanently"),
    ],
)
def test_requests_are_retried_if_the_cluster_is_unavailable_at_the_start(
    failures: int, want: str
) -> None:
    settings = RunSettings(
        cluster=FailsAtFirst(failures), registry=registry_of(Echo), clock=FakeClock(jumps=True)
    )
    execution = run_blueprint(blueprint(echo("e")), "act", settings=settings).wait(PATIENCE_SECONDS)
    assert execution.status.get("error", {}).get("reason", "") == want


def test_a_cancellation_does_not_wait_for_an_unavailable_cluster() -> None:
    clock = FakeClock()
    settings = RunSettings(cluster=FailsAtFirst(100), registry=registry_of(Echo), clock=clock)
    execution = run_blueprint(blueprint(echo("e")), "act", settings=settings)
    assert clock.wait_for_sleepers(1)
    execution.cancel("RunTimedOut")
    error = execution.wait(PATIENCE_SECONDS).status["error"]
    assert error["action"] == "act"


def test_a_phase_that_did_not_start_in_time_fails_with_that_reason() -> None:
    execution = waiting()
    execution.cancel("RunTimedOut")
    status = execution.wait(PATIENCE_SECONDS).status
    assert "cancelled" not in json.dumps(status["error"])


def test_a_wait_ends_when_the_object_it_reads_changes() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}}])
    execution = run(
        blueprint({"func": "WaitsForMap", "name": "w"}),
        "act",
        cluster=cluster,
        functions=[WaitsForMap],
    )
    gate = cluster.get(CONFIG_MAPS, "gate", namespace="default")
    cluster.replace({**gate, "data": {"go": "now"}})
    assert execution.wait(PATIENCE_SECONDS).outputs == {"w": {"seen": "now"}}


def test_a_wait_for_a_pod_fails_at_once_if_pods_are_not_run() -> None:
    execution = run(blueprint({"func": "WaitsForPod", "name": "w"}), "act", functions=[WaitsForPod])
    assert execution.wait(PATIENCE_SECONDS).status["error"]["reason"] == "PodsNotRun"


def waiting(timeout: str = "", observer: Any = None) -> Run:
    phase = {"func": "WaitsForMap", "name": "w"}
    if timeout:
        phase["timeout"] = timeout
    cluster = MemoryCluster(clock=SystemClock())
    cluster.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}}])
    return run_blueprint(
        blueprint(phase, echo("never"), deferred=TIDY),
        "act",
        settings=RunSettings(
            cluster=cluster, registry=registry_of(WaitsForMap, Echo), observer=observer
        ),
    )


def test_a_phase_that_takes_longer_than_its_timeout_fails() -> None:
    execution = waiting("20ms").wait(PATIENCE_SECONDS)
    assert execution.status["error"]["reason"] == "PhaseTimedOut"
    assert execution.status["actions"][0]["deferPhase"]["state"] == "complete"


def test_a_cancellation_stops_the_running_phase_and_runs_the_deferred_phase() -> None:
    execution = waiting()
    execution.cancel()
    status = execution.wait(PATIENCE_SECONDS).status
    assert status["error"]["reason"] == "Cancelled"
    assert [phase["state"] for phase in status["actions"][0]["phases"]] == ["failed", "pending"]


class IgnoresStop(Func):
    """Ignores requests to stop."""

    name = "IgnoresStop"
    ends = Event()

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        self.ends.wait(PATIENCE_SECONDS)
        return {"too": "late"}


def run_of(manifest: dict[str, Any], clock: Clock, **surroundings: Any) -> ActionSetRun:
    """Create a run of a blueprint without a host."""
    (located,) = blueprints_in([parse_document(json.dumps(manifest))])
    target = {"kind": "Namespace", "name": "default", "namespace": "default"}
    action = {"name": "act", "blueprint": "made-up", "object": target}
    actionset = parse_actionset(parse_document(json.dumps({"spec": {"actions": [action]}})))
    cluster = MemoryCluster(clock=SystemClock())
    return ActionSetRun(
        course_of(actionset, {"made-up": located.blueprint}),
        FunctionSource(registry_of(IgnoresStop, Echo, Flaky), load_function),
        Surroundings(cluster, clock, Workers(1), SharedWatches(cluster, clock), **surroundings),
    )


def test_a_function_that_ignores_a_stop_does_not_delay_the_end_of_the_run() -> None:
    execution = blueprint({"func": "IgnoresStop", "name": "d", "timeout": "10ms"}, deferred=TIDY)
    clock = SystemClock()
    status = WaitingHost(clock).carry_out(run_of(execution, clock, grace_seconds=0.01))
    IgnoresStop.ends.set()
    assert status.error is not None
    assert status.error.reason == "PhaseTimedOut"
    assert status.actions[0].deferred is not None
    assert status.actions[0].deferred.state is State.COMPLETE
    assert status.actions[0].phases[0].output is None


class AdjustableClock(FakeClock):
    """A clock that can be set independently of the monotonic time."""

    def __init__(self) -> None:
        super().__init__()
        self.set_by = timedelta()

    def now(self) -> datetime:
        return super().now() + self.set_by


class ManualHost:
    """Host that records wake-ups, and leaves calling `process_timers` to the test."""

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
    clock = AdjustableClock()
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
        run.process_timers()
        phase = run.status.actions[0].phases[0]
        assert (phase.state, phase.attempt) == (State.PENDING, attempt)
        wait_for_timer(clock, 1)
        assert host.wake_ups.empty()
        clock.advance(1)
        host.wake_ups.get(timeout=PATIENCE_SECONDS)
        run.process_timers()
    assert host.is_over.wait(PATIENCE_SECONDS)
    host.timers.close()
    assert run.status.state is State.COMPLETE
    assert run.status.actions[0].phases[0].attempt == 3


def test_the_timers_of_a_run_that_has_ended_are_cancelled() -> None:
    clock = AdjustableClock()
    run = run_of(blueprint({"func": "Echo", "name": "e", "args": {}, "timeout": "1h"}), clock)
    host = ManualHost(clock)
    run.begin(host)
    assert host.is_over.wait(PATIENCE_SECONDS)
    assert len(host.timers) == 0
    host.timers.close()


# State in a folder


class Kill(Exception):
    """Simulated end of the process."""


_MET: list[str] = []
_DIE = Event()


class Dies(Func):
    """Running when its process ends; a later process can continue it."""

    name = "Dies"
    on_restart = OnRestart.ADOPT

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        _MET.append(ctx.run.key())
        if not _DIE.is_set():
            ctx.wait(_DIE.is_set, every_seconds=3600)
        return {"key": ctx.run.key()}


class DiesOnce(Dies):
    """The same, but no other process can continue it."""

    name = "DiesOnce"
    on_restart = OnRestart.FAIL


class _Started:
    """Signals that a phase is running."""

    def __init__(self) -> None:
        self.event = Event()

    def on_outcome(self, outcome: Any, status: Any) -> None:
        if status.totals.running:
            self.event.set()

    def on_log(self, action: str, phase: str, line: str) -> None:
        pass


def interrupted(folder: Path, func: type[Func]) -> RunSettings:
    """Run until a phase is running, then stop like a killed process."""
    _MET.clear()
    _DIE.clear()
    started = _Started()
    settings = RunSettings(
        state=folder,
        registry=registry_of(Dies, DiesOnce, Echo),
        name="r",
        observer=started,
    )
    phases = (echo("before", "kept"), {"func": func.name, "name": "p"})
    after = echo("after", "{{ .Phases.before.Output.said }}")
    execution = run_blueprint(blueprint(*phases, after, deferred=TIDY), "act", settings=settings)
    while not _MET:
        started.event.wait(0.01)
    execution.abort()
    execution.wait(PATIENCE_SECONDS)
    _DIE.set()
    return settings


def test_a_run_of_a_dead_process_is_resumed_without_creating_objects_twice(tmp_path: Path) -> None:
    settings = interrupted(tmp_path, Dies)
    execution = resume_run("", settings).wait(PATIENCE_SECONDS)
    assert execution.is_complete, execution.error
    assert len(set(_MET)) == 1
    assert execution.outputs["after"] == {"said": "kept"}
    assert execution.status["actions"][0]["phases"][1]["attempt"] == 1


def test_a_phase_that_cannot_be_resumed_is_interrupted_and_cleaned_up(tmp_path: Path) -> None:
    settings = interrupted(tmp_path, DiesOnce)
    status = resume_run("r", settings).wait(PATIENCE_SECONDS).status
    assert status["error"]["reason"] == "Interrupted"
    assert status["actions"][0]["deferPhase"]["state"] == "complete"


def test_a_cancellation_recorded_by_a_dead_process_stops_the_phase(tmp_path: Path) -> None:
    settings = interrupted(tmp_path, Dies)
    calls = len(_MET)
    cancelled = outcome_as_dict(CancelAsked(SystemClock().now()))
    with (tmp_path / "runs" / "r.jsonl").open("a", encoding="utf-8") as journal:
        journal.write(json.dumps(cancelled) + "\n")
    status = resume_run("r", settings).wait(PATIENCE_SECONDS).status
    assert status["error"]["reason"] == "Cancelled"
    assert [phase["state"] for phase in status["actions"][0]["phases"]] == [
        "complete",
        "failed",
        "pending",
    ]
    assert status["actions"][0]["deferPhase"]["state"] == "complete"
    assert len(_MET) == calls


def test_a_failed_run_is_retried_from_a_phase_with_the_outputs_before_it(tmp_path: Path) -> None:
    settings = interrupted(tmp_path, DiesOnce)
    resume_run("r", settings).wait(PATIENCE_SECONDS)
    execution = retry_run("r", "p", settings._replace(name="again")).wait(PATIENCE_SECONDS)
    assert execution.is_complete, execution.error
    assert execution.outputs["after"] == {"said": "kept"}


def test_a_run_ends_the_same_wherever_its_process_was_killed(tmp_path: Path) -> None:
    settings = RunSettings(state=tmp_path / "whole", registry=registry_of(Echo), name="r")
    execution = blueprint(echo("a", "1"), echo("b", "{{ .Phases.a.Output.said }}"), deferred=TIDY)
    run_blueprint(execution, "act", settings=settings).wait(PATIENCE_SECONDS)
    lines = (tmp_path / "whole" / "runs" / "r.jsonl").read_bytes().splitlines(keepends=True)

    class Again(Echo):
        name = "Echo"
        on_restart = OnRestart.REPEAT

    for cut in range(1, len(lines) + 1):
        folder = tmp_path / str(cut)
        (folder / "runs").mkdir(parents=True)
        (folder / "state.json").write_text('{"format": 1}')
        # The last line is incomplete, as after a crash while writing it.
        torn = b"" if cut == len(lines) else lines[cut][: len(lines[cut]) // 2]
        (folder / "runs" / "r.jsonl").write_bytes(b"".join(lines[:cut]) + torn)
        again = resume_run("r", settings._replace(state=folder, registry=registry_of(Again)))
        assert again.wait(PATIENCE_SECONDS).outputs == {
            "a": {"said": "1"},
            "b": {"said": "1"},
            "tidy": {"said": "up"},
        }
        assert again.is_complete


def test_only_its_owner_may_read_a_state_folder(tmp_path: Path) -> None:
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


def test_an_unknown_run_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
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


def test_a_closed_journal_writes_to_no_other_file(tmp_path: Path) -> None:
    from kanister_py.adapters.journal_files import FileJournal

    journal = FileJournal(tmp_path / "r.jsonl", SystemClock())
    journal.close()
    with (tmp_path / "other").open("wb"):
        # Usually it has the descriptor number of the journal.
        with pytest.raises(JournalUnwritable):
            journal.write_line({"what": "Begun"}, must_last=True)
        journal.close()
    assert (tmp_path / "other").read_bytes() == b""


def test_a_state_folder_has_private_permissions(tmp_path: Path) -> None:
    settings = RunSettings(
        state=tmp_path / "s", registry=registry_of(Echo), name="r", objects=[SECRET]
    )
    run_blueprint(blueprint(echo("a")), "act", settings=settings).wait(PATIENCE_SECONDS)
    for path in (tmp_path / "s").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
