"""Print the JSON Schema of a kind of document, for editors and other tools.

kanister-py schema show Blueprint > blueprint.schema.json
kanister-py schema show Blueprint --target-release 0.4.0

The schema of Blueprints has the arguments of every version of every installed function;
deprecated versions are marked. `--target-release` decides by another release which they are.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from kanister_py.cli.installed import installed_functions
from kanister_py.cli.output import write_text
from kanister_py.cli.parser import add_verbs, suggestion_or_list
from kanister_py.cli.releases import add_target_release, releases_at
from kanister_py.core.editor_schemas import KINDS, editor_schema
from kanister_py.core.errors import KanisterError
from kanister_py.core.registry.entries import FunctionEntry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = add_verbs(parser)
    show = verbs.add_parser("show", help="print one schema", description="Print one JSON Schema.")
    show.add_argument("kind", metavar="KIND", type=_kind, help=", ".join(KINDS))
    add_target_release(show)


def _kind(text: str) -> str:
    for kind in KINDS:
        if kind.casefold() == text.casefold():
            return kind
    raise argparse.ArgumentTypeError(f"no schema of {text!r}{suggestion_or_list(text, [*KINDS])}")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    registry = installed_functions().registry
    at = releases_at(args.target_release, registry)
    schema = editor_schema(args.kind, registry, at, _code)
    write_text(f"{json.dumps(schema, indent=2, ensure_ascii=False)}\n")
    return 0


def _code(entry: FunctionEntry) -> Any:
    from kanister_py.executor.loading import load_function

    try:
        return load_function(entry) if entry.target is not None else None
    except KanisterError:
        # A schema without the arguments of one plugin is better than none.
        return None
