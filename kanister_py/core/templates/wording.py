"""Wording of template errors: what was not found, what is there instead, what would be right.

Go's own words say what its reader tripped over; these say what the author of a blueprint
can do about it. Both are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from kanister_py.core.errors import did_you_mean
from kanister_py.core.templates.engines import Engine, blueprint_functions, syntax_error_in
from kanister_py.core.templates.errors import TemplateError, TemplateExecError, TemplateParseError
from kanister_py.core.templates.param_types import ROOT_NAMES, TEMPLATE_PARAMS
from kanister_py.core.yaml.documents import nearest
from kanister_py.gotemplate.types import Kind

_MOST_SHOWN: Final = 12
_MOST_COMPARED: Final = 1000


def not_found(name: str, owner: str, there: Iterable[str]) -> str:
    """Say that a name is not in something, and what is: the nearest names first."""
    return f'no "{name}" in {owner}; {there_are(name, there)}'


def there_are(name: str, there: Iterable[str]) -> str:
    """List what is there, the names nearest to the one that is not first."""
    known = sorted(there)
    if not known:
        return "there is nothing in it"
    near = nearest(name, known[:_MOST_COMPARED])
    ordered = [*near, *(each for each in known if each not in near)]
    left = len(ordered) - _MOST_SHOWN
    more = f" and {left} more" if left > 0 else ""
    return f"there are: {', '.join(ordered[:_MOST_SHOWN])}{more}"


def explain(error: TemplateError, roots: Callable[[], Sequence[str]] = list) -> str:
    """Say what is wrong with a template so that its author can mend it.

    `roots` gives what there is at the top of the tree for this very action.
    """
    if isinstance(error, TemplateParseError):
        return explain_syntax(error)
    if not isinstance(error, TemplateExecError):
        return error.message
    if not error.missing:
        hint = f"; {_SIGN}" if "incompatible types" in error.why and "'" in error.context else ""
        return f"{error.why}, in <{error.context}>{hint}" if error.context else error.message
    owner = error.owner or "what stands before it"
    if error.why.startswith(_NIL):
        absent = f'{owner} is not there, and has no "{error.missing}"'
        is_root = owner.count(".") == 1 and owner.startswith(".")
        return f"{absent}; {there_are(owner[1:], roots())}" if is_root else absent
    if not error.available and error.why.startswith(_NO_FIELD):
        kind = _KINDS.get(error.kind, error.kind)
        return f'no "{error.missing}" in {owner}, which is {kind}'
    if not error.owner and error.kind == _ROOT:
        return f"there is no .{error.missing}; {there_are(error.missing, error.available)}"
    return not_found(error.missing, error.owner or "it", error.available)


_SIGN: Final = "'x' is the number of a sign: a text stands in double quotes"
_NIL: Final = ("nil pointer", "nil data")
_ROOT: Final = "param.TemplateParams"
_NO_FIELD: Final = "can't evaluate field"
_KINDS: Final = {
    "string": "text",
    "bool": "true or false",
    **dict.fromkeys(("int", "int64", "float64", "uint8"), "a number"),
    "[]string": "a list; {{ index … 0 }} gives its first",
    "[]interface {}": "a list; {{ index … 0 }} gives its first",
}


# Names that lead nowhere, whatever an action is about

_CONTAINERS = (Kind.MAP, Kind.STRUCT, Kind.INTERFACE)


def why_impossible(names: Sequence[str], engine: Engine) -> str:
    """Say why a chain of names from the top of the tree leads nowhere; nothing if it may.

    The first name is one of `ROOTS`. What an `index` reads is in a map, or not there; `[]` is
    a member of a list or a map.
    """
    here = TEMPLATE_PARAMS.fields[names[0]].type
    for position, name in enumerate(names[1:], 1):
        while here.kind is Kind.POINTER and here.elem is not None:
            here = here.elem
        owner = ("." if engine is Engine.GO else "") + ".".join(names[:position])
        owner = owner.replace(".[]", "[…]")
        if name == "[]" and here.kind is not Kind.MAP:
            if here.kind is not Kind.SLICE or here.elem is None:
                return ""
            here = here.elem
            continue
        if here.kind is Kind.STRUCT:
            field = here.field(name)
            if field is None:
                if name in here.methods or (engine is Engine.JINJA2 and name in _OF_MAPS):
                    return ""
                own = (each for each, of in here.fields.items() if not of.embedded)
                return not_found(name, owner, (*own, *here.promoted))
            here = field.type
        elif here.kind is Kind.MAP and here.elem is not None:
            here = here.elem
        elif here.kind in _CONTAINERS or engine is Engine.JINJA2 or name in here.methods:
            # Nothing more is known, or texts and lists have methods.
            return ""
        else:
            return f'no "{name}" in {owner}, which is {_WORDS.get(here.kind, here.name)}'
    return ""


_OF_MAPS = frozenset({"get", "items", "keys", "values"})
_WORDS = {
    Kind.STRING: "text",
    Kind.BOOL: "true or false",
    Kind.INT: "a number",
    Kind.INT64: "a number",
    Kind.SLICE: "a list: {{ index … 0 }} gives its first",
}


# Texts that are no templates


def explain_unreadable(
    error: TemplateParseError, text: str, engine: Engine, *, is_sure: bool
) -> str:
    """Say why a text is no template; where its language is a guess, of either language."""
    why = explain_syntax(error)
    if is_sure:
        return why
    other = Engine.GO if engine is Engine.JINJA2 else Engine.JINJA2
    fault = syntax_error_in(text, other)
    if fault is None:
        return why
    return f"as {_NAMES[engine]}: {why}; as {_NAMES[other]}: {explain_syntax(fault)}"


_NAMES: Final = {Engine.GO: "a Go template", Engine.JINJA2: "Jinja2"}


def explain_syntax(error: TemplateError) -> str:
    """Say why a text is no template, and how what was probably meant is written."""
    why = _OF_GO.sub("", error.message)
    undefined = _UNDEFINED.fullmatch(why)
    if undefined is not None:
        name = undefined[1]
        if name in ROOT_NAMES:
            return f'there is no function "{name}"; what is read begins with a dot: .{name}'
        known = [*blueprint_functions()]
        message = f'there is no function "{name}"{did_you_mean(nearest(name, known))}'
        is_near = bool(get_close_matches(name, known, n=1, cutoff=_NEAR))
        return message if is_near else f'{message.rstrip("?")}; a text stands in quotes: "{name}"'
    hint = next((hint for part, hint in _HINTS if part in why), "")
    return f"{why}; {hint}" if hint else why


_NEAR: Final = 0.75
"""From which likeness on a name is more likely a misspelt function than a text."""
_OF_GO: Final = re.compile(r"^template: \w+:\d+: ")
_UNDEFINED: Final = re.compile(r'function "(.*)" not defined')
_HINTS: Final = (
    (
        "bad character U+002D '-'",
        'a key with a hyphen is read with index: {{ index .Options "a-b" }}',
    ),
    ("bad character U+005B '['", "an element is read with index: {{ index .List 0 }}"),
    ("bad character", "it has no meaning inside {{ }}"),
    ("unexpected EOF", "an {{ if }}, {{ range }} or {{ with }} lacks its {{ end }}"),
    ("unexpected {{end}}", "it ends nothing: no {{ if }}, {{ range }} or {{ with }} is open"),
    ("unexpected {{else}}", "it belongs into an {{ if }}, {{ range }} or {{ with }}"),
    ("unclosed action", "an {{ is closed with }}"),
    ('unexpected "}" in operand', "an {{ is closed with }}"),
    ("unterminated quoted string", 'a text ends with the quote that it begins with: "a"'),
    ("unterminated raw quoted string", "a text ends with the quote that it begins with: `a`"),
    ("malformed character constant", _SIGN),
    ('unexpected "{" in', "an action is opened by two braces, and none stand inside it"),
    ('unexpected "="', "values are compared with eq: {{ if eq .A .B }}"),
    ('unexpected "&"', "conditions are joined with and: {{ if and .A .B }}"),
    ('unexpected "!"', "a condition is turned round with not: {{ if not .A }}"),
    ('unexpected ">"', "values are compared with gt and ge: {{ if gt .A .B }}"),
    ('unexpected "<"', "values are compared with lt and le: {{ if lt .A .B }}"),
    ('unexpected "+"', "numbers are added with add: {{ add .A .B }}"),
    ("unexpected <.>", "a name follows each dot"),
    ("missing value for", "it wants an expression: {{ if .Options.x }}"),
    ("undefined variable", "a variable is set before it is read: {{ $x := .Options.x }}"),
    ("missing value for command", "a function or a field follows each |"),
)
