"""`kanister-py profile`: creation and validation of Profiles."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.wiring import object_stores
from tests.conftest import CommandLine
from tests.faulty_stores import ALWAYS, Fault, Faults, faulty
from tests.stores import running_store

AZURE = ("--storage-account", "a", "--storage-key", "k")


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    with running_store(StoreKind.S3, tmp_path_factory.mktemp("s3")) as location:
        yield location


def flags_of(location: Location) -> Sequence[str]:
    return (
        "--bucket",
        location.bucket,
        "--endpoint",
        location.endpoint,
        "--region",
        location.region,
        "--access-key",
        location.credential.id,
        "--secret-key",
        location.credential.secret,
    )


@pytest.fixture
def profile(kanister: CommandLine, location: Location, tmp_path: Path) -> Path:
    file = tmp_path / "profile.yaml"
    done = kanister("profile", "create", "s3", "mine", *flags_of(location), "--prefix", "team/a")
    file.write_text(done.out)
    return file


def test_created_profile_is_valid(kanister: CommandLine, profile: Path, location: Location) -> None:
    secret, printed = yaml.safe_load_all(profile.read_text())
    assert (secret["kind"], printed["kind"]) == ("Secret", "Profile")
    done = kanister("profile", "validate", "-f", str(profile))
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == ["passed"] * 6
    assert list(object_stores().open(location).list("")) == []


@pytest.mark.parametrize(
    ("wrong", "failed", "reason"),
    [
        pytest.param({"bucket": "nosuch"}, "reachable", "BucketNotFound", id="bucket"),
        pytest.param({"region": "eu-west-1"}, "reachable", "WrongRegion", id="region"),
        pytest.param({"endpoint": "http://127.0.0.1:1"}, "reachable", "StoreUnavailable", id="up"),
        pytest.param({"type": "ftp"}, "schema", "InvalidProfile", id="type"),
    ],
)
def test_invalid_profiles_are_reported(
    kanister: CommandLine, profile: Path, wrong: dict[str, str], failed: str, reason: str
) -> None:
    secret, printed = yaml.safe_load_all(profile.read_text())
    printed["location"] |= wrong
    profile.write_text(yaml.safe_dump_all([secret, printed]))
    done = kanister("profile", "validate", "-f", str(profile), "-o", "json")
    assert done.code == 1
    report = json.loads(done.out)
    assert report["valid"] is False
    (check,) = [check for check in report["checks"] if check["outcome"] == "failed"]
    assert check["name"].startswith(failed)
    assert check["reason"] == reason
    assert "rootsecret123" not in done.out + done.err


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (Fault.INTERNAL, "InternalError: We failed"),
        (Fault.SLOW_DOWN, "SlowDown: Reduce your request rate"),
        (Fault.FULL, "the store is full"),
        (Fault.HALF, "the connection breaks"),
        (Fault.LOST, "the connection breaks"),
        (Fault.FLIPPED, "invalid list response|did not match|has checksum|does not match"),
    ],
)
@pytest.mark.parametrize(
    ("moment", "failed"),
    [("LIST", "reachable"), ("PUT", "write"), ("^GET", "read"), ("POST", "delete")],
)
def test_failing_store_is_reported_in_one_line(
    kanister: CommandLine,
    profile: Path,
    location: Location,
    fault: Fault,
    cause: str,
    moment: str,
    failed: str,
) -> None:
    with faulty(location, Faults(fault, times=ALWAYS, pattern=moment)) as failing:
        file = profile.with_name("failing.yaml")
        file.write_text(profile.read_text().replace(location.endpoint, failing.endpoint))
        done = kanister("profile", "validate", "-f", str(file))
        (line,) = [line for line in done.out.splitlines() if line.startswith("failed")]
        assert (done.code, done.err) == (1, "")
        assert line.split()[1].startswith(failed)
        assert re.search(cause, line), line
        if moment == "LIST":
            listed = kanister("location", "ls", "-f", str(file))
            assert (listed.code, listed.out, listed.err.count("\n")) == (1, "", 1)
            assert re.search(cause, listed.err)
    store = object_stores().open(location)
    left = [obj.key for obj in store.list("")]
    assert failed == "delete" or not left
    store.delete(left)


def test_schema_only_does_not_contact_the_store(kanister: CommandLine, profile: Path) -> None:
    text = profile.read_text().replace("http://127.0.0.1:", "http://127.0.0.1:1")
    profile.write_text(text)
    done = kanister("profile", "validate", "-f", str(profile), "--schema-only")
    assert done.code == 0
    outcomes = [line.split()[0] for line in done.out.splitlines()]
    assert outcomes == ["passed", *["skipped"] * 5]


def test_objects_of_the_store_are_listed(
    kanister: CommandLine, profile: Path, location: Location
) -> None:
    store = object_stores().open(location)
    for key in ("team/a/x/1", "team/a/y", "other"):
        store.put(key, [b"123"])
    done = kanister("location", "ls", "-f", str(profile), "--path", "x")
    assert done.code == 0
    assert [line.split()[-1] for line in done.out.splitlines()] == ["KEY", "team/a/x/1"]
    listed = json.loads(kanister("location", "ls", "-f", str(profile), "-o", "json").out)
    assert [(obj["key"], obj["size"]) for obj in listed["objects"]] == [
        ("team/a/x/1", 3),
        ("team/a/y", 3),
    ]
    store.delete(["team/a/x/1", "team/a/y", "other"])


@pytest.mark.parametrize(
    ("words", "credential"),
    [
        pytest.param(
            ["s3", "--access-key", "k", "--secret-key", "s", "--role", "arn:r"],
            "secrets.kanister.io/aws",
            id="a role",
        ),
        pytest.param(
            [
                "azure",
                "--storage-account",
                "a",
                "--storage-key",
                "k",
                "--environment",
                "AzureCloud",
            ],
            "secrets.kanister.io/azure",
            id="another cloud",
        ),
        pytest.param(["file", "--endpoint", "/tmp/x"], "secrets.kanister.io/filestore", id="file"),
    ],
)
def test_credential_with_more_fields_has_a_type(
    kanister: CommandLine, words: list[str], credential: str
) -> None:
    kind, *flags = words
    done = kanister("profile", "create", kind, "mine", "--bucket", "b", *flags)
    secret, printed = yaml.safe_load_all(done.out)
    assert secret["type"] == credential
    assert printed["credential"]["type"] == "secret"


def test_missing_credential_is_reported(
    kanister: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    done = kanister("profile", "create", "s3", "mine", "--bucket", "b")
    assert done.code == 64
    assert "--access-key is missing; set it or the variable AWS_ACCESS_KEY_ID" in done.err


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        pytest.param(["s3", "Bad_Name"], "NAME", id="a name with a capital"),
        pytest.param(["s3", "mine", "-n", "No_Such"], "--namespace", id="a namespace"),
        pytest.param(["s3", "mine", "--endpoint", "htp://foo"], "--endpoint", id="a scheme"),
        pytest.param(["s3", "mine", "--endpoint", "https://"], "--endpoint", id="no host"),
        pytest.param(["file", "mine", "--endpoint", "relative"], "--endpoint", id="no folder"),
    ],
)
def test_invalid_values_are_refused_with_their_flag(
    kanister: CommandLine, words: list[str], flag: str
) -> None:
    done = kanister(
        "profile", "create", *words, "--bucket", "b", "--access-key", "k", "--secret-key", "s"
    )
    assert (done.code, done.out) == (64, "")
    assert f"{flag} " in done.err


def test_validation_does_not_create_a_missing_folder(kanister: CommandLine, tmp_path: Path) -> None:
    folder, file = tmp_path / "stores", tmp_path / "file.yaml"
    creation = kanister(
        "profile", "create", "file", "f", "--bucket", "b", "--endpoint", str(folder)
    )
    file.write_text(creation.out)
    done = kanister("location", "ls", "-f", str(file))
    assert done.code == 1
    assert f"The folder {folder}/b does not exist" in done.err
    assert kanister("profile", "validate", "--schema-only", "-f", str(file)).code == 0
    tried = kanister("profile", "validate", "-f", str(file))
    assert (tried.code, tried.err) == (1, "")
    failure = f"failed   reachable, bucket and region: The folder {folder} does not exist\n"
    assert failure in tried.out
    assert not folder.exists()


def test_existing_folder_is_valid_and_keeps_no_probe(kanister: CommandLine, tmp_path: Path) -> None:
    folder, file = tmp_path / "stores", tmp_path / "file.yaml"
    folder.mkdir()
    done = kanister("profile", "create", "file", "f", "--bucket", "b", "--endpoint", str(folder))
    file.write_text(done.out)
    tried = kanister("profile", "validate", "-f", str(file))
    assert (tried.code, tried.err) == (0, ""), tried.out
    assert [path for path in folder.rglob("*") if path != folder / "b"] == []


@pytest.mark.parametrize("words", [["profile", "validate", "--schema-only", "-f"], ["lint"]])
def test_misspelt_keys_are_reported_with_suggestions(
    kanister: CommandLine, profile: Path, words: list[str]
) -> None:
    secret, printed = yaml.safe_load_all(profile.read_text())
    printed["location"]["endpont"] = printed["location"].pop("endpoint")
    printed["skipSSLVerfy"] = printed.pop("skipSSLVerify")
    printed["credential"]["keyPair"]["secrt"] = {}
    profile.write_text(yaml.safe_dump_all([secret, printed]))
    done = kanister(*words, str(profile))
    report = " ".join((done.out + done.err).split())
    for near in ("endpoint", "skipSSLVerify", "secret"):
        assert f"did you mean {near}" in report, report
    if words[0] == "profile":
        assert done.code == 1
        assert "location.endpont; did" in report
        assert "credential.keyPair.secrt; did" in report
