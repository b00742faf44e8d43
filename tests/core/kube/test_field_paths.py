"""Field paths of compositions: values and errors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.kube.field_paths import (
    FieldNotFound,
    FieldPath,
    FieldPathError,
    MergeOptions,
    merge_values,
    parse_field_path,
)

OBJECT: dict[str, Any] = {
    "spec": {
        "region": "eu",
        "names": ["a", "b"],
        "objs": [{"n": "p"}, {"n": "q", "deep": {"x": 1}}],
        "map": {"k": "v", "x.y": "z"},
        "null": None,
    },
    "metadata": {"annotations": {"a/b.c": "dotted"}, "labels": {"7": "seven"}},
}

KEEP = MergeOptions(keep_map_values=True)
KEEP_APPEND = MergeOptions(keep_map_values=True, append_slice=True)
FORCE = MergeOptions()
FORCE_APPEND = MergeOptions(append_slice=True)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("metadata.name", ("metadata", "name")),
        ("spec.containers[0].name", ("spec", "containers", 0, "name")),
        ("data[.config.yml]", ("data", ".config.yml")),
        ("metadata.annotations['a.b/c']", ("metadata", "annotations", "a.b/c")),
        ('metadata.annotations["a.b/c"]', ("metadata", "annotations", "a.b/c")),
        ("a.'b'", ("a", "b")),
        ("a[''x'']", ("a", "x")),
        ("spec.items[0][8]", ("spec", "items", 0, 8)),
        ("[42]", (42,)),
        ("a[01]", ("a", 1)),
        ("a[-1]", ("a", "-1")),
        ("a[4294967295]", ("a", 4294967295)),
        ("a[4294967296]", ("a", "4294967296")),
        ("a[0]b", ("a", 0, "b")),
        ("a[*].b", ("a", "*", "b")),
        ("a.*", ("a", "*")),
        ("a.7", ("a", "7")),
        ("a[٣]", ("a", "٣")),
        ("", ()),
    ],
)
def test_path_is_parsed(text: str, steps: tuple[str | int, ...]) -> None:
    assert parse_field_path(text).steps == steps
    assert parse_field_path(text).text == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (".", "unexpected '.' at position 0"),
        (".a", "unexpected '.' at position 0"),
        ("a.", "unexpected '.' at position 1"),
        ("a..b", "unexpected '.' at position 2"),
        ("a.[0]", "unexpected '[' at position 2"),
        ("a[0].", "unexpected '.' at position 4"),
        ("a[", "unterminated '[' at position 1"),
        ("a[0", "unterminated '[' at position 1"),
        ("a[]", "unexpected ']' at position 2"),
        ("a[b[c]]", "unexpected '[' at position 3"),
        ("a]", "unexpected ']' at position 1"),
        ("é..b", "unexpected '.' at position 3"),
    ],
)
def test_invalid_path_is_reported_with_its_position(text: str, why: str) -> None:
    with pytest.raises(FieldPathError) as failed:
        parse_field_path(text)
    assert str(failed.value) == f'cannot parse path "{text}": {why}'


def test_error_contains_the_formatted_path() -> None:
    with pytest.raises(FieldPathError) as failed:
        parse_field_path('a"\\\n\x00\x85\ue000..b')
    assert str(failed.value).startswith('cannot parse path "a\\"\\\\\\n\\x00\\u0085\\ue000..b": ')


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("spec.region", "eu"),
        ("spec.names[1]", "b"),
        ("spec.objs[1].deep.x", 1),
        ("spec.map[x.y]", "z"),
        ("metadata.annotations['a/b.c']", "dotted"),
        ("metadata.labels.7", "seven"),
        ("spec.null", None),
        ("", None),
    ],
)
def test_value_at_a_path_is_returned(text: str, value: Any) -> None:
    assert parse_field_path(text).get(OBJECT) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec.missing", "spec.missing: no such field"),
        ("spec.missing.deep", "spec.missing: no such field"),
        ("spec.names[9]", "spec.names[9]: no such element"),
        ("spec.null.deep", "spec.null: expected map, got nil"),
        ("spec.map[a.b]", "spec.map[a.b]: no such field"),
        ("metadata.annotations[*]", "metadata.annotations[*]: no such field"),
    ],
)
def test_absent_value_is_not_found(text: str, message: str) -> None:
    with pytest.raises(FieldNotFound) as failed:
        parse_field_path(text).get(OBJECT)
    assert str(failed.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec.region.deep", "spec.region: not an object"),
        ("spec.names.a", "spec.names: not an object"),
        ("spec[0]", "spec: not an array"),
        ("spec.null[0]", "spec.null: not an array"),
        ("metadata.labels[7]", "metadata.labels: not an array"),
        ("[0]", ": not an array"),
    ],
)
def test_path_that_does_not_fit_is_an_error(text: str, message: str) -> None:
    with pytest.raises(FieldPathError) as failed:
        parse_field_path(text).get(OBJECT)
    assert str(failed.value) == message
    assert not isinstance(failed.value, FieldNotFound)


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        ({}, "a.b", {"a": {"b": 1}}),
        ({}, "a[2]", {"a": [None, None, 1]}),
        ({"a": ["x"]}, "a[2]", {"a": ["x", None, 1]}),
        ({"a": ["x"]}, "a[0]", {"a": [1]}),
        ({"a": [None]}, "a[0].b", {"a": [{"b": 1}]}),
        ({"a": [None]}, "a[0][1]", {"a": [[None, 1]]}),
        ({"a": [[]]}, "a[0][1]", {"a": [[None, 1]]}),
        ({}, "a[x.y][0].b", {"a": {"x.y": [{"b": 1}]}}),
        ({"a": {"b": {"c": 2}}}, "a.b", {"a": {"b": 1}}),
        ({"a": 1}, "", {"a": 1}),
        ({}, "a[*]", {"a": {"*": 1}}),
    ],
)
def test_missing_parents_are_created(
    before: dict[str, Any], text: str, after: dict[str, Any]
) -> None:
    changed = copy.deepcopy(before)
    parse_field_path(text).set(changed, 1)
    assert changed == after


@pytest.mark.parametrize(
    ("before", "text", "message"),
    [
        ({"a": "x"}, "a.b", "a is not an object"),
        ({"a": ["x"]}, "a[0].b", "a[0] is not an object"),
        ({"a": {}}, "a[0]", "a is not an array"),
        ({"a": None}, "a.b", "a is not an object"),
        ({"a": None}, "a[0]", "a is not an array"),
        ({}, "[0]", " is not an array"),
        ({}, "a[1025]", "index 1025 is greater than max allowed index 1024"),
        ({}, "a[4294967295].b", "index 4294967295 is greater than max allowed index 1024"),
    ],
)
def test_parent_of_another_type_is_not_overwritten(
    before: dict[str, Any], text: str, message: str
) -> None:
    changed = copy.deepcopy(before)
    with pytest.raises(FieldPathError) as failed:
        parse_field_path(text).set(changed, 1)
    assert str(failed.value) == message
    assert changed == before


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("spec.names[*]", ["spec.names[0]", "spec.names[1]"]),
        ("spec.objs[*].n", ["spec.objs[0].n", "spec.objs[1].n"]),
        ("spec.objs[*].deep", ["spec.objs[1].deep"]),
        ("spec.objs[*].deep.*", ["spec.objs[1].deep.x"]),
        ("spec.map[*]", ["spec.map.k", "spec.map[x.y]"]),
        ("spec.objs[*].new", []),
        ("spec.missing[*]", []),
        ("spec.region", ["spec.region"]),
    ],
)
def test_wildcard_expands_to_existing_fields(text: str, paths: list[str]) -> None:
    assert [str(path) for path in parse_field_path(text).expand(OBJECT)] == paths


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "spec.region[*]",
            FieldPathError,
            (
                'cannot expand wildcards for segments: "spec.region[*]": '
                '"spec.region": unexpected wildcard usage'
            ),
        ),
        (
            "spec.null[*]",
            FieldNotFound,
            (
                'cannot expand wildcards for segments: "spec.null[*]": '
                'wildcard field "spec.null" is not found in the path'
            ),
        ),
        (
            "spec.names[*][*]",
            FieldPathError,
            (
                'cannot expand wildcards for segments: "spec.names[*][*]": '
                '"spec.names[0][*]": cannot expand wildcards: '
                '"spec.names[0]": unexpected wildcard usage'
            ),
        ),
    ],
)
def test_wildcard_over_a_scalar_is_an_error(
    text: str, error: type[FieldPathError], message: str
) -> None:
    with pytest.raises(FieldPathError) as failed:
        parse_field_path(text).expand(OBJECT)
    assert type(failed.value) is error
    assert str(failed.value) == message


def test_wildcard_ignores_quotes_around_names() -> None:
    assert parse_field_path("a[*]").expand({"a": {"'quoted'": 1}}) == []
    assert [str(path) for path in parse_field_path("a[*]").expand({"a": {"*": 1}})] == ["a[*]"]
    with pytest.raises(FieldPathError, match=r'^cannot parse path "a\.": '):
        parse_field_path("a[*]").expand({"a": {"": 1}})


def test_expansion_of_names_with_quotes_is_bounded() -> None:
    alike = ["'" * count + "a" for count in range(12)]
    level: Any = 1
    for _ in range(12):
        level = dict.fromkeys(alike, level)
    with pytest.raises(FieldPathError, match="more than"):
        parse_field_path("x" + "[*]" * 12).expand({"x": level})


@pytest.mark.parametrize(
    ("present", "incoming", "options", "merged"),
    [
        pytest.param({"k": 1}, {"k": 2, "n": 3}, KEEP, {"k": 1, "n": 3}, id="existing values win"),
        pytest.param({"k": ""}, {"k": "x"}, KEEP, {"k": "x"}, id="but not when it is empty"),
        pytest.param({"k": 0}, {"k": 5}, KEEP, {"k": 5}, id="and zero is empty"),
        pytest.param({"k": 1}, {"k": None}, KEEP, {"k": 1}, id="null is ignored"),
        pytest.param({"k": 1}, {"k": None}, FORCE, {"k": None}, id="unless forced"),
        pytest.param({"k": 1, "o": 1}, {"k": 2}, FORCE, {"k": 2, "o": 1}, id="forced maps merge"),
        pytest.param([1], [2], KEEP, [1], id="a list that is there wins"),
        pytest.param([], [2], KEEP, [2], id="an empty one does not"),
        pytest.param([1, 2], [2, 3], KEEP_APPEND, [1, 2, 3], id="only new items are appended"),
        pytest.param([1], [1.0], FORCE_APPEND, [1, 1.0], id="a number of another type is new"),
        pytest.param([True], [1], FORCE_APPEND, [True, 1], id="a number is not a bool"),
        pytest.param(
            {"l": [1, 2]}, {"l": [2]}, KEEP_APPEND, {"l": [1, 2, 2]}, id="further in all is"
        ),
        pytest.param([1], {"k": 2}, FORCE, {"k": 2}, id="forced, a map replaces a list"),
        pytest.param({"k": 1}, [2], FORCE, [2], id="forced, a list replaces a map"),
        pytest.param({"k": 1}, [2], KEEP, {"k": 1}, id="kept, it does not"),
        pytest.param("s", {"k": 1}, KEEP, "s", id="kept, a text stays"),
        pytest.param("s", "t", FORCE_APPEND, "t", id="texts are replaced"),
        pytest.param(None, {"k": 1}, KEEP, {"k": 1}, id="nothing there"),
        pytest.param({"k": 1}, None, KEEP, None, id="a new null"),
        pytest.param([{"a": [1]}], [{"a": [1]}], FORCE_APPEND, [{"a": [1]}], id="deeply equal"),
    ],
)
def test_values_are_merged(present: Any, incoming: Any, options: MergeOptions, merged: Any) -> None:
    merged_values = merge_values(copy.deepcopy(present), incoming, options)
    assert merged_values == merged
    assert repr(merged_values) == repr(merged)


@pytest.mark.parametrize(
    ("present", "go_type"),
    [
        ("s", "string"),
        ({"k": 1}, "map[string]interface {}"),
        (1, "int64"),
        (1.5, "float64"),
        (True, "bool"),
    ],
)
def test_a_list_cannot_be_appended_to_something_else(present: Any, go_type: str) -> None:
    with pytest.raises(FieldPathError) as failed:
        merge_values(present, [1], KEEP_APPEND)
    assert str(failed.value) == (
        "failed to merge values: cannot append two slices with different type "
        f"([]interface {{}}, {go_type})"
    )


def test_parsed_paths_are_cached() -> None:
    assert parse_field_path("spec.once.only") is parse_field_path("spec.once.only")


_NAMES = st.text(alphabet="abz_-/:é", min_size=1, max_size=5)
_STEPS = st.lists(st.one_of(_NAMES, st.integers(0, 20)), min_size=1, max_size=5).map(
    lambda steps: ("root", *steps)
)


def _outcome(ask: Callable[[Any], Any]) -> Any:
    try:
        return ask(OBJECT)
    except FieldNotFound:
        return FieldNotFound
    except FieldPathError as error:
        return str(error)


class TestPaths:
    """Properties of paths for generated objects."""

    @given(_STEPS)
    def test_formatting_and_parsing_keeps_the_path(self, steps: tuple[str | int, ...]) -> None:
        assert parse_field_path(str(FieldPath(steps))).steps == steps

    @given(_STEPS, st.integers())
    def test_set_value_is_returned_by_get(self, steps: tuple[str | int, ...], value: int) -> None:
        obj: dict[str, Any] = {}
        FieldPath(steps).set(obj, value)
        assert FieldPath(steps).get(obj) == value

    @given(st.lists(st.sampled_from(["spec", "map", "k", "null", "names", "objs", "?", 0, 1])))
    def test_find_is_get_with_none_for_absent_values(self, steps: list[str | int]) -> None:
        path = FieldPath(tuple(steps))
        outcome = _outcome(path.get)
        assert _outcome(path.find) == (None if outcome is FieldNotFound else outcome)

    @given(st.text(alphabet=".[]'\"*a1é", max_size=12))
    def test_any_text_is_a_path_or_an_error(self, text: str) -> None:
        message = ""
        try:
            parse_field_path(text)
        except FieldPathError as error:
            message = str(error)
        assert not message or "at position" in message
