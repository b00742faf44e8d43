"""Messages of composition functions: requests and responses, decoded or as received.

Decoded messages have the form of protobuf's JSON: camelCase keys, enums by name, bytes in
base64, durations as `60s`. Whole numbers are ints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Data: TypeAlias = dict[str, Any]
"""A message in protobuf's JSON form."""


class Part:
    """One part of a message: its decoded data, its encoded form (`wire`), or both.

    The state of a pipeline is large, and is passed to every function. It stays in the form in
    which the last function returned it, and is decoded once, on first access. The data of a part
    must not be modified.
    """

    __slots__ = ("_data", "_lazy", "_read", "_read_lazily", "wire")

    def __init__(
        self,
        data: Data | None = None,
        *,
        wire: Any = None,
        read: Callable[[Any], Data] | None = None,
        read_lazily: Callable[[Any], Data] | None = None,
    ) -> None:
        if data is None and read is None:
            data = {}
        self._data = data
        self._read = read
        self._read_lazily = read_lazily
        self._lazy: Data | None = None
        self.wire = wire
        """The transport's form. Only the transport interprets it."""

    @property
    def data(self) -> Data:
        if self._data is None:
            assert self._read is not None
            self._data = self._read(self.wire)
        return self._data

    @property
    def lazy(self) -> Data:
        """The data of a state, with resources that are only decoded on access.

        Such resources are mappings but not dicts, so most code cannot use them. They can be
        returned in a response without having been decoded.
        """
        if self._data is not None or self._read_lazily is None:
            return self.data
        if self._lazy is None:
            self._lazy = self._read_lazily(self.wire)
        return self._lazy

    def compact(self) -> Part:
        """Return the part without its decoded data, if it was received as bytes."""
        if self._read is None or not isinstance(self.wire, bytes):
            return self
        return Part(wire=self.wire, read=self._read, read_lazily=self._read_lazily)

    @property
    def as_received(self) -> bytes | None:
        """The bytes in which the part was received, or None."""
        return self.wire if self._read is not None and isinstance(self.wire, bytes) else None


EMPTY_PART = Part({})


REQUEST_FIELDS: Final[Mapping[str, str]] = {
    "meta": "meta",
    "observed": "observed",
    "desired": "desired",
    "input": "input",
    "context": "context",
    "credentials": "credentials",
    "requiredResources": "required_resources",
    "extraResources": "extra_resources",
    "requiredSchemas": "required_schemas",
}
"""Keys of a request in JSON, in their order, with the names of the fields."""


class FunctionRequest(NamedTuple):
    """The request of one call of a function.

    The maps of resources and schemas are keyed by requirement, and None if there are no
    requirements. A requirement that matched nothing has an entry without items.
    """

    observed: Part
    desired: Part = EMPTY_PART
    context: Part = EMPTY_PART
    input: Data | None = None
    tag: str = ""
    capabilities: tuple[str, ...] = ()
    credentials: Mapping[str, Data] | None = None
    required_resources: Mapping[str, Data] | None = None
    extra_resources: Mapping[str, Data] | None = None
    required_schemas: Mapping[str, Data] | None = None

    @property
    def meta(self) -> Data:
        meta: Data = {"tag": self.tag} if self.tag else {}
        if self.capabilities:
            meta["capabilities"] = list(self.capabilities)
        return meta

    def value_of(self, key: str) -> Any:
        """Return the value under a key of the message's JSON, or None."""
        value = getattr(self, REQUEST_FIELDS[key])
        return value.data if isinstance(value, Part) else value

    def as_data(self) -> Data:
        """Return the request in JSON form. Its parts are shared, not copied."""
        values = {key: self.value_of(key) for key in REQUEST_FIELDS}
        return {key: value for key, value in values.items() if value is not None}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> FunctionRequest:
        """Build a request from its JSON form. Its values are shared, not copied."""
        meta = data.get("meta") or {}
        return cls(
            observed=Part(data.get("observed") or {}),
            desired=Part(data.get("desired") or {}),
            context=Part(data.get("context") or {}),
            input=data.get("input"),
            tag=meta.get("tag", ""),
            capabilities=tuple(meta.get("capabilities", ())),
            credentials=data.get("credentials"),
            required_resources=data.get("requiredResources"),
            extra_resources=data.get("extraResources"),
            required_schemas=data.get("requiredSchemas"),
        )


class FunctionResponse(NamedTuple):
    """The response of one call of a function."""

    desired: Part = EMPTY_PART
    context: Part = EMPTY_PART
    results: tuple[Data, ...] = ()
    """Results with `severity` and `message`, optionally `reason` and `target`."""
    conditions: tuple[Data, ...] = ()
    """Conditions with `type`, `status` and `reason`, optionally `message` and `target`."""
    requirements: Data | None = None
    """Maps of selectors for `resources`, `extraResources` and `schemas`."""
    ttl_seconds: float = 0.0
    """Time for which the response may be cached; zero if it must not be cached."""
    tag: str = ""
    output: Data | None = None
    calls: int = 1
    """Number of calls that were made; zero for a cached response."""

    @property
    def is_fatal(self) -> bool:
        return any(result.get("severity") == "SEVERITY_FATAL" for result in self.results)

    def as_data(self) -> Data:
        """Return the response in JSON form. Its parts are shared, not copied."""
        meta: Data = {}
        if self.tag:
            meta["tag"] = self.tag
        if self.ttl_seconds:
            meta["ttl"] = duration_of(self.ttl_seconds)
        data: Data = {"meta": meta, "desired": self.desired.data}
        if self.results:
            data["results"] = list(self.results)
        data["context"] = self.context.data
        if self.requirements is not None:
            data["requirements"] = self.requirements
        if self.conditions:
            data["conditions"] = list(self.conditions)
        if self.output is not None:
            data["output"] = self.output
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> FunctionResponse:
        """Build a response from its JSON form. Its values are shared, not copied."""
        meta = data.get("meta") or {}
        return cls(
            desired=Part(data.get("desired") or {}),
            context=Part(data.get("context") or {}),
            results=tuple(data.get("results") or ()),
            conditions=tuple(data.get("conditions") or ()),
            requirements=data.get("requirements"),
            ttl_seconds=float(str(meta.get("ttl") or "0s").removesuffix("s")),
            tag=meta.get("tag", ""),
            output=data.get("output"),
        )


def duration_of(seconds: float) -> str:
    """Format a duration as protobuf's JSON does: a fraction has 3, 6 or 9 digits."""
    return nanoseconds_text(round(seconds * 1_000_000_000))


def nanoseconds_text(nanos: int) -> str:
    seconds, remainder = divmod(abs(nanos), 1_000_000_000)
    fraction = f"{remainder:09}" if remainder else ""
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{'-' if nanos < 0 else ''}{seconds}{'.' if fraction else ''}{fraction}s"
