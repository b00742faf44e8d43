"""Identity of revisions (content and labels), and their numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.kube.names import dns_label_problem, dns_subdomain_problem
from kanister_py.core.revisions.identity import (
    Change,
    Numbered,
    Numbering,
    composition_identity,
    composition_spec_hash,
    function_identity,
    function_revision_name,
    number_revision,
    revision_name,
)

SPEC: dict[str, Any] = {"mode": "Pipeline", "pipeline": [{"step": "a", "input": {"size": 3}}]}
LABELS = {"channel": "alpha"}


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        pytest.param(dict(reversed(SPEC.items())), LABELS, id="keys in another order"),
        pytest.param({**SPEC, "revision": 7}, LABELS, id="as a revision holds it"),
        pytest.param({**SPEC, "gone": None}, LABELS, id="a key without a value"),
        pytest.param(
            {"mode": "Pipeline", "pipeline": [{"step": "a", "input": {"size": 3.0}}]},
            LABELS,
            id="a whole number as the wire has it",
        ),
        pytest.param(SPEC, {**LABELS, "helm.sh/chart": "x-1"}, id="a label of a packager"),
        pytest.param(
            SPEC, {**LABELS, "crossplane.io/composition-name": "x"}, id="a label of a revision"
        ),
    ],
)
def test_equal_content_has_the_same_identity(spec: Any, labels: Any) -> None:
    assert composition_identity(spec, labels) == composition_identity(SPEC, LABELS)


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        pytest.param({**SPEC, "mode": "Resources"}, LABELS, id="another spec"),
        pytest.param(SPEC, {"channel": "beta"}, id="another label"),
        pytest.param(SPEC, None, id="no labels"),
    ],
)
def test_other_spec_or_label_has_another_identity(spec: Any, labels: Any) -> None:
    assert composition_identity(spec, labels) != composition_identity(SPEC, LABELS)


def test_hash_of_the_spec_ignores_labels() -> None:
    assert composition_spec_hash(SPEC) == composition_spec_hash({**SPEC, "revision": 2})


def test_identity_of_a_function_is_its_package_and_labels() -> None:
    identity = function_identity("sha256:1", LABELS)
    assert identity == function_identity("sha256:1", {**LABELS, "pkg.crossplane.io/package": "f"})
    assert identity != function_identity("sha256:2", LABELS)
    assert identity != function_identity("sha256:1", {})


def test_name_of_another_identity_is_not_used() -> None:
    identity = composition_identity(SPEC, LABELS)
    first = revision_name("web", identity)
    assert first == f"web-{identity[:7]}"
    assert revision_name("web", identity, {first}) == f"web-{identity[:8]}"


@given(st.from_regex(r"[a-z]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True))
def test_revision_names_are_valid(owner: str) -> None:
    identity = composition_identity(SPEC, LABELS)
    if not dns_subdomain_problem(owner):
        assert not dns_subdomain_problem(revision_name(owner, identity))
        assert not dns_label_problem(function_revision_name(owner, identity))


A, B, C = (Numbered(name, number, name) for number, name in enumerate("abc", start=1))


@pytest.mark.parametrize(
    ("identity", "existing", "want"),
    [
        pytest.param("a", [], Numbering(Change.CREATE, 1), id="the first one"),
        pytest.param("b", [A], Numbering(Change.CREATE, 2), id="something new"),
        pytest.param("b", [A, B], Numbering(Change.NONE, 2, "b"), id="nothing changed"),
        pytest.param("a", [A, B], Numbering(Change.RAISE, 3, "a"), id="going back"),
        pytest.param(
            "a",
            [A, A._replace(name="a2", number=2)],
            Numbering(Change.NONE, 2, "a2"),
            id="twice the same content, as a race of others left it",
        ),
        pytest.param(
            "a",
            [A, B._replace(number=1)],
            Numbering(Change.RAISE, 2, "a"),
            id="two revisions of one number",
        ),
        pytest.param(
            "c",
            [A._replace(is_orphaned=True), B._replace(is_orphaned=True), C],
            Numbering(Change.NONE, 3, "c", ("a", "b")),
            id="restored without their owner",
        ),
    ],
)
def test_current_revision_has_the_highest_number(
    identity: str, existing: list[Numbered], want: Numbering
) -> None:
    assert number_revision(identity, existing) == want


@given(st.lists(st.sampled_from("abcd"), max_size=30))
def test_repeated_changes_keep_one_revision_per_content(
    contents: list[str],
) -> None:
    revisions: dict[str, Numbered] = {}
    highest = 0
    for content in contents:
        plan = number_revision(content, list(revisions.values()))
        assert plan.number >= highest
        highest = plan.number
        revisions[content] = Numbered(content, plan.number, content)
        again = number_revision(content, list(revisions.values()))
        assert again.change is Change.NONE
    assert len(revisions) == len(set(contents))
