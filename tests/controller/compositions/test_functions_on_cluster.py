"""Selection of function revisions by the steps of compositions.

The functions are built-in ones. They run in this process, under the names and labels of
Function objects.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.revisions.functions import Runtime
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, FUNCTION_REVISIONS, FUNCTIONS
from kanister_py.core.versions.deprecation import Listing
from kanister_py.core.versions.semver import parse_version
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.harness import (
    Harness,
    bucket,
    composition,
    definition,
    templates,
)
from tests.controller.compositions.template_functions import function, using

SETTINGS = CompositionSettings("kanister-py", uses_revisions=True, runs_functions=True)


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(SETTINGS, entries=templates())
    running.start()
    running.define(definition())
    yield running
    running.close()


def install(harness: Harness, *tags: str, limit: int = 3) -> dict[str, str]:
    """Install several versions in turn; return the names of their revisions by tag."""
    names: dict[str, str] = {}
    for tag in tags:
        labels = {"channel": "stable" if tag == tags[0] else "alpha"}
        harness.apply(function(tag, labels=labels, activeRevisionLimit=limit))
        harness.until(lambda: bool(set(routable(harness)) - set(names.values())))
        names[tag] = next(name for name in routable(harness) if name not in names.values())
    harness.until_idle()
    return names


def revisions(harness: Harness) -> list[KubeObject]:
    return list(harness.cluster.list(FUNCTION_REVISIONS).items)


def routable(harness: Harness) -> list[str]:
    return [
        revision["metadata"]["name"]
        for revision in revisions(harness)
        if (revision.get("status") or {}).get("endpoint")
        and revision["spec"]["desiredState"] == "Active"
    ]


def used(harness: Harness) -> str:
    (step,) = harness.bucket()["status"]["crossplane"]["pipeline"]
    return str(step["revision"])


def test_a_built_in_function_runs_under_the_name_of_its_function_object(harness: Harness) -> None:
    names = install(harness, "v0.1.0")
    harness.apply(using())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    assert used(harness) == names["v0.1.0"]
    stored = harness.cluster.get(FUNCTIONS, "templates")
    conditions = {
        condition["type"]: condition["status"] for condition in stored["status"]["conditions"]
    }
    assert conditions == {"Installed": "True", "Healthy": "True"}
    harness.until_idle()
    (revision,) = harness.cluster.list(COMPOSITION_REVISIONS).items
    (step,) = revision["status"]["composedWith"]
    assert step["digest"] == stored["status"]["resolvedPackage"].partition("@")[2]


@pytest.mark.parametrize(
    ("step", "tag"),
    [
        pytest.param({}, "v0.3.0", id="no selection, highest revision"),
        pytest.param(
            {"functionRevisionSelector": {"matchLabels": {"channel": "stable"}}},
            "v0.1.0",
            id="labels",
        ),
        pytest.param(
            {"functionRevisionSelector": {"matchLabels": {"channel": "alpha"}}},
            "v0.3.0",
            id="labels of several revisions",
        ),
        pytest.param({"ref": {"version": "v0.2.0"}}, "v0.2.0", id="a version"),
        pytest.param({"ref": {"version": "<0.3"}}, "v0.2.0", id="a range"),
    ],
)
def test_a_step_gets_the_revision_it_selects(
    harness: Harness, step: dict[str, Any], tag: str
) -> None:
    names = install(harness, "v0.1.0", "v0.2.0", "v0.3.0")
    harness.apply(using(**step))
    harness.apply(bucket())
    harness.until(harness.is_ready)
    assert used(harness) == names[tag]


def test_a_step_gets_the_revision_it_names(harness: Harness) -> None:
    names = install(harness, "v0.1.0", "v0.2.0")
    harness.apply(using(functionRevisionRef={"name": names["v0.1.0"]}))
    harness.apply(bucket())
    harness.until(harness.is_ready)
    assert used(harness) == names["v0.1.0"]


def test_resources_move_when_a_new_revision_serves(harness: Harness) -> None:
    names = install(harness, "v0.1.0", limit=1)
    harness.apply(using())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    assert used(harness) == names["v0.1.0"]
    harness.apply(function("v0.2.0", activeRevisionLimit=1))
    harness.until(lambda: used(harness) != names["v0.1.0"])
    harness.until(lambda: len(routable(harness)) == 1)
    assert used(harness) == routable(harness)[0]
    assert harness.condition("Synced")["status"] == "True"


def test_going_back_uses_the_earlier_revision_again(harness: Harness) -> None:
    install(harness, "v0.1.0", limit=1)
    harness.apply(using())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    first = used(harness)
    labels = {"channel": "stable"}
    harness.apply(function("v0.2.0", labels=labels, activeRevisionLimit=1))
    harness.until(lambda: used(harness) != first)
    harness.apply(function("v0.1.0", labels=labels, activeRevisionLimit=1))
    harness.until(lambda: used(harness) == first)
    assert len(revisions(harness)) == 2
    revision = harness.cluster.get(FUNCTION_REVISIONS, first)
    assert revision["spec"]["revision"] == 3


def test_without_a_usable_revision_the_condition_lists_the_existing_ones(harness: Harness) -> None:
    names = install(harness, "v0.1.0", limit=1)
    harness.apply(using(functionRevisionSelector={"matchLabels": {"channel": "beta"}}))
    harness.apply(bucket())
    # Until the composition is in the cache, it fails for another reason.
    harness.until(lambda: names["v0.1.0"] in harness.condition("Synced").get("message", ""))
    assert harness.condition("Synced")["status"] == "False"
    assert "beta" in harness.condition("Synced")["message"]
    harness.until(
        lambda: any(
            event.startswith("Warning") and names["v0.1.0"] in event for event in [*harness.events]
        )
    )
    harness.apply(function("v0.1.0", labels={"channel": "beta"}, activeRevisionLimit=1))
    harness.until(harness.is_ready)


def test_an_inactive_revision_is_not_called(harness: Harness) -> None:
    names = install(harness, "v0.1.0", limit=1)
    harness.apply(using())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.apply(
        function(
            "v0.1.0",
            labels={"channel": "stable"},
            activeRevisionLimit=1,
            revisionActivationPolicy="Manual",
        )
    )
    harness.until_idle()
    revision = harness.cluster.get(FUNCTION_REVISIONS, names["v0.1.0"])
    harness.cluster.replace({**revision, "spec": {**revision["spec"], "desiredState": "Inactive"}})
    harness.until(lambda: "nactive" in harness.condition("Synced").get("message", ""))
    assert harness.condition("Synced")["status"] == "False"
    revision = harness.cluster.get(FUNCTION_REVISIONS, names["v0.1.0"])
    harness.cluster.replace({**revision, "spec": {**revision["spec"], "desiredState": "Active"}})
    harness.until(lambda: harness.condition("Synced").get("status") == "True")


def test_a_revision_that_a_step_names_is_kept_beyond_the_history_limit(harness: Harness) -> None:
    names = install(harness, "v0.1.0", limit=1)
    harness.apply(using(functionRevisionRef={"name": names["v0.1.0"]}))
    harness.until_idle()
    for number in range(2, 5):
        harness.apply(function(f"v0.{number}.0", revisionHistoryLimit=1, activeRevisionLimit=1))
        harness.until(lambda: any(name not in names.values() for name in routable(harness)))
        harness.until_idle()
    left = {revision["metadata"]["name"] for revision in revisions(harness)}
    assert names["v0.1.0"] in left
    assert len(left) == 2


def test_a_pinned_revision_that_becomes_inactive_is_reported_at_once(
    harness: Harness,
) -> None:
    names = install(harness, "v0.1.0", limit=1)
    pinned = names["v0.1.0"]
    harness.apply(using(functionRevisionRef={"name": pinned}))
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.until_idle()
    began = time.monotonic()
    harness.apply(function("v0.2.0", labels={"channel": "alpha"}, activeRevisionLimit=1))
    refusal = f"{pinned} (revision 1) is inactive"
    harness.until(lambda: refusal in harness.condition("Synced").get("message", ""))
    assert time.monotonic() - began < 30.0
    assert harness.condition("Synced")["status"] == "False"
    message = harness.condition("Synced")["message"]
    (serving,) = routable(harness)
    assert (
        f"set spec.desiredState of {pinned} to Active, or let the step request {serving}" in message
    )


GOING = Listing(
    deprecated_in=parse_version("0.3.0"),
    removed_in=parse_version("0.5.0"),
    replacement=parse_version("v0.1.0"),
)
GONE = Listing(
    deprecated_in=parse_version("0.1.0"),
    removed_in=parse_version("0.3.0"),
    replacement=parse_version("v0.1.0"),
)


@pytest.fixture
def ageing() -> Iterator[Harness]:
    running = Harness(SETTINGS, entries=templates(v0_2_0=GOING, v0_3_0=GONE))
    running.start()
    running.define(definition())
    yield running
    running.close()


def test_a_deprecated_version_is_reported_once_for_a_resource(
    ageing: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    install(ageing, "v0.2.0")
    ageing.apply(using())
    ageing.apply(bucket())
    ageing.until(ageing.is_ready)
    ageing.until_idle()
    warning = "function-go-templating v0.2.0 is deprecated since release 0.3.0"
    condition = ageing.condition("DeprecatedFunctions")
    assert (condition["status"], condition["reason"]) == ("True", "FunctionVersionDeprecated")
    assert warning in condition["message"]
    xr = ageing.bucket()
    xr["spec"]["names"] = ["a"]
    ageing.cluster.replace(xr)
    ageing.until(lambda: set(ageing.composed()) == {"a"})
    ageing.until_idle()
    assert len([event for event in ageing.events if warning in event]) == 1
    logged = [record.getMessage() for record in caplog.records if warning in record.getMessage()]
    assert len(logged) == 1
    assert logged[0].startswith("XBucket default/mine: ")
    labels = ("function-go-templating", "v0.2.0", "0.5.0")
    assert ageing.metrics.deprecated_uses.labels(*labels)._value.get() == 1
    # With another version the condition is removed.
    ageing.apply(function("v0.1.0", activeRevisionLimit=3))
    ageing.until(lambda: not ageing.condition("DeprecatedFunctions"))


def test_a_removed_version_fails_the_pipeline_before_any_call(ageing: Harness) -> None:
    install(ageing, "v0.1.0")
    obj = composition()
    (first,) = obj["spec"]["pipeline"]
    function_ref = {"name": "function-go-templating", "version": "v0.3.0"}
    obj["spec"]["pipeline"].append({**first, "step": "second", "functionRef": function_ref})
    ageing.apply(obj)
    ageing.apply(bucket())
    refused = 'cannot run Composition pipeline step "second"'
    # Until then, the missing composition may be reported.
    ageing.until(lambda: refused in ageing.condition("Synced").get("message", ""))
    message = ageing.condition("Synced")["message"]
    assert "v0.3.0 was removed in release 0.3.0; set functionRef.version to v0.1.0" in message
    assert ageing.composed() == {}


def test_a_tag_without_a_matching_version_keeps_the_earlier_revision(
    ageing: Harness,
) -> None:
    names = install(ageing, "v0.1.0", limit=1)
    ageing.apply(function("v9.9.9", activeRevisionLimit=1))

    def is_refused() -> bool:
        conditions = ageing.cluster.get(FUNCTIONS, "templates")["status"]["conditions"]
        return any(
            "has no version that matches v9.9.9" in condition.get("message", "")
            for condition in conditions
        )

    ageing.until(is_refused)
    ageing.apply(using())
    ageing.apply(bucket())
    ageing.until(ageing.is_ready)
    assert used(ageing) == names["v0.1.0"]


@pytest.mark.parametrize(
    ("version", "status", "reason"),
    [
        pytest.param("v0.1.0", "True", "ValidPipeline", id="served"),
        pytest.param("v0.2.0", "True", "FunctionVersionDeprecated", id="deprecated"),
        pytest.param("v0.3.0", "False", "FunctionVersionRemoved", id="removed"),
    ],
)
def test_a_composition_revision_reports_the_support_of_its_function_versions(
    ageing: Harness, version: str, status: str, reason: str
) -> None:
    obj = composition()
    function_ref = {"name": "function-go-templating", "version": version}
    obj["spec"]["pipeline"][0]["functionRef"] = function_ref
    ageing.apply(obj)

    def condition() -> dict[str, Any]:
        (revision,) = ageing.cluster.list(COMPOSITION_REVISIONS).items
        conditions = (revision.get("status") or {}).get("conditions") or ()
        return next(
            (condition for condition in conditions if condition["type"] == "ValidPipeline"), {}
        )

    ageing.until(lambda: bool(ageing.cluster.list(COMPOSITION_REVISIONS).items and condition()))
    assert (condition()["status"], condition()["reason"]) == (status, reason)


def test_two_active_revisions_need_no_second_limit(harness: Harness) -> None:
    for tag, serving in (("v0.1.0", 1), ("v0.2.0", 2), ("v0.3.0", 2)):
        obj = function(tag, activeRevisionLimit=2)
        del obj["spec"]["revisionHistoryLimit"]
        harness.apply(obj)
        harness.until(lambda expected_tag=tag: expected_tag in serving_tags(harness))  # type: ignore[misc]  # a lambda's defaults have no types
        harness.until_idle()
        assert len(routable(harness)) == serving
    assert sorted(serving_tags(harness)) == ["v0.2.0", "v0.3.0"]
    assert len(revisions(harness)) == 2


def serving_tags(harness: Harness) -> list[str]:
    key, serving = "kanister-py.io/package-tag", routable(harness)
    metadata = [obj["metadata"] for obj in revisions(harness)]
    return [entry["annotations"][key] for entry in metadata if entry["name"] in serving]


@pytest.mark.parametrize(
    ("tag", "is_strict", "is_healthy", "problem"),
    [
        pytest.param("v0.12.3", True, True, "", id="release with a matching version"),
        pytest.param(
            "v0.3.0", False, True, ", not v0.3.0", id="release without a matching version"
        ),
        pytest.param(
            "v0.3.0", True, False, ", not v0.3.0", id="release without a matching version, strict"
        ),
    ],
)
def test_third_party_releases_run_in_process_if_a_version_matches(
    tag: str, is_strict: bool, is_healthy: bool, problem: str
) -> None:
    settings = SETTINGS._replace(default_runtime=Runtime.IN_PROCESS, is_strict=is_strict)
    harness = Harness(settings)
    harness.start()
    try:
        harness.define(definition())
        package = f"xpkg.crossplane.io/crossplane-contrib/function-go-templating:{tag}"
        theirs = function("")
        theirs["metadata"]["annotations"] = {}
        theirs["spec"]["package"] = package
        harness.apply(theirs)
        harness.until(
            lambda: any(
                "RuntimeHealthy" in _conditions(revision) for revision in revisions(harness)
            )
        )
        (revision,) = revisions(harness)
        health, message = _conditions(revision)["RuntimeHealthy"]
        assert (health, problem in message) == (str(is_healthy), True)
        harness.apply(using())
        harness.apply(bucket())
        if is_healthy:
            harness.until(harness.is_ready)
        else:
            harness.until(
                lambda: "is not healthy" in harness.condition("Synced").get("message", "")
            )
            assert problem in harness.condition("Synced")["message"]
    finally:
        harness.close()


def _conditions(obj: KubeObject) -> dict[str, tuple[str, str]]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return {
        condition["type"]: (condition["status"], condition.get("message", ""))
        for condition in conditions
    }
