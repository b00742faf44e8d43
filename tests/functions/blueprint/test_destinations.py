from __future__ import annotations

import pytest

from kanister_py.core.errors import UsageError
from kanister_py.functions.blueprint.restore_data.destinations import (
    destination_of,
    partly_mounted,
    selected_paths,
)


@pytest.mark.parametrize(
    ("path", "restore_path", "destination"),
    [
        ("/v", "/", "/v"),
        ("/v/a", "/w/", "/w/v/a"),
        ("/", "/w", "/w"),
        ("/v//a/./b", "//", "/v/a/b"),
    ],
)
def test_destination_is_below_the_restore_path(
    path: str, restore_path: str, destination: str
) -> None:
    assert destination_of(path, restore_path) == destination


@pytest.mark.parametrize(
    ("folder", "selected"),
    [
        ("", ["/v", "/w"]),
        ("sub", ["/v", "/w"]),
        ("/v", ["/v"]),
        ("/v/", ["/v"]),
        ("/v/sub", ["/v/sub"]),
        ("/v/s*b", ["/v"]),
        ("/", ["/v", "/w"]),
        ("/vv", []),
    ],
)
def test_folder_selects_paths_of_a_backup(folder: str, selected: list[str]) -> None:
    assert selected_paths(["/v", "/w/"], folder) == selected


@pytest.mark.parametrize(
    ("paths", "restore_path", "partly"),
    [
        pytest.param(["/v"], "/", [], id="the mount itself"),
        pytest.param(["/v/sub"], "/", [], id="below the mount"),
        pytest.param(["/"], "/", ["/"], id="the root holds the mount"),
        pytest.param(["/x"], "/v", [], id="into the mount"),
    ],
)
def test_destinations_on_volumes_are_accepted(
    paths: list[str], restore_path: str, partly: list[str]
) -> None:
    assert partly_mounted(paths, restore_path, ["/v/"]) == partly


@pytest.mark.parametrize(
    ("paths", "restore_path"),
    [(["/vv"], "/"), (["/v"], "/w"), (["/v", "/w"], "/"), (["/v"], "/v"), (["/v"], "v")],
)
def test_destinations_outside_of_volumes_are_rejected(paths: list[str], restore_path: str) -> None:
    with pytest.raises(UsageError) as caught:
        partly_mounted(paths, restore_path, ["/v"])
    assert caught.value.reason in {"NotOnVolume", "InvalidArguments"}
