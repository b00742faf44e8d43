"""Functions delete only what their arguments name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.locations import Credential, Location, StoreKind
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.functions.blueprint.backup_data_stats.v0_0_0 import BackupDataStats
from kanister_py.functions.blueprint.delete_data.v0_0_0 import DeleteData
from kanister_py.functions.blueprint.delete_data.v0_1_0 import DeleteDataV010
from kanister_py.functions.blueprint.delete_data_all.v0_0_0 import DeleteDataAll
from kanister_py.functions.blueprint.keyed_repository import KeyedRepository
from kanister_py.functions.blueprint.location_delete.v0_1_0 import LocationDeleteV010
from kanister_py.functions.blueprint.restore_data.v0_0_0 import RestoreData
from kanister_py.ports.function import Func
from kanister_py.wiring import object_stores
from tests.conftest import CommandLine
from tests.functions.blueprint.conftest import Harness
from tests.functions.blueprint.data import facts_for

KEYS = ["team/a", "team/b/c", "other"]


@pytest.fixture
def harness() -> Harness:
    return Harness(MemoryCluster(clock=SystemClock()))


@pytest.fixture
def location(tmp_path: Path) -> Location:
    location = Location(StoreKind.FILE, "bucket", str(tmp_path), prefix="team")
    store = object_stores().open(location)
    for key in KEYS:
        store.put(key, [b"x"])
    return location


def keys(location: Location) -> set[str]:
    return {stored.key for stored in object_stores().open(location).list("")}


@pytest.mark.parametrize("has_prefix", [True, False], ids=["below a prefix", "without a prefix"])
@pytest.mark.parametrize(
    "artifact",
    [".", "./", "./.", "/", "//", "/.", "bucket", "bucket/", "bucket/.", "bucket//.", "bucket/./"],
)
def test_an_artifact_that_names_the_whole_location_deletes_nothing(
    harness: Harness, location: Location, artifact: str, *, has_prefix: bool
) -> None:
    location = location if has_prefix else location._replace(prefix="")
    with pytest.raises(KanisterError) as caught:
        harness.call(LocationDeleteV010, {"artifact": artifact}, facts=facts_for(location))
    assert caught.value.reason == "InvalidArguments"
    assert keys(location) == set(KEYS)


@pytest.mark.parametrize("artifact", ["b", "./b", "b/", "b/./c", "bucket/b", "bucket/./b"])
def test_an_artifact_deletes_what_it_names(
    harness: Harness, location: Location, artifact: str
) -> None:
    done = harness.call(LocationDeleteV010, {"artifact": artifact}, facts=facts_for(location))
    assert done == {"deleted": "1"}
    assert keys(location) == {"team/a", "other"}


@pytest.mark.parametrize("artifact", ["..", "../other", "b/../..", "bucket/../other"])
def test_an_artifact_cannot_leave_its_location(
    harness: Harness, location: Location, artifact: str
) -> None:
    with pytest.raises(KanisterError):
        harness.call(LocationDeleteV010, {"artifact": artifact}, facts=facts_for(location))
    assert keys(location) == set(KEYS)


# Backups

FIRST, SECOND, THIRD = "0123abcd" + "0" * 56, "0123abcd" + "1" * 56, "fedcba98" + "2" * 56


@dataclass(frozen=True, slots=True)
class ListedRepository(KeyedRepository):
    """Repository with three snapshots, which records the snapshots to forget."""

    forgotten: list[str] = field(default_factory=list)

    def run(self, *words: str, on_line: Any = None) -> str:
        if words[0] == "forget":
            self.forgotten.extend(words[1:])
            return ""
        return json.dumps([{"id": name} for name in (FIRST, SECOND, THIRD)])


@pytest.fixture
def repository() -> ListedRepository:
    unused: Any = None
    return ListedRepository(unused, unused, unused, unused)


@pytest.mark.parametrize(
    ("ids", "forgotten"),
    [
        pytest.param([FIRST], [FIRST], id="whole"),
        pytest.param(["fedcba98"], [THIRD], id="eight digits"),
        pytest.param([FIRST[:9], "fedcba982"], [FIRST, THIRD], id="two"),
        pytest.param(["abcdef01"], [], id="gone"),
        pytest.param(["abcdef01", THIRD], [THIRD], id="one of them gone"),
    ],
)
def test_a_backup_is_deleted_by_its_id(
    repository: ListedRepository, ids: Sequence[str], forgotten: list[str]
) -> None:
    repository.forget(ids)
    assert repository.forgotten == forgotten


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        pytest.param(["f"], "InvalidArguments", id="one digit"),
        pytest.param(["fedcba9"], "InvalidArguments", id="seven digits"),
        pytest.param([*"0123456789abcdef"], "InvalidArguments", id="every digit"),
        pytest.param([""], "InvalidArguments", id="empty"),
        pytest.param(["FEDCBA98"], "InvalidArguments", id="upper case"),
        pytest.param(["fedcba98\n"], "InvalidArguments", id="line break"),
        pytest.param(["--prune-all"], "InvalidArguments", id="option"),
        pytest.param(["latest"], "InvalidArguments", id="word"),
        pytest.param([THIRD + "0"], "InvalidArguments", id="too long"),
        pytest.param(["0123abcd"], "AmbiguousBackup", id="two backups"),
        pytest.param([THIRD, "0123abcd"], "AmbiguousBackup", id="two backups, and one"),
    ],
)
def test_an_ambiguous_or_unknown_id_deletes_nothing(
    repository: ListedRepository, ids: Sequence[str], reason: str
) -> None:
    with pytest.raises(UsageError) as caught:
        repository.forget(ids)
    assert caught.value.reason == reason
    assert repository.forgotten == []


def test_a_short_id_is_refused_before_a_pod_is_created(harness: Harness) -> None:
    args = {
        "namespace": "default",
        "backupArtifactPrefix": "repo",
        "backupID": "a",
        "encryptionKey": "key",
    }
    with pytest.raises(UsageError, match="8 to 64 hexadecimal digits"):
        harness.call(DeleteDataV010, args)
    assert harness.pods() == []


# Versions that pass their arguments to a shell

HOSTILE = [
    "$(id)",
    "`id`",
    "a;id",
    "a&id",
    "a|id",
    "a>b",
    "'a'",
    '"a"',
    "a\\b",
    "${HOME}",
    "a*",
    "~",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    ("function", "argument"),
    [
        pytest.param(DeleteData, "backupID", id="DeleteData, ID"),
        pytest.param(DeleteData, "backupTag", id="DeleteData, tag"),
        pytest.param(RestoreData, "backupIdentifier", id="RestoreData, ID"),
        pytest.param(RestoreData, "backupTag", id="RestoreData, tag"),
        pytest.param(BackupDataStats, "backupID", id="BackupDataStats, ID"),
        pytest.param(DeleteDataAll, "backupInfo", id="DeleteDataAll, ID"),
    ],
)
def test_ids_and_tags_with_shell_syntax_are_refused(
    harness: Harness, function: type[Func], argument: str, text: str
) -> None:
    credential = Credential("key", "secret")
    location = Location(StoreKind.S3, "bucket", "http://127.0.0.1:1", credential=credential)
    value = json.dumps({"pod": {"BackupID": text}}) if argument == "backupInfo" else text
    args = {"namespace": "default", "backupArtifactPrefix": "repo", argument: value}
    if function is RestoreData:
        args |= {"image": "tools", "pod": "pod"}
    with pytest.raises(UsageError) as caught:
        harness.call(function, args, facts=facts_for(location))
    assert caught.value.reason == "InvalidArguments", caught.value.message
    assert harness.pods() == []


@pytest.mark.parametrize(
    ("version", "value", "rules"),
    [
        ("v0.0.0", "{{ .ArtifactsIn.backup.KeyValue.id }}", ["argument-in-shell"]),
        ("v0.0.0", "{{ .Options.id }}", ["argument-in-shell"]),
        ("v0.0.0", "{{ .Phases.find.Output.id }}", []),
        ("v0.0.0", "0123abcd", []),
        ("v0.1.0", "{{ .ArtifactsIn.backup.KeyValue.id }}", []),
    ],
)
def test_lint_warns_about_values_of_an_actionset_in_a_shell_command(
    kanister: CommandLine, tmp_path: Path, version: str, value: str, rules: list[str]
) -> None:
    phase = {
        "func": "DeleteData",
        "funcVersion": version,
        "name": "delete",
        "args": {"namespace": "a", "backupArtifactPrefix": "b", "backupID": value},
    }
    actions = {"delete": {"inputArtifactNames": ["backup"], "phases": [phase]}}
    blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "b"},
        "actions": actions,
    }
    path = tmp_path / "blueprint.json"
    path.write_text(json.dumps(blueprint))
    done = kanister("lint", str(path), "-o", "json")
    reported = [finding["rule"] for finding in json.loads(done.out)["findings"]]
    assert [rule for rule in reported if rule == "argument-in-shell"] == rules
