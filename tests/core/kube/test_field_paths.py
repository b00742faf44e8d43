"""Field paths of compositions: what is at one, and the errors where nothing is."""

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
def test_a_path_is_read_as_people_write_it(text: str, steps: tuple[str | int, ...]) -> None:
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
def test_a_path_that_is_none_says_at_which_byte(text: str, why: str) -> None:
    with pytest.raises(FieldPathError) as failed:
        parse_field_path(text)
    assert str(failed.value) == f'cannot parse path "{text}": {why}'


def test_a_path_in_an_error_is_spelled_out() -> None:
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
def test_what_is_at_a_path_is_found(text: str, value: Any) -> None:
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
def test_what_is_not_there_may_come_later(text: str, message: str) -> None:
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
def test_what_cannot_be_there_is_another_error(text: str, message: str) -> None:
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
def test_what_is_missing_on_the_way_is_made(
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
def test_what_is_in_the_way_is_not_overwritten(
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
def test_a_wildcard_stands_for_what_is_there(text: str, paths: list[str]) -> None:
    assert [str(each) for each in parse_field_path(text).expand(OBJECT)] == paths


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
def test_a_wildcard_over_what_has_no_members_is_an_error(
    text: str, error: type[FieldPathError], message: str
) -> None:
    with pytest.raises(FieldPathError) as failed:
        parse_field_path(text).expand(OBJECT)
    assert type(failed.value) is error
    assert str(failed.value) == message


def test_a_wildcard_takes_members_by_the_name_a_path_can_write() -> None:
    assert parse_field_path("a[*]").expand({"a": {"'quoted'": 1}}) == []
    assert [str(each) for each in parse_field_path("a[*]").expand({"a": {"*": 1}})] == ["a[*]"]
    with pytest.raises(FieldPathError, match=r'^cannot parse path "a\.": '):
        parse_field_path("a[*]").expand({"a": {"": 1}})


def test_members_that_look_alike_without_quotes_do_not_multiply_for_ever() -> None:
    alike = ["'" * count + "a" for count in range(12)]
    level: Any = 1
    for _ in range(12):
        level = dict.fromkeys(alike, level)
    with pytest.raises(FieldPathError, match="more than"):
        parse_field_path("x" + "[*]" * 12).expand({"x": level})


@pytest.mark.parametrize(
    ("there", "coming", "options", "merged"),
    [
        pytest.param({"k": 1}, {"k": 2, "n": 3}, KEEP, {"k": 1, "n": 3}, id="what is there wins"),
        pytest.param({"k": ""}, {"k": "x"}, KEEP, {"k": "x"}, id="but not when it is empty"),
        pytest.param({"k": 0}, {"k": 5}, KEEP, {"k": 5}, id="and zero is empty"),
        pytest.param({"k": 1}, {"k": None}, KEEP, {"k": 1}, id="null says nothing"),
        pytest.param({"k": 1}, {"k": None}, FORCE, {"k": None}, id="unless forced"),
        pytest.param({"k": 1, "o": 1}, {"k": 2}, FORCE, {"k": 2, "o": 1}, id="forced maps merge"),
        pytest.param([1], [2], KEEP, [1], id="a list that is there wins"),
        pytest.param([], [2], KEEP, [2], id="an empty one does not"),
        pytest.param([1, 2], [2, 3], KEEP_APPEND, [1, 2, 3], id="appended is what is new"),
        pytest.param([1], [1.0], FORCE_APPEND, [1, 1.0], id="a number of another type is new"),
        pytest.param([True], [1], FORCE_APPEND, [True, 1], id="a number is no bool"),
        pytest.param(
            {"l": [1, 2]}, {"l": [2]}, KEEP_APPEND, {"l": [1, 2, 2]}, id="further in all is"
        ),
        pytest.param([1], {"k": 2}, FORCE, {"k": 2}, id="forced, a map replaces a list"),
        pytest.param({"k": 1}, [2], FORCE, [2], id="forced, a list replaces a map"),
        pytest.param({"k": 1}, [2], KEEP, {"k": 1}, id="kept, it does not"),
        pytest.param("s", {"k": 1}, KEEP, "s", id="kept, a text stays"),
        pytest.param("s", "t", FORCE_APPEND, "t", id="texts are replaced"),
        pytest.param(None, {"k": 1}, KEEP, {"k": 1}, id="nothing there"),
        pytest.param({"k": 1}, None, KEEP, None, id="null comes"),
        pytest.param([{"a": [1]}], [{"a": [1]}], FORCE_APPEND, [{"a": [1]}], id="deeply equal"),
    ],
)
def test_values_meet(there: Any, coming: Any, options: MergeOptions, merged: Any) -> None:
    found = merge_values(copy.deepcopy(there), coming, options)
    assert found == merged
    assert repr(found) == repr(merged)


@pytest.mark.parametrize(
    ("there", "go_type"),
    [
        ("s", "string"),
        ({"k": 1}, "map[string]interface {}"),
        (1, "int64"),
        (1.5, "float64"),
        (True, "bool"),
    ],
)
def test_a_list_cannot_be_appended_to_something_else(there: Any, go_type: str) -> None:
    with pytest.raises(FieldPathError) as failed:
        merge_values(there, [1], KEEP_APPEND)
    assert str(failed.value) == (
        "failed to merge values: cannot append two slices with different type "
        f"([]interface {{}}, {go_type})"
    )


def test_a_path_that_is_asked_for_again_was_read_once() -> None:
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
    """A path that is written and read again is the same path."""

    @given(_STEPS)
    def test_written_and_read(self, steps: tuple[str | int, ...]) -> None:
        assert parse_field_path(str(FieldPath(steps))).steps == steps

    @given(_STEPS, st.integers())
    def test_what_was_set_is_there(self, steps: tuple[str | int, ...], value: int) -> None:
        obj: dict[str, Any] = {}
        FieldPath(steps).set(obj, value)
        assert FieldPath(steps).get(obj) == value

    @given(st.lists(st.sampled_from(["spec", "map", "k", "null", "names", "objs", "?", 0, 1])))
    def test_to_look_for_something_is_to_ask_for_it_if_it_is_there(
        self, steps: list[str | int]
    ) -> None:
        path = FieldPath(tuple(steps))
        asked = _outcome(path.get)
        assert _outcome(path.find) == (None if asked is FieldNotFound else asked)

    @given(st.text(alphabet=".[]'\"*a1é", max_size=12))
    def test_any_text_is_a_path_or_an_error(self, text: str) -> None:
        message = ""
        try:
            parse_field_path(text)
        except FieldPathError as error:
            message = str(error)
        assert not message or "at position" in message
