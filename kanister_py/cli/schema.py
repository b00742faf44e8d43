"""Print the JSON Schema of a kind of document, for editors.

kanister-py schema show Blueprint > blueprint.schema.json
kanister-py schema show Blueprint --target-release 0.4.0

The schema of Blueprints has the arguments of all versions of all installed functions; versions
that are deprecated in the installed release, or in --target-release, are marked.
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
from kanister_py.executor.loading import load_function


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = add_verbs(parser)
    show = verbs.add_parser(
        "show",
        help="print a schema",
        description="Print the JSON Schema of a kind."
        "\n\nkanister-py schema show Blueprint > blueprint.schema.json\n",
    )
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
    try:
        return load_function(entry) if entry.target is not None else None
    except KanisterError:
        # The schema leaves out the arguments of functions whose plugin cannot be loaded.
        return None
