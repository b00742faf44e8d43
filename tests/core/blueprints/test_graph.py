from __future__ import annotations

from kanister_py.core.blueprints.graph import (
    dot_of,
    graph_of_action_set,
    graph_of_blueprint,
    mermaid_of,
)
from kanister_py.core.blueprints.model import Blueprint, blueprints_in, objects_in
from kanister_py.core.yaml.documents import parse_documents

TEXT = """\
kind: Blueprint
metadata: {name: dump}
actions:
  backup:
    outputArtifacts:
      dump: {keyValue: {path: "{{ .Phases.dump.Output.path }}"}}
    phases:
    - {func: KubeExec, name: "lo\\"ck"}
    - func: KubeTask
      name: dump
      args: {command: ["{{ .Time }}"]}
    - func: KubeTask
      name: check
      args: {command: ["{{ .Phases.dump.Output.path }}", "{{ .Phases.dump.Output.size }}"]}
    deferPhase: {func: KubeExec, args: {command: ["{{ .Phases.dump.Output.path }}"]}}
  restore:
    inputArtifactNames: [dump]
    phases:
    - {func: KubeTask, name: load, args: {image: "{{ .ArtifactsIn.dump.KeyValue.path }}"}}
"""


def blueprint() -> Blueprint:
    return blueprints_in(parse_documents(TEXT))[0].blueprint


MERMAID = """\
---
title: 'dump'
---
flowchart TD
  subgraph a0["backup"]
    a0p0["lo&quot;ck<br>KubeExec"]
    a0p1["dump<br>KubeTask"]
    a0p2["check<br>KubeTask"]
    a0pd(["KubeExec"])
  end
  subgraph a1["restore"]
    a1p0["load<br>KubeTask"]
  end
  x0[("dump")]
  a0p0 --> a0p1
  a0p1 --> a0p2
  a0p2 -->|"always"| a0pd
  a0p1 -.->|"path, size"| a0p2
  a0p1 -.->|"path"| a0pd
  a0p1 -.->|"path"| x0
  x0 -.-> a1p0
"""


def test_mermaid_graph_has_phase_order_data_flow_and_artifacts() -> None:
    assert "\n".join(mermaid_of(graph_of_blueprint(blueprint()))) + "\n" == MERMAID


def test_graphviz_graph_has_the_same_nodes_and_edges() -> None:
    lines = list(dot_of(graph_of_blueprint(blueprint())))
    assert lines[0] == 'digraph "dump" {'
    assert '    a0p0 [label="lo\\"ck\\nKubeExec"];' in lines
    assert '  a0p1 -> a0p2 [label="path, size", style=dashed];' in lines
    assert '  x0 [label="dump", shape=cylinder];' in lines
    assert lines[-1] == "}"


def test_graph_of_an_action_set_names_the_objects() -> None:
    text = (
        "kind: ActionSet\nmetadata: {name: now}\nspec:\n  actions:\n"
        "  - {name: restore, blueprint: dump, object: {kind: Deployment, name: db}}\n"
    )
    (action_set,) = objects_in(parse_documents(text))
    graph = graph_of_action_set(action_set, {"dump": blueprint()})
    assert graph is not None
    assert (graph.title, [action.title for action in graph.actions]) == (
        "now",
        ["restore of Deployment db"],
    )
    assert graph_of_action_set(action_set, {}) is None
