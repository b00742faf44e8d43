"""Write a new project for a composition function in Python, with tests and packaging.

kanister-py function init function-bucket
kanister-py function init function-bucket --directory work/bucket

Writes a Python package, tests, a folder of test cases, a README, a Dockerfile, the metadata of
the Crossplane package, and a GitHub workflow that builds and pushes the package with docker and
Crossplane's CLI. Existing files are never overwritten.
"""

from __future__ import annotations

import argparse
import re
from importlib.resources import as_file, files
from pathlib import Path

from kanister_py.cli.function_targets import invalid_target
from kanister_py.cli.output import put, say
from kanister_py.core.errors import UsageError

_SUFFIX = ".tmpl"
_NAME = re.compile(r"function-[a-z0-9]+(-[a-z0-9]+)*\Z")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="such as function-bucket")
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="folder to write to; default: NAME"
    )


def run(args: argparse.Namespace) -> int:
    if not _NAME.match(args.name) or len(args.name) > 63:
        raise invalid_target(
            args.name, "a name is function- with at most 54 lower case letters, digits and dashes"
        )
    folder: Path = args.directory or Path(args.name)
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
    words = {"NAME": name, "PACKAGE": name.replace("-", "_"), "CLASS": class_name}

    def filled(text: str) -> str:
        for key, value in words.items():
            text = text.replace(f"@{key}@", value)
        return text

    with as_file(files("kanister_py.cli").joinpath("new_function")) as folder:
        return {
            filled(str(path.relative_to(folder))).removesuffix(_SUFFIX): filled(
                path.read_text(encoding="utf-8")
            )
            for path in sorted(folder.rglob(f"*{_SUFFIX}"))
        }
