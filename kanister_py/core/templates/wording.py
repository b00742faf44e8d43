"""Messages for template errors: the missing name, the available names, and the fix.

Go's messages describe a problem of the parser; these messages tell authors what to change. Users
see both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from kanister_py.core.errors import did_you_mean
from kanister_py.core.templates.engines import (
    Engine,
    blueprint_functions,
    is_evident,
    syntax_error_in,
)
from kanister_py.core.templates.errors import TemplateError, TemplateExecError, TemplateParseError
from kanister_py.core.templates.param_types import ROOT_NAMES, TEMPLATE_PARAMS
from kanister_py.core.yaml.documents import nearest
from kanister_py.gotemplate.types import Kind

_MAX_SHOWN: Final = 12
_MAX_COMPARED: Final = 1000


def not_found(name: str, owner: str, names: Iterable[str]) -> str:
    """Return a message for a missing name, with the available names."""
    return f'no "{name}" in {owner}; {available_names(name, names)}'


def available_names(name: str, names: Iterable[str]) -> str:
    """List the available names, beginning with those similar to `name`."""
    sorted_names = sorted(names)
    if not sorted_names:
        return "there is nothing in it"
    near = nearest(name, sorted_names[:_MAX_COMPARED])
    ordered = [*near, *(candidate for candidate in sorted_names if candidate not in near)]
    hidden = len(ordered) - _MAX_SHOWN
    more = f" and {hidden} more" if hidden > 0 else ""
    return f"there are: {', '.join(ordered[:_MAX_SHOWN])}{more}"


def explain(error: TemplateError, roots: Callable[[], Sequence[str]] = list) -> str:
    """Explain an error of a template so that its author can fix it.

    `roots` returns the top-level parameters that are set for the action.
    """
    if isinstance(error, TemplateParseError):
        return explain_syntax(error)
    if not isinstance(error, TemplateExecError):
        return error.message
    if not error.missing:
        hint = f"; {_SIGN}" if "incompatible types" in error.why and "'" in error.context else ""
        return f"{error.why}, in <{error.context}>{hint}" if error.context else error.message
    owner = error.owner or "the value before it"
    if error.why.startswith(_NIL):
        absent = f'{owner} is missing and has no "{error.missing}"'
        is_root = owner.count(".") == 1 and owner.startswith(".")
        return f"{absent}; {available_names(owner[1:], roots())}" if is_root else absent
    if not error.available and error.why.startswith(_NO_FIELD):
        kind = _KINDS.get(error.kind, error.kind)
        return f'no "{error.missing}" in {owner}, which is {kind}'
    if not error.owner and error.kind == _ROOT:
        return f"there is no .{error.missing}; {available_names(error.missing, error.available)}"
    return not_found(error.missing, error.owner or "it", error.available)


_SIGN: Final = "'x' is a character code: write text in double quotes"
_NIL: Final = ("nil pointer", "nil data")
_ROOT: Final = "param.TemplateParams"
_NO_FIELD: Final = "can't evaluate field"
_KINDS: Final = {
    "string": "text",
    "bool": "true or false",
    **dict.fromkeys(("int", "int64", "float64", "uint8"), "a number"),
    "[]string": "a list; {{ index … 0 }} returns the first member",
    "[]interface {}": "a list; {{ index … 0 }} returns the first member",
}


# Paths that cannot exist in any action

_CONTAINERS = (Kind.MAP, Kind.STRUCT, Kind.INTERFACE)


def why_impossible(names: Sequence[str], engine: Engine) -> str:
    """Explain why a path of names from the root cannot exist; empty if it may exist.

    The first name is one of `ROOTS`. `[]` stands for a member of a list or a map. A path that an
    `index` reads goes through maps.
    """
    current = TEMPLATE_PARAMS.fields[names[0]].type
    for position, name in enumerate(names[1:], 1):
        while current.kind is Kind.POINTER and current.elem is not None:
            current = current.elem
        owner = ("." if engine is Engine.GO else "") + ".".join(names[:position])
        owner = owner.replace(".[]", "[…]")
        if name == "[]" and current.kind is not Kind.MAP:
            if current.kind is not Kind.SLICE or current.elem is None:
                return ""
            current = current.elem
            continue
        if current.kind is Kind.STRUCT:
            field = current.field(name)
            if field is None:
                if name in current.methods or (engine is Engine.JINJA2 and name in _OF_MAPS):
                    return ""
                own = (entry for entry, inner in current.fields.items() if not inner.embedded)
                return not_found(name, owner, (*own, *current.promoted))
            current = field.type
        elif current.kind is Kind.MAP and current.elem is not None:
            current = current.elem
        elif current.kind in _CONTAINERS or engine is Engine.JINJA2 or name in current.methods:
            # The type is unknown, or texts and lists have methods.
            return ""
        else:
            return f'no "{name}" in {owner}, which is {_WORDS.get(current.kind, current.name)}'
    return ""


_OF_MAPS = frozenset({"get", "items", "keys", "values"})
_WORDS = {
    Kind.STRING: "text",
    Kind.BOOL: "true or false",
    Kind.INT: "a number",
    Kind.INT64: "a number",
    Kind.SLICE: "a list: {{ index … 0 }} returns the first member",
}


# Texts with syntax errors


def explain_unreadable(
    error: TemplateParseError, text: str, engine: Engine, *, is_sure: bool
) -> str:
    """Explain a syntax error; if the text may be meant for either engine, for both."""
    why = explain_syntax(error)
    if is_sure or is_evident(text, engine):
        return why
    other = Engine.GO if engine is Engine.JINJA2 else Engine.JINJA2
    fault = syntax_error_in(text, other)
    if fault is None:
        return why
    return f"as {_NAMES[engine]}: {why}; as {_NAMES[other]}: {explain_syntax(fault)}"


_NAMES: Final = {Engine.GO: "a Go template", Engine.JINJA2: "Jinja2"}


def explain_syntax(error: TemplateError) -> str:
    """Explain a syntax error and how to fix it."""
    why = _OF_GO.sub("", error.message)
    undefined = _UNDEFINED.fullmatch(why)
    if undefined is not None:
        name = undefined[1]
        if name in ROOT_NAMES:
            return f'there is no function "{name}"; a parameter begins with a dot: .{name}'
        functions = [*blueprint_functions()]
        message = f'there is no function "{name}"{did_you_mean(nearest(name, functions))}'
        is_near = bool(get_close_matches(name, functions, n=1, cutoff=_NEAR))
        return message if is_near else f'{message.rstrip("?")}; write text in quotes: "{name}"'
    hint = next((hint for part, hint in _HINTS if part in why), "")
    return f"{why}; {hint}" if hint else why


_NEAR: Final = 0.75
"""Minimum similarity for treating a name as a misspelt function instead of a text."""
_OF_GO: Final = re.compile(r"^template: \w+:\d+: ")
_UNDEFINED: Final = re.compile(r'function "(.*)" not defined')
_HINTS: Final = (
    (
        "bad character U+002D '-'",
        'read a key with a hyphen with index: {{ index .Options "a-b" }}',
    ),
    ("bad character U+005B '['", "read a member of a list with index: {{ index .List 0 }}"),
    ("bad character", "the character has no meaning inside {{ }}"),
    ("unexpected EOF", "an {{ if }}, {{ range }} or {{ with }} lacks its {{ end }}"),
    (
        "unexpected {{end}}",
        "there is nothing to end: no {{ if }}, {{ range }} or {{ with }} is open",
    ),
    ("unexpected {{else}}", "it must be inside an {{ if }}, {{ range }} or {{ with }}"),
    ("unclosed action", "close {{ with }}"),
    ('unexpected "}" in operand', "close {{ with }}"),
    ("unterminated quoted string", 'end a text with the quote that begins it: "a"'),
    ("unterminated raw quoted string", "end a text with the quote that begins it: `a`"),
    ("malformed character constant", _SIGN),
    ('unexpected "{" in', "an action begins with two braces and contains no others"),
    ('unexpected "="', "compare values with eq: {{ if eq .A .B }}"),
    ('unexpected "&"', "combine conditions with and: {{ if and .A .B }}"),
    ('unexpected "!"', "negate a condition with not: {{ if not .A }}"),
    ('unexpected ">"', "compare values with gt and ge: {{ if gt .A .B }}"),
    ('unexpected "<"', "compare values with lt and le: {{ if lt .A .B }}"),
    ('unexpected "+"', "add numbers with add: {{ add .A .B }}"),
    ("unexpected <.>", "a name follows each dot"),
    ("missing value for", "an expression is missing: {{ if .Options.x }}"),
    ("undefined variable", "set a variable before reading it: {{ $x := .Options.x }}"),
    ("missing value for command", "a function or a field follows each |"),
)
