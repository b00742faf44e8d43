"""The blueprint of etcd restores all keys, with a real etcd and its own programs."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.programs import BuildFailed, GoMissing, etcd_is_built, find_etcd
from kanister_py.testing import Stage
from tests.blueprints.readmes import type_all
from tests.blueprints.servers import Server
from tests.conftest import CommandLine
from tests.ports import free_port

pytestmark = [pytest.mark.usefixtures("mounts"), pytest.mark.long]

_PROGRAM = re.compile(r"(\[|- )(etcd|etcdctl|etcdutl)(,|\n)")
KEYS = 1000


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    if not etcd_is_built() and not os.environ.get("KANISTER_PY_EVERY_GATE"):
        pytest.skip("etcd's programs are not built: run `python -m tests.stores`, once")
    try:
        server, clients = find_etcd()
    except (GoMissing, BuildFailed) as error:
        pytest.skip(f"no etcd: {error}")
    return {"etcd": server, "etcdctl": clients / "etcdctl", "etcdutl": clients / "etcdutl"}


@pytest.fixture
def ports() -> dict[str, str]:
    return {"2379": str(free_port()), "2380": str(free_port())}


@pytest.fixture
def folder(
    tmp_path: Path, blueprints: Path, programs: dict[str, Path], ports: dict[str, str]
) -> Path:
    """The blueprint with programs and ports of this machine."""
    folder = tmp_path / "blueprints" / "etcd"
    shutil.copytree(blueprints / "etcd", folder)
    for name in ("blueprint.yaml", "objects.yaml", "README.md"):
        text = (folder / name).read_text()
        if name != "README.md":
            text = _PROGRAM.sub(lambda match: f"{match[1]}{programs[match[2]]}{match[3]}", text)
        for usual, port in ports.items():
            text = text.replace(usual, port)
        (folder / name).write_text(text)
    return folder


def test_restore_of_etcd_has_all_keys(
    blueprint_stage: Stage,
    folder: Path,
    programs: dict[str, Path],
    ports: dict[str, str],
    tmp_path: Path,
) -> None:
    stage = blueprint_stage.use_processes(locations=tmp_path / "stores")
    stage.given_text((folder / "objects.yaml").read_text()).stand()
    endpoint = f"http://127.0.0.1:{ports['2379']}"
    client = [str(programs["etcdctl"]), f"--endpoints={endpoint}"]

    def ask(*words: str, script: str = "") -> str:
        return Server(0, [*client, *words]).ask(script)

    def everything() -> Any:
        answer = json.loads(ask("get", "", "--prefix", "-w", "json"))
        return answer["kvs"]

    for first in range(0, KEYS, 100):
        puts = "".join(f'put key{n} "value {n} ä"\n' for n in range(first, first + 100))
        ask("txn", script=f"\n{puts}\n\n")
    ask("put", "key7", "changed")
    before = everything()
    assert len(before) == KEYS

    blueprint = folder / "blueprint.yaml"
    action: dict[str, Any] = {"object": "StatefulSet/shop/settings", "profile": "shop/backups"}
    backup = stage.run(blueprint, "backup", options={"endpoint": endpoint}, **action)
    assert backup.is_complete, backup.error
    ask("del", "", "--prefix")
    ask("put", "wrong", "one")
    restore = stage.run(blueprint, "restore", artifacts=backup.artifacts, **action)
    assert restore.is_complete, restore.error
    # Including revisions.
    assert everything() == before

    # A missing snapshot changes nothing, and the server runs again.
    gone = {"snapshot": {"keyValue": {"path": "etcd/gone.db"}}}
    failed = stage.run(blueprint, "restore", artifacts=gone, **action)
    assert failed.state == "failed"
    assert everything() == before

    delete: dict[str, Any] = {"object": "Namespace/shop", "profile": "shop/backups"}
    deleted = stage.run(blueprint, "delete", artifacts=backup.artifacts, **delete)
    assert deleted.is_complete, deleted.error
    assert [path for path in (tmp_path / "stores").rglob("*") if path.is_file()] == []


def test_commands_in_the_readme_of_etcd_work(
    kanister: CommandLine, folder: Path, tmp_path: Path
) -> None:
    assert folder.is_relative_to(tmp_path)
    outputs = type_all(kanister, tmp_path, "etcd")
    assert "restore/start" in outputs[-1]
