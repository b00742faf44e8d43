"""Output of the commands: text and colours for people, data for other programs.

All that is written for people passes through `shown`: what a terminal would obey comes
out as a text that says so, and colours are ours alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TextIO, TypeAlias

from kanister_py.core.errors import Fault, InvalidDocument, KanisterError, NoMatch
from kanister_py.core.kube.printable import printable
from kanister_py.core.notices import Notice, Severity

# Kinds that a cluster has only once our definitions of them are installed.
_OUR_GROUPS = (
    "cr.kanister.io",
    "kanister-py.io",
    "apiextensions.crossplane.io",
    "pkg.crossplane.io",
)

DATA_FORMATS = ("table", "json", "yaml", "markdown")
LIST_FORMATS = ("table", "wide", "name", "json", "yaml")


class Tint(NamedTuple):
    """A text in a colour, which shows where colours are shown."""

    text: str
    colour: str


Cell: TypeAlias = str | Tint
Line: TypeAlias = Cell | Sequence[Cell]

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}


def cells_of(line: Line) -> Sequence[Cell]:
    return (line,) if isinstance(line, str | Tint) else line


def text_of(line: Line) -> str:
    """Give a line as it is seen, without colours."""
    return "".join(
        printable(each.text if isinstance(each, Tint) else each) for each in cells_of(line)
    )


def shown(line: Line, stream: TextIO) -> str:
    """Give a line as a stream takes it: safe to look at, in colours if it shows them."""
    if not has_colours(stream):
        return text_of(line)
    return "".join(
        f"\x1b[{_CODES[each.colour]}m{printable(each.text)}\x1b[0m"
        if isinstance(each, Tint) and each.text.strip() and each.colour
        else text_of(each)
        for each in cells_of(line)
    )


def has_colours(stream: TextIO) -> bool:
    """Say whether a stream is a terminal that shows colours and whose owner wants them."""
    return not os.environ.get("NO_COLOR") and is_terminal(stream)


def is_terminal(stream: TextIO) -> bool:
    """Say whether a stream leads to a terminal that knows more than the end of a line."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def put(line: Line) -> None:
    """Write a line of what was asked for to stdout."""
    sys.stdout.write(f"{shown(line, sys.stdout)}\n")


def put_printed(where: str, text: str, stream: TextIO) -> None:
    """Write a line that a pod has printed: into a pipe as it is."""
    stream.write(f"{printable(where)}{printable(text) if stream.isatty() else text}\n")


def write_text(text: str) -> None:
    """Write a text of many lines to stdout, a document or a diff: into a pipe as it is."""
    sys.stdout.write(printable(text, keeps="\n\t") if sys.stdout.isatty() else text)


def say(line: Line) -> None:
    """Write a line that is not data to stderr."""
    sys.stderr.write(f"{shown(line, sys.stderr)}\n")


def write_data(
    data: Any,
    form: str,
    people: Callable[[], Iterable[Line]] = list,
    names: Iterable[str] | None = None,
) -> None:
    """Write data to stdout as JSON, YAML or names, else as the lines of `people`.

    Without `names`, the data are one Kubernetes object or a list of such.
    """
    if form == "json":
        import json

        write_text(f"{json.dumps(data, indent=2, ensure_ascii=False)}\n")
    elif form == "yaml":
        from kanister_py.core.yaml.documents import dump_yaml

        write_text(dump_yaml(data))
    elif form == "name":
        if names is None:
            names = [obj["metadata"]["name"] for obj in data.get("items", (data,))]
        for name in names:
            put(name)
    else:
        sys.stdout.writelines(f"{shown(line, sys.stdout).rstrip()}\n" for line in people())


def list_of(objects: Sequence[Any]) -> dict[str, Any]:
    """Give Kubernetes objects as one."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def write_list(objects: Sequence[Any], form: str) -> None:
    """Write Kubernetes objects to stdout: documents of YAML, or one List in JSON."""
    if form == "json":
        write_data(list_of(objects), form)
        return
    from kanister_py.core.yaml.documents import dump_yaml

    write_text("---\n".join(dump_yaml(dict(each)) for each in objects))


def table(
    head: Sequence[str], rows: Sequence[Sequence[Cell]], *, markdown: bool = False
) -> list[Line]:
    """Set rows in columns: aligned for a terminal, or as a Markdown table."""
    if markdown:
        lines = [head, ["---"] * len(head), *[[_escaped(cell) for cell in row] for row in rows]]
        return [f"| {' | '.join(row)} |" for row in lines]
    titles = [Tint(each, "bold") for each in head]
    widths = [max(map(width_of, column)) for column in zip(head, *rows, strict=True)]
    return [
        [part for each in zip(row, widths, strict=True) for part in (*padded(*each), "  ")]
        for row in (titles, *rows)
    ]


def table_of_objects(
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    namespaces: Sequence[str] | None = None,
    at: int = 0,
) -> list[Line]:
    """Set what is known of objects in columns, their namespaces before the column `at`."""
    if namespaces is not None:
        head = [*head[:at], "NAMESPACE", *head[at:]]
        pairs = zip(rows, namespaces, strict=True)
        rows = [[*row[:at], where, *row[at:]] for row, where in pairs]
    return table(head, [[each or "-" for each in row] for row in rows])


def entry_line(title: str, text: Cell) -> Line:
    """Return a line of a description: a bold title and a text."""
    return [Tint(f"{f'{title}:' if title else '':<14}", "bold"), text]


def _escaped(cell: Cell) -> str:
    text = cell.text if isinstance(cell, Tint) else cell
    return "<br>".join(map(printable, text.replace("|", "\\|").split("\n")))


def width_of(cell: Cell) -> int:
    """Count the columns that a text takes: two for wide signs, none for accents of their own."""
    text = text_of(cell)
    return len(text) if text.isascii() else sum(map(_width_of_sign, text))


def _width_of_sign(sign: str) -> int:
    import unicodedata

    if unicodedata.category(sign) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def padded(cell: Cell, width: int) -> tuple[Cell, str]:
    """Fill a cell up with blanks."""
    return cell, " " * (width - width_of(cell))


def warning(text: str) -> Line:
    return Tint("warning:", "yellow"), f" {text}"


def say_warning(text: str) -> None:
    """Tell the user of something that is wrong but stops nothing."""
    say(warning(text))


def say_notices(notices: Iterable[Notice]) -> None:
    """Hand on what the core had to say, each thing once."""
    known: set[str] = set()
    for notice in notices:
        if notice.message not in known:
            known.add(notice.message)
            is_warning = notice.severity is Severity.WARNING
            say(warning(notice.message) if is_warning else f"note: {notice.message}")


def say_error(error: BaseException) -> None:
    """Tell the user what went wrong, one line for each thing; no traceback."""
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
