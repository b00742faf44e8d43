"""How does what a command found look on a terminal, in a pipe, or to another program?"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from kanister_py.core.errors import Fault, InvalidDocument, KanisterError, NoMatch
from kanister_py.core.notices import Notice, Severity

# Kinds that a cluster has only once somebody has installed our definitions of them.
_OUR_GROUPS = ("cr.kanister.io", "apiextensions.crossplane.io", "pkg.crossplane.io")

DATA_FORMATS = ("table", "json", "yaml", "markdown")

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}


def has_colours(stream: TextIO) -> bool:
    """Say whether a stream is a terminal that shows colours and whose owner wants them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Colour a text for a stream, if that stream shows colours."""
    if not text or not has_colours(stream or sys.stdout):
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def write_data(data: Any, form: str, people: Callable[[], Iterable[str]]) -> None:
    """Write data to stdout, as lines for people or in the form that another program asked for."""
    if form == "json":
        import json

        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    elif form == "yaml":
        from kanister_py.core.objects.documents import dump_yaml

        sys.stdout.write(dump_yaml(data))
    else:
        sys.stdout.writelines(f"{line.rstrip()}\n" for line in people())


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, markdown: bool = False
) -> list[str]:
    """Set rows in columns: aligned for a terminal, or as a Markdown table."""
    if markdown:
        lines = [head, ["---"] * len(head), *[[_escaped(cell) for cell in row] for row in rows]]
        return [f"| {' | '.join(row)} |" for row in lines]
    widths = [max(_width(row[index]) for row in (head, *rows)) for index in range(len(head))]
    titles = "  ".join(_padded(cell, width) for cell, width in zip(head, widths, strict=True))
    return [
        paint(titles.rstrip(), "bold"),
        *[
            "  ".join(_padded(cell, width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ],
    ]


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", "<br>")


def _width(cell: str) -> int:
    """Count the columns that a text takes, not counting colours."""
    plain = cell
    while "\x1b[" in plain:
        before, _, rest = plain.partition("\x1b[")
        plain = before + rest.partition("m")[2]
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in plain)


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - _width(cell))


def say(text: str) -> None:
    """Tell the user something that is not data."""
    sys.stderr.write(f"{text}\n")


def say_notices(notices: Iterable[Notice]) -> None:
    """Hand on what the core had to say, each thing once."""
    said = set()
    for notice in notices:
        if notice.message in said:
            continue
        said.add(notice.message)
        is_warning = notice.severity is Severity.WARNING
        if is_warning:
            say_warning(notice.message)
        else:
            say(f"note: {notice.message}")


def say_warning(text: str) -> None:
    """Tell the user of something that is wrong but stops nothing."""
    say(f"{paint('warning:', 'yellow', sys.stderr)} {text}")


def say_error(error: BaseException) -> None:
    """Tell the user what went wrong."""
    for line in error_lines(error):
        say(line)


def error_lines(error: BaseException) -> Iterator[str]:
    """Say what went wrong, one line for each thing; no traceback."""
    label = paint("error:", "red", sys.stderr)
    # Errors quote names out of files, whoever wrote those.
    yield from (f"{label} {visible(text)}" for text in _texts_of(error))


def _texts_of(error: BaseException) -> Iterator[str]:
    if isinstance(error, InvalidDocument):
        yield from map(str, error.problems)
    elif isinstance(error, NoMatch) and any(each in error.message for each in _OUR_GROUPS):
        yield f"{error.message}; `kanister-py crds install` makes the definitions that are missing"
    elif isinstance(error, KanisterError) and not isinstance(error, Fault):
        yield error.message
    elif isinstance(error, OSError) and error.strerror:
        what = f"{error.filename}: " if error.filename else ""
        yield f"{what}{error.strerror}"
    else:
        yield (
            f"This is a defect of kanister-py: {type(error).__name__}: {error}; "
            "set KANISTER_PY_TRACEBACK=1 to see where, and report it"
        )


def visible(text: str) -> str:
    """Write out what would steer a terminal or turn the direction of its text."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
