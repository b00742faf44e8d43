"""v0.2.0 of the templating functions ignores no mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.functions.composition.go_templating.v0_1_0 import GoTemplating
from kanister_py.functions.composition.go_templating.v0_2_0 import GoTemplatingV020
from kanister_py.functions.composition.jinja_templating.v0_1_0 import JinjaTemplating
from kanister_py.functions.composition.jinja_templating.v0_2_0 import JinjaTemplatingV020

GO, JINJA = "gotemplating.fn.crossplane.io", "jinjatemplating.fn.kanister-py.io"


def manifest(group: str, kind: str) -> str:
    name = f'"{group}/composition-resource-name": one'
    return f"---\napiVersion: v1\nkind: {kind}\nmetadata: {{annotations: {{{name}}}}}\n"


def details(group: str, value: str) -> str:
    return (
        f"apiVersion: meta.{group}/v1alpha1\nkind: CompositeConnectionDetails\n"
        f"data: {{url: '{value}'}}\n"
    )


def answered(function: type[Any], template: str, ttl: str = "") -> dict[str, Any]:
    request = {"input": {"source": "Inline", "inline": {"template": template}, "ttl": ttl}}
    return dict(function().run(request))


@pytest.mark.parametrize(
    ("old", "new", "group"),
    [
        pytest.param(GoTemplating, GoTemplatingV020, GO, id="Go"),
        pytest.param(JinjaTemplating, JinjaTemplatingV020, JINJA, id="Jinja2"),
    ],
)
class TestSilence:
    def test_two_manifests_with_one_name_are_an_error(
        self, old: type[Any], new: type[Any], group: str
    ) -> None:
        template = manifest(group, "ConfigMap") + manifest(group, "Secret")
        before = answered(old, template)["desired"]["resources"]
        assert before["one"]["resource"]["kind"] == "Secret"
        answer = answered(new, template)
        (result,) = answer["results"]
        assert result["severity"] == "SEVERITY_FATAL"
        assert 'a "ConfigMap" and a "Secret", are called "one"' in result["message"]
        assert not answer["desired"].get("resources")

    def test_invalid_connection_details_are_rejected(
        self, old: type[Any], new: type[Any], group: str
    ) -> None:
        composite = answered(old, details(group, "aGkh!!"))["desired"]["composite"]
        assert composite["connectionDetails"] == {"url": "aGkh"}
        (result,) = answered(new, details(group, "aGk=!"))["results"]
        assert "data.url: is no base64" in result["message"]
        fine = answered(new, details(group, "aGk="))["desired"]["composite"]
        assert fine["connectionDetails"] == {"url": "aGk="}

    def test_invalid_ttl_is_named(self, old: type[Any], new: type[Any], group: str) -> None:
        template = manifest(group, "ConfigMap")
        assert answered(old, template, "soon")["meta"]["ttl"] == "60s"
        (result,) = answered(new, template, "soon")["results"]
        assert "ttl: 'soon' is no duration" in result["message"]
        assert answered(new, template, "5m")["meta"]["ttl"] == "300s"
