from __future__ import annotations

import subprocess
import sys

import pytest

import kanister_py
import kanister_py.embedded


def test_every_public_name_exists() -> None:
    assert [name for name in kanister_py.__all__ if not hasattr(kanister_py, name)] == []
    assert kanister_py.__all__ == sorted(kanister_py.__all__)


def test_private_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Registry'"):
        _ = kanister_py.Registry


def modules_after(*words: str) -> set[str]:
    """Return the modules that a command imports in its own process."""
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
def test_light_commands_import_no_heavy_packages(words: list[str]) -> None:
    assert modules_after(*words) & HEAVY == set()


def test_help_imports_neither_pydantic_nor_yaml() -> None:
    assert modules_after("--help") & {"pydantic", "yaml"} == set()
