"""Models of ActionSets, read from YAML."""

from __future__ import annotations

import pytest

from kanister_py.core.actionsets.model import (
    parse_actionset,
    reference_as_dict,
)
from kanister_py.core.actionsets.references import (
    parse_named_reference,
    parse_object_reference,
)
from kanister_py.core.actionsets.rules import ExecutionMode
from kanister_py.core.blueprints.model import ObjectReference
from kanister_py.core.errors import InvalidDocument, UsageError
from kanister_py.core.yaml.documents import parse_document

FULL = """\
apiVersion: cr.kanister.io/v1alpha1
kind: ActionSet
metadata: {name: s3backup, namespace: kanister, uid: abc}
spec:
  executionMode: Sequential
  cancel: null
  unheardOf: 1
  actions:
  - name: backup
    blueprint: db
    object: {kind: StatefulSet, name: db, namespace: shop}
    artifacts: {dump: {keyValue: {path: /x}}}
    secrets: {login: {kind: Secret, name: l, namespace: shop}}
    profile: {name: p, namespace: kanister}
    podOverride: {containers: [{name: container}]}
    options: {level: "9"}
    preferredVersion: v0.1.0
    podLabels: {a: b}
    podAnnotations: null
"""


def test_actionset_is_read_with_all_fields() -> None:
    read = parse_actionset(parse_document(FULL, "set.yaml"))
    (action,) = read.spec.actions
    assert read.spec.execution_mode is ExecutionMode.SEQUENTIAL
    assert read.spec.cancel is False
    assert action.artifacts["dump"].key_value == {"path": "/x"}
    assert (action.options, action.pod_annotations) == ({"level": "9"}, None)
    assert reference_as_dict(action.object) == {
        "apiVersion": "",
        "group": "",
        "resource": "",
        "kind": "StatefulSet",
        "name": "db",
        "namespace": "shop",
    }


def test_problems_are_reported_with_line_and_path() -> None:
    text = FULL.replace('"9"', "9").replace("Sequential", "Sometimes")
    with pytest.raises(InvalidDocument) as caught:
        parse_actionset(parse_document(text, "set.yaml"))
    places = [(problem.file, problem.line, problem.path) for problem in caught.value.problems]
    assert places == [
        ("set.yaml", 5, "spec.executionMode"),
        ("set.yaml", 16, "spec.actions[0].options.level"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "Deployment/shop/db",
            ObjectReference(kind="Deployment", name="db", namespace="shop"),
            id="a workload",
        ),
        pytest.param(
            "sts/db",
            ObjectReference(kind="StatefulSet", name="db", namespace="default"),
            id="a short name, in the default namespace",
        ),
        pytest.param(
            "ns/shop",
            ObjectReference(kind="Namespace", name="shop", namespace="shop"),
            id="a namespace, which stands in both fields",
        ),
        pytest.param(
            "configmap/shop/c",
            ObjectReference(api_version="v1", resource="configmaps", name="c", namespace="shop"),
            id="a kind that needs its resource",
        ),
        pytest.param(
            "apps/v1/deployments/shop/db",
            ObjectReference(
                api_version="v1", group="apps", resource="deployments", name="db", namespace="shop"
            ),
            id="a resource of a group",
        ),
        pytest.param(
            "v1/pods/shop/p",
            ObjectReference(api_version="v1", resource="pods", name="p", namespace="shop"),
            id="a core one",
        ),
    ],
)
def test_object_reference_is_parsed_from_text(text: str, expected: ObjectReference) -> None:
    assert parse_object_reference(text) == expected


@pytest.mark.parametrize("text", ["db", "Thing/db", "a//b", "a/b/c/d/e/f", ""])
def test_invalid_object_reference_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_object_reference(text)
    assert refused.value.reason == "InvalidReference"


def test_secret_is_parsed_with_its_name_in_the_blueprint() -> None:
    name, reference = parse_named_reference("login=shop/l")
    assert (name, reference.name, reference.namespace) == ("login", "l", "shop")
