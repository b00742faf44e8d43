"""Filters, tests and functions of Jinja2 templates in Blueprints.

These are Jinja2's own that are useful in Blueprints, and the functions of Go templates with the
names of sprig. The piped value is the first argument, as usual in Jinja2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from jinja2 import Undefined, pass_context
from jinja2.exceptions import TemplateRuntimeError
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.tests import TESTS as JINJA_TESTS
from jinja2.utils import Namespace

from kanister_py.core.templates.engines import blueprint_functions
from kanister_py.core.templates.jinja.sandbox import BlueprintContext
from kanister_py.core.templates.jinja.values import go_value_of, name_of, text_of, view_of
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.layouts import format_time, parse_time
from kanister_py.gotemplate.times import Time, from_unix
from kanister_py.gotemplate.types import GoType, Kind
from kanister_py.gotemplate.values import wrap

MAX_RANGE = 100_000

_OF_JINJA = (
    "abs",
    "batch",
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
    "round",
    "select",
    "selectattr",
    "slice",
    "sort",
    "sum",
    "title",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
)
_OF_TEXT = ("center", "indent", "replace")
_NO_TESTS = frozenset({"callable", "escaped", "filter", "sameas", "test"})


# All filters take the context. Jinja2 evaluates filters without context on constants at compile
# time, where no limits apply.


def _of_jinja(name: str, change: Callable[[Any], Any] = lambda value: value) -> Callable[..., Any]:
    """Return one of Jinja2's filters. Iterators are converted to lists, which can be printed."""
    function = cast("Callable[..., Any]", JINJA_FILTERS[name])
    passed = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    def call(context: BlueprintContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        first = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (context.environment,),
        }.get(passed, ())
        result = function(*first, change(value), *args, **kwargs)
        return list(result) if isinstance(result, Iterator) else result

    return call


@pass_context
def join(context: BlueprintContext, value: Any, separator: str = "", attribute: Any = None) -> str:
    """Join values in their printed form."""
    items: Iterable[Any] = value
    if attribute is not None:
        items = (context.environment.getitem(member, attribute) for member in value)
    return str(separator).join(map(text_of, items))


@pass_context
def _format(_context: BlueprintContext, value: str, *args: Any) -> str:
    shown = (
        arg if isinstance(arg, int | float) and not isinstance(arg, bool) else text_of(arg)
        for arg in args
    )
    return value % tuple(shown)


# Functions of Go templates


def call_go(context: BlueprintContext, name: str, *args: Any) -> Any:
    """Call a function of Go templates."""
    function = blueprint_functions()[name]
    params = list(function.params)
    if function.is_variadic:
        params += params[-1:] * (len(args) - len(params))
        params = params[: max(len(args), len(function.params) - 1)]
    if len(args) != len(params):
        raise TemplateRuntimeError(f"{name} needs {len(params)} values, found {len(args)}")
    values = [_typed(name, param, arg) for param, arg in zip(params, args, strict=True)]
    if function.wants_context:
        values = [context.go, *values]
    return view_of(function.call(*values))


_PYTHON_KINDS: Mapping[Kind, tuple[type, ...]] = {
    Kind.STRING: (str,),
    Kind.BOOL: (bool,),
    Kind.FLOAT64: (float, int),
    Kind.SLICE: (list,),
    Kind.MAP: (Mapping,),
    Kind.STRUCT: (Time,),
}


def _typed(name: str, param: GoType, value: Any) -> Any:
    if param.kind is Kind.STRING and isinstance(value, int | float):
        return text_of(value)
    kinds = _PYTHON_KINDS.get(param.kind, (object,) if param.kind is Kind.INTERFACE else (int,))
    if not isinstance(value, kinds):
        raise TemplateRuntimeError(f"{name} does not accept {name_of(value)}")
    go_value = go_value_of(value)
    return go_value if param.kind is Kind.STRUCT else wrap(param, go_value)


def _piped(name: str) -> Callable[..., Any]:
    """Return a filter for a Go function whose last argument is the piped value."""

    @pass_context
    def call(context: BlueprintContext, value: Any, *args: Any) -> Any:
        if isinstance(value, Undefined):
            return str(value)  # raises, with the name that is missing
        return call_go(context, name, *args, value)

    return call


# A number is accepted where text is expected.
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
    return call_go(context, "regexReplaceAll", pattern, value, new)


def _moment(context: BlueprintContext, value: Any) -> Time:
    zone = context.go.effects.zone
    if isinstance(value, Time):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return from_unix(value, 0, zone)
    if isinstance(value, str):
        return parse_time("2006-01-02T15:04:05.999999999Z07:00", value, zone)
    raise TemplateRuntimeError(f"A date needs a time, found {name_of(value)}")


@pass_context
def _date(context: BlueprintContext, value: Any, layout: str = "2006-01-02", zone: str = "") -> Any:
    """Format a time with a layout in terms of Go's reference time.

    Unlike in Go templates, a text is parsed as a time instead of meaning the current time.
    """
    if isinstance(value, Undefined):
        return str(value)
    effects = context.go.effects
    time_zone = effects.load_zone(zone) if zone else effects.zone
    return format_time(_moment(context, value).in_zone(time_zone), layout)


@pass_context
def _to_date(context: BlueprintContext, value: str, layout: str) -> Time:
    return parse_time(layout, text_of(value), context.go.effects.zone)


FILTERS: Mapping[str, Callable[..., Any]] = {
    **{name: _of_jinja(name) for name in _OF_JINJA},
    **{name: _of_jinja(name, text_of) for name in _OF_TEXT},
    **{name: _piped(name) for name in _PIPED},
    "date": _date,
    "format": _format,
    "join": join,
    "regexReplaceAll": _regex_replace,
    "string": text_of,
    "toDate": _to_date,
    "toString": text_of,
    "tojson": _piped("toJson"),
}
TESTS: Mapping[str, Callable[..., Any]] = {
    name: test
    for name, test in cast("dict[str, Callable[..., Any]]", JINJA_TESTS).items()
    if name not in _NO_TESTS
}


# Global functions


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise LimitExceeded("size", f"a range has at most {MAX_RANGE} numbers")
    return numbers


@pass_context
def _now(context: BlueprintContext) -> Time:
    return context.go.effects.now()


def _fail(message: str) -> Any:
    raise GoError(message)


def _called(name: str) -> Callable[..., Any]:
    @pass_context
    def call(context: BlueprintContext, *args: Any) -> Any:
        return call_go(context, name, *args)

    return call


GLOBALS: Mapping[str, Any] = {
    "dict": dict,
    "fail": _fail,
    "namespace": Namespace,
    "now": _now,
    "range": _range,
    **{name: _called(name) for name in _CALLED},
}
