"""The timeout of a step ends a costly template, before the limits of its process do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import CommandLine

LOOPS = "{{ range until 10000 }}{{ range until 10000 }}x{{ end }}{{ end }}"
JINJA_LOOPS = "{% for a in range(9000) %}{% for b in range(9000) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("group", "kind", "template"),
    [
        pytest.param("gotemplating", "GoTemplate", LOOPS, id="Go"),
        pytest.param("jinjatemplating", "JinjaTemplate", JINJA_LOOPS, id="Jinja2"),
    ],
)
def test_timeout_of_a_step_ends_a_costly_template(
    kanister: CommandLine, tmp_path: Path, group: str, kind: str, template: str
) -> None:
    xr = {"apiVersion": "example.org/v1", "kind": "XApp", "metadata": {"name": "shop"}}
    step: dict[str, Any] = {
        "step": "render",
        "functionRef": {"name": f"function-{group.removesuffix('templating')}-templating"},
        "input": {
            "apiVersion": f"{group}.fn.crossplane.io/v1beta1",
            "kind": kind,
            "source": "Inline",
            "inline": {"template": template},
        },
    }
    composition = {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "apps"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
            "pipeline": [step],
        },
    }
    (tmp_path / "xr.yaml").write_text(json.dumps(xr))
    (tmp_path / "composition.yaml").write_text(yaml.safe_dump(composition))
    done = kanister("render", "xr.yaml", "composition.yaml", "--timeout", "2s", cwd=tmp_path)
    assert done.code == 1
    assert "it did not respond within 2 s" in done.err
