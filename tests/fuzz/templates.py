"""Mutated Go and Jinja2 templates: they render or fail with a template error."""

from __future__ import annotations

import random
from functools import cache

from kanister_py.core.templates.engines import Engine
from kanister_py.core.templates.errors import TemplateError
from kanister_py.core.templates.execution import execute
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Text
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.errors import GoTemplateError
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.limits import Limits
from kanister_py.gotemplate.template import compile_template
from kanister_py.limited_calls import Bounds, template_calls
from tests.fuzz.mutations import mutated_text
from tests.gotemplate.oracle_data import data_of, effects_at
from tests.gotemplate.oracle_record import TABLES, Recorded, read

_EFFECTS = Effects(run_in_process=template_calls(Bounds(cpu_seconds=1)))
_LIMITS = Limits(steps=20_000, size=1 << 20)
_GO_WORDS = (
    "{{",
    "}}",
    "{{-",
    "-}}",
    "(",
    ")",
    "|",
    ".",
    "$",
    "$x",
    ":=",
    "=",
    ",",
    '"',
    "`",
    "'",
    "if ",
    "else ",
    "end",
    "range ",
    "with ",
    "define ",
    "template ",
    "block ",
    "nil",
    "true",
    "printf ",
    "index ",
    "len ",
    "dict ",
    "list ",
    "until ",
    "repeat ",
    "fromJson ",
    "1e9",
    "-1",
    "9223372036854775807",
    "0x1p-2",
    "%!d",
    "\\x00",
    "\xff",
    "é",
    "\n",
    "/*",
    "*/",
    "break",
)
_JINJA_WORDS = (
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "for ",
    " in ",
    "if ",
    "endif",
    "endfor",
    "set ",
    "x",
    ".",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "|",
    "join",
    "~",
    "+",
    "**",
    "//",
    "%",
    "9",
    "'",
    '"',
    ",",
    ":",
    "not ",
    "is ",
    "defined",
    "range",
    "loop",
    "macro m()",
    "endmacro",
    "call",
    "self",
    "__class__",
    "format",
    "upper",
    "0-10**12",
    "lipsum",
    "cycler",
    "namespace",
    "é",
    "\n",
)
_JINJA = (
    "{% for i in range(3) %}{{ loop.index ~ Options.image }}{% endfor %}",
    "{{ Options.image | upper | replace('b', 'c') if Options.image is defined else 'none' }}",
    "{% set x = {'a': [1, 2.5, none]} %}{{ x.a[1] + 3 }} {{ x | tojson }}",
    "{% macro m(a, b=2) %}{{ a * b }}{% endmacro %}{{ m('x', 3) }}{# said #}",
    "{{ Options.image[1:3] ~ '%s' % (Options | length) }}",
)


def go_template(choose: random.Random) -> bool:
    """Render a mutation of a template that Go renders."""
    case = choose.choice(_recorded()).case
    text = mutated_text(case.template, _GO_WORDS, choose)
    try:
        template = compile_template(text, TABLES[choose.choice(("2", "3"))])
        template.execute(data_of(case.data), effects_at(case.now), _LIMITS)
    except (GoTemplateError, GoError):
        return False
    return True


@cache
def _recorded() -> list[Recorded]:
    return list(read())


def jinja_template(choose: random.Random) -> bool:
    """Render a mutation of a Jinja2 template."""
    params = Params(ActionFacts(time="", options={"image": "busybox"}))
    text = mutated_text(choose.choice(_JINJA), _JINJA_WORDS, choose)
    try:
        execute(Text(Engine.JINJA2, text, params), _EFFECTS)
    except TemplateError:
        return False
    return True
