"""Output of the commands: text and colours for people, data for other programs.

All text for people passes through `shown`, which escapes the control characters of a terminal
and adds the only colours.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TextIO, TypeAlias

from kanister_py.core.errors import Fault, InvalidDocument, KanisterError, NoMatch
from kanister_py.core.kube.printable import printable
from kanister_py.core.notices import Notice, Severity

# API groups whose kinds exist only after `crds install`.
_OUR_GROUPS = (
    "cr.kanister.io",
    "kanister-py.io",
    "apiextensions.crossplane.io",
    "pkg.crossplane.io",
)

DATA_FORMATS = ("table", "json", "yaml", "markdown")
LIST_FORMATS = ("table", "wide", "name", "json", "yaml")


class Tint(NamedTuple):
    """A text in a colour, which is used where the stream shows colours."""

    text: str
    colour: str


Cell: TypeAlias = str | Tint
Line: TypeAlias = Cell | Sequence[Cell]

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}


def cells_of(line: Line) -> Sequence[Cell]:
    return (line,) if isinstance(line, str | Tint) else line


def text_of(line: Line) -> str:
    """Return a line without colours, with control characters escaped."""
    return "".join(
        printable(cell.text if isinstance(cell, Tint) else cell) for cell in cells_of(line)
    )


def shown(line: Line, stream: TextIO) -> str:
    """Return a line for a stream: control characters escaped, with colours if it shows them."""
    if not has_colours(stream):
        return text_of(line)
    return "".join(
        f"\x1b[{_CODES[cell.colour]}m{printable(cell.text)}\x1b[0m"
        if isinstance(cell, Tint) and cell.text.strip() and cell.colour
        else text_of(cell)
        for cell in cells_of(line)
    )


def has_colours(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that shows colours, unless NO_COLOR is set."""
    return not os.environ.get("NO_COLOR") and is_terminal(stream)


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def put(line: Line) -> None:
    """Write a line of data to stdout."""
    sys.stdout.write(f"{shown(line, sys.stdout)}\n")


def put_printed(prefix: str, text: str, stream: TextIO) -> None:
    """Write a line that a pod printed. Control characters are escaped on a terminal only."""
    stream.write(f"{printable(prefix)}{printable(text) if stream.isatty() else text}\n")


def write_text(text: str) -> None:
    """Write a document or a diff to stdout. Control characters are escaped on a terminal only."""
    sys.stdout.write(printable(text, keeps="\n\t") if sys.stdout.isatty() else text)


def say(line: Line) -> None:
    """Write a line that is not data to stderr."""
    sys.stderr.write(f"{shown(line, sys.stderr)}\n")


def write_data(
    data: Any,
    form: str,
    lines: Callable[[], Iterable[Line]] = list,
    names: Iterable[str] | None = None,
) -> None:
    """Write data to stdout as JSON, YAML or names, else as `lines`.

    Without `names`, the data are one Kubernetes object or a list of such.
    """
    if form == "json":
        write_text(f"{json.dumps(data, indent=2, ensure_ascii=False)}\n")
    elif form == "yaml":
        from kanister_py.core.yaml.documents import dump_yaml  # imports yaml

        write_text(dump_yaml(data))
    elif form == "name":
        if names is None:
            names = [obj["metadata"]["name"] for obj in data.get("items", (data,))]
        for name in names:
            put(name)
    else:
        sys.stdout.writelines(f"{shown(line, sys.stdout).rstrip()}\n" for line in lines())


def list_of(objects: Sequence[Any]) -> dict[str, Any]:
    """Return Kubernetes objects as one object of kind List."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def write_list(objects: Sequence[Any], form: str) -> None:
    """Write Kubernetes objects to stdout: documents of YAML, or one List in JSON."""
    if form == "json":
        write_data(list_of(objects), form)
        return
    from kanister_py.core.yaml.documents import dump_yaml  # imports yaml

    write_text("---\n".join(dump_yaml(dict(obj)) for obj in objects))


def table(
    head: Sequence[str], rows: Sequence[Sequence[Cell]], *, markdown: bool = False
) -> list[Line]:
    """Return rows as aligned columns, or as a Markdown table."""
    if markdown:
        lines = [head, ["---"] * len(head), *[[_escaped(cell) for cell in row] for row in rows]]
        return [f"| {' | '.join(row)} |" for row in lines]
    titles = [Tint(title, "bold") for title in head]
    widths = [max(map(width_of, column)) for column in zip(head, *rows, strict=True)]
    return [
        [part for cell in zip(row, widths, strict=True) for part in (*padded(*cell), "  ")]
        for row in (titles, *rows)
    ]


def table_of_objects(
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    namespaces: Sequence[str] | None = None,
    at: int = 0,
) -> list[Line]:
    """Return a table of objects, with a column of namespaces before the column `at`."""
    if namespaces is not None:
        head = [*head[:at], "NAMESPACE", *head[at:]]
        pairs = zip(rows, namespaces, strict=True)
        rows = [[*row[:at], namespace, *row[at:]] for row, namespace in pairs]
    return table(head, [[cell or "-" for cell in row] for row in rows])


def entry_line(title: str, text: Cell) -> Line:
    """Return a line of a description: a bold title and a text."""
    return [Tint(f"{f'{title}:' if title else '':<14}", "bold"), text]


def _escaped(cell: Cell) -> str:
    text = cell.text if isinstance(cell, Tint) else cell
    return "<br>".join(map(printable, text.replace("|", "\\|").split("\n")))


def width_of(cell: Cell) -> int:
    """Return the terminal columns of a text: two for a wide character, none for an accent."""
    text = text_of(cell)
    return len(text) if text.isascii() else sum(map(_width_of_character, text))


def _width_of_character(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def padded(cell: Cell, width: int) -> tuple[Cell, str]:
    """Return a cell with the blanks that fill its column."""
    return cell, " " * (width - width_of(cell))


def warning(text: str) -> Line:
    return Tint("warning:", "yellow"), f" {text}"


def say_warning(text: str) -> None:
    """Write a warning to stderr."""
    say(warning(text))


def say_notices(notices: Iterable[Notice]) -> None:
    """Write notices to stderr, each message once."""
    messages: set[str] = set()
    for notice in notices:
        if notice.message not in messages:
            messages.add(notice.message)
            is_warning = notice.severity is Severity.WARNING
            say(warning(notice.message) if is_warning else f"note: {notice.message}")


def say_error(error: BaseException) -> None:
    """Write an error to stderr, one line for each problem, without a traceback."""
    for line in error_lines(error):
        say(line)


def error_lines(error: BaseException) -> Iterator[Line]:
    for text in _texts_of(error):
        first, *more = text.split("\n")
        yield Tint("error:", "red"), f" {first}"
        yield from (f"  {line}" for line in more)


def _texts_of(error: BaseException) -> Iterator[str]:
    if isinstance(error, InvalidDocument):
        yield from map(str, error.problems)
    elif isinstance(error, NoMatch) and any(group in error.message for group in _OUR_GROUPS):
        yield f"{error.message}; `kanister-py crds install` installs missing definitions"
    elif isinstance(error, KanisterError) and not isinstance(error, Fault):
        yield error.message
    elif isinstance(error, OSError) and error.strerror:
        prefix = f"{error.filename}: " if error.filename else ""
        yield f"{prefix}{error.strerror}"
    else:
        yield (
            f"This is a defect of kanister-py: {type(error).__name__}: {error}; "
            "set KANISTER_PY_TRACEBACK=1 for the traceback, and report it"
        )
