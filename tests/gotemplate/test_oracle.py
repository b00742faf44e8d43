"""Our engine gives the recorded answers of Go."""

from __future__ import annotations

import pytest

from tests.gotemplate.oracle_record import TABLES, difference, read


def test_thousands_of_answers_of_both_sprigs_are_recorded() -> None:
    recorded = list(read())
    assert sum("2" in entry.answers for entry in recorded) >= 3000
    assert sum(entry.answer("3") is not None for entry in recorded) >= 3000


@pytest.mark.parametrize(
    "sprig",
    [
        pytest.param("2", id="in a blueprint"),
        pytest.param("3", id="in a composition"),
    ],
)
def test_all_templates_render_or_fail_exactly_as_in_go(sprig: str) -> None:
    differing = []
    for entry in read():
        want = entry.answer(sprig)
        if want is not None and (mismatch := difference(entry.case, want, sprig)):
            differing.append(mismatch)
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:20])


def test_new_functions_of_sprig_3_have_the_same_answers_in_blueprints() -> None:
    # Kanister forbids the first two, and keys are generated in another format.
    forbidden = ("bcrypt", "htpasswd", "genPrivateKey")
    differing = []
    for entry in read():
        is_new = "2" not in entry.answers and not any(
            name in entry.case.template for name in forbidden
        )
        if is_new and (mismatch := difference(entry.case, entry.answers["3"], "2")):
            differing.append(mismatch)
    assert not differing, "\n".join(differing[:20])


def test_all_functions_are_recorded_at_least_once() -> None:
    refused = {"env", "expandenv", "getHostByName"}
    templates = " ".join(entry.case.template for entry in read())
    words = set(templates.replace("(", " ").replace(")", " ").replace("|", " ").split())
    assert {name for table in TABLES.values() for name in table} - words - refused == set()
