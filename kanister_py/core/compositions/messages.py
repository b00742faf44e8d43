"""Messages of composition functions: requests and responses, in whichever form they came.

The form that everything here understands is protobuf's own JSON: camelCase keys,
enums by name, bytes in base64, durations as `60s`. Whole numbers are ints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Data: TypeAlias = dict[str, Any]
"""A message as protobuf writes it in JSON."""


class Part:
    """One part of a message: as data, as something a transport understands, or as both.

    The state of a pipeline passes through many calls and is large. It stays in the
    form in which the last function gave it, and is converted once, when the
    other is asked for. What a part hands out is never changed.
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
        """The form of a transport, which alone looks inside."""

    @property
    def data(self) -> Data:
        if self._data is None:
            assert self._read is not None
            self._data = self._read(self.wire)
        return self._data

    @property
    def lazy(self) -> Data:
        """Give the data of a state, its resources as maps that are read when they are asked for.

        Only the answer to who sent it may have them inside: they are no dicts.
        """
        if self._data is not None or self._read_lazily is None:
            return self.data
        if self._lazy is None:
            self._lazy = self._read_lazily(self.wire)
        return self._lazy

    def compact(self) -> Part:
        """Return the part without the data that was read of it, if it came as bytes."""
        if self._read is None or not isinstance(self.wire, bytes):
            return self
        return Part(wire=self.wire, read=self._read, read_lazily=self._read_lazily)

    @property
    def as_received(self) -> bytes | None:
        """Give the bytes that it came in, if it came in any."""
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
"""The keys of a request in JSON, in their order, and the fields they stand for."""


class FunctionRequest(NamedTuple):
    """The request of one call of a function.

    A map of resources or schemas that is None was never asked for, which is not the
    same as one that was and is empty.
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
        """Give what the message holds under a key of its JSON; None if nothing."""
        value = getattr(self, REQUEST_FIELDS[key])
        return value.data if isinstance(value, Part) else value

    def as_data(self) -> Data:
        """Give the request as a function reads it. Its parts are shared, not copied."""
        values = {key: self.value_of(key) for key in REQUEST_FIELDS}
        return {key: each for key, each in values.items() if each is not None}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> FunctionRequest:
        """Take a request as it was written down. Its values are shared, not copied."""
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
    """Each with `severity`, `message` and, where given, `reason` and `target`."""
    conditions: tuple[Data, ...] = ()
    """Each with `type`, `status`, `reason` and, where given, `message` and `target`."""
    requirements: Data | None = None
    """Needs of the function: `resources`, `extraResources`, `schemas`, each a map of selectors."""
    ttl_seconds: float = 0.0
    """How long the answer holds; zero forbids to keep it."""
    tag: str = ""
    output: Data | None = None
    calls: int = 1
    """How many calls of the function it took; none, if the answer was kept from before."""

    @property
    def is_fatal(self) -> bool:
        return any(each.get("severity") == "SEVERITY_FATAL" for each in self.results)

    def as_data(self) -> Data:
        """Give the response as a function writes it. Its parts are shared, not copied."""
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
        """Take a response as it was written down. Its values are shared, not copied."""
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
    """Write a span as protobuf's JSON does: no fraction, or one of 3, 6 or 9 digits."""
    return nanoseconds_text(round(seconds * 1_000_000_000))


def nanoseconds_text(nanos: int) -> str:
    whole, rest = divmod(abs(nanos), 1_000_000_000)
    fraction = f"{rest:09}" if rest else ""
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{'-' if nanos < 0 else ''}{whole}{'.' if fraction else ''}{fraction}s"
