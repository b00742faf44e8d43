"""Response cache on disk: killed processes, full folders and damaged files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kanister_py.adapters.responses_files import FileStore
from kanister_py.core.compositions.cache_keys import CacheKey
from kanister_py.core.compositions.messages import Data, FunctionResponse, Part
from kanister_py.core.compositions.model import Credential, Step
from kanister_py.executor.response_cache import ResponseCache
from kanister_py.ports.response_store import StoredResponse
from tests.executor.stage import Answer, Stage, adds, config_map, passes
from tests.fake_clock import FakeClock

KEY = CacheKey("f|f-1", "tag")


def kept(size: int = 10) -> StoredResponse:
    results = ({"severity": "SEVERITY_NORMAL", "message": "m"},)
    desired = Part({"resources": {"x": {"resource": {"n": 1, "text": "y" * size}}}})
    return StoredResponse(
        FunctionResponse(desired, results=results, ttl_seconds=60.0, tag="t"), 12.5
    )


def test_stored_response_is_read_back(tmp_path: Path) -> None:
    FileStore(tmp_path).write(KEY, kept())
    stored = FileStore(tmp_path).read(KEY)
    assert stored is not None
    assert stored.deadline == 12.5
    assert stored.response.as_data() == kept().response.as_data()


def test_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    FileStore(folder).write(KEY, kept())
    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"format": 1, "key": ["f|f-1", "tag"], "dead', id="half a file"),
        pytest.param(b"\xff\xfe\x00", id="no text"),
        pytest.param(b"[]", id="something else"),
        pytest.param(b'{"format": 0}', id="an older format"),
        pytest.param(
            b'{"format": 1, "key": ["f|f-1", "tag"], "deadline": 1, "response": 3}', id="no answer"
        ),
        pytest.param(
            b'{"format": 1, "key": ["g", "tag"], "deadline": 1, "response": {}}', id="another key"
        ),
    ],
)
def test_unreadable_file_counts_as_missing(tmp_path: Path, text: bytes) -> None:
    store = FileStore(tmp_path)
    store.write(KEY, kept())
    [file] = tmp_path.iterdir()
    file.write_bytes(text)
    assert store.read(KEY) is None
    store.write(KEY, kept())
    assert store.read(KEY) is not None


def test_incomplete_files_are_ignored_and_evicted_first(tmp_path: Path) -> None:
    torn = tmp_path / ".part-abc"
    torn.write_bytes(b"x" * 400)
    os.utime(torn, (1, 1))
    store = FileStore(tmp_path, most_bytes=600)
    store.write(KEY, kept())
    assert store.read(KEY) is not None
    store.write(KEY._replace(tag="other"), kept())
    assert not torn.exists()


def test_size_of_the_folder_is_limited(tmp_path: Path) -> None:
    store = FileStore(tmp_path, most_bytes=2000)
    for number in range(10):
        store.write(KEY._replace(tag=str(number)), kept(500))
    assert 0 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2000
    store.write(KEY, kept(5000))
    assert store.read(KEY) is None


def test_unwritable_folder_is_not_an_error(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "cache")
    (tmp_path / "cache").rmdir()
    store.write(KEY, kept())
    assert store.read(KEY) is None


SECRET: Data = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"a": "c2VjcmV0"}}


@pytest.mark.parametrize(
    ("answer", "credentials", "is_written"),
    [
        pytest.param(adds("x", config_map()), (), True, id="nothing secret"),
        pytest.param(adds("x", SECRET), (), False, id="a composed Secret"),
        pytest.param(
            adds("x", config_map(), connectionDetails={"password": "c2VjcmV0"}),
            (),
            False,
            id="connection details",
        ),
        pytest.param(passes, (Credential("c", "n", "s"),), False, id="credentials"),
    ],
)
def test_secrets_are_not_stored(
    tmp_path: Path, answer: Answer, credentials: tuple[Credential, ...], is_written: bool
) -> None:
    secrets = [{"metadata": {"namespace": "n", "name": "s"}, "data": {"token": "c2VjcmV0"}}]
    cache = ResponseCache(FakeClock(), disk=FileStore(tmp_path))
    stage = Stage({"a": answer}, cache=cache, secrets=secrets)
    step = Step("a", "a", credentials=credentials, ttl_seconds=60)
    assert stage.compose(step).error is None
    assert bool(list(tmp_path.iterdir())) is is_written
    assert not any(b"c2VjcmV0" in path.read_bytes() for path in tmp_path.iterdir())
    stage.compose(step)
    assert len(stage.runner.calls) == 1, "in memory it is kept all the same"


def test_stored_response_is_used_by_the_next_process(tmp_path: Path) -> None:
    for calls in (1, 0):
        cache = ResponseCache(FakeClock(), disk=FileStore(tmp_path))
        stage = Stage({"a": adds("x", config_map())}, cache=cache)
        composed = stage.compose(Step("a", "a", ttl_seconds=60))
        assert [resource.name for resource in composed.resources] == ["x"]
        assert len(stage.runner.calls) == calls
