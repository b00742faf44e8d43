"""Values of a Jinja2 template: how it sees the parameters, what its work costs, how values print.

The names of what it sees are Go's, the values are plain: bytes are text, whatever is nil is
none, and structs are maps. Nothing can be changed, and nothing is converted before it is
read. What grows is measured before it is made, what repeats is counted as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import Undefined
from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import LoopContext, Macro
from jinja2.utils import Namespace

from kanister_py.core.templates.engines import blueprint_functions
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.limits import Budget, Context, Limits
from kanister_py.gotemplate.times import Time
from kanister_py.gotemplate.values import NilPointer, Struct, Value, byte_length, from_bytes

# Numbers of more digits are of no use in a blueprint, only for keeping a processor busy.
MAX_BITS = 4096
MAX_RANGE = 100_000
MAX_WIDTH = 1000


class MapView(Mapping[Any, Any]):
    """A Go map or struct, to be read by key. The fields of embedded structs count.

    `name` is how a template got here, for errors.
    """

    __slots__ = ("name", "source")

    def __init__(self, source: Mapping[Any, Any], name: str = "") -> None:
        self.source = source
        self.name = name

    def __getitem__(self, key: Any) -> Any:
        value = self.source[key]
        return value if type(value) is str else view_of(value, f"{self.name}.{key}")

    def __contains__(self, key: object) -> bool:
        if isinstance(self.source, Struct):
            return isinstance(key, str) and self.source.struct.field(key) is not None
        return key in self.source

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.source, Struct):
            struct = self.source.struct
            embedded = {name for name, each in struct.fields.items() if each.embedded}
            yield from (name for name in struct.fields if name not in embedded)
            yield from (name for name in struct.promoted if name not in embedded)
        else:
            yield from self.source

    def __len__(self) -> int:
        if isinstance(self.source, Struct):
            return sum(1 for _ in self)
        return len(self.source)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MapView):
            return dict(self.items()) == dict(other.items())
        return isinstance(other, dict) and dict(self.items()) == other

    __hash__ = None  # type: ignore[assignment]  # Python's way to say that none is a key

    def __repr__(self) -> str:
        return "<map>"


def view_of(value: Value, name: str = "") -> Any:
    """Show a Go value, reached by `name`, to a Jinja2 template."""
    kind = type(value)
    if value is None or kind in (str, bool, int, float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return from_bytes(value)
    if isinstance(value, Mapping):
        return MapView(value, name)
    if isinstance(value, list | tuple):
        return [view_of(each, f"{name}[{at}]") for at, each in enumerate(value)]
    if isinstance(value, NilPointer):
        return None
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else value


def go_value_of(value: Any) -> Value:
    """Turn what a template made or was shown into a value for a Go function."""
    if isinstance(value, MapView):
        return value.source
    if isinstance(value, Mapping):
        return {str(key): go_value_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [go_value_of(each) for each in value]
    return value


# Work


class Meter(Context):
    """Budget of one execution, and its depth in calls of macros."""

    __slots__ = ("depth", "max_depth", "written")

    def __init__(self, effects: Effects, limits: Limits, budget: Budget | None = None) -> None:
        super().__init__(effects, limits, budget)
        self.depth = 0
        self.max_depth = limits.depth
        self.written = 0

    def write(self, text: str) -> None:
        """Count what goes into the output, or into a part that may go there."""
        self.written += byte_length(text)
        self.check_size(self.written)

    def made(self, text: str) -> str:
        """Count a text that was made; all of them together are bounded as well."""
        self.pay(text)
        return text

    def weigh(self, value: Any) -> None:
        """Count the work of going through all of a value, before it is done."""
        if isinstance(value, str | bytes):
            self.spend(1)
            self.pay(value)
            return
        left = [value]
        while left:
            each = left.pop()
            self.spend(2)
            if isinstance(each, MapView):
                each = each.source
            if isinstance(each, Mapping):
                left.extend(each)
                left.extend(each.values())
            elif isinstance(each, list | tuple):
                left.extend(each)
            elif isinstance(each, str | bytes):
                self.pay(each)


class Callee:
    """A function that templates may call by its name, or as a method of its owner."""

    __slots__ = ("function", "owner")

    def __init__(self, function: Callable[..., Any], *owner: Any) -> None:
        self.function = function
        self.owner = owner


def replaced(meter: Meter, text: str, old: str, new: str, count: int = -1) -> str:
    """Put one text for another, when there is room for what comes of it."""
    times = text.count(old)
    times = times if count < 0 else min(times, count)
    meter.check_size(len(text) + times * (len(new) - len(old)))
    meter.weigh(text)
    return meter.made(text.replace(old, new, count))


def joined(meter: Meter, separator: str, items: Iterable[Any]) -> str:
    """Put texts together, when there is room for them."""
    texts, size = [], 0
    for each in items:
        text = text_of(meter, each)
        meter.spend(1)
        size += len(text) + len(separator)
        meter.check_size(size)
        texts.append(text)
    return meter.made(separator.join(texts))


# Values as text


def text_of(meter: Meter, value: Any) -> str:
    """Print a value as YAML would write it: `true`, nothing for none, JSON for lists."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Undefined):
        return str(value)
    if isinstance(value, Time):
        return value.go_string()
    if isinstance(value, Mapping | list | tuple):
        return json_of(meter, value)
    raise TemplateRuntimeError(f"{name_of(value)} cannot be printed")


def json_of(meter: Meter, value: Any) -> str:
    """Print a list or a map as the JSON that Go's `toJson` makes of it."""
    meter.weigh(value)
    text = blueprint_functions()["toJson"].call(meter, go_value_of(value))
    assert isinstance(text, str)
    return text


def name_of(value: Any) -> str:
    """Name the kind of a value, for an error."""
    names: tuple[tuple[Any, str], ...] = (
        (bool, "a boolean"),
        (str, "a text"),
        (int | float, "a number"),
        (Mapping, "a map"),
        (list | tuple, "a list"),
        (Macro, "a macro"),
        (LoopContext, "a loop"),
        (Callee, "a function"),
        (Time, "a time"),
        (range, "a range"),
        (Namespace, "a namespace"),
        (Undefined, "something undefined"),
    )
    if value is None:
        return "none"
    return next((name for kind, name in names if isinstance(value, kind)), "this")


def formatted(meter: Meter, template: str, values: Any) -> str:
    """Fill in `%s` and its kin, as far as they cannot make much out of little."""
    given = values if isinstance(values, list | tuple) else [values]
    for width in _DIRECTIVE.findall(template):
        if "*" in width or any(int(each) > MAX_WIDTH for each in re.findall(r"\d+", width)):
            raise LimitExceeded("size", f"%{width} asks for more than {MAX_WIDTH} columns")
    shown = tuple(
        each
        if isinstance(each, int | float) and not isinstance(each, bool)
        else text_of(meter, each)
        for each in given
    )
    size = len(template) + sum(len(each) for each in shown if isinstance(each, str))
    meter.check_size(size + template.count("%") * MAX_WIDTH)
    return template % shown


_DIRECTIVE = re.compile(r"%(?:\(.*?\))?[#0\- +]*([\d.*]+)")


class Counted:
    """Something to be gone through once, each step of which is counted."""

    __slots__ = ("_items", "_meter", "_weight")

    def __init__(self, meter: Meter, items: Iterable[Any], weight: int) -> None:
        self._meter = meter
        self._items = items
        self._weight = weight

    def __iter__(self) -> Iterator[Any]:
        for each in self._items:
            self._meter.spend(self._weight)
            yield plain_pair(each)

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]  # a generator's TypeError is the answer


def plain_pair(value: Any) -> Any:
    """Give a list instead of a pair: what cannot be a key cannot make looking one up expensive."""
    return list(value) if type(value) is tuple else value
