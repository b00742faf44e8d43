"""Transforms: results and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.functions.composition.patch_and_transform.transforms import compile_transforms
from kanister_py.functions.composition.patch_and_transform.values import Unresolved, settled

Transformed = Callable[..., Any]
Transform = dict[str, Any]


def string(kind: str, **config: Any) -> Transform:
    return {"type": "string", "string": {"type": kind, **config}}


def text(conversion: str) -> Transform:
    return string("Convert", convert=conversion)


def fmt(format_: str) -> Transform:
    return string("Format", fmt=format_)


def to(kind: str, format_: str | None = None) -> Transform:
    return {
        "type": "convert",
        "convert": {"toType": kind, **({"format": format_} if format_ else {})},
    }


def math(kind: str, **config: Any) -> Transform:
    return {"type": "math", "math": {"type": kind, **config}}


def match(*patterns: dict[str, Any], **config: Any) -> Transform:
    return {"type": "match", "match": {"patterns": list(patterns), **config}}


def literal(value: str, result: Any) -> dict[str, Any]:
    return {"type": "literal", "literal": value, "result": result}


def regexp(value: str, result: Any) -> dict[str, Any]:
    return {"type": "regexp", "regexp": value, "result": result}


@pytest.mark.parametrize(
    ("value", "transform", "out"),
    [
        pytest.param("a", fmt("%s-%s"), "a-%!s(MISSING)", id="a verb too many"),
        pytest.param("a", fmt("none"), "none%!(EXTRA string=a)", id="a verb too few"),
        pytest.param("a", fmt("<%s>"), "<a>", id="a text"),
        pytest.param("a", fmt("%[1]s%[1]s"), "aa", id="an operand twice"),
        pytest.param("a", fmt("100%%-%s"), "100%-a", id="a percent sign"),
        pytest.param("a", fmt("%T"), "string", id="a type"),
        pytest.param(3, fmt("%d"), "%!d(float64=3)", id="numbers are doubles"),
        pytest.param(3, fmt("%s"), "%!s(float64=3)", id="and no texts"),
        pytest.param(3, fmt("%.0f"), "3", id="so format them as such"),
        pytest.param(1000000, fmt("%v"), "1e+06", id="a million has an exponent"),
        pytest.param(3.5, fmt("%5.2f|"), " 3.50|", id="width and precision"),
        pytest.param(True, fmt("%t"), "true", id="a bool"),
        pytest.param(None, fmt("%v"), "<nil>", id="null"),
        pytest.param([1, "a"], fmt("%v"), "[1 a]", id="a list"),
        pytest.param({"b": 1, "a": 2}, fmt("%v"), "map[a:2 b:1]", id="a map, sorted"),
        pytest.param("héllo ß", text("ToUpper"), "HÉLLO ß", id="upper case letter by letter"),
        pytest.param("HÉLLO", text("ToLower"), "héllo", id="lower case"),
        pytest.param(True, text("ToUpper"), "TRUE", id="upper case of a bool"),
        pytest.param({"b": "<", "a": 1}, text("ToJson"), '{"a":1,"b":"\\u003c"}', id="JSON"),
        pytest.param(1e21, text("ToJson"), "1e+21", id="JSON of a large number"),
        pytest.param("hello", text("ToBase64"), "aGVsbG8=", id="base64"),
        pytest.param(1, text("ToBase64"), "MQ==", id="base64 of a number"),
        pytest.param("aGVsbG8=", text("FromBase64"), "hello", id="from base64"),
        pytest.param("aGVs\nbG8=", text("FromBase64"), "hello", id="line ends do not matter"),
        pytest.param("/w==", text("FromBase64"), "\ufffd", id="bytes that are no text"),
        pytest.param(
            "a", text("ToSha1"), "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8", id="sha1 of a text"
        ),
        pytest.param(
            1,
            text("ToSha256"),
            "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
            id="sha256 of JSON",
        ),
        pytest.param("Wikipedia", text("ToAdler32"), "300286872", id="adler32"),
        pytest.param("pre-a", string("TrimPrefix", trim="pre-"), "a", id="a prefix"),
        pytest.param("a.b", string("TrimSuffix", trim=".b"), "a", id="a suffix"),
        pytest.param("a", string("TrimSuffix", trim="x"), "a", id="no such suffix"),
        pytest.param(
            "arn:aws:42", string("Regexp", regexp={"match": "[0-9]+"}), "42", id="all that matches"
        ),
        pytest.param(
            "a-b", string("Regexp", regexp={"match": "(a)-(b)", "group": 2}), "b", id="a group"
        ),
        pytest.param(
            "a", string("Regexp", regexp={"match": "(a)|(b)", "group": 2}), "", id="an empty group"
        ),
        pytest.param("aXbX", string("Replace", replace={"search": "X"}), "ab", id="take out"),
        pytest.param(
            "a.b.c", string("Replace", replace={"search": ".", "replace": "-"}), "a-b-c", id="all"
        ),
        pytest.param(["a", "b"], string("Join", join={"separator": ","}), "a,b", id="join"),
        pytest.param(
            ["a", "b"],
            string("Join", join={"separator": ", "}),
            "a, b,",
            id="one byte of the last separator is taken off",
        ),
        pytest.param(
            ["a", "b"],
            string("Join", join={"separator": "é"}),
            "aéb\ufffd",
            id="even of one that has two",
        ),
        pytest.param(["a", 1], string("Join", join={"separator": ""}), "a1", id="no separator"),
        pytest.param([], string("Join", join={"separator": ","}), "", id="nothing to join"),
        pytest.param("42", to("int"), 42, id="a text to an int"),
        pytest.param("+42", to("int64"), 42, id="with a sign"),
        pytest.param("0x1p4", to("float64"), 16, id="a hexadecimal float"),
        pytest.param("1_000.5", to("float64"), 1000.5, id="a float with an underscore"),
        pytest.param("T", to("bool"), True, id="a text to a bool"),
        pytest.param(1, to("bool"), True, id="one is true"),
        pytest.param(2, to("bool"), False, id="and nothing else is"),
        pytest.param(3.9, to("int"), 3, id="a number is cut off"),
        pytest.param(-3.9, to("int64"), -3, id="towards zero"),
        pytest.param(1e30, to("int64"), -9223372036854775808, id="or wraps"),
        pytest.param(1000000, to("string"), "1000000", id="a number without exponent"),
        pytest.param(0.000001, to("string"), "0.000001", id="however small"),
        pytest.param(True, to("string"), "true", id="a bool to a text"),
        pytest.param(True, to("float64"), 1, id="a bool to a number"),
        pytest.param("a", to("string"), "a", id="nothing to do"),
        pytest.param("1.5Gi", to("float64", "quantity"), 1610612736, id="a quantity"),
        pytest.param("250m", to("float64", "quantity"), 0.25, id="a small quantity"),
        pytest.param('{"a":[1]}', to("object", "json"), {"a": [1]}, id="an object"),
        pytest.param("[1,2.5]", to("array", "json"), [1, 2.5], id="an array"),
        pytest.param("null", to("array", "json"), None, id="a null array"),
        pytest.param(3, math("Multiply", multiply=2), 6, id="times"),
        pytest.param(0.5, math("Multiply", multiply=3), 1.5, id="times a fraction"),
        pytest.param(3, math("ClampMin", clampMin=5), 5, id="at least"),
        pytest.param(7.5, math("ClampMin", clampMin=5), 7.5, id="is enough"),
        pytest.param(7.9, math("ClampMax", clampMax=7), 7.9, id="compared without its fraction"),
        pytest.param(8.1, math("ClampMax", clampMax=7), 7, id="at most"),
        pytest.param("a", {"type": "map", "map": {"a": {"x": 1}}}, {"x": 1}, id="a map"),
        pytest.param("b", match(literal("a", 1), regexp("^b$", [2])), [2], id="the first match"),
        pytest.param("z", match(literal("a", 1)), None, id="no match is null"),
        pytest.param("z", match(literal("a", 1), fallbackValue=9), 9, id="a fallback"),
        pytest.param("z", match(literal("a", 1), fallbackTo="Input"), "z", id="the input"),
        pytest.param("a", match(literal("a", None)), None, id="a null result"),
    ],
)
def test_transform_of_a_value(
    value: Any, transform: Transform, out: Any, transformed: Transformed
) -> None:
    result = transformed(value, transform)
    assert result == out
    assert isinstance(result, bool) is isinstance(out, bool)


@pytest.mark.parametrize(
    ("value", "transform", "why"),
    [
        ("", to("int64"), 'strconv.ParseInt: parsing "": invalid syntax'),
        ("1_0", to("int64"), 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        ("9" * 30, to("int64"), f'strconv.ParseInt: parsing "{"9" * 30}": value out of range'),
        ("1e999", to("float64"), 'strconv.ParseFloat: parsing "1e999": value out of range'),
        ("x", to("float64"), 'strconv.ParseFloat: parsing "x": invalid syntax'),
        ("yes", to("bool"), 'strconv.ParseBool: parsing "yes": invalid syntax'),
        ("Ki", to("float64", "quantity"), "unable to parse numeric part of quantity"),
        (
            "1Kx",
            to("float64", "quantity"),
            (
                "quantities must match the regular expression "
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ),
        ),
        ("1ee", to("float64", "quantity"), "unable to parse quantity's suffix"),
        ([1], to("string"), "invalid input type []interface {}"),
        (None, to("string"), "invalid input type <nil>"),
        (
            1,
            to("int64", "quantity"),
            "conversion from float64 to int64 is not supported with format quantity",
        ),
        ("a", to("object"), "conversion from string to object is not supported with format none"),
        (
            "[1]",
            to("object", "json"),
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        ("{", to("object", "json"), "unexpected end of JSON input"),
    ],
)
def test_failed_conversions(
    value: Any, transform: Transform, why: str, transformed: Transformed
) -> None:
    assert transformed(value, transform) == (
        f"transform at index 0 returned error: convert transform could not resolve: {why}"
    )


@pytest.mark.parametrize(
    ("value", "transform", "why"),
    [
        (
            "a",
            math("Multiply", multiply=2),
            (
                "math transform could not resolve: input is required to be a number for math "
                "transformer, got string"
            ),
        ),
        (
            "z",
            {"type": "map", "map": {"a": 1}},
            "map transform could not resolve: key z is not found in map",
        ),
        (
            "a",
            {"type": "map", "map": {"a": None}},
            (
                "map transform could not resolve: value for key a is not valid JSON: "
                "unexpected end of JSON input"
            ),
        ),
        (
            "*",
            {"type": "map", "map": {"*": None}},
            (
                "map transform could not resolve: value for key * is not valid JSON: "
                "unexpected end of JSON input"
            ),
        ),
        (
            1,
            {"type": "map", "map": {"1": 1}},
            "map transform could not resolve: type float64 is not supported for map transform",
        ),
        (
            1,
            match(literal("a", 1)),
            (
                "match transform could not resolve: cannot match pattern at index 0: "
                "unsupported input type 'float64'"
            ),
        ),
        (
            None,
            match(regexp("a", 1)),
            (
                "match transform could not resolve: cannot match pattern at index 0: "
                "unsupported input type 'null'"
            ),
        ),
        (
            "a",
            match({"literal": "a", "result": 1}),
            (
                "match transform could not resolve: cannot match pattern at index 0: "
                "unsupported pattern type ''"
            ),
        ),
        (
            "z",
            match(literal("a", 1), fallbackTo="Input", fallbackValue=0),
            (
                "match transform could not resolve: cannot set both a fallback value and the "
                "fallback to input flag"
            ),
        ),
        (
            "a",
            text("Nope"),
            "string transform could not resolve: type Nope is not supported for string convert",
        ),
        (
            "a",
            text("FromBase64"),
            (
                "string transform could not resolve: string is not valid base64: "
                "illegal base64 data at input byte 0"
            ),
        ),
        (
            "a",
            string("Join", join={"separator": ","}),
            "string transform could not resolve: could not parse input array",
        ),
        (
            "a",
            string("Regexp", regexp={"match": "(b)"}),
            'string transform could not resolve: regexp "(b)" had no matches for group 0',
        ),
        (
            "a",
            string("Regexp", regexp={"match": "a", "group": -1}),
            'string transform could not resolve: regexp "a" had no matches for group -1',
        ),
    ],
)
def test_failed_transforms(
    value: Any, transform: Transform, why: str, transformed: Transformed
) -> None:
    assert transformed(value, transform) == f"transform at index 0 returned error: {why}"


def test_transforms_are_chained(transformed: Transformed) -> None:
    assert transformed("21", to("int"), math("Multiply", multiply=2), fmt("n%d")) == "n42"
    assert transformed(3, math("ClampMin", clampMin=5), fmt("%T")) == "int64"
    assert transformed("x", fmt("%s"), to("int")).startswith("transform at index 1 returned")


def test_integer_arithmetic_wraps_around(transformed: Transformed) -> None:
    largest = str((1 << 63) - 1)
    assert transformed(largest, to("int"), math("Multiply", multiply=2), to("string")) == "-2"


@pytest.mark.parametrize("word", ["NaN", "inf", "-Infinity"])
def test_not_a_number_is_an_error(word: str, transformed: Transformed) -> None:
    assert "cannot marshal value to JSON: json: unsupported value: " in transformed(
        word, to("float64")
    )


@pytest.mark.parametrize(
    ("transform", "problem"),
    [
        ({"type": "nope"}, 'type: Invalid value: "nope": unknown transform type'),
        (
            {"type": "math"},
            "math: Required value: given transform type math requires configuration",
        ),
        (
            {"type": "math", "math": {"multiply": 2}},
            "math.type: Required value: math transform type is required",
        ),
        (
            math("Multiply"),
            (
                "math.multiply: Required value: must specify a value if a multiply "
                "math transform is specified"
            ),
        ),
        (math("Add"), 'math.type: Invalid value: "Add": unknown math transform type'),
        (
            {"type": "map", "map": {}},
            (
                "map.pairs: Required value: at least one pair must be "
                "specified if a map transform is specified"
            ),
        ),
        (
            match(),
            (
                "match.patterns: Required value: at least one pattern must be specified if a "
                "match transform is specified"
            ),
        ),
        (
            match({"type": "regexp", "result": 1}),
            "match.patterns[0].regexp: Required value: regexp pattern type requires a regexp",
        ),
        (match(regexp("(", 1)), 'match.patterns[0].regexp: Invalid value: "(": invalid regexp'),
        (
            match({"type": "glob", "result": 1}),
            'match.patterns[0].type: Invalid value: "glob": unknown pattern type',
        ),
        (
            {"type": "string", "string": {"fmt": "x"}},
            "string.type: Required value: string transform type is required",
        ),
        (string("Nope"), 'string.type: Invalid value: "Nope": unknown string transform type'),
        (string("Format"), "string.fmt: Required value: format transform requires a format"),
        (
            string("Regexp", regexp={}),
            "string.regexp.match: Required value: regexp transform requires a match",
        ),
        (
            string("Regexp", regexp={"match": "a(?=b)"}),
            'string.regexp.match: Invalid value: "a(?=b)": invalid regexp',
        ),
        (
            string("Replace", replace={"replace": "x"}),
            "string.replace.search: Required value: replace transform requires a search",
        ),
        (to("int32"), 'convert.toType: Invalid value: "int32": invalid type'),
        (to("int", "yaml"), 'convert.format: Invalid value: "yaml": invalid format'),
    ],
)
def test_incomplete_transform_is_rejected(
    transform: Transform, problem: str, transformed: Transformed
) -> None:
    assert transformed("a", transform) == (
        f"invalid Function input: resources[0].patches[0].transforms[0].{problem}"
    )


@pytest.mark.parametrize(
    "transform",
    [
        pytest.param(fmt("%999999d%999999d" * 20), id="widths without end"),
        pytest.param(fmt("%[1]*[1]d"), id="a width from an operand"),
        pytest.param(fmt("%.999999f" * 40), id="precisions without end"),
        pytest.param(string("Join", join={"separator": "x" * 1_000_000}), id="a long separator"),
    ],
)
def test_size_of_texts_is_limited(transform: Transform) -> None:
    resolve = compile_transforms([transform])
    value: Any = [0.0] * 100 if "join" in transform["string"] else 1.5
    try:
        assert len(resolve(value)) <= 16 * 1024 * 1024
    except Unresolved as error:
        assert "more than 16777216 bytes" in str(error)  # noqa: PT017 - either is right


def test_size_of_replacements_is_limited() -> None:
    resolve = compile_transforms(
        [string("Replace", replace={"search": "a", "replace": "b" * 100_000})]
    )
    with pytest.raises(Unresolved, match="more than 16777216 bytes"):
        resolve("a" * 100_000)


def test_hostile_regular_expression_is_fast() -> None:
    resolve = compile_transforms([string("Regexp", regexp={"match": "^(a+)+$"})])
    with pytest.raises(Unresolved, match="had no matches"):
        resolve("a" * 50_000 + "!")


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)
_TRANSFORMS = st.sampled_from(
    [
        *map(text, ("ToUpper", "ToLower", "ToJson", "ToBase64", "FromBase64", "ToAdler32")),
        *map(fmt, ("%s", "%v", "%d", "%+q", "%#v", "%08.3f", "%x", "%T", "%!", "%*d", "%[3]v")),
        *map(to, ("string", "int", "bool", "float64")),
        to("float64", "quantity"),
        to("object", "json"),
        to("array", "json"),
        math("Multiply", multiply=-3),
        math("ClampMax", clampMax=7),
        string("Join", join={"separator": "é, "}),
        string("Regexp", regexp={"match": "(.)(.)?", "group": 1}),
        string("TrimPrefix", trim="a"),
        match(regexp(".", 1.0), fallbackTo="Input"),
    ]
)


class TestTransforms:
    """Transforms of arbitrary values return a JSON value or an error."""

    @given(_JSON, st.lists(_TRANSFORMS, max_size=4))
    def test_any_transform_returns_a_value_or_an_error(
        self, value: Any, transforms: list[Transform]
    ) -> None:
        try:
            out = settled(compile_transforms(transforms)(value))
        except Unresolved:
            return
        json.dumps(out, allow_nan=False).encode()

    @given(st.text(alphabet="+-.0123456789eEinumkKMGTP", max_size=12))
    def test_any_text_is_a_quantity_or_an_error(self, given: str) -> None:
        try:
            out = compile_transforms([to("float64", "quantity")])(given)
        except Unresolved:
            return
        assert isinstance(out, float)
