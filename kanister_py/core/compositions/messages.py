"""What goes to a composition function and what comes back, in whichever form it was given.

The form that everything here understands is protobuf's own JSON: camelCase keys,
enums by name, bytes in base64, durations as `60s`. Whole numbers are ints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

Data: TypeAlias = dict[str, Any]
"""A message as protobuf writes it in JSON."""


class Part:
    """One part of a message: as data, as something a transport understands, or as both.

    The state of a pipeline passes through many calls and is large. It stays in the
    form in which the last function gave it, and is converted once, when somebody
    asks for the other. Nobody changes what a part hands out.
    """

    __slots__ = ("_data", "_read", "wire")

    def __init__(
        self,
        data: Data | None = None,
        *,
        wire: Any = None,
        read: Callable[[Any], Data] | None = None,
    ) -> None:
        if data is None and read is None:
            data = {}
        self._data = data
        self._read = read
        self.wire = wire
        """What a transport made of the data, or the data was made from; only it looks inside."""

    @property
    def data(self) -> Data:
        if self._data is None:
            assert self._read is not None
            self._data = self._read(self.wire)
        return self._data


NOTHING = Part({})


class FunctionRequest(NamedTuple):
    """All that one call of a function is told.

    A map of resources or schemas that is None was never asked for, which is not the
    same as one that was and is empty.
    """

    observed: Part
    desired: Part = NOTHING
    context: Part = NOTHING
    input: Data | None = None
    tag: str = ""
    capabilities: tuple[str, ...] = ()
    credentials: Mapping[str, Data] | None = None
    required_resources: Mapping[str, Data] | None = None
    extra_resources: Mapping[str, Data] | None = None
    required_schemas: Mapping[str, Data] | None = None

    def as_data(self) -> Data:
        """Give the request as a function reads it. Its parts are shared, not copied."""
        meta: Data = {}
        if self.tag:
            meta["tag"] = self.tag
        if self.capabilities:
            meta["capabilities"] = list(self.capabilities)
        data: Data = {"meta": meta, "observed": self.observed.data, "desired": self.desired.data}
        if self.input is not None:
            data["input"] = self.input
        data["context"] = self.context.data
        for key, given in (
            ("credentials", self.credentials),
            ("requiredResources", self.required_resources),
            ("extraResources", self.extra_resources),
            ("requiredSchemas", self.required_schemas),
        ):
            if given is not None:
                data[key] = dict(given)
        return data


class FunctionResponse(NamedTuple):
    """All that one call of a function answered."""

    desired: Part = NOTHING
    context: Part = NOTHING
    results: tuple[Data, ...] = ()
    """Each with `severity`, `message` and, where given, `reason` and `target`."""
    conditions: tuple[Data, ...] = ()
    """Each with `type`, `status`, `reason` and, where given, `message` and `target`."""
    requirements: Data | None = None
    """What it needs besides: `resources`, `extraResources`, `schemas`, each a map of selectors."""
    ttl_seconds: float = 0.0
    """How long the answer holds; zero forbids to keep it."""
    tag: str = ""
    output: Data | None = None

    @property
    def is_fatal(self) -> bool:
        return any(each.get("severity") == "SEVERITY_FATAL" for each in self.results)
