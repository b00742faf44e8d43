"""Places of exceptions in the code of an author's function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kanister_py.executor.author_frames import error_text

SOURCE = """\
import json


def parse(text):
    return json.loads(text)


class Function:
    def run(self, text):
        return parse(text)

    def fail(self, depth):
        if depth:
            return self.fail(depth - 1)
        raise KeyError


class BuiltIn:
    __module__ = "kanister_py.functions.sample"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "frames_of_test.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield import_module("frames_of_test")
    sys.modules.pop("frames_of_test")


def raised_by(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except (KeyError, ValueError) as error:
        return error
    raise AssertionError("nothing was raised")


def test_message_names_the_authors_frames_and_not_those_of_libraries(module: Any) -> None:
    error = raised_by(lambda: module.Function().run("{"))
    text = error_text(error, module.Function)
    assert text.startswith("JSONDecodeError: Expecting property name")
    assert text.endswith(
        " (at frames_of_test.py:5 in parse, called from frames_of_test.py:10 in Function.run)"
    )


def test_message_names_at_most_three_frames(module: Any) -> None:
    text = error_text(raised_by(lambda: module.Function().fail(9)), module.Function)
    assert text.startswith("KeyError (at frames_of_test.py:15 in Function.fail, called from")
    assert text.count("frames_of_test.py") == 3


def test_files_outside_of_the_current_folder_have_their_whole_path(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    text = error_text(raised_by(lambda: module.Function().run("{")), module.Function)
    assert f"at {tmp_path}/frames_of_test.py:5 in parse" in text


def test_errors_of_built_in_functions_have_no_place(module: Any) -> None:
    error = raised_by(lambda: module.Function().fail(0))
    assert error_text(error, module.BuiltIn) == "KeyError"
