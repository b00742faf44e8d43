"""Phases that wait for the state of objects."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.errors import RunCancelled, UsageError
from kanister_py.core.kube.resources import CONFIG_MAPS
from kanister_py.core.templates.engines import Engine
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.render import RenderFailed
from kanister_py.core.yaml.weak import InvalidArgs
from kanister_py.functions.blueprint.wait.v0_0_0 import Wait
from kanister_py.functions.blueprint.wait_v2.v0_0_0 import WaitV2
from kanister_py.functions.blueprint.wait_v2.v0_1_0 import WaitV2V010
from kanister_py.ports.function import Func
from tests.functions.blueprint.api_calls import TIME, Api
from tests.raising import refused_as

ALL: list[Any] = [Wait, WaitV2, WaitV2V010]
V2 = pytest.mark.parametrize("wait", [WaitV2, WaitV2V010])
# The same condition in the two languages: `data.<key>` of the object is `<value>`.
JSONPATHS = '{{ if eq "{ $.data.%s }" "%s" }}true{{ end }}'
OVER_THE_OBJECT = '{{ if eq .data.%s "%s" }} true {{ end }}'


def condition(text: str, name: str = "src", **rest: str) -> dict[str, Any]:
    where = {"apiVersion": "v1", "resource": "configmaps", "name": name, "namespace": "default"}
    return {"condition": text, "objectReference": {**where, **rest}}


def has(wait: type[Func], key: str, value: str, name: str = "src") -> dict[str, Any]:
    form = JSONPATHS if wait is Wait else OVER_THE_OBJECT
    return condition(form % (key, value), name)


def args(timeout: str = "1m", **conditions: list[dict[str, Any]]) -> dict[str, Any]:
    return {"timeout": timeout, "conditions": conditions}


def write(api: Api, name: str = "src", **data: str) -> None:
    api.add("v1", "ConfigMap", name, data=data)


LATE = "Failed to wait for the condition to be met within 60 s"


def failure_after(api: Api, seconds: float, wait: type[Func], given: dict[str, Any]) -> UsageError:
    with api.waiting(wait, given) as called:
        api.clock.advance(seconds)
        with pytest.raises(UsageError) as caught:
            called.result()
    return caught.value


@pytest.mark.parametrize("wait", ALL)
@pytest.mark.parametrize("which", ["anyOf", "allOf"])
def test_fulfilled_condition_returns_immediately(wait: type[Func], which: str) -> None:
    api = Api()
    write(api, host="db.local")
    conditions = {which: [has(wait, "host", "db.local")]}
    assert api.call(wait, {"timeout": "1m", "conditions": conditions}) is None


@pytest.mark.parametrize("wait", ALL)
def test_change_ends_the_wait_immediately(wait: type[Func]) -> None:
    api = Api()
    write(api, state="starting")
    with api.waiting(wait, args(anyOf=[has(wait, "state", "up")])) as called:
        write(api, state="up")
        assert called.result() is None


@pytest.mark.parametrize("wait", ALL)
def test_missing_object_is_waited_for(wait: type[Func]) -> None:
    api = Api()
    with api.waiting(wait, args(allOf=[has(wait, "state", "up")])) as called:
        write(api, state="up")
        assert called.result() is None


@pytest.mark.parametrize("wait", ALL)
def test_any_of_needs_one_condition_and_all_of_all(wait: type[Func]) -> None:
    api = Api()
    write(api, a="1", b="2")
    yes, no = has(wait, "a", "1"), has(wait, "b", "1")
    api.call(wait, args(anyOf=[no, yes]))
    api.call(wait, args(anyOf=[no], allOf=[yes, yes]))
    assert failure_after(api, 60, wait, args(allOf=[yes, no])).reason == "WaitTimedOut"
    assert failure_after(api, 60, wait, args(anyOf=[no])).reason == "WaitTimedOut"


@pytest.mark.parametrize("wait", ALL)
def test_wait_without_conditions_times_out(wait: type[Func]) -> None:
    error = failure_after(Api(), 60, wait, args())
    assert error.message == LATE
    assert error.reason == "WaitTimedOut"


@pytest.mark.parametrize("wait", ALL)
def test_timeout_error_has_the_last_reason(wait: type[Func]) -> None:
    error = failure_after(Api(), 60, wait, args(anyOf=[has(wait, "state", "up", "nobody")]))
    assert error.message == (
        'configmaps "nobody" not found: Failed to wait for the condition to be met within 60 s'
    )


@pytest.mark.parametrize("wait", ALL)
def test_a_wait_can_be_cancelled(wait: type[Func]) -> None:
    with Api().waiting(wait, args(anyOf=[has(wait, "state", "up")])) as called:
        called.cancel()
        with pytest.raises(RunCancelled):
            called.result()


@pytest.mark.parametrize("wait", ALL)
def test_references_are_rendered(wait: type[Func]) -> None:
    api = Api()
    write(api, "chosen", state="up")
    arguments = args(anyOf=[has(wait, "state", "up", "{{ .Options.name }}")])
    facts = ActionFacts(time=TIME, options={"name": "chosen"})
    assert api.call(wait, arguments, facts=facts) is None


@pytest.mark.parametrize("wait", ALL)
def test_cluster_scoped_object_is_read_without_namespace(wait: type[Func]) -> None:
    api = Api()
    text = "true" if wait is Wait else "{{ if .metadata.name }}true{{ end }}"
    where = {"resource": "namespaces", "namespace": ""}
    assert api.call(wait, args(anyOf=[condition(text, "default", **where)])) is None
    where["namespace"] = "default"
    error = failure_after(api, 60, wait, args(anyOf=[condition(text, "default", **where)]))
    assert error.message == f"the server could not find the requested resource: {LATE}"


@pytest.mark.parametrize("wait", ALL)
def test_waiting_for_a_pod_fails_immediately_without_pods(wait: type[Func]) -> None:
    with refused_as("PodsNotRun"):
        Api().call(wait, args(anyOf=[condition("true", resource="pods")]))


@pytest.mark.parametrize("wait", ALL)
def test_invalid_timeout_fails_immediately(wait: type[Func]) -> None:
    with pytest.raises(InvalidArgs, match='Failed to parse timeout: time: invalid duration "soon"'):
        Api().call(wait, args("soon"))


# Wait alone


def test_jsonpath_without_value_is_not_fulfilled() -> None:
    api = Api()
    write(api, state="up")
    error = failure_after(api, 60, Wait, args(anyOf=[has(Wait, "other", "x")]))
    assert error.message == f"other is not found: {LATE}"
    with api.waiting(Wait, args(anyOf=[has(Wait, "other", "x")])) as called:
        write(api, other="x")
        assert called.result() is None


def test_conditions_of_wait_use_sprig_and_lists() -> None:
    api = Api()
    write(api, hosts="a,b", size="3")
    text = '{{ and (eq (len (splitList "," "{$.data.hosts}")) 2) (gt (int "{ $.data.size }") 2) }}'
    assert api.call(Wait, args(anyOf=[condition(text)])) is None


def test_error_in_one_condition_hides_the_others_before_v0_1_0() -> None:
    for wait in ALL:
        api = Api()
        write(api, state="up")
        arguments = args(anyOf=[has(wait, "state", "up", "nobody"), has(wait, "state", "up")])
        if wait is WaitV2V010:
            assert api.call(wait, arguments) is None
        else:
            error = failure_after(api, 60, wait, arguments)
            assert error.message == f'configmaps "nobody" not found: {LATE}'


def test_arguments_of_wait_are_rendered_at_the_start() -> None:
    write(api := Api(), state="up")
    arguments = args("{{ .Options.patience }}", anyOf=[has(Wait, "state", "up")])
    facts = ActionFacts(time=TIME, options={"patience": "5s"})
    assert api.call(Wait, arguments, facts=facts) is None
    with pytest.raises(RenderFailed):
        api.call(Wait, args(anyOf=[condition("{{ .Nothing }}")]))


def test_a_blueprint_in_jinja2_still_writes_conditions_in_go() -> None:
    for wait in ALL:
        api = Api(engine=Engine.JINJA2)
        write(api, "chosen", state="up")
        arguments = args(anyOf=[has(wait, "state", "up", "{{ Options['name'] }}")])
        facts = ActionFacts(time=TIME, options={"name": "chosen"})
        assert api.call(wait, arguments, facts=facts) is None


# WaitV2 alone


@V2
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{{ if exists . "data" "a" }}true{{ end }}', id="a key that is there"),
        pytest.param('{{ if not (exists . "data" "b") }}true{{ end }}', id="one that is not"),
        pytest.param('{{ if not (exists . "data" "a" 9) }}true{{ end }}', id="past the end"),
        pytest.param('{{ if exists . "data" "a" 0 }}true{{ end }}', id="a character"),
        pytest.param('{{ eq (base64decode .data.a) "yes" }}', id="base64"),
        pytest.param("{{ eq .spec.size 3.0 }}", id="numbers are floats"),
        pytest.param('{{ eq (print .data.c) "<nil>" }}', id="a missing key"),
        pytest.param('{{ $d := $.data }}{{ eq $d.a "eWVz" }}', id="variables and the object"),
    ],
)
def test_conditions_are_templates_of_kubectl(wait: type[Func], text: str) -> None:
    api = Api()
    api.add("v1", "ConfigMap", "src", data={"a": "eWVz"}, spec={"size": 3})
    assert api.call(wait, args("1s", anyOf=[condition(text)])) is None


def test_invalid_template_fails_v0_1_0_immediately() -> None:
    write(api := Api(), state="up")
    arguments = args(anyOf=[condition("{{ if }}")])
    assert failure_after(api, 60, WaitV2, arguments).message == LATE
    with pytest.raises(UsageError, match="missing value for if") as refused:
        api.call(WaitV2V010, arguments)
    assert refused.value.reason == "TemplateParseError"


def test_unrenderable_reference_fails_v0_1_0_immediately() -> None:
    arguments = args(anyOf=[condition("true", "{{ .Nothing }}")])
    assert "Nothing" in failure_after(Api(), 60, WaitV2, arguments).message
    with pytest.raises(RenderFailed):
        Api().call(WaitV2V010, arguments)


def test_only_v0_1_0_supports_sprig() -> None:
    write(api := Api(), state="up")
    arguments = args(anyOf=[condition('{{ if hasPrefix "u" .data.state }}true{{ end }}')])
    assert failure_after(api, 60, WaitV2, arguments).reason == "WaitTimedOut"
    assert api.call(WaitV2V010, arguments) is None


def test_only_v0_1_0_renders_its_timeout() -> None:
    write(api := Api(), state="up")
    arguments = args("{{ .Options.patience }}", anyOf=[has(WaitV2, "state", "up")])
    facts = ActionFacts(time=TIME, options={"patience": "5s"})
    with pytest.raises(InvalidArgs, match="Failed to parse timeout"):
        api.call(WaitV2, arguments, facts=facts)
    assert api.call(WaitV2V010, arguments, facts=facts) is None


def test_malformed_conditions_are_rejected() -> None:
    with pytest.raises(InvalidArgs, match="conditions"):
        Api().call(WaitV2, {"timeout": "1s", "conditions": "always"})
    with pytest.raises(InvalidArgs, match="Required arg missing: timeout"):
        Api().call(Wait, {"conditions": {}})


def test_a_condition_sees_a_change_of_its_object_only_once_it_is_complete() -> None:
    api = Api()
    write(api, state="starting")
    both = [has(WaitV2, "state", "up"), has(WaitV2, "state", "up", "other")]
    with api.waiting(WaitV2, args(allOf=both)) as called:
        write(api, state="up")
        assert api.cluster.get(CONFIG_MAPS, "src", namespace="default")["data"]["state"] == "up"
        assert not called.ended
        write(api, "other", state="up")
        assert called.result() is None
