"""ActionSets that delete backups."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.blueprints.model import Blueprint, blueprints_in
from kanister_py.core.schedules.deletions import Deletion, deletion_of
from kanister_py.core.schedules.runs import read_run
from kanister_py.core.yaml.documents import parse_documents

BACKUP = {
    "apiVersion": "cr.kanister.io/v1alpha1",
    "kind": "ActionSet",
    "metadata": {"name": "night-17", "namespace": "shop", "uid": "u"},
    "spec": {
        "actions": [{"name": "backup", "blueprint": "b", "options": {"level": "3", "to": "x"}}]
    },
    "status": {"state": "complete", "actions": [{"name": "backup"}]},
}


def blueprint(options: str) -> Blueprint:
    text = (
        f"kind: Blueprint\nactions: {{delete: {{options: {options}, phases: [{{func: Greet}}]}}}}"
    )
    (located,) = blueprints_in(parse_documents(text))
    return located.blueprint


@pytest.mark.parametrize(
    ("declared", "options"),
    [
        pytest.param("{}", {"level": "3", "to": "x"}, id="without declarations all are kept"),
        pytest.param("{to: {}}", {"to": "x"}, id="undeclared ones are left out"),
    ],
)
def test_deletion_has_the_options_of_the_backup_that_its_action_accepts(
    declared: str, options: dict[str, Any]
) -> None:
    actionset = deletion_of(Deletion(read_run(BACKUP)), BACKUP, {"b": blueprint(declared)})
    (action,) = actionset["spec"]["actions"]
    assert (action["name"], action["options"]) == ("delete", options)
