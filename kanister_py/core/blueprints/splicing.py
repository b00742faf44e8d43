"""Splicing: change single values of a YAML text and leave all other bytes unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from json import dumps
from typing import Any, NamedTuple

from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.yaml.documents import Document, Node, Path, Place, parse_documents
from kanister_py.core.yaml.scalars import value_of_plain


class NewValue(NamedTuple):
    """Replace the text at a path."""

    path: Path
    before: str
    after: str


class NewName(NamedTuple):
    """Rename the last key of a path; its value stays."""

    path: Path
    after: str


class NewKey(NamedTuple):
    """Insert a key into a mapping, before the key at a path."""

    path: Path
    key: str
    value: Any


Edit = NewValue | NewName | NewKey


Edits = Sequence[tuple[Document, Edit]]
"""Edits with the documents of the file that they change."""


class _Splice(NamedTuple):
    start: int
    end: int
    text: str


def apply_edits(text: str, documents: Sequence[Document], edits: Edits) -> str | None:
    """Return the text with all edits, or None if they would change anything else.

    The result is parsed again and compared with the expected documents. For example, an edit of an
    anchor whose aliases are not edited returns None.
    """
    splices: set[_Splice] = set()
    for document, edit in edits:
        new_splices = _splices_of(text, document, edit)
        if new_splices is None:
            return None
        splices |= new_splices
    result = _apply(text, splices)
    if result is None:
        return None
    try:
        parsed = [document.value for document in parse_documents(result)]
    except InvalidDocument:
        return None
    return result if parsed == _expected(documents, edits) else None


def _splices_of(text: str, document: Document, edit: Edit) -> set[_Splice] | None:
    if isinstance(edit, NewValue):
        node = document.node_at(edit.path)
        if node is None:
            return None
        if node.style == "*":
            # An alias changes with its anchor; the final comparison verifies that.
            return set()
        return _replaced(text, node.place, edit.before, edit.after)
    parent = document.node_at(edit.path[:-1])
    last = edit.path[-1]
    if parent is None or not isinstance(last, str) or last not in parent.keys:
        return None
    place = parent.keys[last]
    if isinstance(edit, NewName):
        return _replaced(text, place, last, edit.after)
    return {_Splice(place.start, place.start, _new_line(text, parent, place, edit))}


def _replaced(text: str, place: Place, before: str, after: str) -> set[_Splice] | None:
    """Replace a text inside its quotes, block marks, tags and anchors, if it occurs once."""
    source = text[place.start : place.end]
    # Versions and packages consist of these characters and need no quotes.
    if source.count(before) != 1 or not re.fullmatch(r"[\w.+:/@-]+", after):
        return None
    start = place.start + source.index(before)
    return {_Splice(start, start + len(before), after)}


def _new_line(text: str, parent: Node, place: Place, edit: NewKey) -> str:
    pair = f"{edit.key}: {_format_value(edit.value)}"
    if text[parent.place.start : parent.place.start + 1] == "{":
        return f"{pair}, "
    line_start = place.start - (place.column - 1)
    line_end = re.compile(r"\r\n|\r|\n").search(text, place.start)
    ending = line_end[0] if line_end else "\n"
    indent = re.sub(r"[^\s]", " ", text[line_start : place.start])
    return f"{pair}{ending}{indent}"


def _format_value(value: Any) -> str:
    """Format a value on one line, as plain text if possible, else as JSON, which is valid YAML."""
    is_plain = isinstance(value, str) and re.fullmatch(r"[\w.+-]+", value) is not None
    return str(value) if is_plain and value_of_plain(value) == value else dumps(value)


def _apply(text: str, splices: Iterable[_Splice]) -> str | None:
    parts: list[str] = []
    position = 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.end, splice.text)):
        if splice.start < position:
            return None
        parts += [text[position : splice.start], splice.text]
        position = splice.end
    return "".join([*parts, text[position:]])


def _expected(documents: Sequence[Document], edits: Edits) -> list[Any]:
    # Copies: values shared by aliases must not change together here.
    values = {id(document): copy_json(document.value) for document in documents}
    # Renames come last, because the paths of other edits use the old names.
    for document, edit in sorted(edits, key=lambda pair: isinstance(pair[1], NewName)):
        parent = values[id(document)]
        for part in edit.path[:-1]:
            parent = parent[part]
        last = edit.path[-1]
        if isinstance(edit, NewValue):
            parent[last] = edit.after
        elif isinstance(edit, NewName):
            parent[edit.after] = parent.pop(last)
        else:
            parent[edit.key] = edit.value
    return [*values.values()]
