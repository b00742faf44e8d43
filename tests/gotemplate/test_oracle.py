"""Go itself has answered these cases; our engine must give the same answers."""

from __future__ import annotations

import pytest

from tests.gotemplate.oracle_record import TABLES, difference, read


def test_thousands_of_answers_of_both_sprigs_are_on_record() -> None:
    recorded = list(read())
    assert sum("2" in each.answers for each in recorded) >= 3000
    assert sum(each.answer("3") is not None for each in recorded) >= 3000


@pytest.mark.parametrize(
    "sprig",
    [
        pytest.param("2", id="what a blueprint sees"),
        pytest.param("3", id="what a composition sees"),
    ],
)
def test_every_template_renders_or_fails_exactly_as_in_go(sprig: str) -> None:
    differing = []
    for each in read():
        want = each.answer(sprig)
        if want is not None and (found := difference(each.case, want, sprig)):
            differing.append(found)
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:20])


def test_blueprints_have_the_new_names_of_sprig_3_with_the_same_answers() -> None:
    # Kanister forbids these two by name, and these keys come in a form of their own.
    forbidden = ("bcrypt", "htpasswd", "genPrivateKey")
    differing = []
    for each in read():
        is_new = "2" not in each.answers and not any(
            name in each.case.template for name in forbidden
        )
        if is_new and (found := difference(each.case, each.answers["3"], "2")):
            differing.append(found)
    assert not differing, "\n".join(differing[:20])


def test_every_function_is_asked_about_at_least_once() -> None:
    refused = {"env", "expandenv", "getHostByName"}
    templates = " ".join(each.case.template for each in read())
    words = set(templates.replace("(", " ").replace(")", " ").replace("|", " ").split())
    assert {name for table in TABLES.values() for name in table} - words - refused == set()
