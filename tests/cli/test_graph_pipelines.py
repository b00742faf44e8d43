"""Graphs of pipelines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kanister_py.cli.main import main

COMPOSITION = """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: apps}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: XApp}
  pipeline:
  - step: first
    functionRef: {name: f, version: ~1.2}
  - step: second
    functionRef: {name: g}
    when: size(context) > 0 && "a" in context
"""


@pytest.fixture
def composition(tmp_path: Path) -> str:
    path = tmp_path / "composition.yaml"
    path.write_text(COMPOSITION, encoding="utf-8")
    return str(path)


def test_a_pipeline_is_drawn_from_its_xr_to_its_resources(
    composition: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", composition]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'title: "apps"' in lines
    assert '  s0["<b>first</b><br>f<br>version ~1.2"]' in lines
    assert "  xr --> s0" in lines
    assert '  s0 -->|"size(context) &gt; 0 &amp;&amp; &quot;a&quot; in context"| s1' in lines
    assert "  s1 --> out" in lines


def test_dot_and_data_agree(composition: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", composition, "-o", "dot"]) == 0
    assert '  s0 -> s1 [label="size(context) > 0 && \\"a\\" in context"]' in capsys.readouterr().out
    assert main(["graph", composition, "-o", "json"]) == 0
    [graph] = json.loads(capsys.readouterr().out)["graphs"]
    assert graph["composite"] == {"apiVersion": "example.org/v1", "kind": "XApp"}
    assert graph["steps"][0] == {"step": "first", "function": "f", "asks": "version ~1.2"}


@pytest.mark.parametrize("form", ["mermaid", "dot"])
def test_multiline_condition_keeps_the_drawing_valid(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "composition.yaml"
    path.write_text(
        COMPOSITION.replace("when: size", "when: |\n      size").replace(" && ", "\n      && ")
    )
    assert main(["graph", str(path), "-o", form]) == 0
    [edge] = [line for line in capsys.readouterr().out.splitlines() if "size(context)" in line]
    assert edge.strip().startswith("s0 -")
    assert "in context" in edge
