"""Objects in documents: their metadata, and their places in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from kanister_py.core.errors import Problem
from kanister_py.core.models import ApiModel, TextMap
from kanister_py.core.yaml.documents import Document, Path, Place


class Metadata(ApiModel):
    """Metadata of an object, as far as it is read."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: TextMap = Field(default_factory=dict)
    annotations: TextMap = Field(default_factory=dict)

    other_keys: ClassVar = (
        "finalizers",
        "ownerReferences",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
    )


class LocatedObject(NamedTuple):
    """An object in a document, with its kind and path."""

    document: Document
    path: Path
    kind: str
    value: Mapping[str, Any]

    @property
    def group(self) -> str:
        return str(self.value.get("apiVersion") or "").partition("/")[0]

    def place_of(self, path: Sequence[str | int]) -> Place:
        return self.document.place_of((*self.path, *path))

    def problem(self, path: Sequence[str | int], message: str) -> Problem:
        return self.document.problem((*self.path, *path), message)

    def line_of(self, path: Sequence[str | int], line: int) -> int:
        """Return the line in the file of a line within the text at a path."""
        node = self.document.node_at((*self.path, *path))
        if node is None or node.style not in ("|", ">"):
            return self.place_of(path).line
        return node.place.line + max(line, 1)


def objects_at(document: Document, path: Path) -> Iterator[LocatedObject]:
    """Yield the object at a path of a document, or the items if it is a List."""
    for place, value in maps_at(document, path):
        kind = value.get("kind")
        if isinstance(kind, str):
            yield LocatedObject(document, place, kind, value)


def maps_at(document: Document, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the map at a path of a document, or the items if it is a List."""
    node = document.node_at(path)
    value = node.value if node is not None else None
    if not isinstance(value, dict):
        return
    if value.get("kind") == "List" and isinstance(value.get("items"), list):
        for index in range(len(value["items"])):
            yield from maps_at(document, (*path, "items", index))
    else:
        yield path, value
