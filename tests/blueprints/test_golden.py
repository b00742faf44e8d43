"""Every blueprint runs as recorded, action by action."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kanister_py.testing import Stage, check_golden
from kanister_py.testing.stage import Ran
from tests.blueprints.servers import program
from tests.conftest import CommandLine
from tests.ports import free_port

REPOSITORY = Path(__file__).parents[2]
PROFILE = {"profile": "shop/backups"}


@dataclass(frozen=True)
class Course:
    """Actions to run of a blueprint, and the behaviour of its pods."""

    actions: Mapping[str, Mapping[str, Any]]
    script: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Outputs of commands that contain these words."""
    prepare: Callable[[Stage], None] = lambda _: None
    port: str = ""
    """Port of an application in the manifests, if it must really run."""


def with_snapshots(stage: Stage) -> None:
    """Act as a CSI driver: every snapshot is ready immediately."""
    stage.controlled(
        "snapshot.storage.k8s.io/v1",
        "VolumeSnapshot",
        {
            "readyToUse": True,
            "creationTime": "2026-01-02T03:04:05Z",
            "restoreSize": "5Gi",
            "boundVolumeSnapshotContentName": "snapcontent-1",
        },
    )


def with_restic(stage: Stage) -> None:
    """Act as restic: there is a repository, and one backup once it has been created."""
    summary = {
        "message_type": "summary",
        "snapshot_id": "ad2336fc" * 8,
        "total_files_processed": 3,
        "total_bytes_processed": 3012,
        "data_added": 4096,
    }
    stage.script("cat config")
    stage.script("snapshots --json --tag", prints="[]")
    snapshot = {"id": "ad2336fc" * 8, "paths": ["/mnt/vol_data/pictures"]}
    stage.script("snapshots --json", prints=json.dumps([snapshot]))
    stage.script("backup --json", prints=json.dumps(summary))
    stage.script("forget ")
    stage.script("restore ")


DATABASE: Mapping[str, Mapping[str, Any]] = {
    "backup": {"object": "StatefulSet/shop/db", "options": {"database": "app"}, **PROFILE},
    "restore": {"object": "StatefulSet/shop/db", **PROFILE},
    "delete": {"object": "Namespace/shop", **PROFILE},
}
COURSES = {
    "clone-config": Course(
        {
            "clone": {
                "object": "Namespace/shop",
                "options": {"to": "shop-test"},
                "config_maps": {"settings": "shop/settings"},
            }
        }
    ),
    "csi-snapshot": Course(
        {
            "backup": {"object": "Deployment/shop/gallery"},
            "restore": {"object": "Deployment/shop/gallery"},
            "delete": {"object": "Namespace/shop"},
        },
        prepare=with_snapshots,
    ),
    "etcd": Course(
        {
            "backup": {"object": "StatefulSet/shop/settings", **PROFILE},
            "restore": {"object": "StatefulSet/shop/settings", **PROFILE},
            "delete": {"object": "Namespace/shop", **PROFILE},
        },
        {
            "etcdctl snapshot save": {},
            "etcdutl snapshot": {},
            "kando location push": {"path": "etcd/1"},
            "kando location": {},
            "true": {},
            "mv /data/restored": {},
        },
    ),
    "hello": Course(
        {"hello": {"object": "Namespace/default", "options": {"name": "you"}}},
        {"kando output greeting": {"greeting": "Hello, you!"}, "It was said": {}},
    ),
    "http-hook": Course({"export": {"object": "Deployment/shop/orders"}}, port="8080"),
    "mariadb": Course(
        DATABASE, {"mysqldump": {"path": "mariadb/1", "database": "app"}, "kando location": {}}
    ),
    "opensearch": Course(
        {
            "backup": {"object": "StatefulSet/shop/search", **PROFILE},
            "restore": {"object": "StatefulSet/shop/search", **PROFILE},
            "delete": {"object": "Namespace/shop", **PROFILE},
        },
        {"curl ": {}, "kando location push": {"path": "opensearch/1"}, "kando location": {}},
    ),
    "postgresql": Course(
        DATABASE, {"pg_dump ": {"path": "postgresql/1", "database": "app"}, "kando location": {}}
    ),
    "pvc-files": Course(
        {
            "backup": {"object": "PersistentVolumeClaim/shop/pictures", **PROFILE},
            "restore": {"object": "PersistentVolumeClaim/shop/pictures", **PROFILE},
            "delete": {"object": "Namespace/shop", **PROFILE},
        },
        {"tar --create": {"path": "files/1", "count": "3"}, "kando location": {}},
    ),
    "pvc-restic": Course(
        {
            "backup": {"object": "PersistentVolumeClaim/shop/pictures", **PROFILE},
            "restore": {"object": "PersistentVolumeClaim/shop/pictures", **PROFILE},
            "delete": {"object": "Namespace/shop", **PROFILE},
        },
        prepare=with_restic,
    ),
    "redis": Course(
        {
            "backup": {"object": "StatefulSet/shop/cache", **PROFILE},
            "restore": {"object": "StatefulSet/shop/cache", **PROFILE},
            "delete": {"object": "Namespace/shop", **PROFILE},
        },
        {
            "mkfifo": {},
            "redis-cli": {},
            "kando location push": {"path": "redis/1"},
            "kando location": {},
        },
    ),
}


@pytest.mark.parametrize("name", sorted(COURSES))
def test_blueprint_runs_as_recorded(
    request: pytest.FixtureRequest, blueprint_stage: Stage, name: str
) -> None:
    course, folder = COURSES[name], REPOSITORY / "blueprints" / name
    options: Mapping[str, str] = {}
    manifests = (folder / "objects.yaml").read_text()
    if course.port:
        request.getfixturevalue("mounts")
        program("python3", "python3")
        port = str(free_port())
        manifests = manifests.replace(course.port, port)
        options = {"url": f"http://127.0.0.1:{port}"}
        blueprint_stage.use_processes()
    blueprint_stage.given_text(manifests)
    for words, outputs in course.script.items():
        blueprint_stage.script(words, outputs=outputs)
    course.prepare(blueprint_stage)
    recorded: dict[str, Any] = {}
    artifacts: Mapping[str, Any] = {}
    for action, more in course.actions.items():
        ran: Ran = blueprint_stage.run(
            folder / "blueprint.yaml", action, artifacts=artifacts, **{"options": options, **more}
        )
        assert ran.is_complete, ran.error
        assert ran.pods == ()
        artifacts = ran.artifacts or artifacts
        recorded[action] = ran.as_golden()
    check_golden(recorded, REPOSITORY / "tests/golden" / name / "want.yaml")


def test_lint_reports_only_the_template_engine(
    kanister: CommandLine,
) -> None:
    done = kanister("lint", "blueprints", "--strict-versions", "-o", "json", cwd=REPOSITORY)
    findings = json.loads(done.out)["findings"]
    assert {finding["rule"] for finding in findings} == {"template-engine"}
    assert len(findings) == len(COURSES)
    assert done.code == 0


def test_every_blueprint_has_all_files_and_a_recording() -> None:
    folders = sorted(path for path in (REPOSITORY / "blueprints").iterdir() if path.is_dir())
    assert [folder.name for folder in folders] == sorted(COURSES)
    for folder in folders:
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["README.md", "blueprint.yaml", "objects.yaml"], folder
