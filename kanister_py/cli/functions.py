"""List and compare functions and their versions; serve, test and create functions.

kanister-py functions list
kanister-py functions describe KubeTask@v0.1.0
kanister-py functions diff KubeTask v0.0.0 v0.1.0
kanister-py functions init function-bucket
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

from kanister_py.cli.function_targets import DashParser
from kanister_py.cli.installed import installed_functions
from kanister_py.cli.output import (
    DATA_FORMATS,
    LIST_FORMATS,
    Cell,
    Line,
    Tint,
    say,
    table,
    write_data,
)
from kanister_py.cli.parser import CommandLineError, add_output, add_verbs, switch
from kanister_py.core.blueprints.replacements import renames_between
from kanister_py.core.registry.choose import choose_version
from kanister_py.core.registry.entries import Family, FunctionEntry, FunctionKind
from kanister_py.core.registry.reference import (
    differences,
    function_summary,
    status_of,
    version_reference,
)
from kanister_py.core.versions.deprecation import Listing, Support
from kanister_py.core.versions.semver import is_range, parse_version
from kanister_py.executor.loading import load_function

if TYPE_CHECKING:
    from kanister_py.wiring import Functions

_COLOURS = {"stable": "green", "deprecated": "yellow", "removed": "red", "planned": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = add_verbs(parser, DashParser)
    list_ = verbs.add_parser(
        "list",
        help="list functions, versions and deprecations",
        description="""\
List every function with its versions, newest first, and their status.

kanister-py functions list --kind Composition
kanister-py functions list --all -o wide
""",
    )
    list_.add_argument(
        "--kind",
        choices=[str(kind) for kind in FunctionKind],
        help="only functions for blueprints, or only those for compositions",
    )
    switch(list_, "--all", help="also show removed and planned versions in the table")
    describe = verbs.add_parser(
        "describe",
        help="show arguments, outputs and status of one version",
        description="""\
Show the arguments with their defaults, the outputs and the status of one version. Without a
version, this is the version that a phase uses if it does not set one.

kanister-py functions describe KubeTask
kanister-py functions describe KubeTask@v0.1.0 -o yaml
""",
    )
    describe.add_argument(
        "name", metavar="NAME[@VERSION]", nargs="?", default="", help="such as KubeTask@v0.1.0"
    )
    switch(describe, "--all", help="show every version of every function, as one document")
    diff = verbs.add_parser(
        "diff",
        help="show the changes for a blueprint between two versions",
        description="""\
Show the changes for a blueprint that moves from one version to another, breaking changes first.

kanister-py functions diff KubeTask v0.0.0 v0.1.0
kanister-py functions init function-bucket
""",
    )
    diff.add_argument("name", metavar="NAME", help="such as KubeTask")
    diff.add_argument("old", metavar="OLD", help="such as v0.0.0")
    diff.add_argument("new", metavar="NEW", help="such as v0.1.0")
    add_output(list_, (*LIST_FORMATS, "markdown"))
    for verb_parser in (describe, diff):
        add_output(verb_parser, DATA_FORMATS)
    for verb, summary in _OWN_MODULES.items():
        verbs.add_parser(verb, help=summary, module=f"kanister_py.cli.function_{verb}")


# Verbs for authors of composition functions, in separate modules.
_OWN_MODULES = {
    "serve": "serve a composition function over gRPC",
    "test": "call a composition function, or run its cases",
    "init": "write a new project for a function",
}


def run(args: argparse.Namespace) -> int:
    if args.verb in _OWN_MODULES:
        code: int = import_module(f"kanister_py.cli.function_{args.verb}").run(args)
        return code
    functions = installed_functions()
    if args.verb == "list":
        return _list(functions, args)
    if args.verb == "describe":
        return _describe(functions, args)
    return _diff(functions, args)


def _list(functions: Functions, args: argparse.Namespace) -> int:
    families = [
        family
        for family in functions.registry
        if args.kind is None or family.candidates[0].kind == args.kind
    ]
    data = {
        "release": functions.release.bare,
        "functions": [function_summary(family) for family in families],
    }

    entries = [
        entry
        for family in families
        for entry in family
        if args.all or entry.support_at() not in _HIDDEN
    ]

    def table_lines() -> Iterable[Line]:
        head = ["FUNCTION", "VERSION", "STATUS", "USE INSTEAD", "FROM"]
        rows = [_row_of(entry) for entry in entries]
        if not rows:
            return ["No function is registered."]
        if args.output == "wide":
            head += ["KIND", "SINCE"]
            rows = [
                [*row, str(entry.kind), entry.listing.since.bare if entry.listing.since else ""]
                for entry, row in zip(entries, rows, strict=True)
            ]
        return table(head, rows, markdown=args.output == "markdown")

    names = (f"{entry.function}@{entry.version}" for entry in entries)
    write_data(data, args.output, table_lines, names)
    hidden = sum(1 for family in families for _ in family) - len(entries)
    if hidden and args.output in ("table", "wide", "markdown"):
        say(f"{hidden} removed or planned versions are not shown; --all shows them")
    return 0


_HIDDEN = (Support.REMOVED, Support.PLANNED)


def _row_of(entry: FunctionEntry) -> list[Cell]:
    status = status_of(entry)
    return [
        entry.function,
        str(entry.version),
        Tint(_status_with_release(status, entry.listing), _COLOURS.get(status, "bold")),
        str(entry.listing.replacement or ""),
        f"{entry.source.name} {entry.source.release.bare}",
    ]


def _status_with_release(status: str, listing: Listing) -> str:
    if status == "removed" and listing.removed_in:
        return f"removed in {listing.removed_in.bare}"
    if status == "deprecated" and listing.removed_in:
        return f"deprecated until {listing.removed_in.bare}"
    return _shown_status(status)


def _shown_status(status: str) -> str:
    """Return the word for a status in texts; data keeps `served`, as CustomResourceDefinitions."""
    return "supported" if status == "served" else status


def _describe(functions: Functions, args: argparse.Namespace) -> int:
    name, at, version = args.name.partition("@")
    markdown = args.output == "markdown"
    if args.all and not name:
        references = [
            _described(family, entry) for family in functions.registry for entry in family
        ]
        pages = (_page(reference, markdown=markdown, level=2) for reference in references)
        page_lines = chain(
            ["# Functions"] if markdown else [], *(chain([""], page) for page in pages)
        )
        write_data({"functions": references}, args.output, lambda: page_lines)
        return 0
    if args.all or not name or (at and not version):
        raise CommandLineError(
            "Name a function, optionally with a version, "
            f"such as KubeTask@v0.1.0, or use --all; found {args.name!r}"
        )
    family = functions.registry.family(name)
    is_exact = version and not is_range(version)
    entry = family.by_identity.get(parse_version(version)) if is_exact else None
    if entry is None:
        entry = choose_version(functions.registry, name, version, strict=True).chosen
    reference = _described(family, entry)
    write_data(reference, args.output, lambda: _page(reference, markdown=markdown))
    return 0


def _described(family: Family[FunctionEntry], entry: FunctionEntry) -> dict[str, Any]:
    code = load_function(entry) if entry.target is not None else None
    reference = version_reference(entry, code)
    reference["versions"] = [
        {"version": str(version_entry.version), "status": status_of(version_entry)}
        for version_entry in family
    ]
    return reference


def _page(reference: Mapping[str, Any], *, markdown: bool, level: int = 1) -> Iterable[Line]:
    title = f"{reference['name']} {reference['version']}"
    yield f"{'#' * level} {title}" if markdown else Tint(title, "bold")
    yield ""
    yield _status_sentence(reference)
    if reference.get("message"):
        yield reference["message"]
    if reference.get("description"):
        yield ""
        yield from reference["description"].splitlines()
    if reference["kind"] == FunctionKind.COMPOSITION and "arguments" in reference:
        yield from _section("Input", _argument_rows(reference), markdown=markdown, level=level)
    elif "arguments" in reference:
        yield from _section("Arguments", _argument_rows(reference), markdown=markdown, level=level)
        yield from _section("Outputs", _output_rows(reference), markdown=markdown, level=level)
        yield ""
        yield f"After a restart: {_RESTARTS.get(reference.get('onRestart', ''), 'not declared')}"
    yield ""
    versions = ", ".join(
        f"{version['version']} ({_shown_status(version['status'])})"
        for version in reference["versions"]
    )
    yield f"Versions: {versions}"
    yield f"From: {reference['source']}, {reference['origin']}"


_RESTARTS = {
    "adopt": "the function continues with the work that it had started",
    "repeat": "the function is called again, which is safe",
    "fail": "the phase fails with the reason Interrupted, unless its retry covers that reason",
}


def _status_sentence(reference: Mapping[str, Any]) -> str:
    status = reference["status"]
    user = "step" if reference["kind"] == FunctionKind.COMPOSITION else "phase"
    sentence = {
        "stable": f"Stable: used by every {user} that does not set a version",
        "served": f"Supported: used by every {user} that sets this version",
        "deprecated": "Deprecated",
        "removed": "Removed",
        "planned": "Planned",
    }[status]
    if status == "deprecated":
        sentence += f" since release {reference['deprecatedIn']}"
        if "removedIn" in reference:
            sentence += f", refused from release {reference['removedIn']} on"
    elif status == "removed":
        sentence += f" in release {reference['removedIn']}"
    elif status == "planned":
        sentence += f" for release {reference['since']}"
    if "replacement" in reference:
        sentence += f"; use {reference['replacement']}"
    return f"{sentence}."


def _section(
    title: str, rows: list[tuple[str, ...]], *, markdown: bool, level: int
) -> Iterable[Line]:
    yield ""
    yield f"{'#' * (level + 1)} {title}" if markdown else Tint(title, "bold")
    if markdown:
        yield ""
    if not rows:
        yield "none"
        return
    head, *body = rows
    if body:
        yield from table(head, body, markdown=markdown)
    else:
        yield head[0]


def _argument_rows(reference: Mapping[str, Any]) -> list[tuple[str, ...]]:
    if not reference["arguments"]:
        return []
    rows = [("NAME", "TYPE", "DEFAULT", "MEANING")]
    for argument in reference["arguments"]:
        default = "required" if argument["required"] else _literal(argument.get("default"))
        rows.append((argument["name"], argument["type"], default, argument["description"]))
    return list(rows)


def _output_rows(reference: Mapping[str, Any]) -> list[tuple[str, ...]]:
    if not reference["outputs"]:
        return [("Any: the phase determines the names.",)] if reference["freeOutputs"] else []
    rows: list[tuple[str, ...]] = [("NAME", "TYPE", "MEANING")]
    rows += [
        (output["name"], output["type"], output["description"]) for output in reference["outputs"]
    ]
    return rows


def _literal(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _diff(functions: Functions, args: argparse.Namespace) -> int:
    family = functions.registry.family(args.name)
    pair = []
    entries = []
    for text in (args.old, args.new):
        version = parse_version(text)
        entry = family.by_identity.get(version)
        if entry is None:
            # Raises an error that lists the existing versions.
            entry = choose_version(functions.registry, args.name, text, strict=True).chosen
        entries.append(entry)
        # Raises an error if the version was removed, because its code no longer exists.
        pair.append(version_reference(entry, load_function(entry)))
    old, new = pair
    changes = differences(old, new, renames_between(family, *entries))
    data = {
        "name": args.name,
        "old": old["version"],
        "new": new["version"],
        "breaking": any(change["breaking"] for change in changes),
        "changes": changes,
    }

    def table_lines() -> Iterable[Line]:
        title = f"{args.name}: {old['version']} to {new['version']}"
        yield f"# {title}" if args.output == "markdown" else Tint(title, "bold")
        if args.output == "markdown":
            yield ""
        if not changes:
            yield "No argument and no output differs."
            return
        rows = [
            (
                Tint("breaks", "red") if change["breaking"] else "fits",
                change["name"],
                change["message"],
            )
            for change in changes
        ]
        yield from table(("", "NAME", "CHANGE"), rows, markdown=args.output == "markdown")

    write_data(data, args.output, table_lines)
    return 0
