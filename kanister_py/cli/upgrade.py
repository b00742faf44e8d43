"""Change blueprints to the replacements of deprecated and removed versions.

kanister-py upgrade blueprints/ --diff
kanister-py upgrade blueprints/ --write
kanister-py upgrade - < blueprint.yaml > upgraded.yaml

Changes funcVersion, the names of renamed arguments, and preferredVersion of ActionSets where
that is safe. For an omitted argument with a new default, the old default is written. All other
bytes stay unchanged. Without --diff or --write, the changes are listed. The result for stdin (-)
goes to stdout.

Exit codes: 0 success; 1 some changes need your decision, or a file cannot be read.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kanister_py.cli.files import Input, read_all
from kanister_py.cli.installed import installed_functions
from kanister_py.cli.output import say, say_error, write_data, write_text
from kanister_py.cli.parser import CommandLineError, switch
from kanister_py.cli.releases import add_target_release, releases_at
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding
from kanister_py.core.blueprints.lint.reading import NOT_A_BLUEPRINT, UNREADABLE, Source
from kanister_py.core.blueprints.upgrade import Upgraded, upgrade_sources
from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.executor.loading import load_function
from kanister_py.files import write_atomically


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="*", help="a file, a folder, or - for stdin")
    modes = parser.add_mutually_exclusive_group()
    switch(modes, "--diff", help="print the changes as a unified diff")
    switch(modes, "--write", help="change the files")
    parser.add_argument(
        "--keep-meaning",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write the old default of an omitted argument whose default has changed "
        "(default: yes)",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json", "yaml"),
        default="text",
        help="format of the list of changes (default: text)",
    )
    add_target_release(parser)


def run(args: argparse.Namespace) -> int:
    """Compute the changes of all files, then show or write them."""
    if not args.paths:
        raise CommandLineError("Name files or folders, or - for stdin")
    functions = installed_functions()
    registry = functions.registry
    at = releases_at(args.target_release, registry)
    context = Context(registry, at, load=load_function)
    inputs, texts, problems = read_all(args.paths)
    inputs_by_name = {input_.name: input_ for input_ in inputs}
    sources = [Source(name, text, inputs_by_name[name].is_named) for name, text in texts.items()]
    results = upgrade_sources(sources, context, keep_meaning=args.keep_meaning)
    _show_or_write(results, inputs_by_name, texts, args)
    for result in results:
        for change in result.changes:
            for note in (*change.kept_default_notes, *change.notes):
                say(f"note: {change.file}:{change.line}: {change.where}: {note}")
    remaining = [finding for result in results for finding in result.left]
    _say_remaining(remaining, problems)
    return 1 if remaining or problems else 0


def _show_or_write(
    results: Sequence[Upgraded],
    inputs_by_name: dict[str, Input],
    texts: dict[str, bytes],
    args: argparse.Namespace,
) -> None:
    changed = [result for result in results if result.changes]
    if args.diff:
        for result in changed:
            write_text("".join(_diff(result)))
        return
    files = [result for result in results if inputs_by_name[result.file].path is not None]
    if args.write:
        for file in files:
            path = inputs_by_name[file.file].path
            if file.changes and path is not None:
                _write(Path(path), file, texts[file.file])
        for file in files:
            for change in file.changes:
                say(f"upgraded {change}")
    elif files:
        _show([result for result in files if result.changes], args.output)
    for result in results:
        if inputs_by_name[result.file].path is None:
            write_text(result.after if result.changes else texts[result.file].decode())


def _show(changed: Sequence[Upgraded], form: str) -> None:
    data = {"changes": [change.as_dict() for result in changed for change in result.changes]}
    lines = [str(change) for result in changed for change in result.changes]
    write_data(data, form, lambda: lines)
    count = sum(len(result.changes) for result in changed)
    if count:
        say(f"{count} changes in {len(changed)} file(s); --diff shows them, --write writes them")
    else:
        say("Nothing to upgrade")


def _diff(result: Upgraded) -> Iterator[str]:
    lines = difflib.unified_diff(
        _lines(result.before),
        _lines(result.after),
        f"a/{result.file.lstrip('/')}",
        f"b/{result.file.lstrip('/')}",
    )
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Split a text at line feeds only, as `patch` does."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _write(path: Path, result: Upgraded, before: bytes) -> None:
    """Replace a file atomically, and keep its mode and byte order mark."""
    byte_order_mark = b"\xef\xbb\xbf" if before.startswith(b"\xef\xbb\xbf") else b""
    target = path.resolve()
    data = byte_order_mark + result.after.encode()
    try:
        mode = target.stat().st_mode & 0o7777
        write_atomically(target, data, mode, is_shared=True, is_durable=True)
    except OSError as error:
        # Name the file as the user did, not by its resolved path.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _say_remaining(remaining: Sequence[Finding], problems: Sequence[Problem]) -> None:
    broken = [
        Problem(finding.file, finding.line, finding.column, finding.path, finding.message)
        for finding in remaining
        if finding.rule in (UNREADABLE.id, NOT_A_BLUEPRINT.id)
    ]
    if broken or problems:
        say_error(InvalidDocument([*broken, *problems]))
    for finding in remaining:
        if finding.rule not in (UNREADABLE.id, NOT_A_BLUEPRINT.id):
            place = f"{finding.action}.{finding.phase}" if finding.phase else finding.action
            say(f"not changed: {finding.file}:{finding.line}: {place}: {finding.message}")
