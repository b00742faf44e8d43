from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kanister_py.functions.composition.answering import ENVIRONMENT_KEY, Refused
from kanister_py.functions.composition.templating.sources import TEMPLATE_ROOT, template_of


def files(path: str) -> dict[str, Any]:
    return {"source": "FileSystem", "fileSystem": {"dirPath": path}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "root" / "templates"
    (folder / "sub").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name, text in (
        ("b.yaml", "b"),
        ("a.yaml", "a"),
        (".hidden", "h"),
        ("sub/c.yaml", "c"),
        (".git/d", "d"),
    ):
        (folder / name).write_text(text)
    (tmp_path / "secret").write_text("s")
    monkeypatch.setenv(TEMPLATE_ROOT, str(tmp_path / "root"))
    return tmp_path / "root"


@pytest.mark.usefixtures("root")
def test_files_are_read_in_order_without_hidden_ones() -> None:
    want = "a\n---\nb\n---\nc\n---\n"
    assert template_of(files("/templates"), {}) == want
    assert template_of(files("templates"), {}) == want


@pytest.mark.parametrize("path", ["/etc", "../", "/templates/../../"])
@pytest.mark.usefixtures("root")
def test_files_outside_of_the_template_folder_are_rejected(path: str) -> None:
    with pytest.raises(Refused, match="cannot read tmpl from the folder"):
        template_of(files(path), {})


def test_link_out_of_the_template_folder_is_rejected(root: Path) -> None:
    (root / "templates" / "z").symlink_to(root.parent / "secret")
    with pytest.raises(Refused, match="leads outside"):
        template_of(files("templates"), {})


def test_pipe_in_the_template_folder_is_skipped(root: Path) -> None:
    os.mkfifo(root / "templates" / "p")
    assert template_of(files("templates"), {}).startswith("a\n")


def test_files_require_the_template_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TEMPLATE_ROOT, raising=False)
    with pytest.raises(Refused, match=TEMPLATE_ROOT):
        template_of(files("/"), {})


@pytest.mark.parametrize(
    ("given", "context", "message"),
    [
        ({}, {}, "invalid function input: source is required"),
        ({"source": "Web"}, {}, "invalid function input: invalid source: Web"),
        (
            {"source": "Inline"},
            {},
            "invalid function input: inline.template or inline.templates should be provided",
        ),
        (
            {"source": "FileSystem"},
            {},
            "invalid function input: fileSystem.dirPath should be provided",
        ),
        (
            {"source": "Environment", "environment": {"key": "k"}},
            {ENVIRONMENT_KEY: {}},
            "invalid function input: cannot read tmpl from the environment: key: k does not exist",
        ),
        (
            {"source": "Environment", "environment": {"key": "k"}},
            {ENVIRONMENT_KEY: {"k": 1}},
            (
                "invalid function input: cannot read tmpl from the environment: "
                "key: k value is not a string"
            ),
        ),
        (
            {"source": "Environment", "environment": {"key": "k"}},
            {},
            (
                "invalid function input: cannot read tmpl from the environment: "
                f"{ENVIRONMENT_KEY} key does not exist in context"
            ),
        ),
        (
            {"source": "Environment"},
            {},
            "invalid function input: environment.key should be provided",
        ),
    ],
)
def test_source_without_template_is_an_error(
    given: dict[str, Any], context: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused) as caught:
        template_of(given, context)
    assert str(caught.value) == message


def test_template_precedes_templates() -> None:
    several = {"source": "Inline", "inline": {"templates": ["a", "b"]}}
    assert template_of(several, {}) == "a\n---\nb"
    both = {"source": "Inline", "inline": {"template": "c", "templates": ["a", "b"]}}
    assert template_of(both, {}) == "c"
