from __future__ import annotations

import copy
import pickle
from typing import Any, Generic, TypeVar

import pytest

from kanister_py.values import NamedTuple, distinct

T = TypeVar("T")


class Place(NamedTuple):
    """Where something is."""

    line: int
    column: int = 1
    note: str = ""

    @property
    def text(self) -> str:
        return f"{self.line}:{self.column}"


class Held(NamedTuple, Generic[T]):
    value: T


class Marked(Place):
    __slots__ = ()

    @property
    def text(self) -> str:
        return f"!{super().text}"


class Nothing(NamedTuple):
    pass


def test_an_instance_has_its_fields_by_name_and_by_place() -> None:
    place = Place(3, note="x")
    assert (place.line, place.column, place[2], place.text) == (3, 1, "x", "3:1")
    line, *rest = place
    assert (line, rest) == (3, [1, "x"])
    assert place == (3, 1, "x")
    assert {place: 1}[Place(3, 1, "x")] == 1
    assert repr(place) == "Place(line=3, column=1, note='x')"
    assert Nothing() == ()
    assert Held("x").value == Held[str]("x").value == "x"


def test_an_instance_is_what_a_case_says_it_is() -> None:
    match Place(3, 4):
        case Place(line, column=4):
            assert line == 3
        case _:
            raise AssertionError


@pytest.mark.parametrize(
    ("args", "named"),
    [
        pytest.param((), {}, id="a field is missing"),
        pytest.param((1, 2, "x", 4), {}, id="there are too many"),
        pytest.param((1,), {"line": 1}, id="one is given twice"),
        pytest.param((1,), {"colour": 1}, id="one is unknown"),
    ],
)
def test_what_does_not_fit_the_fields_is_a_type_error(
    args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        Place(*args, **named)


def test_an_instance_stays_as_it_is_and_is_replaced_as_a_whole() -> None:
    place = Place(3)
    with pytest.raises(AttributeError):
        place.line = 4  # type: ignore[misc] # what is tried
    with pytest.raises(AttributeError):
        place.colour = 4  # type: ignore[attr-defined] # what is tried
    assert place._replace(line=4) == Place(4)
    with pytest.raises(ValueError, match="colour"):
        place._replace(colour=4)  # type: ignore[call-arg] # what is tried
    assert place._asdict() == {"line": 3, "column": 1, "note": ""}
    assert Place._make([1, 2, "x"]) == Place(1, 2, "x")


def test_a_class_that_derives_from_one_has_its_fields() -> None:
    marked = Marked(3)
    assert (type(marked), marked.text, marked.column) == (Marked, "!3:1", 1)
    assert type(marked._replace(line=4)) is Marked
    assert type(Place(1)) is Place


def test_an_instance_can_be_copied_and_sent_to_another_process() -> None:
    place = Marked(3, 4)
    for each in (copy.copy(place), copy.deepcopy(place), pickle.loads(pickle.dumps(place))):
        assert (type(each), each) == (Marked, place)


@distinct
class Launched(NamedTuple):
    action: int


@distinct
class Ended(NamedTuple):
    action: int


def test_values_equal_their_own_kind_only() -> None:
    assert Launched(1) == Launched(1)
    assert Launched(1) != Launched(2)
    other_kinds: list[object] = [Ended(1), (1,), 1]
    assert [Launched(1) == each for each in other_kinds] == [False] * 3
    assert [Launched(1) != each for each in other_kinds] == [True] * 3
    assert len({Launched(1), Ended(1)}) == 2
