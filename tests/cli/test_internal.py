"""`internal render`: one reconcile for another program, over stdin and stdout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from kanister_py.proto.messages import message_class

PACKAGE = "crossplane.render.v1alpha1"
XR = {
    "apiVersion": "example.org/v1",
    "kind": "XApp",
    "metadata": {"name": "shop", "namespace": "team-a"},
}


def template(text: str, step: str = "template", **more: Any) -> dict[str, Any]:
    return {
        "step": step,
        "functionRef": {"name": "function-go-templating"},
        "input": {
            "apiVersion": "gotemplating.fn.crossplane.io/v1beta1",
            "kind": "GoTemplate",
            "source": "Inline",
            "inline": {"template": text},
        },
        **more,
    }


def resource(name: str) -> str:
    key = "gotemplating.fn.crossplane.io/composition-resource-name"
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{annotations: {{{key}: {name}}}}}\n"


def composite(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    composition = {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "apps"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
            "mode": "Pipeline",
            "pipeline": list(steps),
        },
    }
    return {"composite": {"compositeResource": XR, "composition": composition, **more}}


def ask(request: dict[str, Any] | bytes) -> tuple[int, Any, str]:
    """Send a request that protobuf encodes; return exit code, response and stderr."""
    if isinstance(request, bytes):
        sent = request
    else:
        message = message_class(f"{PACKAGE}.RenderRequest")()
        sent = json_format.ParseDict(request, message).SerializeToString()
    done = subprocess.run(
        [sys.executable, "-m", "kanister_py", "internal", "render"],
        input=sent,
        capture_output=True,
        check=False,
        cwd=Path(__file__).parents[2],
        timeout=180,
    )
    response = None
    if done.stdout:
        answer = message_class(f"{PACKAGE}.RenderResponse").FromString(done.stdout)
        response = json_format.MessageToDict(answer)
    return done.returncode, response, done.stderr.decode()


def test_response_contains_all_results() -> None:
    seen = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "gone",
            "namespace": "team-a",
            "annotations": {"crossplane.io/composition-resource-name": "gone"},
            "ownerReferences": [{"controller": True, "uid": "u-1", "kind": "XApp", "name": "shop"}],
        },
    }
    xr = {**XR, "metadata": {**XR["metadata"], "uid": "u-1"}}  # type: ignore[dict-item]  # a map, as it stands above
    boot = [{"requirementName": "b", "apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]
    step = template(resource("a"), requirements={"requiredResources": boot})
    request = composite(step, compositeResource=xr, observedResources=[seen])
    code, response, err = ask(request)
    assert (code, err) == (0, "")
    result = response["composite"]
    assert result["compositeResource"]["status"]["conditions"][0]["type"] == "Responsive"
    assert [composed_resource["kind"] for composed_resource in result["composedResources"]] == [
        "ConfigMap"
    ]
    assert [
        deleted_resource["metadata"]["name"] for deleted_resource in result["deletedResources"]
    ] == ["gone"]
    assert {event["reason"] for event in result["events"]} == {
        "SelectComposition",
        "ComposeResources",
    }
    assert result["requiredResources"] == [
        {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "x"}
    ]


def test_fatal_result_exits_with_3_and_a_partial_response() -> None:
    asks = (
        "apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1\nkind: ExtraResources\n"
        "requirements: {cfg: {apiVersion: v1, kind: ConfigMap, matchName: c}}\n"
    )
    fails = template('{{ fail "no" }}', "bad")
    code, response, err = ask(composite(template(asks), fails))
    assert code == 3
    assert 'pipeline step "bad" returned a fatal result' in err
    requirement = {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "c"}
    # This function requests resources in the old and the new field; both are reported.
    assert response["composite"]["requiredResources"] == [requirement, requirement]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        pytest.param(b"\xff\xff garbage", "Not a RenderRequest", id="garbage"),
        pytest.param({}, "found nothing", id="nothing"),
        pytest.param({"operation": {}}, "found operation", id="an operation"),
        pytest.param({"composite": {}}, "composite.compositeResource: Is required", id="no XR"),
        pytest.param(
            composite(template("x: ["), functions=[{"name": "other", "address": "localhost:1"}]),
            "cannot run Composition pipeline step",
            id="a function that is not listed",
        ),
        pytest.param(
            composite(
                template(resource("a")), compositeResourceDefinition={"spec": {"group": "x.org"}}
            ),
            "the definition is of",
            id="a definition of another kind",
        ),
    ],
)
def test_other_failures_leave_stdout_empty(request_: dict[str, Any] | bytes, message: str) -> None:
    code, response, err = ask(request_)
    assert code == 1
    assert response is None
    assert message in err


def test_empty_observed_and_required_resources_are_ignored() -> None:
    observed = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "kept",
            "namespace": "team-a",
            "annotations": {"crossplane.io/composition-resource-name": "a"},
        },
    }
    # The official CLI sends this for a document with comments only.
    code, response, err = ask(
        composite(
            template(resource("a")),
            observedResources=[{}, observed],
            requiredResources=[{}],
        )
    )
    assert code == 0, err
    (composed,) = response["composite"]["composedResources"]
    assert composed["metadata"]["name"] == "kept"
