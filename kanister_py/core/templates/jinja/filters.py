"""Filters, tests and functions of Jinja2 templates of blueprints.

Those of Jinja2 that make sense in a blueprint; and those that Go templates have under
sprig's names, with the value in front as Jinja2 pipes it. All of them count what they
do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from jinja2 import Undefined, pass_context
from jinja2.exceptions import TemplateRuntimeError
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.tests import TESTS as JINJA_TESTS
from jinja2.utils import Namespace

from kanister_py.core.templates.engines import blueprint_functions
from kanister_py.core.templates.jinja.sandbox import BlueprintContext
from kanister_py.core.templates.jinja.values import (
    MAX_RANGE,
    MAX_WIDTH,
    Callee,
    Counted,
    MapView,
    Meter,
    formatted,
    go_value_of,
    joined,
    name_of,
    plain_pair,
    replaced,
    text_of,
    view_of,
)
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.functions import Function, GoError
from kanister_py.gotemplate.layouts import format_time, parse_time
from kanister_py.gotemplate.times import Time, from_unix
from kanister_py.gotemplate.types import GoType, Kind
from kanister_py.gotemplate.values import wrap

# Of a map, these look at no more than its keys.
_FLAT = frozenset(
    {
        "boolean",
        "count",
        "d",
        "default",
        "defined",
        "false",
        "first",
        "float",
        "in",
        "integer",
        "items",
        "iterable",
        "last",
        "length",
        "list",
        "mapping",
        "none",
        "number",
        "sequence",
        "string",
        "true",
        "undefined",
    }
)
# Of a text, these make something of every single character.
_PER_CHARACTER = frozenset(
    {
        "batch",
        "first",
        "groupby",
        "list",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "reverse",
        "select",
        "selectattr",
        "slice",
        "sort",
        "title",
        "unique",
        "urlencode",
    }
)


def _weigh(meter: Meter, name: str, value: Any) -> None:
    if isinstance(value, Undefined):
        return
    if isinstance(value, MapView) and name in _FLAT:
        meter.spend(1 + len(value) // 16)
        return
    if isinstance(value, range):
        meter.spend(1 + len(value))
        return
    if isinstance(value, str) and name in _PER_CHARACTER:
        meter.spend(len(value))
    meter.weigh(value)


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let one of Jinja2's own work on what was weighed, and measure what it gives."""
    passed = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    def call(context: BlueprintContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = context.meter
        for each in (value, *args, *kwargs.values()):
            _weigh(meter, name, each)
        first = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (context.environment,),
        }.get(passed, ())
        return _measured(meter, function(*first, value, *args, **kwargs))

    return call


def _measured(meter: Meter, result: Any) -> Any:
    if isinstance(result, str):
        return meter.made(result)
    if isinstance(result, Iterator):
        return list(Counted(meter, result, 1))
    if isinstance(result, list):
        meter.spend(len(result))
        return [plain_pair(each) for each in result]
    return plain_pair(result)


_OF_JINJA = (
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "groupby",
    "int",
    "items",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "slice",
    "sort",
    "title",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
)
_TESTS_OF_JINJA = tuple(
    name for name in JINJA_TESTS if name not in ("callable", "escaped", "filter", "test", "sameas")
)


# Filters of Jinja2 that can make much out of little


@pass_context
def _join(context: BlueprintContext, value: Any, separator: str = "", attribute: Any = None) -> str:
    items = value
    if attribute is not None:
        items = (context.environment.getitem(each, attribute) for each in value)
    return joined(context.meter, str(separator), items)


@pass_context
def _replace(
    context: BlueprintContext, value: Any, old: str, new: str, count: int | None = None
) -> str:
    text = text_of(context.meter, value)
    return replaced(context.meter, text, old, new, -1 if count is None else count)


@pass_context
def _format(context: BlueprintContext, value: str, *args: Any) -> str:
    return formatted(context.meter, value, list(args))


@pass_context
def _string(context: BlueprintContext, value: Any) -> str:
    return text_of(context.meter, value)


@pass_context
def _sum(context: BlueprintContext, value: Any, attribute: Any = None, start: float = 0) -> Any:
    total = start
    for each in value:
        item = each if attribute is None else context.environment.getitem(each, attribute)
        total = context.environment.call_binop(context, "+", total, item)  # type: ignore[attr-defined]  # ours is the sandbox
    return total


def _bounded(name: str, value: Any, most: int) -> int:
    if not isinstance(value, int):
        raise TemplateRuntimeError(f"{name} wants a whole number, found {name_of(value)}")
    if value > most:
        raise LimitExceeded("size", f"{name} asks for {value}, the most is {most}")
    return value


@pass_context
def _center(context: BlueprintContext, value: Any, width: int = 80) -> str:
    return text_of(context.meter, value).center(_bounded("center", width, MAX_WIDTH))


@pass_context
def _indent(
    context: BlueprintContext,
    value: Any,
    width: int | str = 4,
    first: bool = False,
    blank: bool = False,
) -> str:
    meter = context.meter
    text = text_of(meter, value)
    filler = width if isinstance(width, str) else " " * _bounded("indent", width, MAX_WIDTH)
    lines = text.count("\n") + 1
    meter.spend(lines)
    meter.check_size(len(text) + lines * len(filler))
    filled = [
        filler + line if (at or first) and (line or blank) else line
        for at, line in enumerate(text.split("\n"))
    ]
    return "\n".join(filled)


@pass_context
def _batch(context: BlueprintContext, value: Any, size: int, fill: Any = None) -> list[list[Any]]:
    items = list(value)
    context.meter.spend(len(items))
    step = max(_bounded("batch", size, MAX_RANGE), 1)
    if fill is not None:
        context.meter.spend(step)
    return list(JINJA_FILTERS["batch"](items, step, fill))


@pass_context
def _round(
    _context: BlueprintContext, value: Any, precision: int = 0, method: str = "common"
) -> Any:
    _bounded("round", abs(precision), 300)
    return JINJA_FILTERS["round"](value, precision, method)


# Go's functions


def call_go(meter: Meter, name: str, *args: Any) -> Any:
    """Call one of the functions that Go templates have."""
    return view_of(_called(meter, name, blueprint_functions()[name], args))


def _called(meter: Meter, name: str, function: Function, args: tuple[Any, ...]) -> Any:
    params = list(function.params)
    if function.is_variadic:
        params += params[-1:] * (len(args) - len(params))
        params = params[: max(len(args), len(function.params) - 1)]
    if len(args) != len(params):
        raise TemplateRuntimeError(f"{name} wants {len(params)} values, found {len(args)}")
    for each in args:
        meter.weigh(each)
    given = [_typed(meter, name, param, each) for param, each in zip(params, args, strict=True)]
    if function.wants_context:
        given = [meter, *given]
    return function.call(*given)


_PYTHON_KINDS: Mapping[Kind, tuple[type, ...]] = {
    Kind.STRING: (str,),
    Kind.BOOL: (bool,),
    Kind.FLOAT64: (float, int),
    Kind.SLICE: (list,),
    Kind.MAP: (Mapping,),
    Kind.STRUCT: (Time,),
}


def _typed(meter: Meter, name: str, param: GoType, value: Any) -> Any:
    if param.kind is Kind.STRING and isinstance(value, int | float):
        return text_of(meter, value)
    kinds = _PYTHON_KINDS.get(param.kind, (object,) if param.kind is Kind.INTERFACE else (int,))
    if not isinstance(value, kinds):
        raise TemplateRuntimeError(f"{name} does not take {name_of(value)}")
    made = go_value_of(value)
    return made if param.kind is Kind.STRUCT else wrap(param, made)


def _piped(name: str) -> Callable[..., Any]:
    """Make a filter of a Go function, whose last value is what is piped in."""

    @pass_context
    def call(context: BlueprintContext, value: Any, *args: Any) -> Any:
        if isinstance(value, Undefined):
            return str(value)  # raises, with the name that is missing
        return call_go(context.meter, name, *args, value)

    return call


# A number before one that wants a text counts as the text it prints as.
_PIPED = (
    "abbrev",
    "adler32sum",
    "b32dec",
    "b32enc",
    "b64dec",
    "b64enc",
    "base",
    "camelcase",
    "clean",
    "dir",
    "ext",
    "initials",
    "isAbs",
    "kebabcase",
    "nindent",
    "nospace",
    "plural",
    "quote",
    "regexFind",
    "regexMatch",
    "semverCompare",
    "sha1sum",
    "sha256sum",
    "snakecase",
    "splitList",
    "squote",
    "substr",
    "swapcase",
    "ternary",
    "toJson",
    "toPrettyJson",
    "trimAll",
    "trimPrefix",
    "trimSuffix",
    "trunc",
    "untitle",
)
_CALLED = ("randAlpha", "randAlphaNum", "randNumeric", "semverCompare", "uuidv4")


@pass_context
def _regex_replace(context: BlueprintContext, value: str, pattern: str, new: str) -> Any:
    return call_go(context.meter, "regexReplaceAll", pattern, value, new)


def _moment(meter: Meter, value: Any) -> Time:
    if isinstance(value, Time):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return from_unix(value, 0, meter.effects.zone)
    if isinstance(value, str):
        return parse_time("2006-01-02T15:04:05.999999999Z07:00", value, meter.effects.zone)
    raise TemplateRuntimeError(f"A date is made of a time, found {name_of(value)}")


@pass_context
def _date(context: BlueprintContext, value: Any, layout: str = "2006-01-02", zone: str = "") -> Any:
    """Write a moment as the layout writes Go's reference time.

    Unlike in Go templates, a text is read as the moment it says, and never as now.
    """
    if isinstance(value, Undefined):
        return str(value)
    meter = context.meter
    moment = _moment(meter, value)
    zoned = meter.effects.load_zone(zone) if zone else meter.effects.zone
    meter.check_size(len(layout) * 16)
    return format_time(moment.in_zone(zoned), layout)


@pass_context
def _to_date(context: BlueprintContext, value: str, layout: str) -> Time:
    return parse_time(layout, text_of(context.meter, value), context.meter.effects.zone)


_JINJA_FILTERS = cast("dict[str, Callable[..., Any]]", JINJA_FILTERS)
_JINJA_TESTS = cast("dict[str, Callable[..., Any]]", JINJA_TESTS)

FILTERS: Mapping[str, Callable[..., Any]] = {
    **{name: _guarded(name, _JINJA_FILTERS[name]) for name in _OF_JINJA},
    **{name: _piped(name) for name in _PIPED},
    "batch": _batch,
    "center": _center,
    "date": _date,
    "format": _format,
    "indent": _indent,
    "join": _guarded("join", _join),
    "regexReplaceAll": _regex_replace,
    "replace": _replace,
    "round": _guarded("round", _round),
    "string": _string,
    "sum": _guarded("sum", _sum),
    "toDate": _to_date,
    "toString": _string,
    "tojson": _piped("toJson"),
}
TESTS: Mapping[str, Callable[..., Any]] = {
    name: _guarded(name, _JINJA_TESTS[name]) for name in _TESTS_OF_JINJA
}


# What can be called by its name


def _range(meter: Meter, *bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MAX_RANGE:
        raise LimitExceeded("size", f"a range has at most {MAX_RANGE} numbers")
    meter.spend(1)
    return found


def _dict(meter: Meter, *args: Any, **kwargs: Any) -> dict[Any, Any]:
    for each in args:
        meter.weigh(each)
    return dict(*args, **kwargs)


def _now(meter: Meter) -> Time:
    return meter.effects.now()


def _fail(_meter: Meter, message: str) -> Any:
    raise GoError(message)


def _caller_of(name: str) -> Callable[..., Any]:
    return lambda meter, *args: call_go(meter, name, *args)


GLOBALS: Mapping[str, Callee] = {
    "dict": Callee(_dict),
    "fail": Callee(_fail),
    "namespace": Callee(lambda meter, *args, **kwargs: Namespace(_dict(meter, *args, **kwargs))),
    "now": Callee(_now),
    "range": Callee(_range),
    **{name: Callee(_caller_of(name)) for name in _CALLED},
}
