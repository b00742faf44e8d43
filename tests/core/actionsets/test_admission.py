"""Reviews of Blueprints, ActionSets, Compositions and revisions."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.actionsets.admission import (
    Verdict,
    needs_no_check,
    referenced_blueprints,
    review_actionset,
    review_blueprint,
    review_package,
    review_revision,
)
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.executor.loading import load_function
from kanister_py.wiring import read_functions


@pytest.fixture(scope="module")
def context() -> Context:
    return Context(read_functions().registry, load=load_function)


def blueprint(**phase: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "b"},
        "actions": {"act": {"phases": [{"name": "one", **phase}]}},
    }


def actionset(**action: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "a"},
        "spec": {"actions": [{"name": "act", "blueprint": "b", **action}]},
    }


READS_LEVEL = blueprint(
    func="KubeTask", args={"image": "i", "command": ['{{ index .Options "level" }}']}
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "fats"}, "must be one of fast, small, found 'fats'; did you mean fast?"),
        ({"levle": "fast", "level": "fast"}, "has no option levle; did you mean level?"),
        ({}, "requires the option level"),
    ],
)
def test_options_that_contradict_declarations_are_rejected(
    context: Context, options: dict[str, str], message: str
) -> None:
    (action,) = READS_LEVEL["actions"].values()
    declares = {**action, "options": {"level": {"enum": ["fast", "small"], "required": True}}}
    verdict = review_actionset(
        actionset(options=options), {"b": {**READS_LEVEL, "actions": {"act": declares}}}, context
    )
    (problem,) = verdict.problems
    assert message in problem
    assert problem.endswith("[option-invalid]")


def test_option_that_no_template_reads_is_a_warning(context: Context) -> None:
    verdict = review_actionset(actionset(options={"levle": "x"}), {"b": READS_LEVEL}, context)
    assert verdict.is_allowed
    (warning,) = [text for text in verdict.warnings if "[option-unused]" in text]
    assert "Option levle is set, but action act does not use it; did you mean level?" in warning
    verdict = review_actionset(actionset(options={"level": "x"}), {"b": READS_LEVEL}, context)
    assert not any("[option-unused]" in text for text in verdict.warnings)


GOOD = blueprint(func="KubeTask", args={"image": "i", "command": ["c"]})


def test_correct_blueprint_is_stored_without_warnings(context: Context) -> None:
    verdict = review_blueprint(GOOD, context)
    # Lint has a note about v0.0.0 of KubeTask, which is not a warning.
    assert verdict == Verdict()


@pytest.mark.parametrize(
    ("phase", "word"),
    [
        pytest.param({"func": "KubeTsk"}, "KubeTask", id="a function that nobody has"),
        pytest.param({"func": "KubeTask", "args": {}}, "image", id="an argument that is missing"),
        pytest.param(
            {"func": "KubeTask", "args": {"image": "i", "command": ["c"], "imag": "x"}},
            "imag",
            id="an argument that nobody knows",
        ),
        pytest.param(
            {"func": "KubeTask", "args": {"image": "{{ .Nope", "command": ["c"]}},
            "template-invalid",
            id="a template that does not parse",
        ),
        pytest.param({"func": "KubeTask", "funcVersion": "v1"}, "v1", id="half a version"),
    ],
)
def test_mistake_in_a_blueprint_is_rejected_with_its_place(
    context: Context, phase: dict[str, Any], word: str
) -> None:
    verdict = review_blueprint(blueprint(**phase), context)
    assert not verdict.is_allowed
    assert "act/one: " in verdict.message
    assert word in verdict.message


def test_fallback_to_another_version_is_a_warning(context: Context) -> None:
    phase = {"func": "KubeTask", "funcVersion": "v9.0.0"}
    verdict = review_blueprint(blueprint(**phase, args={"image": "i", "command": ["c"]}), context)
    assert verdict.is_allowed
    assert any("v9.0.0" in warning for warning in verdict.warnings)


def test_many_problems_and_long_warnings_are_truncated(context: Context) -> None:
    phases = [{"name": f"p{index}", "func": f"Nobody{index}"} for index in range(40)]
    verdict = review_blueprint({**GOOD, "actions": {"act": {"phases": phases}}}, context)
    assert verdict.message.endswith("and 20 more")
    args = {"image": "i", "command": ["c"]}
    many = [
        {"name": f"p{index}", "func": "KubeTask", "funcVersion": f"v9.{index}.0", "args": args}
        for index in range(40)
    ]
    verdict = review_blueprint({**GOOD, "actions": {"act": {"phases": many}}}, context)
    assert sum(len(warning.encode()) for warning in verdict.warnings) < 4096
    assert all(len(warning) <= 256 for warning in verdict.warnings)
    assert "kanister-py lint" in verdict.warnings[-1]


def test_actionset_is_reviewed_with_its_blueprints(context: Context) -> None:
    assert review_actionset(actionset(), {"b": GOOD}, context).warnings == ()
    verdict = review_actionset(actionset(preferredVersion="v1"), {"b": GOOD}, context)
    assert not verdict.is_allowed


def test_actionset_for_an_unknown_kind_is_stored_with_a_warning_like_in_kanister(
    context: Context,
) -> None:
    verdict = review_actionset(actionset(object={"kind": "Foo", "name": "x"}), {"b": GOOD}, context)
    assert verdict.is_allowed
    assert any("object-kind-unknown" in warning for warning in verdict.warnings)


def test_problems_of_blueprints_are_warnings_for_an_actionset(context: Context) -> None:
    missing = review_actionset(actionset(), {"b": None}, context)
    assert (missing.is_allowed, len(missing.warnings)) == (True, 1)
    other = review_actionset(actionset(name="other"), {"b": GOOD}, context)
    assert other.is_allowed
    assert "no action other" in other.warnings[0]


def test_unreadable_actionset_is_rejected_with_the_field(context: Context) -> None:
    verdict = review_actionset(actionset(options={"a": 1}), {}, context)
    assert "spec.actions[0].options" in verdict.message


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, GOOD, False, id="it is new"),
        pytest.param(GOOD, {**GOOD, "metadata": {"labels": {"a": "b"}}}, True, id="a label"),
        pytest.param(GOOD, {**GOOD, "status": {"state": "failed"}}, True, id="its status"),
        pytest.param(GOOD, blueprint(func="X"), False, id="what it says"),
        pytest.param(
            GOOD,
            {**blueprint(func="X"), "metadata": {"deletionTimestamp": "now"}},
            True,
            id="it is going",
        ),
    ],
)
def test_only_changes_of_the_spec_are_reviewed(old: Any, new: Any, expected: bool) -> None:
    assert needs_no_check(old, new) is expected


@pytest.mark.parametrize(
    "value", [{}, {"spec": None}, {"spec": {"actions": "x"}}, {"spec": {"actions": [1, None]}}]
)
def test_malformed_actionset_references_no_blueprints(value: dict[str, Any]) -> None:
    assert referenced_blueprints(value) == ()


def test_only_the_number_of_a_revision_may_change() -> None:
    def revision(number: int, **spec: Any) -> dict[str, Any]:
        return {"spec": {"revision": number, "pipeline": ["a"], **spec}}

    assert review_revision(None, revision(1)).is_allowed
    assert review_revision(revision(1), revision(2)).is_allowed
    verdict = review_revision(revision(1), revision(2, pipeline=["b"], mode="Pipeline"))
    assert [problem.partition(":")[0] for problem in verdict.problems] == [
        "spec.mode",
        "spec.pipeline",
    ]


@pytest.mark.parametrize(
    ("kind", "spec", "is_allowed"),
    [
        pytest.param("Function", {}, True, id="nothing said"),
        pytest.param(
            "Function",
            {"activeRevisionLimit": 2, "revisionHistoryLimit": 3},
            True,
            id="two of three",
        ),
        pytest.param(
            "Function", {"activeRevisionLimit": 3, "revisionHistoryLimit": 2}, False, id="3 of two"
        ),
        pytest.param("Function", {"activeRevisionLimit": 0}, False, id="none"),
        pytest.param("Provider", {"activeRevisionLimit": 2}, False, id="two of a provider"),
    ],
)
def test_revision_limits_must_be_consistent(
    kind: str, spec: dict[str, Any], is_allowed: bool
) -> None:
    assert review_package({"kind": kind, "spec": spec}).is_allowed is is_allowed
