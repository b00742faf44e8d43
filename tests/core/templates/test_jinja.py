"""Jinja2 templates of Blueprints: parameters, filters and limits."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanister_py.core.templates.errors import (
    TemplateError,
    TemplateExecError,
    TemplateLimitExceeded,
    TemplateParseError,
)
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.jinja import compile_jinja
from kanister_py.core.templates.params import Params
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.limits import Limits

Say = Callable[[str], str]


@pytest.fixture
def say(params: Params, effects: Effects) -> Say:
    return lambda text: compile_jinja(text).execute(params, effects)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{{ Options.image }}", "busybox", id="an option"),
        pytest.param("{{ Options['image'] }}", "busybox", id="an option by its key"),
        pytest.param("{{ Options.items }}", "of an option", id="a key named like a method"),
        pytest.param("{{ Phases.dump.Output.path }}", "backups/2", id="an output"),
        pytest.param("{{ Phases.dump.Output.size + 1 }}", "4", id="a number stays one"),
        pytest.param("{{ ArtifactsIn.dump.KeyValue.path }}", "backups/1", id="an artifact"),
        pytest.param("{{ Secrets.login.Data.password }}", "pa'ss<word>", id="a secret is text"),
        pytest.param("{{ Secrets.login.Name }}", "login", id="a field of what is embedded"),
        pytest.param("{{ Secrets.login.Labels.tier }}", "db", id="a label of a secret"),
        pytest.param("{{ ConfigMaps.settings.Data.mode }}", "fast", id="a config map"),
        pytest.param("{{ StatefulSet.Pods[0] }}", "demo-0", id="an item"),
        pytest.param("{{ StatefulSet.Pods[-1] }}", "demo-1", id="the last item"),
        pytest.param("{{ StatefulSet.Pods | join(' ') }}", "demo-0 demo-1", id="a list joined"),
        pytest.param("{{ Object.metadata.labels.app }}", "demo", id="a field of the object"),
        pytest.param("{% if not Deployment %}none{% endif %}", "none", id="what is nil is false"),
        pytest.param(
            "{{ 'x' if Options.zone is defined else 'y' }}",
            "y",
            id="a missing value can be tested",
        ),
        pytest.param("{{ Options.zone | default('eu') }}", "eu", id="a default"),
        pytest.param("{{ Profile.Location.bucket is defined }}", "false", id="names are Go's"),
        pytest.param(
            "{% for k, v in Object.metadata.labels.items() %}{{ k }}={{ v }}{% endfor %}",
            "app=demo",
            id="the items of a map",
        ),
        pytest.param(
            "{% for pod in StatefulSet.Pods %}{{ loop.index }}{{ pod[-2:] }}"
            "{{ '' if loop.last else ' ' }}{% endfor %}",
            "1-0 2-1",
            id="a loop that counts",
        ),
        pytest.param(
            "{% set ns = namespace(n=0) %}{% for p in [80, 443] %}{% set ns.n = ns.n + p %}"
            "{% endfor %}{{ ns.n }}",
            "523",
            id="a sum over a loop",
        ),
        pytest.param(
            "{% macro q(x) %}<{{ x }}{{ caller() }}>{% endmacro %}{% call q(1) %}!{% endcall %}",
            "<1!>",
            id="a macro",
        ),
        pytest.param(
            "{% for p in [1, 2, 3] %}{% if p == 2 %}{% break %}{% endif %}{{ p }}{% endfor %}",
            "1",
            id="a loop that is left",
        ),
        pytest.param("{{ [1, 2, 3][1:] | sum }}", "5", id="a slice"),
        pytest.param("{{ 'a' ~ 1 ~ none }}", "a1", id="text put together"),
        pytest.param("{{ '%s-%03d' % ('a', 7) }}", "a-007", id="a format"),
        pytest.param("{{ '%s is %s' | format('x', true) }}", "x is true", id="a format as filter"),
        pytest.param("{{ 'a b'.split() | map('upper') | list }}", '["A","B"]', id="a list prints"),
        pytest.param("{{ 'a-b'.replace('-', '_').upper() }}", "A_B", id="methods of a text"),
        pytest.param("{{ 'x' in Options }}{{ 'image' in Options }}", "falsetrue", id="looking in"),
        pytest.param("{{ true }} {{ none }} {{ 1.5 }} {{ 10 // 4 }}", "true  1.5 2", id="scalars"),
        pytest.param("{# nothing #}a\n", "a\n", id="a comment, and the last line's end"),
        pytest.param("{{ Object.spec.ports }}", "[80,443]", id="a list of the object"),
    ],
)
def test_template_reads_the_parameters(say: Say, template: str, expected: str) -> None:
    assert say(template) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{{ 'hi' | b64enc }}", "aGk=", id="base64"),
        pytest.param("{{ 5 | b64enc }}", "NQ==", id="base64 of a number"),
        pytest.param("{{ 'aGk=' | b64dec }}", "hi", id="base64 back"),
        pytest.param("{{ Secrets.login.Data.user | b64enc }}", "YWRtaW4=", id="base64 of a secret"),
        pytest.param("{{ 'a\"b' | quote }}", '"a\\"b"', id="quotes"),
        pytest.param("{{ Time | date('2006-01-02') }}", "2024-05-06", id="the time of the action"),
        pytest.param("{{ now() | date('15:04') }}", "12:00", id="the given clock"),
        pytest.param("{{ 'abcdef' | trunc(3) }}", "abc", id="a text cut"),
        pytest.param("{{ 'fooBar' | snakecase }}", "foo_bar", id="other capitals"),
        pytest.param("{{ 'a1b2' | regexReplaceAll('[0-9]', '-') }}", "a-b-", id="a pattern"),
        pytest.param("{{ '1.2.3' | semverCompare('>=1.2') }}", "true", id="versions"),
        pytest.param("{{ {'b': [1], 'a': none} | toJson }}", '{"a":null,"b":[1]}', id="JSON"),
        pytest.param("{{ 'x\\ny' | indent(2) }}", "x\n  y", id="an indent"),
        pytest.param("{{ [3, 1, 2] | sort | first }}", "1", id="an order"),
        pytest.param("{{ {'b': 1, 'a': 2} | dictsort | map('first') | join }}", "ab", id="keys"),
        pytest.param("{{ 2.567 | round(1) }}", "2.6", id="a rounded number"),
        pytest.param("{{ [1, 2, 3] | batch(2) }}", "[[1,2],[3]]", id="batches"),
    ],
)
def test_template_has_common_filters(say: Say, template: str, expected: str) -> None:
    assert say(template) == expected


def test_profile_as_json_is_readable_for_kando(say: Say) -> None:
    assert say("{{ Profile | toJson }}") == (
        '{"Location":{"type":"s3Compliant","bucket":"b","endpoint":"http://s3:9000",'
        '"prefix":"p","region":"r"},"Credential":{"Type":"keyPair","KeyPair":'
        '{"ID":"AK\\u003c\\u0026\\u003eID","Secret":"s3cr\'et"},"Secret":null,'
        '"KopiaServerSecret":null},"SkipSSLVerify":false}'
    )


def test_random_values_come_from_the_given_source(say: Say) -> None:
    assert say("{{ uuidv4() }}") == say("{{ uuidv4() }}")


@pytest.mark.parametrize(
    ("template", "line", "named"),
    [
        pytest.param("a\n{{ foo }}", 2, "'foo' is undefined", id="a name"),
        pytest.param("{{ options.image }}", 1, "did you mean Options?", id="other capitals"),
        pytest.param("{{ Options.imaeg }}", 1, "'imaeg' is undefined in Options", id="a key"),
        pytest.param(
            "\n\n{{ Phases.dump.Output.nope }}", 3, "Phases.dump.Output", id="an output not given"
        ),
        pytest.param("{{ Phases.later.Output }}", 1, "'later' is undefined", id="a later phase"),
        pytest.param("{{ Profile.Location.Nope.x }}", 1, "'Nope' is undefined", id="a field"),
        pytest.param("{{ Deployment.Name }}", 1, "'Name' is undefined in none", id="of nil"),
        pytest.param("{{ StatefulSet.Pods[9] }}", 1, "9 is undefined", id="an item"),
        pytest.param("{% for x in foo %}{% endfor %}", 1, "'foo' is undefined", id="in a loop"),
        pytest.param("{{ foo | b64enc }}", 1, "'foo' is undefined", id="before a filter"),
        pytest.param("{{ foo + 1 }}", 1, "'foo' is undefined", id="in a sum"),
        pytest.param("{{ foo() }}", 1, "'foo' is undefined", id="called"),
        pytest.param("{{ 'a' ~ foo }}", 1, "'foo' is undefined", id="put together"),
    ],
)
def test_undefined_name_is_reported_with_its_line(
    say: Say, template: str, line: int, named: str
) -> None:
    with pytest.raises(TemplateExecError) as error:
        say(template)
    assert (error.value.reason, error.value.line) == ("TemplateUndefined", line)
    assert named in error.value.why


@pytest.mark.parametrize(
    ("template", "named"),
    [
        pytest.param("{{ now('2006') }}", "now() takes", id="a global"),
        pytest.param("{{ Options.keys(1) }}", "keys() takes", id="keys of a map"),
        pytest.param("{{ Options.values(1) }}", "values() takes", id="values of a map"),
        pytest.param("{{ {}.items(1) }}", "items() takes", id="items of a map"),
    ],
)
def test_function_with_too_many_arguments_is_named(say: Say, template: str, named: str) -> None:
    with pytest.raises(TemplateExecError, match=re.escape(named)):
        say(template)


@pytest.mark.parametrize(
    ("template", "line"),
    [
        pytest.param("a\n{{ (1 }}", 2, id="a bracket"),
        pytest.param("{% if 1 %}", 1, id="an if without its end"),
        pytest.param("{{ 1 | nope }}", 1, id="an unknown filter"),
        pytest.param("{{ 1 is nope }}", 1, id="an unknown test"),
        pytest.param("{{ x | attr('y') }}", 1, id="the filter for attributes"),
        pytest.param("\n{% include 'x' %}", 2, id="another template"),
        pytest.param("{% import 'x' as y %}", 1, id="another template's macros"),
        pytest.param("{% extends 'x' %}", 1, id="a template above"),
        pytest.param("{{ " + "9" * 5000 + " }}", 0, id="a number without end"),
        pytest.param("{{ " + "(" * 5000 + ")" * 5000 + " }}", 0, id="brackets without end"),
        pytest.param("{{ " + "not " * 5000 + "1 }}", 0, id="negations without end"),
        pytest.param(
            "{% for a in b %}" * 60 + "{% endfor %}" * 60, 0, id="more loops than Python nests"
        ),
        pytest.param("{{ 1 }}" * 200_000, 0, id="a text without end"),
    ],
)
def test_syntax_error_is_refused(say: Say, template: str, line: int) -> None:
    with pytest.raises(TemplateParseError) as error:
        say(template)
    assert error.value.line == line


ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__'] }}",
    "{{ Options['__class__'] }}",
    "{{ Options.source }}",
    "{{ Options._source }}",
    "{{ Params }}",
    "{{ [] | map(attribute='__class__') | list }}{{ [1] | map(attribute='__class__') | join }}",
    "{{ '{0.__class__}'.format(1) }}",
    "{{ '{0.__class__}'.format_map({'a': 1}) }}",
    "{{ ('%s' % self).__class__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ range.__globals__ }}",
    "{{ range.function }}",
    "{{ namespace.__init__ }}",
    "{{ namespace(a=1).__class__ }}",
    "{% macro m() %}{% endmacro %}{{ m._environment }}",
    "{% for x in [1] %}{{ loop._iterator }}{% endfor %}",
    "{% for x in [1] %}{{ loop.__class__ }}{% endfor %}",
    "{{ lipsum.__globals__['os'] }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ config }}",
    "{{ environment }}",
    "{{ (1).__class__ }}",
    "{{ Time.__class__ }}",
    "{{ now().__class__ }}",
    "{{ now().unix_nanoseconds }}",
    "{{ [1].append(2) }}",
    "{{ {'a': 1}.update({}) }}",
    "{{ Options.pop('image') }}",
    "{{ 'abc'.encode('utf-16') }}",
    "{{ env('HOME') }}",
    "{{ 'HOME' | env }}",
    "{{ 'localhost' | getHostByName }}",
]


@pytest.mark.parametrize("template", ESCAPES)
def test_sandbox_cannot_be_escaped(say: Say, template: str) -> None:
    with pytest.raises((TemplateExecError, TemplateParseError)):
        say(template)


def test_range_has_a_limit(say: Say) -> None:
    with pytest.raises(TemplateLimitExceeded) as error:
        say("{% for i in range(10**12) %}{% endfor %}")
    assert error.value.limit == "size"


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", id="a macro"),
        pytest.param("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", id="a loop"),
        pytest.param("{% block b %}{{ self.b() }}{% endblock %}", id="a block"),
    ],
)
def test_endless_recursion_is_stopped(say: Say, template: str) -> None:
    with pytest.raises(TemplateLimitExceeded) as error:
        say(template)
    assert error.value.limit == "depth"


def test_output_has_a_limit(params: Params) -> None:
    template = compile_jinja("{% for i in range(10) %}{{ i }}{% endfor %}")
    with pytest.raises(TemplateLimitExceeded) as error:
        template.execute(params, limits=Limits(size=9))
    assert error.value.limit == "size"
    assert template.execute(params, limits=Limits(size=10)) == "0123456789"


@pytest.mark.parametrize(
    ("template", "is_costly"),
    [
        pytest.param("{{ Options.image | default('x') | upper }}", False, id="an expression"),
        pytest.param("{% if Options.a == 'b' %}{{ Time }}{% endif %}", False, id="a condition"),
        pytest.param("{% for x in y %}{% endfor %}", True, id="a loop"),
        pytest.param("{{ 'a' * 10**9 }}", True, id="arithmetic"),
        pytest.param("{% set x = 1 %}", True, id="a variable"),
        pytest.param("{{ f() }}", True, id="a call"),
        pytest.param("{{ 'a' | center(10**9) }}", True, id="a filter that makes much of little"),
        pytest.param("{{ a }}" * 300, True, id="many expressions"),
    ],
)
def test_only_simple_expressions_are_cheap(template: str, is_costly: bool) -> None:
    assert compile_jinja(template).is_costly is is_costly


def test_text_is_compiled_once() -> None:
    assert compile_jinja("{{ Options.once }}") is compile_jinja("{{ Options.once }}")


_WORDS = (
    "{{",
    "}}",
    "{%",
    "%}",
    "for",
    "in",
    "if",
    "endif",
    "endfor",
    "set",
    "x",
    "=",
    "Options",
    ".",
    "image",
    "(",
    ")",
    "[",
    "]",
    "|",
    "join",
    "~",
    "+",
    "%",
    "9",
    "'a'",
    ",",
    ":",
    "not",
    "is",
    "defined",
    "range",
    "self",
    "loop",
    "macro",
    "m",
    "call",
    "endcall",
    "endmacro",
)


class TestAnyTemplate:
    """Any template is rendered or refused, without other effects."""

    @settings(max_examples=300, deadline=None)
    @given(
        st.lists(
            st.sampled_from(_WORDS),
            max_size=20,
        )
    )
    def test_is_rendered_or_refused(self, words: list[str]) -> None:
        params = Params(ActionFacts(time="", options={"image": "busybox"}))
        text = "{{ " + " ".join(words) + " }}"
        try:
            result: object = compile_jinja(text).execute(params, limits=Limits(size=10_000))
        except TemplateError as error:
            result = error
        assert isinstance(result, str | TemplateError)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{{ Time | lowr }}", "no filter lowr; did you mean lower", id="a filter"),
        pytest.param("{{ Time is deffined }}", "no test deffined; did you mean defined", id="test"),
    ],
)
def test_unknown_filter_is_reported_with_a_similar_one(text: str, expected: str) -> None:
    with pytest.raises(TemplateParseError, match=expected):
        compile_jinja(text)
