"""Capabilities of packages, and checks of the steps that call them."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.capabilities import (
    FunctionCapabilityMissing,
    check_capability,
    check_pipeline,
)
from kanister_py.core.compositions.model import Step
from kanister_py.core.registry.choose import RevisionRequest
from kanister_py.core.registry.entries import (
    DesiredState,
    FunctionRevision,
    Registry,
    RegistryBuilder,
)

OPERATES = ("operation",)
COMPOSES = ("composition",)


def revision(
    number: int, capabilities: tuple[str, ...], function: str = "f", **more: Any
) -> FunctionRevision:
    return FunctionRevision(
        function,
        f"{function}-{number}",
        number,
        capabilities=capabilities,
        **{"is_healthy": True, "endpoint": "here", **more},
    )


def registry(*revisions: FunctionRevision) -> Registry[FunctionRevision]:
    builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
    for function in dict.fromkeys(candidate.function for candidate in revisions):
        builder.add([candidate for candidate in revisions if candidate.function == function])
    return builder.build()


@pytest.mark.parametrize(
    "capabilities",
    [
        pytest.param(("composition",), id="composition"),
        pytest.param(
            ("operation", "Composition "), id="composition among others, spelled as it is"
        ),
        pytest.param((), id="no list of capabilities"),
    ],
)
def test_revision_with_the_capability_or_without_a_list_is_accepted(
    capabilities: tuple[str, ...],
) -> None:
    highest = revision(1, capabilities)
    check_capability(highest, [highest])


def test_revision_without_the_capability_is_refused_with_alternatives() -> None:
    highest = revision(4, ("watch", "operation"))
    family = [
        highest,
        revision(3, COMPOSES),
        revision(2, COMPOSES, desired_state=DesiredState.INACTIVE),
        revision(1, ()),
    ]
    with pytest.raises(FunctionCapabilityMissing) as caught:
        check_capability(highest, family)
    error = caught.value
    assert (error.reason, error.function, error.revision) == ("MissingCapabilities", "f", "f-4")
    assert error.alternatives == ("f-3",)
    assert "is made for operation, watch, not for composition" in error.message
    assert "name f-3 in functionRevisionRef" in error.message


def test_no_alternative_is_named_if_there_is_none() -> None:
    highest = revision(1, OPERATES)
    with pytest.raises(FunctionCapabilityMissing) as caught:
        check_capability(highest, [highest])
    assert "functionRevisionRef" not in caught.value.message
    assert "spec.capabilities lists composition" in caught.value.message


INACTIVE: dict[str, Any] = {"desired_state": DesiredState.INACTIVE}
UNWELL: dict[str, Any] = {"is_healthy": False, "endpoint": ""}


@pytest.mark.parametrize(
    ("revisions", "request_", "want"),
    [
        pytest.param((), RevisionRequest(), "", id="a function that is not installed"),
        pytest.param(
            (revision(1, COMPOSES), revision(2, OPERATES)),
            RevisionRequest(),
            "f-2",
            id="the highest, although a lower one has it",
        ),
        pytest.param(
            (revision(1, OPERATES), revision(2, COMPOSES)),
            RevisionRequest(),
            "",
            id="a lower one, which is not called",
        ),
        pytest.param(
            (revision(1, COMPOSES), revision(2, OPERATES)),
            RevisionRequest("f-1"),
            "",
            id="the one that the step names has it",
        ),
        pytest.param(
            (revision(1, COMPOSES, labels={"a": "b"}), revision(2, OPERATES)),
            RevisionRequest(labels={"a": "b"}),
            "",
            id="the one that the step selects has it",
        ),
        pytest.param(
            (revision(1, COMPOSES), revision(2, OPERATES, **INACTIVE)),
            RevisionRequest(),
            "",
            id="the highest is inactive",
        ),
        pytest.param(
            (revision(1, COMPOSES), revision(2, OPERATES, **UNWELL)),
            RevisionRequest(),
            "f-2",
            id="the highest is active but not healthy",
        ),
        pytest.param(
            (revision(1, OPERATES, **INACTIVE),), RevisionRequest(), "", id="none is active"
        ),
        pytest.param(
            (revision(1, OPERATES),),
            RevisionRequest("f-7"),
            "",
            id="a revision that does not exist",
        ),
    ],
)
def test_pipeline_check_uses_the_highest_active_revision_of_a_step(
    revisions: tuple[FunctionRevision, ...], request_: RevisionRequest, want: str
) -> None:
    errors = check_pipeline([Step("one", "f", request_)], registry(*revisions)).errors
    assert [getattr(error, "revision", "") for error in errors.values()] == ([want] if want else [])


def test_every_step_with_a_problem_is_reported() -> None:
    functions = registry(revision(1, OPERATES), revision(1, COMPOSES, "g"), revision(2, (), "h"))
    steps = [Step("first", "f"), Step("second", "g"), Step("third", "h"), Step("again", "f")]
    assert list(check_pipeline(steps, functions).errors) == ["first", "again"]
