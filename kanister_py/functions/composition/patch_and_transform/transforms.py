"""Transforms: what becomes of a value on its way from one field to another.

Each transform is checked once, and made into a call that takes a value and gives one.
Inside, a Python float is a double and an int an int64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kanister_py.functions.composition.patch_and_transform.convert_transforms import (
    check_convert,
    compile_convert,
)
from kanister_py.functions.composition.patch_and_transform.fields import MENDED
from kanister_py.functions.composition.patch_and_transform.problems import (
    Problem,
    check_operand,
    first_problem,
    invalid,
    required,
)
from kanister_py.functions.composition.patch_and_transform.string_transforms import (
    check_string,
    compile_mended_string,
    compile_string,
    expression_of,
    regexp_problem,
)
from kanister_py.functions.composition.patch_and_transform.values import (
    Config,
    Resolve,
    Unresolved,
    as_decoded,
    as_floats,
    go_type,
    int64_of,
    never,
    wrapped_int64,
)


def compile_transforms(transforms: Sequence[Config]) -> Resolve:
    """Make one call of a row of transforms."""
    steps = []
    for at, transform in enumerate(transforms):
        resolve, prefix = _compile_transform(transform)
        steps.append((resolve, f"transform at index {at} returned error: {prefix}"))

    def resolve_all(value: Any) -> Any:
        prefix = ""
        try:
            for resolve, prefix in steps:  # noqa: B007 - that of the one that failed
                value = resolve(value)
        except Unresolved as error:
            raise Unresolved(f"{prefix}{error}") from error
        return value

    return resolve_all


def _compile_transform(transform: Config) -> tuple[Resolve, str]:
    """Make one transform ready, and give the prefix of its errors."""
    kind = transform.get("type", "")
    compile_ = (_MENDED if transform.get(MENDED) else _COMPILERS).get(kind)
    if compile_ is None:
        return never(f"transform type {kind} is not supported"), ""
    config = transform.get(kind)
    if config is None:
        return never(f"given transform type {kind} requires configuration"), ""
    return compile_(config), f"{kind} transform could not resolve: "


def check_transform(transform: Config) -> Problem | None:
    """Say what a transform lacks before anything is run."""
    kind = transform.get("type", "")
    check = _CHECKS.get(kind)
    if check is None:
        return invalid("type", kind, "unknown transform type", _CHECKS)
    config = transform.get(kind)
    if config is None:
        return required(kind, f"given transform type {kind} requires configuration")
    problem = check(config)
    return problem and problem.inside(kind)


_OPERANDS: Final = {
    kind: (operand, f"must specify a value if a {name} math transform is specified")
    for kind, operand, name in (
        ("Multiply", "multiply", "multiply"),
        ("ClampMin", "clampMin", "clamp min"),
        ("ClampMax", "clampMax", "clamp max"),
    )
}


def _check_math(config: Config) -> Problem | None:
    return check_operand(config, "math transform", _OPERANDS)


def _compile_math(config: Config, whole_of: Callable[[int], Any] = wrapped_int64) -> Resolve:
    problem = _check_math(config)
    if problem is not None:
        return never(str(problem))
    kind = config["type"]
    operand: int = config[_OPERANDS[kind][0]]

    def resolve(value: Any) -> Any:
        if type(value) not in (int, float):
            raise Unresolved(
                f"input is required to be a number for math transformer, got {go_type(value)}"
            )
        if kind == "Multiply":
            product = value * (float(operand) if type(value) is float else operand)
            return product if type(value) is float else whole_of(product)
        whole = int64_of(value) if type(value) is float else value
        is_beyond = whole < operand if kind == "ClampMin" else whole > operand
        return operand if is_beyond else value

    return resolve


def _check_map(config: Config) -> Problem | None:
    if config:
        return None
    return required("pairs", "at least one pair must be specified if a map transform is specified")


def _compile_map(config: Config, typed: Resolve = as_floats) -> Resolve:
    pairs = {key: typed(each) for key, each in config.items()}

    def resolve(value: Any) -> Any:
        if type(value) is not str:
            raise Unresolved(f"type {go_type(value)} is not supported for map transform")
        if value not in pairs:
            raise Unresolved(f"key {value} is not found in map")
        found = pairs[value]
        if found is None:
            # A null never reaches the map, only its key does.
            raise Unresolved(
                f"value for key {value} is not valid JSON: unexpected end of JSON input"
            )
        return found

    return resolve


def _check_match(config: Config) -> Problem | None:
    patterns = config.get("patterns")
    if not patterns:
        return required(
            "patterns", "at least one pattern must be specified if a match transform is specified"
        )
    return first_problem("patterns", patterns, _check_pattern)


def _check_pattern(pattern: Config) -> Problem | None:
    kind = pattern.get("type", "")
    if kind in ("literal", ""):
        if "literal" not in pattern:
            return required("literal", "literal pattern type requires a literal")
    elif kind == "regexp":
        if "regexp" not in pattern:
            return required("regexp", "regexp pattern type requires a regexp")
        if regexp_problem(pattern["regexp"]):
            return invalid("regexp", pattern["regexp"], "invalid regexp")
    else:
        return invalid("type", kind, "unknown pattern type", ("literal", "regexp"))
    return None


def _compile_match(config: Config, typed: Resolve = as_floats) -> Resolve:
    patterns = [
        (_compile_pattern(pattern), typed(pattern.get("result")))
        for pattern in config.get("patterns", ())
    ]
    falls_back_to_input = config.get("fallbackTo") == "Input"
    fallback = typed(config.get("fallbackValue"))

    def resolve(value: Any) -> Any:
        for at, (matches, result) in enumerate(patterns):
            try:
                if matches(value):
                    return result
            except Unresolved as error:
                raise Unresolved(f"cannot match pattern at index {at}: {error}") from error
        if not falls_back_to_input:
            return fallback
        if "fallbackValue" in config:
            raise Unresolved("cannot set both a fallback value and the fallback to input flag")
        return value

    return resolve


def _compile_pattern(pattern: Config) -> Callable[[Any], bool]:
    kind = pattern.get("type", "")
    if kind not in ("literal", "regexp"):
        return never(f"unsupported pattern type '{kind}'")
    if kind not in pattern:
        return never(f"{kind} is required by type {kind}")
    text: str = pattern[kind]
    if kind == "literal":
        return lambda value: _text_to_match(value) == text
    problem = regexp_problem(text)
    if problem:
        return never(f"cannot compile regexp: {problem}")
    expression = expression_of(text)
    from kanister_py.gotemplate.values import to_bytes

    def matches(value: Any) -> bool:
        if value is None:
            raise Unresolved("unsupported input type 'null'")
        found: bool = expression.matches(to_bytes(_text_to_match(value)))
        return found

    return matches


def _text_to_match(value: Any) -> str:
    if type(value) is not str:
        raise Unresolved(f"unsupported input type '{go_type(value)}'")
    return value


_COMPILERS: Final[Mapping[str, Callable[[Any], Resolve]]] = {
    "math": _compile_math,
    "map": _compile_map,
    "match": _compile_match,
    "string": compile_string,
    "convert": compile_convert,
}
_MENDED: Final[Mapping[str, Callable[[Any], Resolve]]] = {
    **_COMPILERS,
    "math": partial(_compile_math, whole_of=as_decoded),
    "map": partial(_compile_map, typed=as_decoded),
    "match": partial(_compile_match, typed=as_decoded),
    "string": compile_mended_string,
}
_CHECKS: Final[Mapping[str, Callable[[Any], Problem | None]]] = {
    "math": _check_math,
    "map": _check_map,
    "match": _check_match,
    "string": check_string,
    "convert": check_convert,
}
