"""Documents that patches read from and write to, and the numbers in them."""

from __future__ import annotations

from typing import Any

from kanister_py.core.objects.copies import copy_json
from kanister_py.core.objects.field_paths import FieldPath, MergeOptions, merge_values
from kanister_py.functions.composition.patch_and_transform.values import (
    Unresolved,
    as_decoded,
    as_floats,
    settled,
)


class Document:
    """One object. A document that is written to must be one's own copy.

    An object that is written to is decoded anew: from then on its whole numbers are
    read as ints. Until then, all numbers of a request are doubles.
    """

    __slots__ = ("data", "is_decoded")

    def __init__(self, data: dict[str, Any], *, is_decoded: bool = False) -> None:
        self.data = data
        self.is_decoded = is_decoded

    def copy(self) -> Document:
        return Document(copy_json(self.data), is_decoded=self.is_decoded)

    def read(self, path: FieldPath) -> Any:
        """Give a copy of what is at a path, its numbers of the types they have here."""
        value = path.get(self.data)
        return as_decoded(value) if self.is_decoded else as_floats(value)

    def write(self, path: FieldPath, value: Any, merge: MergeOptions | None) -> None:
        """Put a value at a path; the document keeps the value itself."""
        if merge is not None:
            value = self._merged(path, value, merge)
        path.set(self.data, value)

    def written(self) -> None:
        """End a patch: what is there now must still be an object of some kind."""
        kind = self.data.get("kind")
        if not isinstance(kind, str) or not kind:
            raise Unresolved(missing_kind(self.data))
        self.is_decoded = True

    def _merged(self, path: FieldPath, value: Any, merge: MergeOptions) -> Any:
        there = path.find(self.data)
        typed = as_decoded(there) if self.is_decoded else as_floats(there)
        return settled(merge_values(typed, value, merge))


def missing_kind(data: Any) -> str:
    from kanister_py.functions.composition.patch_and_transform.string_transforms import to_json

    return f"Object 'Kind' is missing in '{to_json(as_floats(data))}'"
