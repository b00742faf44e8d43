"""Write a new project for a function in Python, with tests and packaging.

kanister-py functions init function-bucket
kanister-py functions init function-bucket --directory work/bucket
kanister-py functions init Notify

For a name such as function-bucket, writes a composition function: a Python package, tests, a folder
of test cases, a README, a Dockerfile, the metadata of the Crossplane package, and a GitHub workflow
that builds and pushes the package with docker and Crossplane's CLI. For a name such as Notify,
writes a function for blueprints with two versions, tests, a blueprint and a README. Both have the
entry point of a plugin. Existing files are never overwritten.
"""

from __future__ import annotations

import argparse
import re
from importlib.resources import as_file, files
from pathlib import Path

from kanister_py.cli.output import put, say
from kanister_py.core.errors import UsageError

_SUFFIX = ".tmpl"
_NAME = re.compile(r"function-[a-z0-9]+(-[a-z0-9]+)*\Z")
_BLUEPRINT_NAME = re.compile(r"[A-Z][A-Za-z0-9]*\Z", re.ASCII)
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="such as function-bucket, or Notify for blueprints"
    )
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="folder to write to; default: from NAME"
    )


def run(args: argparse.Namespace) -> int:
    if len(args.name) > 63 or not (_NAME.match(args.name) or _BLUEPRINT_NAME.match(args.name)):
        raise UsageError(
            f"{args.name!r} cannot be the name of a function; use function- and at most 54 "
            "lower-case letters, digits and dashes for compositions, such as function-tags, or "
            "letters and digits after an upper-case letter for blueprints, such as DumpTable",
            reason="InvalidTarget",
        )
    folder: Path = args.directory or Path(_project_name(args.name))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is not empty; choose another --directory",
            reason="FolderNotEmpty",
        )
    for path, text in project(args.name).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
        put(str(folder / path))
    for line in ("", "Next:", f"  cd {folder}", f"  {_NEXT}"):
        say(line)
    return 0


# In the environment of kanister-py, so that pip need not find kanister-py elsewhere.
_NEXT = "pip install -e '.[dev]' && pytest"


def project(name: str) -> dict[str, str]:
    """Return the files of a new project by path."""
    short = name.removeprefix("function-")
    class_name = "".join(part.capitalize() for part in short.split("-"))
    if class_name[0].isdigit():
        class_name = f"Function{class_name}"
    project_name = _project_name(name)
    words = {
        "NAME": name,
        "PACKAGE": project_name.replace("-", "_"),
        "PROJECT": project_name,
        "CLASS": class_name,
    }
    template = "new_blueprint_function" if _BLUEPRINT_NAME.match(name) else "new_function"

    def filled(text: str) -> str:
        for key, value in words.items():
            text = text.replace(f"@{key}@", value)
        return text

    with as_file(files("kanister_py.cli").joinpath(template)) as folder:
        return {
            filled(str(path.relative_to(folder))).removesuffix(_SUFFIX): filled(
                path.read_text(encoding="utf-8")
            )
            for path in sorted(folder.rglob(f"*{_SUFFIX}"))
        }


def _project_name(name: str) -> str:
    """Return the name of the project: notify-users-function for NotifyUsers."""
    if not _BLUEPRINT_NAME.match(name):
        return name
    return f"{_WORD_START.sub('-', name).lower()}-function"
