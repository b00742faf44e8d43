"""Encryption keys of backups appear in no log, status or journal, with any version."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.runs import RunSettings, run_actionset
from tests.stores import running_store

pytestmark = pytest.mark.usefixtures("mounts")

KEY, OTHER_KEY = "a-key-nobody-sees", "a-wrong-key-nobody-sees"


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    with running_store(StoreKind.S3, tmp_path / "s3") as location:
        yield location


class Heard:
    """Records all output of a run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_outcome(self, outcome: object, status: object) -> None:
        self.lines.append(f"{outcome} {status}")

    def on_log(self, action: str, phase: str, line: str) -> None:
        self.lines.append(f"{action} {phase} {line}")


def phase(name: str, version: str, key: str) -> dict[str, Any]:
    return {
        "func": "CopyVolumeData",
        "name": name,
        "funcVersion": version,
        "args": {
            "namespace": "default",
            "volume": "data",
            "dataArtifactPrefix": "repo",
            "encryptionKey": key,
        },
    }


@pytest.mark.long
@pytest.mark.parametrize("version", ["v0.0.0", "v0.1.0"])
def test_key_appears_in_no_output_of_a_run(
    location: Location, tmp_path: Path, version: str
) -> None:
    reference = {"name": "creds", "namespace": "default"}
    credential = location.credential
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": reference,
            "stringData": {"id": credential.id, "secret": credential.secret},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys", "namespace": "default"},
            "stringData": {"right": KEY, "wrong": OTHER_KEY},
        },
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Profile",
            "metadata": {"name": "s3", "namespace": "default"},
            "location": {
                "type": "s3Compliant",
                "bucket": location.bucket,
                "endpoint": location.endpoint,
                "region": location.region,
            },
            "credential": {
                "type": "keyPair",
                "keyPair": {"idField": "id", "secretField": "secret", "secret": reference},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
            },
        },
    ]
    key_template = '{{{{ index .Secrets.keys.Data "{}" | toString }}}}'
    phases = [phase("good", version, key_template.format("right"))]
    phases.append(phase("bad", version, key_template.format("wrong")))
    blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "b", "namespace": "default"},
        "actions": {"act": {"secretNames": ["keys"], "phases": phases}},
    }
    action = {
        "name": "act",
        "blueprint": "b",
        "object": {"kind": "Namespace", "name": "default", "namespace": "default"},
        "profile": {"name": "s3", "namespace": "default"},
        "secrets": {"keys": {"kind": "Secret", "name": "keys", "namespace": "default"}},
    }
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"actions": [action]},
    }
    heard, state = Heard(), tmp_path / "state"
    settings = RunSettings(objects=objects, pods="processes", state=state, observer=heard)
    status = run_actionset(actionset, [blueprint], settings).wait(180).status
    assert [entry["state"] for entry in status["actions"][0]["phases"]] == [
        "complete",
        "failed",
    ]
    output = json.dumps(status) + "\n".join(heard.lines)
    # The stored cluster contains the Secrets in base64, and no other copies of them.
    kept = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
    for secret in (KEY, OTHER_KEY, credential.secret):
        assert secret not in output
        assert secret.encode() not in kept
