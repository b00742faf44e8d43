"""YAML documents: plain data with the line and column of every value.

The rules are the same as in Kubernetes' tools: `y n yes no on off` are booleans, dates and
`12:30` stay text, whole numbers of any notation stay whole, and all keys become text. The
tools convert YAML to JSON, which has visible effects: numbers that do not fit into 64 bits
become floats, and float keys are formatted as 32-bit floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, NamedTuple

import yaml

from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.yaml.scalars import TAG, as_json, as_key, plain_value_of, resolved_scalar

# API servers accept objects of about 1.5 MiB. A file may contain several of them.
MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 100
MAX_NODES = 200_000

_MOST_PROBLEMS = 100

Path = tuple[str | int, ...]

# Characters that YAML does not allow, and surrogates. A pattern of the allowed characters
# would take twelve times as long to compile.
_NOT_IN_YAML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_NOT_IN_ASCII_YAML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*\Z")


def text_of_path(path: Sequence[str | int]) -> str:
    """Format a path: `actions.backup.phases[1].func`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def nearest(
    word: str, names: Sequence[str], limit: int = 3, cutoff: float = 0.6
) -> tuple[str, ...]:
    """Return the names that resemble a word, ignoring case, the most similar first."""
    by_folded = {name.casefold(): name for name in sorted(names, reverse=True)}
    matches = get_close_matches(word.casefold(), sorted(by_folded), n=limit, cutoff=cutoff)
    return tuple(by_folded[match] for match in matches)


class Place(NamedTuple):
    """Place in a text: line and column start at one, offsets count characters."""

    line: int
    column: int
    start: int
    end: int


class Node(NamedTuple):
    """A value with its place and child nodes.

    `keys` has the places of a map's keys. `style` is the quote or block indicator of a
    scalar, empty for a plain one.
    """

    value: Any
    place: Place
    children: dict[str | int, Node]
    keys: dict[str, Place]
    weight: int
    style: str = ""


class Document(NamedTuple):
    """One YAML document: plain data with the places of all values."""

    file: str
    root: Node

    @classmethod
    def of(cls, value: Any, file: str = "") -> Document:
        """Build a document from data without places."""
        return cls(file, _bare_node(value))

    @property
    def value(self) -> Any:
        return self.root.value

    def node_at(self, path: Sequence[str | int]) -> Node | None:
        """Find the node at a path, or None."""
        node = self.root
        for part in path:
            child = _child_of(node, part)
            if child is None:
                return None
            node = child
        return node

    def place_of(self, path: Sequence[str | int]) -> Place:
        """Return the place of a path, or of its nearest parent if it does not exist."""
        node, place = self.root, self.root.place
        for part in path:
            child = _child_of(node, part)
            if child is None:
                break
            place = node.keys[part] if isinstance(part, str) and part in node.keys else child.place
            node = child
        return place

    def problem(
        self, path: Sequence[str | int], message: str, reason: str = "InvalidDocument"
    ) -> Problem:
        """Build a problem at a path of this document."""
        place = self.place_of(path)
        return Problem(self.file, place.line, place.column, text_of_path(path), message, reason)


def parse_documents(
    source: str | bytes, file: str = "", *, repeated_keys_win: bool = False
) -> list[Document]:
    """Parse every document of a YAML stream. Empty documents are left out.

    A repeated key in a map is refused. With `repeated_keys_win`, as for documents that
    templates rendered, the last one is used.
    """
    text = _text_of(source, file)
    # kubectl reads files line by line, so a block scalar at the end always has its line break.
    reader = _Reader(text if text.endswith("\n") else f"{text}\n", file, repeated_keys_win)
    try:
        return [Document(file, root) for root in reader.documents() if root.value is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = error.problem or error.context or "it cannot be parsed"
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        last = Problem(file, line, column, "", f"Not valid YAML: {why}")
        raise InvalidDocument([*reader.problems, last]) from None


def parse_document(source: str | bytes, file: str = "") -> Document:
    """Parse a YAML text that must contain exactly one document."""
    documents = parse_documents(source, file)
    if not documents:
        raise _refusal(file, "Found nothing in it; it must contain one YAML document", 1, 1)
    if len(documents) > 1:
        place = documents[1].root.place
        message = f"Found {len(documents)} documents; it must contain one"
        raise _refusal(file, message, place.line, place.column)
    return documents[0]


def _refusal(file: str, message: str, line: int = 0, column: int = 0) -> InvalidDocument:
    return InvalidDocument([Problem(file, line, column, "", message)])


def _text_of(source: str | bytes, file: str) -> str:
    if len(source) > MAX_BYTES:
        raise too_large(file)
    if isinstance(source, str):
        return _checked(source, file)
    try:
        return _checked(source.decode("utf-8-sig"), file)
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        column = error.start - (source.rfind(b"\n", 0, error.start) + 1) + 1
        where = f"byte 0x{source[error.start]:02x} at offset {error.start}"
        message = f"Not UTF-8: {where}; save the file as UTF-8"
        raise _refusal(file, message, line, column) from None


def _checked(text: str, file: str) -> str:
    match = (_NOT_IN_ASCII_YAML if text.isascii() else _NOT_IN_YAML).search(text)
    if match is None:
        return text
    line = text.count("\n", 0, match.start()) + 1
    column = match.start() - text.rfind("\n", 0, match.start())
    message = f"the character U+{ord(match[0]):04X} is not allowed in a YAML file"
    raise _refusal(file, f"Not valid YAML: {message}", line, column)


def too_large(file: str) -> InvalidDocument:
    """Build the error for a file that is too large to be read."""
    return _refusal(
        file,
        f"Larger than {MAX_BYTES // (1024 * 1024)} MiB, the limit for a file; "
        "split it into several files",
    )


# Shared by all scalars, since nodes are never modified.
_NO_CHILDREN: dict[str | int, Node] = {}
_NO_KEYS: dict[str, Place] = {}


class _Open:
    """A collection whose end was not reached yet."""

    __slots__ = ("anchor", "elements", "is_map", "items", "key", "start")

    def __init__(self, start: Any, anchor: str | None, *, is_map: bool) -> None:
        self.start = start
        self.anchor = anchor
        self.is_map = is_map
        self.items: list[tuple[Node, Node]] = []
        self.elements: list[Node] = []
        self.key: Node | None = None


class _Reader:
    """Builds nodes from the parser's events, with limits for depth and size.

    There is no recursion: ten thousand brackets must be an error, not a crash.
    """

    def __init__(self, text: str, file: str, repeated_keys_win: bool) -> None:
        loader = getattr(yaml, "CLoader", yaml.Loader)
        self._events: Iterator[Any] = yaml.parse(text, Loader=loader)
        self._file = file
        self._repeated_keys_win = repeated_keys_win
        self._anchors: dict[str, Node | None] = {}
        self.problems: list[Problem] = []
        self._nodes = 0
        self._stack: list[_Open] = []
        self._root: Node | None = None

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            take = self._BY_EVENT.get(type(event))
            if take is not None:
                take(self, event)
            if isinstance(event, yaml.DocumentEndEvent) and self._root is not None:
                yield self._root
        if self.problems:
            raise InvalidDocument(self.problems)

    def _start_document(self, _event: Any) -> None:
        self._anchors.clear()
        self._root = None

    def _open(self, event: Any) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise self._refused(event, f"Nested deeper than {MAX_DEPTH} levels")
        if event.anchor:
            # The anchor is not complete: an alias to it from inside would be infinitely nested.
            self._anchors[event.anchor] = None
        is_map = isinstance(event, yaml.MappingStartEvent)
        self._stack.append(_Open(event.start_mark, event.anchor, is_map=is_map))

    def _close(self, event: Any) -> None:
        opened = self._stack.pop()
        place = _place(opened.start, event.end_mark)
        node = self._map(opened, place) if opened.is_map else _list(opened, place)
        if opened.anchor:
            self._anchors[opened.anchor] = node
        self._put(node)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._refused(event, f"The alias *{event.anchor} has no anchor before it")
        target = self._anchors[event.anchor]
        if target is None:
            raise self._refused(
                event, f"The alias *{event.anchor} is inside the value of its own anchor"
            )
        self._count(event, target.weight)
        place = _place(event.start_mark, event.end_mark)
        self._put(target._replace(place=place, keys=target.keys, style="*"))

    def _scalar(self, event: Any) -> None:
        self._count(event, 1)
        text, style = event.value, event.style or ""
        if event.tag is None and style and style != ":":
            value = text
        else:
            try:
                value = self._value_of(event, text)
            except ValueError as error:
                here = _place(event.start_mark, event.end_mark)
                self._add(here, self._path_here(), str(error))
                value = text
        start, end = event.start_mark, event.end_mark
        place = Place(start.line + 1, start.column + 1, start.index, end.index)
        node = Node(value, place, _NO_CHILDREN, _NO_KEYS, 1, "" if style == ":" else style)
        if event.anchor:
            self._anchors[event.anchor] = node
        self._put(node)

    def _value_of(self, event: Any, text: str) -> Any:
        is_plain, _is_plain_when_quoted = event.implicit
        resolved = resolved_scalar(event.tag, text, is_plain)
        at_key = bool(self._stack) and self._stack[-1].is_map and self._stack[-1].key is None
        if at_key:
            is_merge = text == "<<" and (is_plain or event.tag == f"{TAG}merge")
            return _MERGE if is_merge else as_key(resolved)
        return resolved if isinstance(resolved, str) else as_json(resolved, text)

    def _put(self, node: Node) -> None:
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        if not parent.is_map:
            parent.elements.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            parent.items.append((parent.key, node))
            parent.key = None

    def _map(self, opened: _Open, place: Place) -> Node:
        children: dict[str | int, Node] = {}
        keys: dict[str, Place] = {}
        weight = 1
        for key, node in opened.items:
            weight += node.weight
            if key.value is _MERGE:
                # Merged keys override the keys before the merge key.
                children.update(self._merged(key, node))
                continue
            name = self._key(key)
            if name in keys and not self._repeated_keys_win:
                what = f"The key {name!r} is repeated in one map, first on line {keys[name].line}"
                self._add(key.place, self._path_here(name), what)
            children[name] = node
            keys[name] = key.place
        value = {name: node.value for name, node in children.items()}
        return Node(value, place, children, keys, weight)

    def _merged(self, key: Node, node: Node) -> dict[str | int, Node]:
        sources = list(node.children.values()) if isinstance(node.value, list) else [node]
        merged: dict[str | int, Node] = {}
        for source in reversed(sources):
            if isinstance(source.value, dict):
                merged.update(source.children)
                continue
            what = "The merge key << requires a map or a list of maps"
            self._add(key.place, self._path_here("<<"), what)
        return merged

    def _key(self, key: Node) -> str:
        if isinstance(key.value, str):
            return key.value
        if key.style == "*" and isinstance(key.value, bool | int | float):
            return str(as_key(key.value))
        what = "nothing" if key.value is None else kind_of(key.value)
        self._add(key.place, self._path_here(), f"A key must be text, found {what}")
        return str(key.value)

    def _add(self, place: Place, path: str, message: str) -> None:
        self.problems.append(Problem(self._file, place.line, place.column, path, message))
        if len(self.problems) >= _MOST_PROBLEMS:
            raise InvalidDocument(self.problems)

    def _path_here(self, *more: str | int) -> str:
        parts: list[str | int] = []
        for opened in self._stack:
            if not opened.is_map:
                parts.append(len(opened.elements))
            elif opened.key is not None:
                parts.append("<<" if opened.key.value is _MERGE else str(opened.key.value))
        return text_of_path([*parts, *more])

    def _count(self, event: Any, weight: int) -> None:
        self._nodes += weight
        if self._nodes > MAX_NODES:
            what = f"More than {MAX_NODES} values, aliases included; split the file"
            raise self._refused(event, what)

    def _refused(self, event: Any, message: str) -> InvalidDocument:
        mark = event.start_mark
        last = Problem(self._file, mark.line + 1, mark.column + 1, "", message)
        return InvalidDocument([*self.problems, last])

    _BY_EVENT: ClassVar[dict[type, Callable[[_Reader, Any], None]]] = {
        yaml.DocumentStartEvent: _start_document,
        yaml.MappingStartEvent: _open,
        yaml.SequenceStartEvent: _open,
        yaml.MappingEndEvent: _close,
        yaml.SequenceEndEvent: _close,
        yaml.AliasEvent: _alias,
        yaml.ScalarEvent: _scalar,
    }


def _list(opened: _Open, place: Place) -> Node:
    children: dict[str | int, Node] = dict(enumerate(opened.elements))
    weight = 1 + sum(node.weight for node in opened.elements)
    return Node([node.value for node in opened.elements], place, children, {}, weight)


_NOWHERE = Place(0, 0, 0, 0)


def _bare_node(value: Any) -> Node:
    return Node(value, _NOWHERE, _NO_CHILDREN, _NO_KEYS, 1)


def _child_of(node: Node, part: str | int) -> Node | None:
    """Return a child of a node. Children of data without places are built on access."""
    if node.place is not _NOWHERE:
        return node.children.get(part)
    value = node.value
    exists = part in value if isinstance(value, dict) else False
    if isinstance(value, list) and isinstance(part, int):
        exists = 0 <= part < len(value)
    return _bare_node(value[part]) if exists else None


def _place(start: Any, end: Any) -> Place:
    return Place(start.line + 1, start.column + 1, start.index, end.index)


def kind_of(value: object) -> str:
    """Return the kind of a value for error messages."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    return {str: "text", bool: "a boolean", int: "a number", float: "a number"}.get(
        type(value), "nothing"
    )


def why_no_json(error: Exception) -> str:
    """Return where a text is not valid JSON, from the error of the parser."""
    position = getattr(error, "pos", None)
    if position is None:
        return str(error)
    place = f"line {getattr(error, 'lineno', 0)}, column {getattr(error, 'colno', 0)}"
    is_at_end = not getattr(error, "doc", "")[position:].strip()
    return f"it ends too early at {place}" if is_at_end else f"it is not valid at {place}"


def shown(value: object) -> str:
    """Format a value for error messages: shortened, and without the contents of collections."""
    if value is None or isinstance(value, dict | list):
        return kind_of(value)
    text = repr(value) if isinstance(value, str) else str(value)
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= 60 else f"{text[:57]}..."


_MERGE = object()


def dump_yaml(value: Any) -> str:
    """Format plain data as YAML that all parsers read as the same data.

    Text that some parsers would read as another type (`on`, `1e3`, `12:30`) is quoted.
    Text with several lines is a block.
    """
    text: str = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )
    return text


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - the signature is PyYAML's
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None if isinstance(plain_value_of(text), str) else "'"
    return dumper.represent_scalar(f"{TAG}str", text, style=style)


_Dumper.add_representer(str, _represent_text)
