"""Stores of Profiles in runs whose pods are processes: real ones, or a folder with --locations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pytest

from kanister_py.cli.main import main
from kanister_py.wiring import process_pods, system_clock

Command: TypeAlias = Callable[..., list[str]]
"""Puts an action and more words into the command line of a run."""

BLUEPRINT = """
kind: Blueprint
metadata: {name: store}
actions:
  backup:
    phases:
      - func: KubeTask
        name: push
        args:
          namespace: default
          image: x
          command:
            - sh
            - -c
            - echo kept | kando location push --profile '{{ toJson .Profile }}' --path a/b -
  delete:
    phases:
      - func: LocationDelete
        name: remove
        args: {artifact: a/b}
  write:
    phases:
      - func: PrepareData
        name: fill
        args:
          namespace: default
          image: x
          volumes: {data: /data}
          command: [sh, -c, echo precious > /data/file]
"""
OBJECTS = """
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: default}
stringData: {id: a, secret: b}
---
apiVersion: cr.kanister.io/v1alpha1
kind: Profile
metadata: {name: store, namespace: default}
location: {type: %s, bucket: backups, endpoint: "http://127.0.0.1:1"}
credential:
  type: keyPair
  keyPair: {idField: id, secretField: secret, secret: {name: key, namespace: default}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Mi}}
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    (tmp_path / "blueprint.yaml").write_text(BLUEPRINT)
    (tmp_path / "objects.yaml").write_text(OBJECTS % "s3Compliant")
    objects = ["-f", str(tmp_path / "objects.yaml"), "--object", "Namespace/default"]
    start = ["run", str(tmp_path / "blueprint.yaml")]
    return lambda action, *more: [*start, action, *objects, "--pods=processes", *more]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        pytest.param("kopia", "kopia is not supported", id="of a kind that is not here"),
        pytest.param("ftp", "not supported", id="of a kind that is unknown"),
        pytest.param("s3Compliant", "127.0.0.1:1", id="that does not answer"),
    ],
)
def test_unusable_store_is_refused_before_the_first_phase(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, why: str
) -> None:
    (tmp_path / "objects.yaml").write_text(OBJECTS % kind)
    assert main(command("backup", "--profile", "default/store")) == 1
    err = capsys.readouterr().err
    assert "Profile default/store cannot be used: " in err
    assert why in err
    assert "--locations DIR" in err
    assert "backup/push" not in err


def test_locations_replaces_a_store_and_the_run_reports_it(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stores = tmp_path / "stores"
    words = command("backup", "--profile", "default/store", "--locations", str(stores))
    assert main([*words, "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert (stores / "s3Compliant" / "backups" / "a" / "b").read_text() == "kept\n"
    assert json.loads(out)["locations"] == str(stores)
    first, *_, last = [line for line in err.splitlines() if str(stores) in line]
    assert "instead of all object stores" in first
    assert "objects in" in last


def test_retry_uses_the_locations_of_the_first_run(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stores, state = tmp_path / "stores", str(tmp_path / "state")
    words = ("--profile", "default/store", "--locations", str(stores), "--state", state)
    assert main(command("backup", *words)) == 0, capsys.readouterr().err
    rmtree(stores)
    assert main(["run", "--state", state, "--retry-from", "push"]) == 0
    assert f"kando uses the folder {stores} instead" in capsys.readouterr().err
    assert (stores / "s3Compliant" / "backups" / "a" / "b").read_text() == "kept\n"


def test_locations_replaces_a_file_profile_and_keeps_its_objects(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real, stores = tmp_path / "real" / "backups", tmp_path / "stores"
    (real / "a").mkdir(parents=True)
    (real / "a" / "b").write_text("real")
    objects = OBJECTS.replace("http://127.0.0.1:1", str(real.parent))
    (tmp_path / "objects.yaml").write_text(objects % "file")
    words = ("--profile", "default/store", "--locations", str(stores))
    assert main(command("backup", *words)) == 0, capsys.readouterr().err
    kept = stores / "file" / str(real).lstrip("/") / "a" / "b"
    assert kept.read_text() == "kept\n"
    assert main(command("delete", *words)) == 0, capsys.readouterr().err
    assert not kept.exists()
    assert (real / "a" / "b").read_text() == "real"


def test_file_profiles_with_one_bucket_name_have_separate_folders(
    command: Command, tmp_path: Path, folder_of_profile: Callable[[Path], None]
) -> None:
    words = ("--profile", "default/store", "--locations", str(tmp_path / "stores"))
    for name in ("one", "other"):
        folder_of_profile(tmp_path / name)
        assert main(command("backup", *words)) == 0
    assert main(command("delete", *words)) == 0
    (left,) = (tmp_path / "stores").rglob("backups/a/b")
    assert left.relative_to(tmp_path / "stores" / "file" / str(tmp_path).lstrip("/")) == Path(
        "one/backups/a/b"
    )


@pytest.fixture
def folder_of_profile(tmp_path: Path) -> Callable[[Path], None]:
    """Set the folder of the Profile."""

    def put(folder: Path) -> None:
        objects = OBJECTS.replace("http://127.0.0.1:1", str(folder))
        (tmp_path / "objects.yaml").write_text(objects % "file")

    return put


@pytest.mark.parametrize("is_link", [False, True], ids=["in /tmp", "by way of a link to /tmp"])
def test_folder_below_tmp_is_refused(
    command: Command,
    folder_of_profile: Callable[[Path], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    is_link: bool,
) -> None:
    with TemporaryDirectory(dir="/tmp") as place:
        folder = Path(place)
        if is_link:
            folder = tmp_path / "link"
            folder.symlink_to(place)
        folder_of_profile(folder)
        code = main(command("backup", "--profile", "default/store"))
        err = capsys.readouterr().err
        if process_pods_see_everything():
            assert (code, [path.name for path in Path(place).iterdir()]) == (0, ["backups"])
            return
        assert code == 1
        assert f"Pods cannot access the folder {folder}: they have a /tmp of their own" in err
        assert "use a folder elsewhere; --locations DIR" in err
        assert "backup/push" not in err
        assert list(Path(place).iterdir()) == []


def test_missing_folder_is_refused_and_not_created(
    command: Command,
    folder_of_profile: Callable[[Path], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "stores"
    folder_of_profile(folder)
    assert main(command("backup", "--profile", "default/store")) == 1
    err = capsys.readouterr().err
    assert f"Profile default/store cannot be used: The folder {folder} does not exist; " in err
    assert not folder.exists()
    folder.mkdir()
    assert main(command("backup", "--profile", "default/store")) == 0, capsys.readouterr().err
    assert (folder / "backups" / "a" / "b").read_text() == "kept\n"


def process_pods_see_everything() -> bool:
    with process_pods(system_clock()) as runner:
        return bool(runner.why_no_mounts)


def test_temporary_volumes_are_reported(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command("write")) == 0
    err = capsys.readouterr().err
    assert "The data in default/data were deleted with the run; --state DIR keeps them" in err
    assert main(command("write", "--state", str(tmp_path / "state"))) == 0
    assert "ended with the run" not in capsys.readouterr().err
    (file,) = (tmp_path / "state").rglob("volumes/default/*/file")
    assert file.read_text() == "precious\n"


def test_locations_needs_pods(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    words = command("backup", "--locations", "stores")
    assert main([word for word in words if word != "--pods=processes"]) == 64
    assert "--locations" in capsys.readouterr().err
