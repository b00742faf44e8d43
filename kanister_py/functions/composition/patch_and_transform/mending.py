"""What v0.2.0 reads otherwise of an input: its published defaults, and a mark for what runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

MENDED: Final = "isMended"
"""Marks a transform or a check that takes whole numbers for integers and joins as it says."""
_DEFAULTS: Final = {"math": "Multiply", "string": "Format"}


def mended(decoded: dict[str, Any]) -> dict[str, Any]:
    """Fill in what the published definition of the input says where it says nothing."""
    for patch in _patches_of(decoded):
        for transform in patch.get("transforms", ()):
            for key, default in _DEFAULTS.items():
                if key in transform:
                    transform[key].setdefault("type", default)
            for pattern in transform.get("match", {}).get("patterns", ()):
                pattern.setdefault("type", "literal")
            transform[MENDED] = True
    for resource in decoded.get("resources", ()):
        for check in resource.get("readinessChecks", ()):
            check[MENDED] = True
    return decoded


def _patches_of(decoded: dict[str, Any]) -> Iterator[dict[str, Any]]:
    parents = (
        *decoded.get("patchSets", ()),
        decoded.get("environment", {}),
        *decoded.get("resources", ()),
        decoded.get("writeConnectionSecretToRef", {}),
    )
    for each in parents:
        yield from each.get("patches", ())
