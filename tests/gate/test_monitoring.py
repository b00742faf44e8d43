"""Alerts and dashboard of the chart use existing metrics, and the alerts fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from kanister_py.adapters.metrics_prometheus import PrometheusFunctionMetrics
from kanister_py.controller.machine import metrics as controller_metrics
from kanister_py.controller.machine.metrics import (
    CANCELLED,
    COMPLETE,
    FAILED,
    MAX_LABEL_SETS,
    OTHER,
    ActionLabels,
    ControllerMetrics,
    PhaseLabels,
    ScheduleMetrics,
)
from kanister_py.http_api.metrics import Metrics
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "deploy/chart/monitoring"
ALERTS = FOLDER / "alerts.yaml"
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
NAME = re.compile(r"\b(?:kanister_|function_run_)\w+")
ACT = ActionLabels("shop", "nightly", "mysql", "backup", "StatefulSet/shop/db")


def families(registry: CollectorRegistry) -> Iterator[tuple[str, str]]:
    for family in registry.collect():
        if NAME.match(family.name):
            yield family.name, family.type


@pytest.fixture(scope="module")
def numbers() -> set[str]:
    """Return every series that a scrape of a controller can contain."""
    metrics = ControllerMetrics()
    for name in controller_metrics._GAUGES:  # The list of all metrics.
        metrics.watch(name, lambda: 0.0)
    Metrics(metrics.registry)
    PrometheusFunctionMetrics(metrics.registry)
    exported = families(metrics.registry)
    return {name + suffix for name, kind in exported for suffix in SUFFIXES[kind]}


def expressions() -> list[str]:
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    board = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries = [variable["query"]["query"] for variable in board["templating"]["list"][1:]]
    return [*(rule["expr"] for group in rules for rule in group["rules"]), *shown, *queries]


def test_alerts_and_dashboard_use_existing_metrics(numbers: set[str]) -> None:
    names = {name for expression in expressions() for name in NAME.findall(expression)}
    assert names - numbers == set()


def test_every_metric_is_documented(numbers: set[str]) -> None:
    page = (REPOSITORY / "docs/metrics-and-traces.md").read_text(encoding="utf-8")
    mentions = set(re.findall(r"`((?:kanister_|function_run_)\w+)", page))
    series = {re.sub(r"_(bucket|count|sum)$", "", name) for name in numbers}
    assert series - mentions == set()
    assert mentions - numbers - series == set()


def test_panels_do_not_overlap() -> None:
    board = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


# Alerts, evaluated by promtool


@pytest.fixture(scope="module")
def promtool() -> str:
    promtool_path = shutil.which("promtool")
    if promtool_path is None:
        pytest.skip("promtool is missing (Debian: prometheus)")
    return promtool_path


def promise(promtool: str, *words: str) -> None:
    done = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_expression_is_valid(promtool: str, tmp_path: Path) -> None:
    promise(promtool, "check", "rules", str(ALERTS))
    shown = [
        re.sub(r"\$__rate_interval", "5m", expression).replace("$namespace", ".*")
        for expression in expressions()
        if not expression.startswith("label_values")
    ]
    rules = [
        {"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(shown)
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promise(promtool, "check", "rules", str(file))


# promtool starts at time zero.
START = datetime(1970, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=15)


class Nights:
    """Metrics of a controller over some days, scraped every quarter of an hour."""

    def __init__(self) -> None:
        self.metrics = ControllerMetrics()
        self.metrics.watch("kanister_py_active_runs", lambda: 0.0)
        self.metrics.watch("kanister_py_open_breakers", lambda: 0.0)
        self.now = START
        self.scrapes: list[dict[str, float]] = []

    def until(self, hours: float) -> None:
        while self.now < START + timedelta(hours=hours):
            self._scrape()
            self.now += STEP

    def run(self, act: ActionLabels, outcome: str) -> None:
        self.metrics.begin_run(act)
        self._scrape(is_between=True)
        self.metrics.end_run(act, outcome, 60.0, "")
        self.metrics.record_end(act, outcome, self.now)

    def _scrape(self, *, is_between: bool = False) -> None:
        seen = {
            name_of(sample.name, sample.labels): sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        }
        if is_between:
            self.scrapes[-1] |= seen
        else:
            self.scrapes.append(seen)

    def series(self) -> list[dict[str, str]]:
        names = dict.fromkeys(name for scrape in self.scrapes for name in scrape)
        return [
            {
                "series": name,
                "values": " ".join(str(scrape.get(name, "_")) for scrape in self.scrapes),
            }
            for name in names
        ]


def name_of(name: str, labels: Mapping[str, str]) -> str:
    pairs = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
    return f"{name}{{{pairs}}}"


def fires(
    promtool: str,
    folder: Path,
    nights: Nights,
    asked: Mapping[float, list[tuple[str, ActionLabels]]],
) -> None:
    """Check with promtool that exactly these alerts fire after so many hours."""
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    alerts = {rule["alert"]: rule for group in rules for rule in group["rules"]}
    tests: list[dict[str, Any]] = []
    for hours, expected_alerts in asked.items():
        for name, alert in alerts.items():
            acts = [act for alertname, act in expected_alerts if alertname == name]
            tests.append(
                {
                    "eval_time": f"{int(hours * 60)}m",
                    "alertname": name,
                    "exp_alerts": [expected(alert, act) for act in acts],
                }
            )
    asked_of = {
        "interval": "15m",
        "input_series": nights.series(),
        "alert_rule_test": tests,
    }
    file = folder / "test.yaml"
    file.write_text(
        json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "5m", "tests": [asked_of]})
    )
    promise(promtool, "test", "rules", str(file))


def expected(alert: Mapping[str, Any], act: ActionLabels) -> dict[str, Any]:
    labels = {key: text for key, text in act._asdict().items() if text}
    texts = {
        key: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels.get(match[1], ""), text)
        for key, text in alert["annotations"].items()
    }
    return {"exp_labels": {**labels, **alert["labels"]}, "exp_annotations": texts}


def test_alert_for_a_nightly_backup_that_fails_every_night(promtool: str, tmp_path: Path) -> None:
    nights = Nights()
    other = ACT._replace(object="StatefulSet/shop/cache")
    for night in range(4):
        nights.until(2 + 24 * night)
        nights.run(ACT, FAILED if night in (1, 2) else COMPLETE)
        nights.run(other, COMPLETE)
    nights.until(96)
    alerts = [("KanisterPyScheduleFailing", ACT)]
    timeline = {1.0: [], 25: [], 27: alerts, 49: alerts, 51: alerts, 73: alerts, 75: []}
    fires(promtool, tmp_path, nights, timeline)


def test_alert_for_a_weekly_backup_until_one_completes(promtool: str, tmp_path: Path) -> None:
    nights = Nights()
    nights.until(2)
    nights.run(ACT, FAILED)
    nights.until(8 * 24)
    nights.run(ACT, COMPLETE)
    nights.until(9 * 24)
    alerts = [("KanisterPyScheduleFailing", ACT)]
    fires(promtool, tmp_path, nights, {1.0: [], 3: alerts, 7 * 24: alerts, 8 * 24 + 1: []})


def test_alert_for_a_backup_without_a_schedule_ends_after_a_day(
    promtool: str, tmp_path: Path
) -> None:
    nights = Nights()
    nightly = ACT._replace(schedule="")
    tried, stopped = nightly._replace(action="restore"), nightly._replace(action="check")
    for night in range(4):
        nights.until(2 + 24 * night)
        nights.run(nightly, FAILED)
        if not night:
            nights.run(tried, FAILED)
            nights.run(stopped, CANCELLED)
    nights.until(120)
    alerts = [("KanisterPyActionFailing", nightly)]
    both = [*alerts, ("KanisterPyActionFailing", tried)]
    fires(promtool, tmp_path, nights, {1.0: [], 3: both, 27: both, 30: alerts, 97: alerts, 101: []})


@pytest.mark.parametrize(
    "not_ready", ["Suspended", "LastRunFailed", ""], ids=["suspended", "failing", "no run begins"]
)
def test_alert_for_a_backup_older_than_twice_its_interval(
    promtool: str, tmp_path: Path, not_ready: str
) -> None:
    nights = Nights()
    numbers = ScheduleMetrics(not_ready, 3600.0, (ACT.object,), 86400.0)
    nights.metrics.show_schedule("shop", "nightly", numbers)
    nights.until(72)
    nights.metrics.show_schedule(
        "shop", "nightly", numbers._replace(not_ready="", last_success=72 * 3600.0)
    )
    nights.until(80)
    old = [("KanisterPyBackupTooOld", ACT._replace(blueprint="", action=""))]
    fires(promtool, tmp_path, nights, {1.0: [], 48: [], 50: old, 71: old, 74: []})


def test_alert_for_an_event_that_happens_once(promtool: str, tmp_path: Path) -> None:
    """Series that exist for a while, one for each alert that runs do not cause."""

    def alert(name: str, series: str, values: str, minutes: int, **labels: str) -> dict[str, Any]:
        (rule,) = [rule_entry for rule_entry in rules if rule_entry["alert"] == name]
        texts = {
            key: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)
            for key, text in rule["annotations"].items()
        }
        texts = {key: text.replace("{{ $value | humanize }}", "60") for key, text in texts.items()}
        expectation = {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": texts}
        inputs = [{"series": series, "values": values}] if series else []
        ask = {"alertname": name, "eval_time": f"{minutes}m"}
        quiet = {**ask, "eval_time": "0m", "exp_alerts": []}
        return {
            "interval": "1m",
            "input_series": inputs,
            "alert_rule_test": [quiet, {**ask, "exp_alerts": [expectation]}],
        }

    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    schedule = {"namespace": "shop", "schedule": "nightly"}
    phase = {"namespace": "shop", "blueprint": "mysql", "function": "KubeTask", "version": "v0.0.0"}
    version = {"function": "KubeTask", "version": "v0.0.0", "removed_in": "0.4.0"}
    skipped = {**schedule, "outcome": "skipped"}
    times, phases = "kanister_py_schedule_times_total", "kanister_py_phases_total"
    uses, gone = "kanister_py_deprecated_function_uses_total", "KanisterPyControllerDown"
    tests = [
        alert(
            "KanisterPyScheduledRunNotStarted", name_of(times, skipped), "0x5 1x20", 10, **skipped
        ),
        alert(
            "KanisterPyPhasesFailing",
            name_of(phases, phase | {"outcome": "failed"}),
            "0+1x70",
            60,
            **phase,
        ),
        alert("KanisterPyRunStuck", "kanister_py_oldest_run_seconds", "21000 21700x30", 20),
        alert(gone, "kanister_py_is_leader", "0x30", 12),
        alert("KanisterPyCompositionsDown", "kanister_py_is_leader", "0x30", 12),
        alert("KanisterPyFunctionUnavailable", "kanister_py_open_breakers", "2x30", 16),
        alert("KanisterPyPaused", "kanister_py_paused", "1x90", 61),
        alert(
            "KanisterPyQueueNotDraining",
            name_of("kanister_py_queue_oldest_seconds", {"queue": "ActionSet"}),
            "400x30",
            12,
            queue="ActionSet",
        ),
        alert("KanisterPyDeprecatedFunction", name_of(uses, version), "0x5 1x30", 10, **version),
        alert(
            "KanisterPyScheduleNotReady",
            name_of("kanister_py_schedule_not_ready", {**schedule, "reason": "Invalid"}),
            "1x30",
            12,
            **schedule,
            reason="Invalid",
        ),
        alert(
            "KanisterPyRetentionFailing",
            name_of("kanister_py_schedule_retention_failing", schedule),
            "1x30",
            12,
            **schedule,
        ),
        alert(
            "KanisterPyApiErrors",
            name_of("kanister_py_api_errors_total", {"reason": "Forbidden"}),
            "0+5x40",
            20,
            reason="Forbidden",
        ),
        alert("KanisterPyEventsDropped", "kanister_py_dropped_events_total", "0x5 1x30", 20),
    ]
    of_runs = {"KanisterPyScheduleFailing", "KanisterPyActionFailing", "KanisterPyBackupTooOld"}
    tested = {test["alert_rule_test"][0]["alertname"] for test in tests}
    assert tested | of_runs == {rule["alert"] for rule in rules}
    file = tmp_path / "test.yaml"
    file.write_text(
        json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests})
    )
    promise(promtool, "test", "rules", str(file))


# Number of series


def test_number_of_series_is_bounded() -> None:
    metrics = ControllerMetrics()
    for number in range(MAX_LABEL_SETS + 50):
        act = ACT._replace(blueprint=f"made-{number}")
        metrics.end_run(act, COMPLETE, 1.0, "")
        metrics.record_end(act, COMPLETE, START)
        phase = PhaseLabels(*act[:-1], "dump", "KubeTask", "v0.0.0")
        metrics.end_phase(phase, FAILED, "Why", 1.0, "")
    value = metrics.registry.get_sample_value
    other_labels = dict.fromkeys(ActionLabels._fields[:-1], OTHER)
    assert value("kanister_py_runs_total", {**other_labels, "outcome": COMPLETE}) == 50
    assert value("kanister_py_run_duration_seconds_count", other_labels) == 50
    assert (value("kanister_py_counted_as_other_total") or 0) >= 150
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    assert len(samples) < MAX_LABEL_SETS * 25
