"""Capabilities of packages, and steps that need another one."""

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
    for function in dict.fromkeys(each.function for each in revisions):
        builder.add([each for each in revisions if each.function == function])
    return builder.build()


@pytest.mark.parametrize(
    "capabilities",
    [
        pytest.param(("composition",), id="composition"),
        pytest.param(
            ("operation", "Composition "), id="composition among others, spelled as it is"
        ),
        pytest.param((), id="nothing that is known"),
    ],
)
def test_a_revision_is_called_unless_it_is_made_for_something_else(
    capabilities: tuple[str, ...],
) -> None:
    asked = revision(1, capabilities)
    check_capability(asked, [asked])


def test_a_revision_that_is_made_for_something_else_is_refused_with_what_would_do() -> None:
    asked = revision(4, ("watch", "operation"))
    family = [
        asked,
        revision(3, COMPOSES),
        revision(2, COMPOSES, desired_state=DesiredState.INACTIVE),
        revision(1, ()),
    ]
    with pytest.raises(FunctionCapabilityMissing) as caught:
        check_capability(asked, family)
    error = caught.value
    assert (error.reason, error.function, error.revision) == ("MissingCapabilities", "f", "f-4")
    assert error.others == ("f-3",)
    assert "is made for operation, watch, not for composition" in error.message
    assert "name f-3 in functionRevisionRef" in error.message


def test_where_no_other_revision_would_do_none_is_named() -> None:
    asked = revision(1, OPERATES)
    with pytest.raises(FunctionCapabilityMissing) as caught:
        check_capability(asked, [asked])
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
            id="the highest, though a lower one would do",
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
            id="the one that the step names would do",
        ),
        pytest.param(
            (revision(1, COMPOSES, labels={"a": "b"}), revision(2, OPERATES)),
            RevisionRequest(labels={"a": "b"}),
            "",
            id="the one that the step selects would do",
        ),
        pytest.param(
            (revision(1, COMPOSES), revision(2, OPERATES, **INACTIVE)),
            RevisionRequest(),
            "",
            id="the highest is not meant to serve",
        ),
        pytest.param(
            (revision(1, COMPOSES), revision(2, OPERATES, **UNWELL)),
            RevisionRequest(),
            "f-2",
            id="the highest is meant to serve, and not up yet",
        ),
        pytest.param(
            (revision(1, OPERATES, **INACTIVE),), RevisionRequest(), "", id="none serves at all"
        ),
        pytest.param(
            (revision(1, OPERATES),), RevisionRequest("f-7"), "", id="one that is not there"
        ),
    ],
)
def test_a_pipeline_is_judged_by_the_revision_that_is_meant_to_serve_each_step(
    revisions: tuple[FunctionRevision, ...], request_: RevisionRequest, want: str
) -> None:
    found = check_pipeline([Step("one", "f", request_)], registry(*revisions)).errors
    assert [getattr(error, "revision", "") for error in found.values()] == ([want] if want else [])


def test_every_step_that_lacks_something_is_named() -> None:
    functions = registry(revision(1, OPERATES), revision(1, COMPOSES, "g"), revision(2, (), "h"))
    steps = [Step("first", "f"), Step("second", "g"), Step("third", "h"), Step("again", "f")]
    assert list(check_pipeline(steps, functions).errors) == ["first", "again"]
