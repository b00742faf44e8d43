"""Renderings of the official CLI, compared byte for byte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from kanister_py.cli.main import main

FUNCTIONS = (
    "patch-and-transform:v0.10.0",
    "go-templating:v0.12.0",
    "auto-ready:v0.7.0",
    "environment-configs:v0.7.0",
    "extra-resources:v0.3.0",
)
_FOLDER = Path(os.environ.get("KANISTER_PY_RECORDED", ".")) / "render"
CASES = sorted(case.name for case in _FOLDER.iterdir()) if _FOLDER.is_dir() else []

# Texts that both messages of a failure contain.
COMMON_TEXTS = {
    "fatal": 'pipeline step "bad" returned a fatal result: cannot execute template',
    "invalid-name": 'composed resource "a" because it has an invalid name "Not_Valid"',
    "requirements-never-settle": (
        "requirements didn't stabilize after the maximum number of iterations (5)"
    ),
    "unknown-function": 'cannot run Composition pipeline step "nobody"',
    "wrong-kind": "composition's compositeTypeRef.kind (XOther) does not match XR's kind (XApp)",
}


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the functions that were used for the recording."""
    path = tmp_path_factory.mktemp("functions") / "functions.yaml"
    documents = [
        {
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": "Function",
            "metadata": {"name": f"function-{function.partition(':')[0]}"},
            "spec": {"package": f"xpkg.crossplane.io/crossplane-contrib/function-{function}"},
        }
        for function in FUNCTIONS
    ]
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return path


def parts(text: str) -> tuple[list[str], list[str]]:
    """Return documents in order, and results sorted, because their order varies."""
    documents = text.split("---\n")
    results = [document for document in documents if "\nkind: Result\n" in document]
    return [document for document in documents if document not in results], sorted(results)


def test_all_cases_exist() -> None:
    assert len(CASES) == 24


@pytest.mark.parametrize(
    "mode", [pytest.param((), id="default"), pytest.param(("--mode", "text"), id="as text")]
)
@pytest.mark.parametrize("case", CASES)
def test_composition_renders_as_recorded(
    case: str,
    mode: tuple[str, ...],
    recorded: Path,
    functions: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = recorded / "render" / case
    recording = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    monkeypatch.chdir(folder)
    words = [str(functions) if arg == "FUNCTIONS" else arg for arg in recording["args"]]
    code = main(["render", *mode, *words])
    output = capsys.readouterr()
    assert code == recording["exit"], output.err
    assert parts(output.out) == parts((folder / "want.yaml").read_text(encoding="utf-8"))
    if recording["exit"]:
        assert COMMON_TEXTS[case] in recording["stderr"]
        assert COMMON_TEXTS[case] in output.err
