"""Command lines of restic for every store, and parsers of its output."""

from __future__ import annotations

import pytest

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.locations import Credential, InvalidProfile, Location, StoreKind
from kanister_py.functions.blueprint.restic import (
    environment,
    prefix_with_bucket,
    read_backup_log,
    read_freed_bytes,
    read_only_snapshot,
    read_stats_log,
    shell_command,
)

S3 = Location(StoreKind.S3, "bucket", credential=Credential("id", "secret"))
GCS = Location(StoreKind.GCS, "bucket", credential=Credential("project", "{}"))
AZURE = Location(StoreKind.AZURE, "bucket", credential=Credential("account", "key"))


@pytest.mark.parametrize(
    ("prefix", "path"),
    [
        pytest.param("bucket/app", "bucket/app", id="the bucket is in front"),
        pytest.param("app", "bucket/app", id="it is not"),
        pytest.param("/bucket/app", "bucket/bucket/app", id="behind a slash it is a folder"),
        pytest.param("bucketother/app", "bucket/bucketother/app", id="a longer name is another"),
        pytest.param("./a//b/./c/", "bucket/a/b/c", id="dots and slashes"),
        pytest.param("a/../b", "bucket/b", id="a folder up"),
        pytest.param("", "bucket", id="nothing"),
    ],
)
def test_bucket_is_prepended_once(prefix: str, path: str) -> None:
    assert prefix_with_bucket(prefix, S3) == path


@pytest.mark.parametrize(
    ("location", "exported"),
    [
        pytest.param(
            S3,
            {
                "AWS_ACCESS_KEY_ID": "id",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "RESTIC_REPOSITORY": "s3:s3.amazonaws.com/bucket/app",
                "RESTIC_PASSWORD": "pw",
            },
            id="S3",
        ),
        pytest.param(
            GCS,
            {
                "GOOGLE_PROJECT_ID": "project",
                "GOOGLE_APPLICATION_CREDENTIALS": "/tmp/creds.txt",
                "RESTIC_REPOSITORY": "gs:bucket:/app/",
                "RESTIC_PASSWORD": "pw",
            },
            id="Google",
        ),
        pytest.param(
            AZURE,
            {
                "AZURE_ACCOUNT_NAME": "account",
                "AZURE_ACCOUNT_KEY": "key",
                "RESTIC_REPOSITORY": "azure:bucket:/app/",
                "RESTIC_PASSWORD": "pw",
            },
            id="Azure",
        ),
    ],
)
def test_environment_of_restic_for_every_store(
    location: Location, exported: dict[str, str]
) -> None:
    variables = environment(location, "bucket/app", "pw")
    assert variables == exported
    assert list(variables) == list(exported)


def test_repository_in_a_folder_is_rejected() -> None:
    with pytest.raises(InvalidProfile, match="needs one of s3Compliant, gcs or azure"):
        environment(Location(StoreKind.FILE, "b", "/folder"), "b/x", "pw")


def test_assumed_role_has_a_token() -> None:
    location = Location(StoreKind.S3, "b", credential=Credential("id", "secret", token="t"))
    assert environment(location, "b/x", "pw")["AWS_SESSION_TOKEN"] == "t"


def test_command_line_exports_the_environment() -> None:
    *shell, text = shell_command({"A": "1", "B": "2"}, ["prune"], insecure_tls=True)
    assert shell == ["bash", "-o", "errexit", "-o", "pipefail", "-c"]
    assert text == "export A=1\n export B=2\n restic prune --insecure-tls"


BACKUP = """
Files:           2 new,     0 changed,     0 unmodified
Added to the repo: 1.204 KiB

processed 2 files, 2.941 KiB in 0:01
snapshot ad2336fc saved
"""


def test_backup_summary_is_parsed() -> None:
    assert read_backup_log(BACKUP) == ("ad2336fc", "2", "2.941 KiB", "1.204 KiB")


def test_backup_output_without_snapshot_is_an_error() -> None:
    with pytest.raises(UsageError, match="Failed to parse the backup ID from logs"):
        read_backup_log("processed 2 files, 1 B in 0:01")


def test_statistics_are_read() -> None:
    log = "Stats in restore-size mode:\n  Total File Count:   5\n        Total Size:   2.941 KiB\n"
    assert read_stats_log(log) == ("5", "2.941 KiB")


def test_statistics_of_raw_data_count_blobs() -> None:
    log = "Stats in raw-data mode:\n     Total Blob Count:   7\n           Total Size:   1 KiB\n"
    assert read_stats_log(log, "raw-data") == ("7", "1 KiB")
    with pytest.raises(UsageError, match="Failed to parse"):
        read_stats_log(log, "restore-size")


@pytest.mark.parametrize(
    "log", ["", "[]", "null", "{}", '[{"id": "x"}]', '[{"short_id": "a"}, {}]']
)
def test_tag_must_match_one_snapshot(log: str) -> None:
    with pytest.raises(UsageError, match="Snapshot not found"):
        read_only_snapshot(log)


@pytest.mark.parametrize(
    ("log", "size"),
    [
        ("will delete 1 packs and rewrite 0 packs, this frees 2.5 KiB", 2560),
        ("this frees 12 B", 12),
        ("total prune: 3 blobs / 1.2 KiB", 0),
    ],
)
def test_reclaimed_space_is_parsed(log: str, size: int) -> None:
    assert read_freed_bytes(log) == size
