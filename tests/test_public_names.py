from __future__ import annotations

import subprocess
import sys

import pytest

import kanister_py
import kanister_py.embedded


def test_every_public_name_is_there() -> None:
    assert [entry for entry in kanister_py.__all__ if not hasattr(kanister_py, entry)] == []
    assert kanister_py.__all__ == sorted(kanister_py.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Registry'"):
        _ = kanister_py.Registry


def modules_after(*words: str) -> set[str]:
    """The modules that one command loads, as its own process saw them."""
    code = (
        "import sys\n"
        "from kanister_py.cli.main import main\n"
        f"main({list(words)!r})\n"
        "sys.stderr.write('\\n'.join(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split("\n"))


HEAVY = {
    "kubernetes",
    "grpc",
    "google.protobuf",
    "starlette",
    "uvicorn",
    "prometheus_client",
    "cryptography",
    "jinja2",
    "re2",
    "asyncio",
}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--help"], id="help"),
        pytest.param(["--version"], id="version"),
        pytest.param(["functions", "list"], id="functions list"),
    ],
)
def test_nothing_heavy_is_imported_by_a_command_that_does_not_need_it(words: list[str]) -> None:
    assert modules_after(*words) & HEAVY == set()


def test_help_does_without_models_and_yaml() -> None:
    assert modules_after("--help") & {"pydantic", "yaml"} == set()
