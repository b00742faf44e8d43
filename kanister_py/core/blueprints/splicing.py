"""Splicing: single values of a YAML text are changed without touching any other byte."""

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
    """The text at a path becomes another one."""

    path: Path
    before: str
    after: str


class NewName(NamedTuple):
    """The last key of a path becomes another one; its value stays."""

    path: Path
    after: str


class NewKey(NamedTuple):
    """A map gets one more key, in front of the key at a path."""

    path: Path
    key: str
    value: Any


Edit = NewValue | NewName | NewKey


Edits = Sequence[tuple[Document, Edit]]
"""What is to change, and in which documents of a file."""


class _Splice(NamedTuple):
    start: int
    end: int
    text: str


def spliced(text: str, documents: Sequence[Document], wanted: Edits) -> str | None:
    """Make the changes in a text, or answer None if they cannot be made without others.

    Reads the result again: it must say what was wanted, and nothing else may have
    changed. An anchor whose aliases would change along with it is such an other.
    """
    splices: set[_Splice] = set()
    for document, edit in wanted:
        made = _splices_of(text, document, edit)
        if made is None:
            return None
        splices |= made
    result = _apply(text, splices)
    if result is None:
        return None
    try:
        found = [document.value for document in parse_documents(result)]
    except InvalidDocument:
        return None
    return result if found == _expected(documents, wanted) else None


def _splices_of(text: str, document: Document, edit: Edit) -> set[_Splice] | None:
    if isinstance(edit, NewValue):
        node = document.node_at(edit.path)
        if node is None:
            return None
        if node.style == "*":
            # Only where the anchor is changed too does this one change as wanted.
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
    """Replace a text inside its quotes, block marks, tags and anchors, if it is there once."""
    written = text[place.start : place.end]
    # A version or a package: nothing that would have to be quoted.
    if written.count(before) != 1 or not re.fullmatch(r"[\w.+:/@-]+", after):
        return None
    start = place.start + written.index(before)
    return {_Splice(start, start + len(before), after)}


def _new_line(text: str, parent: Node, place: Place, edit: NewKey) -> str:
    pair = f"{edit.key}: {_written(edit.value)}"
    if text[parent.place.start : parent.place.start + 1] == "{":
        return f"{pair}, "
    line_start = place.start - (place.column - 1)
    line_end = re.compile(r"\r\n|\r|\n").search(text, place.start)
    ending = line_end[0] if line_end else "\n"
    indent = re.sub(r"[^\s]", " ", text[line_start : place.start])
    return f"{pair}{ending}{indent}"


def _written(value: Any) -> str:
    """Write a value on one line; JSON is YAML, but plain text reads better."""
    is_plain = isinstance(value, str) and re.fullmatch(r"[\w.+-]+", value) is not None
    return str(value) if is_plain and value_of_plain(value) == value else dumps(value)


def _apply(text: str, splices: Iterable[_Splice]) -> str | None:
    parts: list[str] = []
    position = 0
    for splice in sorted(splices, key=lambda each: (each.start, each.end, each.text)):
        if splice.start < position:
            return None
        parts += [text[position : splice.start], splice.text]
        position = splice.end
    return "".join([*parts, text[position:]])


def _expected(documents: Sequence[Document], wanted: Edits) -> list[Any]:
    # What aliases share is shared no longer.
    values = {id(document): copy_json(document.value) for document in documents}
    # Names last: the paths of the other edits go by the old ones.
    for document, edit in sorted(wanted, key=lambda each: isinstance(each[1], NewName)):
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
