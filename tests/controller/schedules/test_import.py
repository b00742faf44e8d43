"""Importing records while a controller runs: it does not run them."""

from __future__ import annotations

import json

import pytest

from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.exports import Exported, record_of
from kanister_py.executor.import_export import import_objects
from tests.controller.conftest import Counted, Environment, actionset, blueprint, phase

MANY = 25


@pytest.mark.parametrize("env", ["ours", "kanisters"], indirect=True)
def test_an_imported_record_runs_nothing(env: Environment) -> None:
    env.create(blueprint(phase("Counted")))
    artifacts = {"dump": {"keyValue": {"path": "x"}}}
    actions = [{"name": "act", "blueprint": "made-up", "artifacts": artifacts}]
    ended = {"state": "complete", "actions": actions}
    records = []
    for number in range(MANY):
        manifest = {**actionset(f"night-{number}"), "status": ended}
        record = record_of(manifest)
        assert record is not None
        records.append(record)
    controller = env.controller()
    for _ in import_objects(env.cluster, Exported(backups=records), suspends=True):
        pass
    # A later ActionSet has run, so all records have been reconciled before.
    env.create(actionset("after"))
    env.until_state("complete", "after")
    assert Counted.calls == [Counted.calls[0]]
    for obj in env.cluster.list(ACTION_SETS).items:
        if obj["metadata"]["name"] != "after":
            assert obj["status"]["state"] == "complete", json.dumps(obj)
            assert "suspend" not in obj["spec"]
            assert obj["status"]["actions"][0]["artifacts"] == artifacts
    controller.kill()
