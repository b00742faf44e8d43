"""Rewrite blueprints to the versions that replace deprecated and removed ones.

Changes funcVersion and the names of arguments, and preferredVersion of ActionSets
where that is safe, and writes the old default of arguments that are left out and have
another one in the new version; every other byte stays. Without --diff or --write it says what
would change. Of stdin (-) the result goes to stdout.

Exit codes: 0 fine; 1 something is left that only you can decide, or a file cannot
be read.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kanister_py.cli.files import Input, read_all
from kanister_py.cli.output import say, say_error, write_data, write_text
from kanister_py.cli.parser import CommandLineError, switch
from kanister_py.cli.releases import add_target_release, releases_at
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding
from kanister_py.core.blueprints.lint.reading import NOT_A_BLUEPRINT, UNREADABLE, Source
from kanister_py.core.blueprints.upgrade import Upgraded, upgrade_sources
from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.files import write_whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="*", help="a file, a folder, or - for stdin")
    how = parser.add_mutually_exclusive_group()
    switch(how, "--diff", help="print the changes as a unified diff")
    switch(how, "--write", help="change the files")
    parser.add_argument(
        "--keep-meaning",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write the old default of an argument that is left out and has another one now "
        "(default: yes)",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json", "yaml"),
        default="text",
        help="how to say what would change (default: text)",
    )
    add_target_release(parser)


def run(args: argparse.Namespace) -> int:
    """Work out the changes of all files together, then show or make them."""
    if not args.paths:
        raise CommandLineError("Name files or folders, or - for stdin")
    from kanister_py.cli.installed import installed_functions
    from kanister_py.executor.loading import load_function

    functions = installed_functions()
    registry = functions.registry
    at = releases_at(args.target_release, registry)
    context = Context(registry, at, load=load_function)
    inputs, texts, problems = read_all(args.paths)
    named = {input_.name: input_ for input_ in inputs}
    sources = [Source(name, text, named[name].is_named) for name, text in texts.items()]
    results = upgrade_sources(sources, context, keep_meaning=args.keep_meaning)
    _hand_out(results, named, texts, args)
    for result in results:
        for change in result.changes:
            for note in (*change.kept_default_notes, *change.notes):
                say(f"note: {change.file}:{change.line}: {change.where}: {note}")
    left = [finding for result in results for finding in result.left]
    _say_left(left, problems)
    return 1 if left or problems else 0


def _hand_out(
    results: Sequence[Upgraded],
    named: dict[str, Input],
    texts: dict[str, bytes],
    args: argparse.Namespace,
) -> None:
    changed = [result for result in results if result.changes]
    if args.diff:
        for each in changed:
            write_text("".join(_diff(each)))
        return
    files = [result for result in results if named[result.file].path is not None]
    if args.write:
        for file in files:
            path = named[file.file].path
            if file.changes and path is not None:
                _write(Path(path), file, texts[file.file])
        for file in files:
            for change in file.changes:
                say(f"upgraded {change}")
    elif files:
        _show([each for each in files if each.changes], args.output)
    for each in results:
        if named[each.file].path is None:
            write_text(each.after if each.changes else texts[each.file].decode())


def _show(changed: Sequence[Upgraded], form: str) -> None:
    data = {"changes": [change.as_dict() for result in changed for change in result.changes]}
    lines = [str(change) for result in changed for change in result.changes]
    write_data(data, form, lambda: lines)
    count = sum(len(result.changes) for result in changed)
    if count:
        say(f"{count} to change in {len(changed)} file(s); --diff shows them, --write makes them")
    else:
        say("Nothing to upgrade")


def _diff(result: Upgraded) -> Iterator[str]:
    import difflib

    lines = difflib.unified_diff(
        _lines(result.before),
        _lines(result.after),
        f"a/{result.file.lstrip('/')}",
        f"b/{result.file.lstrip('/')}",
    )
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Part a text at line feeds alone, as `patch` does."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _write(path: Path, result: Upgraded, before: bytes) -> None:
    """Put the new text in the place of the old one, whole or not at all, with its mode."""
    mark = b"\xef\xbb\xbf" if before.startswith(b"\xef\xbb\xbf") else b""
    target = path.resolve()
    data = mark + result.after.encode()
    try:
        mode = target.stat().st_mode & 0o7777
        write_whole(target, data, mode, is_shared=True, is_durable=True)
    except OSError as error:
        # The user knows the file by this name.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _say_left(left: Sequence[Finding], problems: Sequence[Problem]) -> None:
    broken = [
        Problem(finding.file, finding.line, finding.column, finding.path, finding.message)
        for finding in left
        if finding.rule in (UNREADABLE.id, NOT_A_BLUEPRINT.id)
    ]
    if broken or problems:
        say_error(InvalidDocument([*broken, *problems]))
    for each in left:
        if each.rule not in (UNREADABLE.id, NOT_A_BLUEPRINT.id):
            where = f"{each.action}.{each.phase}" if each.phase else each.action
            say(f"left: {each.file}:{each.line}: {where}: {each.message}")
