"""Versions of functions in rendered compositions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kanister_py.cli.main import main

XR = "apiVersion: example.org/v1\nkind: XApp\nmetadata: {name: shop}\nspec: {region: eu}\n"
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  annotations: {jinjatemplating.fn.kanister-py.io/composition-resource-name: map}
data: {region: "{{ observed.composite.resource.spec.region }}"}
"""
JINJA = "function-jinja-templating"
PATCHING = "function-patch-and-transform"

Render = Callable[..., tuple[int, str, str]]


def step(function: str = JINJA, name: str = "make", **more: Any) -> dict[str, Any]:
    reference = {"name": function, **more.pop("ref", {})}
    source = {"source": "Inline", "inline": {"template": TEMPLATE}}
    return {"step": name, "functionRef": reference, "input": source, **more}


def package(
    tag: str, repository: str = f"kanister-py/{JINJA}", name: str = JINJA, **annotations: str
) -> dict[str, Any]:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"package": f"xpkg.example.org/{repository}{tag and ':'}{tag}"},
    }


@pytest.fixture
def render(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Render:
    monkeypatch.chdir(tmp_path)

    def run(
        *words: str, steps: list[dict[str, Any]], functions: list[dict[str, Any]] | None = None
    ) -> tuple[int, str, str]:
        composition = {
            "apiVersion": "apiextensions.crossplane.io/v1",
            "kind": "Composition",
            "metadata": {"name": "apps"},
            "spec": {
                "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
                "mode": "Pipeline",
                "pipeline": steps,
            },
        }
        Path("xr.yaml").write_text(XR)
        Path("composition.yaml").write_text(yaml.safe_dump(composition))
        files = ["xr.yaml", "composition.yaml"]
        if functions is not None:
            Path("functions.yaml").write_text(yaml.safe_dump_all(functions))
            files.append("functions.yaml")
        code = main(["render", *files, *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_step_without_a_version_uses_the_stable_one(render: Render) -> None:
    code, out, err = render("-o", "json", steps=[step()])
    assert (code, err) == (0, "")
    assert '"revision": "function-jinja-templating-v0.2.0"' in out


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        pytest.param("", "v0.2.0", id="no tag follows the stable one"),
        pytest.param("v0.2.0", "v0.2.0", id="a version"),
        pytest.param("v0.1.0", "v0.1.0", id="another one"),
    ],
)
def test_package_tag_selects_the_built_in_version(render: Render, tag: str, version: str) -> None:
    code, _, err = render(steps=[step()], functions=[package(tag)])
    assert code == 0
    assert f"{JINJA} {version}, which is built in, is used in place of" in err
    assert ("is deprecated since release 0.2.0" in err) is (version == "v0.1.0")


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="a package of ours"),
        pytest.param({"kanister-py.io/runtime": "InProcess"}, id="with the annotation"),
    ],
)
def test_unknown_tag_lists_the_versions(render: Render, annotations: dict[str, str]) -> None:
    code, out, err = render(steps=[step()], functions=[package("v9.9.9", **annotations)])
    assert (code, out) == (1, "")
    assert f"{JINJA} has no version that matches v9.9.9: v0.1.0 is deprecated; v0.2.0 is" in err


def test_versions_apply_to_all_in_process_functions(render: Render) -> None:
    upstream = package(
        "v0.8.2",
        f"crossplane-contrib/{PATCHING}",
        PATCHING,
        **{"kanister-py.io/runtime": "InProcess"},
    )
    code, _, err = render(steps=[step(PATCHING)], functions=[upstream])
    assert code == 1
    assert f"{PATCHING} has no version that matches v0.8.2" in err


def test_a_deprecated_version_is_a_result_and_a_condition(render: Render) -> None:
    words = ("-r", "-x")
    code, out, err = render(*words, steps=[step(ref={"version": "v0.1.0"})])
    assert code == 0
    warning = (
        'Pipeline step "make": function-jinja-templating v0.1.0 is deprecated since release '
        "0.2.0 and refused from release 0.4.0 on; use v0.2.0"
    )
    assert warning in err
    documents = list(yaml.safe_load_all(out))
    (result,) = [
        document for document in documents if document.get("reason") == "FunctionVersionDeprecated"
    ]
    assert result["severity"] == "Warning"
    assert warning in result["message"]
    conditions = {
        condition["type"]: condition for condition in documents[0]["status"]["conditions"]
    }
    assert conditions["DeprecatedFunctions"]["status"] == "True"
    assert warning in conditions["DeprecatedFunctions"]["message"]


def test_version_range_selects_a_supported_version(render: Render) -> None:
    code, out, _ = render("-o", "json", steps=[step(ref={"version": ">=0.1"})])
    assert code == 0
    assert '"revision": "function-jinja-templating-v0.2.0"' in out


def upstream(tag: str) -> dict[str, Any]:
    return package(tag, f"crossplane-contrib/{PATCHING}", PATCHING)


def patching() -> dict[str, Any]:
    resource = {"name": "map", "base": {"apiVersion": "v1", "kind": "ConfigMap"}}
    inputs = {
        "apiVersion": "pt.fn.crossplane.io/v1beta1",
        "kind": "Resources",
        "resources": [resource],
    }
    return {**step(PATCHING), "input": inputs}


@pytest.mark.parametrize("tag", ["v0.8.2", "v0.10.1", "latest", ""])
def test_published_file_still_renders(render: Render, tag: str) -> None:
    code, _, err = render(steps=[patching()], functions=[upstream(tag)])
    assert code == 0
    assert f"{PATCHING} v0.1.0, which is built in, is used in place of" in err
    assert ("it replaces ~0.10, not v0.8.2" in err) is (tag == "v0.8.2")


def test_strict_versions_refuse_releases_without_a_replacement(render: Render) -> None:
    strict = "--strict-versions"
    assert render(strict, steps=[patching()], functions=[upstream("v0.10.1")])[0] == 0
    code, _, err = render(strict, steps=[patching()], functions=[upstream("v0.8.2")])
    assert code == 1
    assert "spec.package: No built-in version can be used: it replaces ~0.10, not v0.8.2" in err
