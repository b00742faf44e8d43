"""A folder that stands in for a store does so for every function of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kanister_py.runs import RunSettings, run_actionset


def run(folder: Path, func: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = {"name": "creds", "namespace": "default"}
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": reference,
            "stringData": {"id": "nobody", "secret": "nothing"},
        },
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Profile",
            "metadata": {"name": "s3", "namespace": "default"},
            "location": {"type": "s3Compliant", "bucket": "b", "endpoint": "https://nowhere"},
            "credential": {
                "type": "keyPair",
                "keyPair": {"idField": "id", "secretField": "secret", "secret": reference},
            },
        },
    ]
    blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "b", "namespace": "default"},
        "actions": {"act": {"phases": [{"func": func, "name": "p", "args": dict(args)}]}},
    }
    action = {
        "name": "act",
        "blueprint": "b",
        "object": {"kind": "Namespace", "name": "default", "namespace": "default"},
        "profile": {"name": "s3", "namespace": "default"},
    }
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"actions": [action]},
    }
    settings = RunSettings(objects=objects, pods="processes", locations=folder)
    return run_actionset(actionset, [blueprint], settings).wait(60).status


def test_what_is_deleted_is_deleted_there(tmp_path: Path) -> None:
    bucket = tmp_path / "s3Compliant" / "b"
    bucket.mkdir(parents=True)
    for name in ("one", "other"):
        (bucket / name).write_text("x")
    status = run(tmp_path, "LocationDelete", {"artifact": "b/one"})
    assert status["state"] == "complete", status["error"]
    assert [each.name for each in bucket.iterdir()] == ["other"]


def test_restic_says_that_it_needs_a_store(tmp_path: Path) -> None:
    status = run(tmp_path, "CheckRepository", {"backupArtifactPrefix": "repo"})
    assert status["state"] == "failed"
    assert "no folder that stands in for it" in status["error"]["message"]
