"""Revisions of functions on the cluster: which of them a step gets.

The functions here come with us and run in this process, under the names and labels that
the cluster gives them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.revisions.functions import Runtime
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, FUNCTION_REVISIONS, FUNCTIONS
from kanister_py.core.versions.deprecation import Listing
from kanister_py.core.versions.semver import parse_version
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.test_kinds import (
    World,
    bucket,
    composition,
    definition,
    templates,
)

SETTINGS = CompositionSettings("kanister-py", uses_revisions=True, runs_functions=True)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(SETTINGS, entries=templates())
    made.start()
    made.define(definition())
    yield made
    made.close()


def function(tag: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {
            "name": "templates",
            "labels": dict(labels or {}),
            "annotations": {"kanister-py.io/runtime": "InProcess"},
        },
        "spec": {
            "package": f"xpkg.crossplane.io/kanister-py/function-go-templating:{tag}",
            "revisionHistoryLimit": 0,
            **spec,
        },
    }


def using(**step: Any) -> dict[str, Any]:
    made = composition()
    made["spec"]["pipeline"][0]["functionRef"] = {"name": "templates", **step.pop("ref", {})}
    made["spec"]["pipeline"][0].update(step)
    return made


def install(world: World, *tags: str, limit: int = 3) -> dict[str, str]:
    """Install several versions, one after the other; name the revision of each."""
    names: dict[str, str] = {}
    for tag in tags:
        labels = {"channel": "stable" if tag == tags[0] else "alpha"}
        world.say(function(tag, labels=labels, activeRevisionLimit=limit))
        world.until(lambda: bool(set(routable(world)) - set(names.values())))
        names[tag] = next(each for each in routable(world) if each not in names.values())
    world.until_rest()
    return names


def revisions(world: World) -> list[KubeObject]:
    return list(world.cluster.list(FUNCTION_REVISIONS).items)


def routable(world: World) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in revisions(world)
        if (each.get("status") or {}).get("endpoint") and each["spec"]["desiredState"] == "Active"
    ]


def used(world: World) -> str:
    (step,) = world.bucket()["status"]["crossplane"]["pipeline"]
    return str(step["revision"])


def test_a_function_that_comes_with_us_serves_as_the_cluster_names_it(world: World) -> None:
    names = install(world, "v0.1.0")
    world.say(using())
    world.say(bucket())
    world.until(world.is_ready)
    assert used(world) == names["v0.1.0"]
    found = world.cluster.get(FUNCTIONS, "templates")
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert conditions == {"Installed": "True", "Healthy": "True"}
    world.until_rest()
    (revision,) = world.cluster.list(COMPOSITION_REVISIONS).items
    (step,) = revision["status"]["composedWith"]
    assert step["digest"] == found["status"]["resolvedPackage"].partition("@")[2]


@pytest.mark.parametrize(
    ("step", "tag"),
    [
        pytest.param({}, "v0.3.0", id="nothing, so the highest"),
        pytest.param(
            {"functionRevisionSelector": {"matchLabels": {"channel": "stable"}}},
            "v0.1.0",
            id="labels",
        ),
        pytest.param(
            {"functionRevisionSelector": {"matchLabels": {"channel": "alpha"}}},
            "v0.3.0",
            id="labels that several have",
        ),
        pytest.param({"ref": {"version": "v0.2.0"}}, "v0.2.0", id="a version"),
        pytest.param({"ref": {"version": "<0.3"}}, "v0.2.0", id="a range"),
    ],
)
def test_a_step_gets_the_revision_it_asks_for(world: World, step: dict[str, Any], tag: str) -> None:
    names = install(world, "v0.1.0", "v0.2.0", "v0.3.0")
    world.say(using(**step))
    world.say(bucket())
    world.until(world.is_ready)
    assert used(world) == names[tag]


def test_a_step_gets_the_revision_it_names(world: World) -> None:
    names = install(world, "v0.1.0", "v0.2.0")
    world.say(using(functionRevisionRef={"name": names["v0.1.0"]}))
    world.say(bucket())
    world.until(world.is_ready)
    assert used(world) == names["v0.1.0"]


def test_resources_move_when_a_new_revision_serves(world: World) -> None:
    names = install(world, "v0.1.0", limit=1)
    world.say(using())
    world.say(bucket())
    world.until(world.is_ready)
    assert used(world) == names["v0.1.0"]
    world.say(function("v0.2.0", activeRevisionLimit=1))
    world.until(lambda: used(world) != names["v0.1.0"])
    world.until(lambda: len(routable(world)) == 1)
    assert used(world) == routable(world)[0]
    assert world.condition("Synced")["status"] == "True"


def test_going_back_serves_the_revision_that_was_there(world: World) -> None:
    install(world, "v0.1.0", limit=1)
    world.say(using())
    world.say(bucket())
    world.until(world.is_ready)
    first = used(world)
    labels = {"channel": "stable"}
    world.say(function("v0.2.0", labels=labels, activeRevisionLimit=1))
    world.until(lambda: used(world) != first)
    world.say(function("v0.1.0", labels=labels, activeRevisionLimit=1))
    world.until(lambda: used(world) == first)
    assert len(revisions(world)) == 2
    found = world.cluster.get(FUNCTION_REVISIONS, first)
    assert found["spec"]["revision"] == 3


def test_where_none_can_be_called_the_resource_says_what_there_is(world: World) -> None:
    names = install(world, "v0.1.0", limit=1)
    world.say(using(functionRevisionSelector={"matchLabels": {"channel": "beta"}}))
    world.say(bucket())
    # Before its composition was seen, it had failed for another reason.
    world.until(lambda: names["v0.1.0"] in world.condition("Synced").get("message", ""))
    assert world.condition("Synced")["status"] == "False"
    assert "beta" in world.condition("Synced")["message"]
    world.until(
        lambda: any(
            each.startswith("Warning") and names["v0.1.0"] in each for each in [*world.events]
        )
    )
    world.say(function("v0.1.0", labels={"channel": "beta"}, activeRevisionLimit=1))
    world.until(world.is_ready)


def test_a_revision_that_is_switched_off_is_not_called(world: World) -> None:
    names = install(world, "v0.1.0", limit=1)
    world.say(using())
    world.say(bucket())
    world.until(world.is_ready)
    world.say(
        function(
            "v0.1.0",
            labels={"channel": "stable"},
            activeRevisionLimit=1,
            revisionActivationPolicy="Manual",
        )
    )
    world.until_rest()
    found = world.cluster.get(FUNCTION_REVISIONS, names["v0.1.0"])
    world.cluster.replace({**found, "spec": {**found["spec"], "desiredState": "Inactive"}})
    world.until(lambda: "nactive" in world.condition("Synced").get("message", ""))
    assert world.condition("Synced")["status"] == "False"
    found = world.cluster.get(FUNCTION_REVISIONS, names["v0.1.0"])
    world.cluster.replace({**found, "spec": {**found["spec"], "desiredState": "Active"}})
    world.until(lambda: world.condition("Synced").get("status") == "True")


def test_a_revision_that_a_step_names_outlives_the_history_limit(world: World) -> None:
    names = install(world, "v0.1.0", limit=1)
    world.say(using(functionRevisionRef={"name": names["v0.1.0"]}))
    world.until_rest()
    for number in range(2, 5):
        world.say(function(f"v0.{number}.0", revisionHistoryLimit=1, activeRevisionLimit=1))
        world.until(lambda: any(each not in names.values() for each in routable(world)))
        world.until_rest()
    left = {each["metadata"]["name"] for each in revisions(world)}
    assert names["v0.1.0"] in left
    assert len(left) == 2


def test_a_revision_that_is_pinned_and_leaves_the_active_ones_is_told_at_once(
    world: World,
) -> None:
    names = install(world, "v0.1.0", limit=1)
    pinned = names["v0.1.0"]
    world.say(using(functionRevisionRef={"name": pinned}))
    world.say(bucket())
    world.until(world.is_ready)
    world.until_rest()
    began = time.monotonic()
    world.say(function("v0.2.0", labels={"channel": "alpha"}, activeRevisionLimit=1))
    refusal = f"{pinned} (revision 1) is inactive"
    world.until(lambda: refusal in world.condition("Synced").get("message", ""))
    assert time.monotonic() - began < 30.0
    assert world.condition("Synced")["status"] == "False"
    message = world.condition("Synced")["message"]
    (serving,) = routable(world)
    assert (
        f"set spec.desiredState of {pinned} to Active, or have the step ask for {serving}"
        in message
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
def ageing() -> Iterator[World]:
    made = World(SETTINGS, entries=templates(v0_2_0=GOING, v0_3_0=GONE))
    made.start()
    made.define(definition())
    yield made
    made.close()


def test_a_deprecated_version_is_told_once_for_a_resource_and_not_at_every_pass(
    ageing: World, caplog: pytest.LogCaptureFixture
) -> None:
    install(ageing, "v0.2.0")
    ageing.say(using())
    ageing.say(bucket())
    ageing.until(ageing.is_ready)
    ageing.until_rest()
    warning = "function-go-templating v0.2.0 is deprecated since release 0.3.0"
    condition = ageing.condition("DeprecatedFunctions")
    assert (condition["status"], condition["reason"]) == ("True", "FunctionVersionDeprecated")
    assert warning in condition["message"]
    found = ageing.bucket()
    found["spec"]["names"] = ["a"]
    ageing.cluster.replace(found)
    ageing.until(lambda: set(ageing.composed()) == {"a"})
    ageing.until_rest()
    assert len([each for each in ageing.events if warning in each]) == 1
    logged = [each.getMessage() for each in caplog.records if warning in each.getMessage()]
    assert len(logged) == 1
    assert logged[0].startswith("XBucket default/mine: ")
    labels = ("function-go-templating", "v0.2.0", "0.5.0")
    assert ageing.metrics.deprecated_uses.labels(*labels)._value.get() == 1
    # With another version the condition goes, too.
    ageing.say(function("v0.1.0", activeRevisionLimit=3))
    ageing.until(lambda: not ageing.condition("DeprecatedFunctions"))


def test_a_removed_version_ends_a_pipeline_before_any_function_is_called(ageing: World) -> None:
    install(ageing, "v0.1.0")
    wanted = composition()
    (first,) = wanted["spec"]["pipeline"]
    asked = {"name": "function-go-templating", "version": "v0.3.0"}
    wanted["spec"]["pipeline"].append({**first, "step": "second", "functionRef": asked})
    ageing.say(wanted)
    ageing.say(bucket())
    refused = 'cannot run Composition pipeline step "second"'
    # Before that it may be said that there is no composition yet.
    ageing.until(lambda: refused in ageing.condition("Synced").get("message", ""))
    message = ageing.condition("Synced")["message"]
    assert "v0.3.0 was removed in release 0.3.0; set functionRef.version to v0.1.0" in message
    assert ageing.composed() == {}


def test_a_tag_that_no_version_answers_leaves_the_revision_before_it_in_force(
    ageing: World,
) -> None:
    names = install(ageing, "v0.1.0", limit=1)
    ageing.say(function("v9.9.9", activeRevisionLimit=1))

    def is_refused() -> bool:
        conditions = ageing.cluster.get(FUNCTIONS, "templates")["status"]["conditions"]
        return any(
            "has no version that answers v9.9.9" in each.get("message", "") for each in conditions
        )

    ageing.until(is_refused)
    ageing.say(using())
    ageing.say(bucket())
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
def test_a_revision_of_a_composition_says_what_its_versions_are_worth(
    ageing: World, version: str, status: str, reason: str
) -> None:
    wanted = composition()
    asked = {"name": "function-go-templating", "version": version}
    wanted["spec"]["pipeline"][0]["functionRef"] = asked
    ageing.say(wanted)

    def condition() -> dict[str, Any]:
        (revision,) = ageing.cluster.list(COMPOSITION_REVISIONS).items
        conditions = (revision.get("status") or {}).get("conditions") or ()
        return next((each for each in conditions if each["type"] == "ValidPipeline"), {})

    ageing.until(lambda: bool(ageing.cluster.list(COMPOSITION_REVISIONS).items and condition()))
    assert (condition()["status"], condition()["reason"]) == (status, reason)


def test_two_active_revisions_need_no_second_limit(world: World) -> None:
    for tag, serving in (("v0.1.0", 1), ("v0.2.0", 2), ("v0.3.0", 2)):
        made = function(tag, activeRevisionLimit=2)
        del made["spec"]["revisionHistoryLimit"]
        world.say(made)
        world.until(lambda wanted=tag: wanted in serving_tags(world))  # type: ignore[misc]  # a lambda's defaults have no types
        world.until_rest()
        assert len(routable(world)) == serving
    assert sorted(serving_tags(world)) == ["v0.2.0", "v0.3.0"]
    assert len(revisions(world)) == 2


def serving_tags(world: World) -> list[str]:
    key, serving = "kanister-py.io/package-tag", routable(world)
    found = [each["metadata"] for each in revisions(world)]
    return [each["annotations"][key] for each in found if each["name"] in serving]


@pytest.mark.parametrize(
    ("tag", "is_strict", "is_healthy", "complaint"),
    [
        pytest.param("v0.12.3", True, True, "", id="a release that a version stands for"),
        pytest.param("v0.3.0", False, True, "not for v0.3.0", id="another one, and it is said"),
        pytest.param("v0.3.0", True, False, "not for v0.3.0", id="another one is refused if asked"),
    ],
)
def test_releases_of_others_run_here_if_a_version_stands_for_them(
    tag: str, is_strict: bool, is_healthy: bool, complaint: str
) -> None:
    settings = SETTINGS._replace(default_runtime=Runtime.IN_PROCESS, is_strict=is_strict)
    world = World(settings)
    world.start()
    try:
        world.define(definition())
        package = f"xpkg.crossplane.io/crossplane-contrib/function-go-templating:{tag}"
        theirs = function("")
        theirs["metadata"]["annotations"] = {}
        theirs["spec"]["package"] = package
        world.say(theirs)
        world.until(lambda: any("RuntimeHealthy" in _conditions(each) for each in revisions(world)))
        (revision,) = revisions(world)
        health, message = _conditions(revision)["RuntimeHealthy"]
        assert (health, complaint in message) == (str(is_healthy), True)
        world.say(using())
        world.say(bucket())
        if is_healthy:
            world.until(world.is_ready)
        else:
            world.until(lambda: "is not healthy" in world.condition("Synced").get("message", ""))
            assert complaint in world.condition("Synced")["message"]
    finally:
        world.close()


def _conditions(obj: KubeObject) -> dict[str, tuple[str, str]]:
    found = (obj.get("status") or {}).get("conditions") or ()
    return {each["type"]: (each["status"], each.get("message", "")) for each in found}
