"""Sources of templates: the input itself, files, or the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kanister_py.functions.composition.answering import ENVIRONMENT_KEY, Data, Refused
from kanister_py.functions.composition.fields import REQUIRED, TEXT, Field

TEMPLATE_ROOT = "KANISTER_PY_TEMPLATE_ROOT"
"""Environment variable with the folder below which template files may be read."""

_MOST_BYTES = 4 * 1024 * 1024


def template_of(function_input: Data, context: Mapping[str, Any]) -> str:
    """Return the text of the template that an input refers to."""
    source = function_input.get("source", "")
    read = _READERS.get(source)
    if read is None:
        why = f"invalid source: {source}" if source else "source is required"
        raise Refused(f"invalid function input: {why}", "source")
    try:
        return read(function_input, context)
    except Refused as refused:
        raise Refused(f"invalid function input: {refused}", refused.path) from None


def written_template_of(function_input: Data) -> str:
    """Return the text of a template in the input itself; empty if it is elsewhere."""
    outer, inner = _ELSEWHERE.get(function_input.get("source", ""), ("", ""))
    return "" if function_input.get(outer, {}).get(inner) else template_of(function_input, {})


def _inline(function_input: Data, _context: Mapping[str, Any]) -> str:
    inline = function_input.get("inline", {})
    several = inline.get("templates", [])
    template: str = inline.get("template", "") or "\n---\n".join(several)
    if not inline.get("template") and not several:
        raise Refused("inline.template or inline.templates should be provided", "inline")
    return template


def _environment(function_input: Data, context: Mapping[str, Any]) -> str:
    key = function_input.get("environment", {}).get("key", "")
    if not key:
        raise Refused("environment.key should be provided", "environment")
    head = "cannot read tmpl from the environment:"
    environment = context.get(ENVIRONMENT_KEY)
    if not isinstance(environment, dict):
        raise Refused(f"{head} {ENVIRONMENT_KEY} key does not exist in context")
    if key not in environment:
        raise Refused(f"{head} key: {key} does not exist")
    template = environment[key]
    if not isinstance(template, str):
        raise Refused(f"{head} key: {key} value is not a string")
    return template


def _file_system(function_input: Data, _context: Mapping[str, Any]) -> str:
    path = function_input.get("fileSystem", {}).get("dirPath", "")
    if not path:
        raise Refused("fileSystem.dirPath should be provided", "fileSystem")
    head = f"cannot read tmpl from the folder {{{path}}}:"
    allowed = os.environ.get(TEMPLATE_ROOT, "")
    if not allowed:
        # In a container of its own, a function only has access to its templates. Here, a
        # composition could read every file that the caller has access to.
        raise Refused(
            f"{head} files are not read unless {TEMPLATE_ROOT} names the folder they may be in"
        )
    root = Path(allowed).resolve()
    try:
        folder = (root / path.lstrip("/")).resolve()
        if not folder.is_relative_to(root):
            raise Refused(f"{head} it lies outside {TEMPLATE_ROOT}")
        return "".join(_read(folder, root, head))
    except OSError as error:
        raise Refused(f"{head} {error.strerror}") from None
    except ValueError as error:  # a path with a NUL, or a file that is not UTF-8
        raise Refused(f"{head} {error}") from None


def _read(folder: Path, root: Path, head: str) -> Iterator[str]:
    left = _MOST_BYTES
    for path in _files_below(folder):
        if not path.resolve().is_relative_to(root):
            raise Refused(f"{head} {path.name} leads outside {TEMPLATE_ROOT}")
        left -= path.stat().st_size
        if left < 0:
            raise Refused(f"{head} it holds more than {_MOST_BYTES // (1024 * 1024)} MiB")
        yield path.read_text(encoding="utf-8")
        yield "\n---\n"


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in the order of their names, without hidden ones."""
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _files_below(entry)
        elif entry.is_file():  # skips devices and pipes, which could block
            yield entry


_ELSEWHERE = {"FileSystem": ("fileSystem", "dirPath"), "Environment": ("environment", "key")}
_READERS = {"Inline": _inline, "FileSystem": _file_system, "Environment": _environment}
SOURCES = {
    "source": Field(TEXT, "Source of the template", REQUIRED, " ".join(_READERS)),
    "inline": Field(
        {
            "template": Field(TEXT, "The template"),
            "templates": Field([TEXT], "Templates that are joined, after `template`, into one"),
        },
        "Settings for the source Inline",
    ),
    "fileSystem": Field(
        {
            "dirPath": Field(
                TEXT,
                f"Folder below {TEMPLATE_ROOT} whose files, in the order of their "
                "names, form the template",
                REQUIRED,
            )
        },
        "Settings for the source FileSystem",
    ),
    "environment": Field(
        {"key": Field(TEXT, "Key of the environment that contains the template", REQUIRED)},
        "Settings for the source Environment",
    ),
}
