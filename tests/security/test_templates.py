"""Untrusted templates: parsing and rendering is limited in time and memory.

Expensive templates are rendered in a process with limits, which are lower here than by default so
that the tests take seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from resource import RUSAGE_SELF, getrusage
from time import monotonic, thread_time

import pytest

from kanister_py.core.blueprints.reads import passes_profile_as_json
from kanister_py.core.templates.engines import Engine, choose_engine, syntax_error_in
from kanister_py.core.templates.errors import (
    TemplateError,
    TemplateLimitExceeded,
    TemplateParseError,
)
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer, RenderFailed
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.template import compile_template
from kanister_py.gotemplate.times import from_unix
from kanister_py.limited_calls import Bounds, template_calls

_SIZES = (4_096, 16_384, 65_536, 262_144)
# Every character costs at most this long; quadratic code takes minutes for the largest size.
_SECONDS_A_CHARACTER = 2e-5

TEXTS = {
    "open braces": "{{",
    "open expressions": "{{ ",
    "open comments": "{{/*",
    "open comments of Jinja2": "{#",
    "open statements": "{% ",
    "open raw blocks": "{% raw %}{% ",
    "trims": "{{- ",
    "escaped quotes": '{{ "' + '\\"',
    "apostrophes": "{{ '\\'",
    "back quotes": "{{ `",
    "names of parameters": "{{ Options",
    "filters": "{{ | a",
    "conditions": "{{ if .Profile",
    "blanks": "{{ " + " " * 64,
    "fields": "{{ .a",
    "fields of fields": ".a",
}


def _choose(text: str) -> None:
    choose_engine({}, [text])


def _read_go(text: str) -> None:
    syntax_error_in(text, Engine.GO)


def _read_jinja(text: str) -> None:
    syntax_error_in(text, Engine.JINJA2)


def _look_for_profile(text: str) -> None:
    passes_profile_as_json(f"{{{{ toJson .Profile }}}}{text}", ())


@pytest.mark.parametrize("read", [_choose, _read_go, _read_jinja, _look_for_profile])
@pytest.mark.parametrize("piece", TEXTS.values(), ids=TEXTS)
def test_parsing_takes_time_proportional_to_the_length(
    piece: str, read: Callable[[str], None]
) -> None:
    for size in _SIZES:
        started = thread_time()
        read(piece * (size // len(piece)))
        assert thread_time() - started < 0.1 + size * _SECONDS_A_CHARACTER


def test_an_oversized_template_is_refused_before_parsing() -> None:
    with pytest.raises(TemplateParseError, match="characters"):
        compile_template("{{ 1 }}" * 200_000)


_MEBIBYTE = 1024 * 1024
_EFFECTS = Effects(
    now=lambda: from_unix(1_700_000_000, 0),
    random_bytes=os.urandom,
    run_in_process=template_calls(Bounds(cpu_seconds=1, processes=1)),
)
_SHARED = (
    "{{ $x := dict }}{{ $y := dict }}"
    "{{ range until 60 }}{{ $x = dict `a` $x `b` $x }}{{ $y = dict `a` $y `b` $y }}{{ end }}"
)
_LONG = '{{ $s := repeat 1000000 "az" }}'
_NULS = '{{ $s := "\\x00" }}{{ range until 24 }}{{ $s = print $s $s }}{{ end }}'

GO_BOMBS = {
    "shared maps compared": _SHARED + "{{ eq $x $y }}",
    "shared maps told apart": _SHARED + "{{ ne $x $y }}",
    "shared maps printed": _SHARED + "{{ $x }}",
    "shared maps as JSON": _SHARED + "{{ toJson $x }}",
    "shared maps copied": _SHARED + "{{ deepCopy $x | len }}",
    "all matches of a pattern": _LONG + '{{ regexFindAll "(a.*q)|b" $s -1 | len }}',
    "all matches of a pattern replaced": _LONG + '{{ regexReplaceAll "(a.*q)|z" $s "b" | len }}',
    "a text split by a pattern": _LONG + '{{ regexSplit "(a.*q)|z" $s -1 | len }}',
    "many patterns": "{{ range until 50000 }}{{ range until 99 }}"
    '{{ regexMatch (print "x{1,900}" .) "x" }}{{ end }}{{ end }}',
    "private keys in a loop": '{{ range until 999 }}{{ $k := genPrivateKey "rsa" }}{{ end }}',
    "certificates in a loop": "{{ range until 999 }}"
    '{{ $c := genSelfSignedCert "a" (list) (list) 1 }}{{ end }}',
    "a long date": '{{ $s := repeat 4000000 "20" }}{{ toDate $s $s }}',
    "quotes around NULs": _NULS + "{{ quote $s | len }}",
    "a quoting format": _NULS + '{{ printf "%q" $s | len }}',
    "another quoting format": _NULS + '{{ printf "%#v" $s | len }}',
    "a hexadecimal format": _NULS + '{{ printf "% x" $s | len }}',
    "a text for scripts": _NULS + "{{ js $s | len }}",
    "a text split into many": _LONG + '{{ split "" $s | len }}{{ splitn "" 999999 $s | len }}',
    "a long version": _LONG + "{{ semver (print `1.2.3-` $s) }}",
    "texts made in loops": "{{ range until 99999 }}{{ repeat 9999 `x` }}{{ end }}",
    "output without end": "{{ range until 99999 }}" + "x" * 1000 + "{{ end }}",
    "loops in loops": "{{ range until 99999 }}{{ range until 99999 }}{{ end }}{{ end }}",
    "calls in calls in a loop": "{{ range until 99999 }}"
    + ("{{ $x := " + "(add 1 " * 90 + "1" + ")" * 90 + "}}") * 50
    + "{{ end }}",
}


def _render(engine: Engine, template: str) -> str:
    params = Params(ActionFacts(time="", options={"long": "x" * (2 * _MEBIBYTE)}))
    return Renderer(engine, _EFFECTS).text(template, params)


def _outcome(engine: Engine, template: str) -> str | TemplateError:
    """Return the cause of an error, or nothing for output of any length."""
    try:
        _render(engine, template)
    except RenderFailed as error:
        return error.cause
    return ""


def _is_bounded(engine: Engine, template: str) -> None:
    started, before = thread_time(), getrusage(RUSAGE_SELF).ru_maxrss
    outcome = _outcome(engine, template)
    assert outcome == "" or isinstance(outcome, TemplateLimitExceeded)
    assert thread_time() - started < 10
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 256 * 1024


@pytest.mark.parametrize("template", GO_BOMBS.values(), ids=GO_BOMBS)
def test_a_go_template_ends(template: str) -> None:
    _is_bounded(Engine.GO, template)


JINJA_BOMBS = {
    "a text repeated": "{{ 'a' * 10**9 }}",
    "a list repeated": "{{ [0] * 10**9 }}",
    "a power": "{{ 10 ** 1000000000 }}",
    "squares": "{% set ns = namespace(n=3) %}{% for i in range(99) %}"
    "{% set ns.n = ns.n * ns.n %}{% endfor %}",
    "loops in loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
    "{% endfor %}",
    "a loop with a long body": "{% for i in range(99999) %}"
    + "{% set x = 1 %}" * 1000
    + "{% endfor %}",
    "doubling": "{% set ns = namespace(a='x') %}{% for i in range(64) %}"
    "{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
    "doubling by join": "{% set ns = namespace(a='x') %}{% for i in range(64) %}"
    "{% set ns.a = [ns.a, ns.a] | join %}{% endfor %}",
    "doubling by replace": "{% set ns = namespace(a='x') %}{% for i in range(64) %}"
    "{% set ns.a = ns.a.replace('x', 'xx') %}{% endfor %}",
    "doubling by format": "{% set ns = namespace(a='x') %}{% for i in range(64) %}"
    "{% set ns.a = '%s%s' % (ns.a, ns.a) %}{% endfor %}",
    "a list of itself twice, printed": "{% set ns = namespace(a=[]) %}{% for i in range(64) %}"
    "{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
    "a list of itself twice, compared": "{% set ns = namespace(a=[], b=[]) %}"
    "{% for i in range(64) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}"
    "{% endfor %}{{ ns.a == ns.b }}",
    "a wide format": "{{ '%1000000000d' % 1 }}",
    "a wide filter": "{{ 'a' | center(1000000000) }}",
    "a wide batch": "{{ [1] | batch(1000000000, 'x') }}",
    "many slices": "{{ [1] | slice(1000000000) | list }}",
    "a macro that calls itself twice": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}"
    "{% endif %}{% endmacro %}{{ m(60) }}",
    "output without end": "{% for i in range(99999) %}" + "x" * 1000 + "{% endfor %}",
    "large texts changed": "{% set a = 'x' * 10**7 %}{% for i in range(99999) %}"
    "{% set b = a | upper %}{% endfor %}",
    "large texts split": "{{ ('x ' * 8 * 10**6).split() | length }}",
}


@pytest.mark.parametrize("template", JINJA_BOMBS.values(), ids=JINJA_BOMBS)
def test_a_jinja_template_ends(template: str) -> None:
    _is_bounded(Engine.JINJA2, template)


def test_a_template_with_2_mib_of_data_is_rendered() -> None:
    assert len(_render(Engine.GO, "{{ .Options.long | upper | b64enc }}")) > 2 * _MEBIBYTE
    assert len(_render(Engine.JINJA2, "{{ (Options.long | upper) ~ '!' }}")) > 2 * _MEBIBYTE


def test_errors_in_the_process_with_limits_are_the_same() -> None:
    text = "{{ range until 9999 }}{{ range until 50 }}{{ end }}{{ end }}\n{{ .Options.nope }}"
    here = Effects(now=_EFFECTS.now)
    with pytest.raises(RenderFailed) as elsewhere:
        _render(Engine.GO, text)
    assert elsewhere.value.line == 2
    params = Params(ActionFacts(time="", options={"long": ""}))
    with pytest.raises(RenderFailed) as plain:
        Renderer(Engine.GO, here).text("\n{{ .Options.nope }}", params)
    assert elsewhere.value.why == plain.value.why


def test_a_stopped_phase_stops_its_template() -> None:
    started = monotonic()
    effects = _EFFECTS._replace(is_stopped=lambda: monotonic() - started > 0.5)
    with pytest.raises(RenderFailed) as error:
        Renderer(Engine.GO, effects).text(GO_BOMBS["loops in loops"], Params(ActionFacts(time="")))
    assert isinstance(error.value.cause, TemplateLimitExceeded)
    assert error.value.cause.limit == "stopped"
