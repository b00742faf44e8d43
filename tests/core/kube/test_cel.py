from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kanister_py.core.kube.cel.errors import CelError, CelLimitExceeded
from kanister_py.core.kube.cel.expression import Uint, compile_cel

OBJECT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Thing",
    "metadata": {"name": "n", "labels": {"a/b": "c"}, "generation": 2},
    "spec": {
        "replicas": 3,
        "ratio": 0.5,
        "list": [1, 2, 3],
        "s": "Hello",
        "when": "2024-01-31T22:30:00Z",
        "none": None,
    },
    "status": {
        "readyReplicas": 3,
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Synced", "status": "False"},
        ],
    },
}

MEANT: dict[str, Any] = {
    # fields
    "has(object.status.conditions)": True,
    "has(object.status.nope)": False,
    "has(object.nope) && object.nope.x == 1": False,
    "object.metadata.labels['a/b'] == 'c'": True,
    "'a/b' in object.metadata.labels": True,
    "object.spec.none == null": True,
    ".object.kind": "Thing",
    "{'a': 1}.a": 1,
    "{1: 'one'}[1]": "one",
    "{1: 'one'}[1u]": "one",
    "{true: 1}[true]": 1,
    "[1, 2,]": [1, 2],
    # macros
    "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')": True,
    "object.status.conditions.all(c, c.status == 'True')": False,
    "object.status.conditions.exists_one(c, c.status == 'True')": True,
    "object.status.conditions.filter(c, c.type == 'Ready')[0].status": "True",
    "object.spec.list.map(x, x * 2)": [2, 4, 6],
    "object.spec.list.map(x, x > 1, x * 2)": [4, 6],
    "object.metadata.labels.all(k, k.startsWith('a'))": True,
    "[1, 0].exists(x, 1 / x == 1)": True,
    "[0, 1].exists(x, 1 / x == 1)": True,
    "[1, 2].map(x, [3, 4].map(y, x * y))": [[3, 4], [6, 8]],
    "cel.bind(x, 2, x * x)": 4,
    # logic
    "true || object.nope.x": True,
    "object.nope.x || true": True,
    "false && object.nope.x": False,
    "object.nope.x && false": False,
    "!!true": True,
    "!false": True,
    "object.spec.replicas > 2 ? 'big' : 'small'": "big",
    "false ? 1 : true ? 2 : 3": 2,
    # numbers
    "object.spec.replicas == object.status.readyReplicas": True,
    "object.spec.replicas == 3.0": True,
    "object.spec.replicas > 2.5": True,
    "object.spec.replicas + 0.5": 3.5,
    "1 == true": False,
    "1 == '1'": False,
    "2 in object.spec.list": True,
    "2.0 in object.spec.list": True,
    "true in [1]": False,
    "[1, 2] == [1.0, 2.0]": True,
    "{'a': 1} == {'a': 1.0}": True,
    "7 % 3": 1,
    "-7 / 2": -3,
    "-7 % 2": -1,
    "7 / -2": -3,
    "1 + 2 * 3 - 4": 3,
    "2 - -1": 3,
    "-9223372036854775808": -(2**63),
    "0x1F": 31,
    "3u": Uint(3),
    "1.5e3": 1500.0,
    "1.0 / 0.0 > 1.0e300": True,
    "int(3.9)": 3,
    "int('-3')": -3,
    "uint(3) == 3u": True,
    "double('1.5')": 1.5,
    "bool('true')": True,
    "string(3)": "3",
    "string(3.0)": "3",
    "string(0.1)": "0.1",
    "string(1000000.0)": "1e+06",
    "string(123456.5)": "123456.5",
    "string(0.00001)": "1e-05",
    "string(true)": "true",
    "type(1) == int": True,
    "type('a') == string": True,
    "type(type(1)) == type": True,
    "dyn(1) == 1": True,
    "math.greatest(1, 2.5)": 2.5,
    "math.least([3, 1])": 1,
    # texts
    "object.spec.s.matches('^He.*o$')": True,
    "matches(object.spec.s, 'ell')": True,
    "object.spec.s.startsWith('He') && object.spec.s.endsWith('lo')": True,
    "object.spec.s.contains('ll')": True,
    "size('é')": 1,
    "'é'.size()": 1,
    "size(b'é')": 2,
    "'\\u00e9' == 'é'": True,
    "r'\\d' == '\\\\d'": True,
    "'''it's'''": "it's",
    "'a' + \"b\"": "ab",
    "'\\101\\x42'": "AB",
    "'a,b,c'.split(',')": ["a", "b", "c"],
    "'a,b,c'.split(',', 2)": ["a", "b,c"],
    "'abc'.split('')": ["a", "b", "c"],
    "['a', 'b'].join('-')": "a-b",
    "'HÉ'.lowerAscii()": "hÉ",
    "'  x '.trim()": "x",
    "'hello'.replace('l', 'L')": "heLLo",
    "'hello'.replace('l', 'L', 1)": "heLlo",
    "'hello'.substring(1, 3)": "el",
    "'hello'.indexOf('l')": 2,
    "'hello'.lastIndexOf('l')": 3,
    "'hello'.charAt(5)": "",
    "'abc'.reverse()": "cba",
    "[1, 2, 3].sum()": 6,
    "['b', 'a'].min()": "a",
    "[1, 2, 2].isSorted()": True,
    # optional values
    "object.?spec.?nope.orValue(5)": 5,
    "object.?spec.replicas.orValue(5)": 3,
    "object.spec[?'replicas'].hasValue()": True,
    "[1][?1].hasValue()": False,
    "optional.of(1).value()": 1,
    "optional.none().or(optional.of(2)).value()": 2,
    "optional.of(2).optMap(x, x * 2).value()": 4,
    "[?optional.none(), ?optional.of(1)]": [1],
    "{?'a': optional.none(), 'b': 1}": {"b": 1},
    # time
    "timestamp(object.spec.when) < timestamp('2025-01-01T00:00:00Z')": True,
    "duration('1h') > duration('59m')": True,
    "duration('90m').getHours()": 1,
    "timestamp(object.spec.when) - timestamp('2024-01-31T21:30:00Z')": timedelta(hours=1),
    "timestamp(object.spec.when).getMonth()": 0,
    "timestamp(object.spec.when).getDate('+02:00')": 1,
    "timestamp(0)": datetime(1970, 1, 1, tzinfo=UTC),
    "int(timestamp('1970-01-02T00:00:00Z'))": 86400,
    "string(timestamp(object.spec.when) + duration('1.5s'))": "2024-01-31T22:30:01.5Z",
    "string(duration('1m1.5s'))": "61.5s",
}


@pytest.mark.parametrize("text", MEANT)
def test_expression_has_the_value_of_the_language_definition(text: str) -> None:
    result = compile_cel(text).evaluate({"object": OBJECT})
    assert result == MEANT[text]
    assert type(result) is type(MEANT[text])


@pytest.mark.parametrize(
    "text",
    [
        "object.nope.x",
        "has(object.nope.x)",
        "object.spec.list[5]",
        "object.spec.list[-1]",
        "object.spec.list.exists(x, x / 0 == 1)",
        "1 / 0",
        "1 % 0",
        "9223372036854775807 + 1",
        "0u - 1u",
        "1 + 1u",
        "1 + 'a'",
        "'a' < 1",
        "!1",
        "1 ? 2 : 3",
        "1 && true",
        "nope",
        "'a'.matches('(')",
        "int('x')",
        "int(1e300)",
        "timestamp('yesterday')",
        "timestamp('2024-01-01T00:00:00')",
        "duration('1 hour')",
        "{'a': 1, 'a': 2}",
        "'abc'.substring(2, 1)",
        "optional.none().value()",
        "[].max()",
    ],
)
def test_evaluation_error_is_raised(text: str) -> None:
    with pytest.raises(CelError):
        compile_cel(text).evaluate({"object": OBJECT})


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("1 +", 3),
        ("1 1", 2),
        ("(1", 2),
        ("'a", 0),
        ("'\\q'", 1),
        ("a @ b", 2),
        ("f(1)", 0),
        ("'x'.nope()", 3),
        ("size(1, 2)", 0),
        ("has(object)", 0),
        ("[1].all(1, true)", 8),
        ("9223372036854775808", 0),
        ("for", 0),
        ("a.1", 1),
        ("{'a' 1}", 5),
    ],
)
def test_syntax_error_has_a_position(text: str, position: int) -> None:
    with pytest.raises(CelError) as caught:
        compile_cel(text)
    assert caught.value.position == position


ROW = "[" + ",".join("1" * 25) + "]"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 5000 + "1" + ")" * 5000, id="brackets"),
        pytest.param("[" * 5000 + "1" + "]" * 5000, id="lists"),
        pytest.param("true ? 1 : " * 1000 + "1", id="choices"),
        pytest.param("a" + ".b" * 5000, id="fields"),
        pytest.param("a" + "[0]" * 5000, id="elements"),
        pytest.param("1+(1*(-(!(" * 500, id="operators"),
        pytest.param("'" + "a" * 20_000 + "'", id="a long text"),
        pytest.param("l.map(a, l.map(b, l.map(c, l.map(d, l.map(e, 1)))))", id="loops in loops"),
        pytest.param("l.map(x, s + s + s + s)", id="texts that grow"),
        pytest.param("l.map(x, s.replace('x', 'xxxxxxxxxx'))", id="replaced texts"),
        pytest.param("l.map(x, [s].join('') + s.split('')[0])", id="split texts"),
        pytest.param("l.map(x, bytes(s))", id="texts as bytes"),
        pytest.param("l.map(x, string(b))", id="bytes as texts"),
        pytest.param("many.all(x, !many.exists(y, y < 0))", id="a list gone through again"),
        pytest.param("many.all(x, many.indexOf(-1) < 0)", id="a list searched again"),
        pytest.param("many.all(x, s + 'a' > s)", id="texts compared"),
        pytest.param("many.all(x, !'a'.matches('x{100}' + string(x)))", id="many patterns"),
    ],
)
def test_expensive_expression_is_stopped(text: str) -> None:
    text = text.replace("l.", f"{ROW}.")
    with pytest.raises(CelLimitExceeded):
        compile_cel(text).evaluate(HOSTILE)


HOSTILE: dict[str, Any] = {
    "s": "x" * 200_000,
    "b": b"x" * 200_000,
    "a": {},
    "many": [*range(20_000)],
    "huge": 10**400,
    "digits": "9" * 5_000,
}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("timestamp('9999-12-31T23:59:59Z').getHours('+23:00')", id="after the end"),
        pytest.param("timestamp('0001-01-01T00:00:00Z').getHours('-23:00')", id="before the start"),
        pytest.param("timestamp('0001-01-01T00:00:00+23:00')", id="no such time"),
        pytest.param("timestamp(0).getHours('+' + digits + ':00')", id="a giant offset"),
        pytest.param("duration(digits + 's')", id="a giant duration"),
        pytest.param("duration('1.' + digits + digits + 's') < null", id="a giant fraction"),
        pytest.param("double(huge)", id="a giant number as a double"),
        pytest.param("huge + 0.5", id="a giant number and a double"),
        pytest.param("string(huge)", id="a giant number as a text"),
        pytest.param("[1][?double('inf')] + 1", id="infinity as a place"),
        pytest.param("'a b'.split(' ', huge)", id="infinitely many parts"),
    ],
)
def test_overflow_is_a_cel_error(text: str) -> None:
    with pytest.raises(CelError):
        compile_cel(text).evaluate(HOSTILE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("int(value)", "-+5", id="a number with two signs"),
        pytest.param("'a'.matches(value)", "\ud800", id="half of a sign as a pattern"),
        pytest.param("value.matches('a')", "\ud800", id="half of a sign as a text"),
    ],
)
def test_invalid_number_or_unicode_is_a_cel_error(text: str, value: str) -> None:
    with pytest.raises(CelError):
        compile_cel(text).evaluate({"value": value})


def test_pattern_is_compiled_once_per_evaluation() -> None:
    assert compile_cel("many.all(x, 'abc'.matches('^a.c$'))").evaluate(HOSTILE) is True


def test_long_chains_do_not_count_as_nesting() -> None:
    assert compile_cel("1" + "+1" * 5000).evaluate({}) == 5001
    assert compile_cel("!" * 5000 + "true").evaluate({}) is True


def test_expression_does_not_modify_its_variables() -> None:
    before = repr(OBJECT)
    compile_cel("object.spec.list + [object].map(x, x.spec.list)").evaluate({"object": OBJECT})
    assert repr(OBJECT) == before


def test_expression_is_thread_safe() -> None:
    expression = compile_cel("[1, 2, 3].map(x, x * n).sum()")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: expression.evaluate({"n": n}), range(200)))
    assert results == [6 * n for n in range(200)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1 + 1", True),
        ("'a'", True),
        ("[true]", True),
        ("size(x)", True),
        ("x ? 1 : 'a'", True),
        ("x ? 1 : true", False),
        ("x", False),
        ("x.y", False),
        ("x + y == 2", False),
        ("1 < 2", False),
        ("has(x.y)", False),
        ("!x", False),
    ],
)
def test_expression_that_is_never_bool_is_detected_at_compile_time(text: str, want: bool) -> None:
    assert compile_cel(text).is_never_bool is want
