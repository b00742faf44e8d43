"""Begin a composition function of your own: a Python project that works, with tests.

kanister-py function init function-bucket
kanister-py function init function-bucket --directory work/bucket

Writes a package, its tests, a folder of cases and a README; nothing that is there already
is overwritten.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from kanister_py.cli.function_targets import InvalidTarget
from kanister_py.cli.output import put, say
from kanister_py.core.errors import UsageError

_NAME = re.compile(r"function-[a-z0-9]+(-[a-z0-9]+)*\Z")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="such as function-bucket")
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="where to; default: a folder named NAME"
    )


def run(args: argparse.Namespace) -> int:
    if not _NAME.match(args.name) or len(args.name) > 63:
        raise InvalidTarget(
            args.name, "a name is function- and small letters, digits and dashes, 63 in all"
        )
    folder: Path = args.directory or Path(args.name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is there already, and not empty; choose another --directory",
            reason="FolderNotEmpty",
        )
    for path, text in project(args.name).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
        put(str(folder / path))
    for line in ("", "Next:", f"  cd {folder}", f"  {_NEXT}"):
        say(line)
    return 0


_NEXT = "python -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/pytest"


def project(name: str) -> dict[str, str]:
    """Say which files a new project has, and what is in them."""
    package = name.replace("-", "_")
    short = name.removeprefix("function-")
    class_name = "".join(part.capitalize() for part in short.split("-"))
    if class_name[0].isdigit():
        class_name = f"Function{class_name}"
    words = {"NAME": name, "PACKAGE": package, "CLASS": class_name}

    def filled(text: str) -> str:
        for key, value in words.items():
            text = text.replace(f"@{key}@", value)
        return text

    return {path.replace("@PACKAGE@", package): filled(text) for path, text in _FILES.items()}


_FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "@NAME@"
version = "0.1.0"
description = "A composition function"
requires-python = ">=3.11"
dependencies = ["kanister-py"]

[project.optional-dependencies]
dev = ["pytest>=8"]

# With this, kanister-py knows the function by its name wherever the package is installed.
[project.entry-points."kanister_py.functions"]
@CLASS@ = "@PACKAGE@.function:@CLASS@"

[tool.hatch.build.targets.wheel]
packages = ["@PACKAGE@"]

[tool.pytest.ini_options]
testpaths = ["tests"]
""",
    "@PACKAGE@/__init__.py": '"""The composition function @NAME@."""\n',
    "@PACKAGE@/function.py": '''\
"""What does @NAME@ compose?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from kanister_py import CompositionFunction, Request, Response


class Input(BaseModel):
    """What a step of a pipeline hands in."""

    greeting: str = "Hello"


class @CLASS@(CompositionFunction):
    """Composes a ConfigMap that greets the composite resource."""

    name = "@NAME@"
    version = "v0.1.0"
    Input = Input

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = Request(request)
        response = Response(asked)
        given = asked.parse_input(Input)
        xr = asked.composite["metadata"]["name"]
        response.desire(
            "greeting",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"{xr}-greeting"},
                "data": {"text": f"{given.greeting}, {xr}!"},
            },
            ready=True,
        )
        response.normal(f"{xr} is greeted")
        return response
''',
    "tests/test_function.py": '''\
"""Does the function compose what it should?"""

from pathlib import Path

from @PACKAGE@.function import @CLASS@
from kanister_py import Request
from kanister_py.cli.main import main

REQUEST = {"observed": {"composite": {"resource": {"metadata": {"name": "ada"}}}}}


def test_the_composite_resource_is_greeted() -> None:
    response = @CLASS@().run(Request(REQUEST))
    greeting = response["desired"]["resources"]["greeting"]["resource"]
    assert greeting["data"] == {"text": "Hello, ada!"}


def test_every_case_is_answered_as_it_should_be() -> None:
    cases = Path(__file__).parent / "cases"
    assert main(["function", "test", "@PACKAGE@.function:@CLASS@", str(cases)]) == 0
''',
    "tests/cases/another-greeting/request.yaml": """\
observed:
  composite:
    resource:
      apiVersion: example.org/v1
      kind: XR
      metadata:
        name: ada
input:
  apiVersion: @NAME@.example.org/v1
  kind: Input
  greeting: Good evening
""",
    "tests/cases/another-greeting/assert.yaml": """\
- path: desired.resources.greeting.resource.data.text
  equals: Good evening, ada!
- path: desired.resources.greeting.ready
  equals: READY_TRUE
""",
    "composition.yaml": """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata:
  name: greeting
spec:
  compositeTypeRef:
    apiVersion: example.org/v1
    kind: XR
  mode: Pipeline
  pipeline:
    - step: greet
      functionRef:
        name: @NAME@
      input:
        apiVersion: @NAME@.example.org/v1
        kind: Input
        greeting: Good evening
""",
    "Dockerfile": """\
FROM python:3.13-slim
COPY . /src
RUN pip install --no-cache-dir /src
# With certificates from TLS_SERVER_CERTS_DIR, or in the clear with --insecure.
ENV KANISTER_PY_FUNCTIONS_HOST=0.0.0.0
USER 2000:2000
EXPOSE 9443
ENTRYPOINT ["kanister-py", "function", "serve", "@PACKAGE@.function:@CLASS@"]
""",
    "README.md": """\
# @NAME@

A composition function. `@PACKAGE@/function.py` is all there is to it.

```
pip install -e '.[dev]'
pytest
kanister-py function test @PACKAGE@.function:@CLASS@ tests/cases/another-greeting/request.yaml
kanister-py function serve @PACKAGE@.function:@CLASS@ --insecure
```

Once the package is installed, `kanister-py functions list` shows @NAME@. `composition.yaml`
is a pipeline that calls it. The Dockerfile makes an image that Crossplane can run.
""",
}
