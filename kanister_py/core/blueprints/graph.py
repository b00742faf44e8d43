"""Graph of the data flow between the phases of a Blueprint or an ActionSet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kanister_py.core.blueprints.model import Action, Blueprint, actions_of
from kanister_py.core.blueprints.reads import Read, engine_of, reads_of
from kanister_py.core.blueprints.texts import DEFER, texts_of
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.templates.engines import Engine
from kanister_py.core.templates.errors import TemplateError


class PhaseNode(NamedTuple):
    """Phase in a graph."""

    id: str
    name: str
    function: str
    is_deferred: bool = False


class ArtifactNode(NamedTuple):
    """Artifact that one action writes and another can read."""

    id: str
    name: str


class ActionNode(NamedTuple):
    """Action with its phases in order."""

    id: str
    title: str
    phases: tuple[PhaseNode, ...]


class Edge(NamedTuple):
    """Edge between two nodes. An edge without a label only shows the order of phases."""

    source: str
    target: str
    label: str = ""
    is_data: bool = False


class Graph(NamedTuple):
    """Graph of actions, phases, artifacts and their edges."""

    title: str
    actions: tuple[ActionNode, ...]
    artifacts: tuple[ArtifactNode, ...]
    edges: tuple[Edge, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "actions": [
                action._asdict()
                | {
                    "phases": [
                        dict(zip(_PHASE_KEYS, phase, strict=True)) for phase in action.phases
                    ]
                }
                for action in self.actions
            ],
            "artifacts": [artifact._asdict() for artifact in self.artifacts],
            "edges": [dict(zip(_EDGE_KEYS, edge, strict=True)) for edge in self.edges],
        }


_PHASE_KEYS = ("id", "name", "function", "deferred")
_EDGE_KEYS = ("from", "to", "label", "data")


_Drawn = Sequence[tuple[ActionNode, Action]]


def graph_of_blueprint(blueprint: Blueprint) -> Graph:
    """Build the graph of all actions of a Blueprint."""
    drawn = [
        (_action_node(index, name, action), action)
        for index, (name, action) in enumerate(blueprint.actions.items())
    ]
    return _graph(blueprint.name or "Blueprint", drawn, engine_of(blueprint).engine)


def graph_of_action_set(
    manifest: LocatedObject, blueprints: Mapping[str, Blueprint]
) -> Graph | None:
    """Build the graph of an ActionSet's actions, or return None if a Blueprint is missing."""
    drawn: list[tuple[ActionNode, Action]] = []
    engine = Engine.GO
    for index, entry in actions_of(manifest):
        name = str(entry.get("name"))
        blueprint = blueprints.get(str(entry.get("blueprint")))
        if blueprint is None or name not in blueprint.actions:
            return None
        engine = engine_of(blueprint).engine
        reference = mapping_of(entry.get("object"))
        target = " ".join(str(reference[key]) for key in ("kind", "name") if reference.get(key))
        action, title = blueprint.actions[name], f"{name} of {target}" if target else name
        drawn.append((_action_node(index, title, action), action))
    name = str(mapping_of(manifest.value.get("metadata")).get("name") or "ActionSet")
    return _graph(name, drawn, engine)


def _graph(title: str, drawn: _Drawn, engine: Engine) -> Graph:
    order: list[Edge] = []
    labels: dict[tuple[str, str], dict[str, None]] = {}
    names: dict[str, None] = {}
    for node, action in drawn:
        running = [phase for phase in node.phases if not phase.is_deferred]
        order += [Edge(before.id, after.id) for before, after in pairwise(running)]
        if running and len(running) < len(node.phases):
            order.append(Edge(running[-1].id, node.phases[-1].id, "always"))
        for source, target, label in _data_edges(node, action, engine, names):
            labels.setdefault((source, target), {})[label] = None
    data = [
        Edge(source, target, ", ".join(filter(None, edge_labels)), is_data=True)
        for (source, target), edge_labels in labels.items()
    ]
    artifacts = tuple(ArtifactNode(_artifact_id(names, name), name) for name in names)
    return Graph(title, tuple(node for node, _ in drawn), artifacts, (*order, *data))


def _action_node(index: int, title: str, action: Action) -> ActionNode:
    phases = tuple(
        PhaseNode(
            f"a{index}p{path[-1] if isinstance(path[-1], int) else 'd'}",
            phase.name or phase.func,
            phase.func,
            is_deferred=path[0] != "phases",
        )
        for path, phase in action.every_phase()
    )
    return ActionNode(f"a{index}", title, phases)


def _artifact_id(names: Mapping[str, None], name: str) -> str:
    return f"x{list(names).index(name)}"


def _data_edges(
    node: ActionNode, action: Action, engine: Engine, names: dict[str, None]
) -> Iterator[tuple[str, str, str]]:
    """Yield the data flows as (source node, target node, label)."""
    by_name = {phase.name: phase.id for phase in node.phases if not phase.is_deferred}
    deferred = next((phase.id for phase in node.phases if phase.is_deferred), "")
    for text in texts_of(action):
        if text.role == "artifacts":
            name = str(text.path[1])
            names.setdefault(name)
            target = _artifact_id(names, name)
        else:
            target = deferred if text.phase == DEFER else f"{node.id}p{text.phase}"
        for read in _reads(text.text, engine):
            if read.names[0] == "ArtifactsIn" and len(read.names) > 1:
                names.setdefault(read.names[1])
                yield _artifact_id(names, read.names[1]), target, ""
                continue
            source, label = _source(read, by_name, deferred)
            if source and source != target:
                yield source, target, label


def _source(read: Read, by_name: Mapping[str, str], deferred: str) -> tuple[str, str]:
    names = read.names
    if names[0] == "Phases" and len(names) > 2 and names[2] == "Output":
        return by_name.get(names[1], ""), ".".join(names[3:4])
    if names[0] == "DeferPhase" and names[1:2] == ("Output",):
        return deferred, ".".join(names[2:3])
    return "", ""


def _reads(text: str, engine: Engine) -> list[Read]:
    try:
        return reads_of(text, engine)
    except TemplateError:
        return []  # lint reports the error; everything else can be drawn


# Drawing


def mermaid_of(graph: Graph) -> Iterator[str]:
    """Yield the lines of the graph in Mermaid syntax."""
    title = " ".join(graph.title.split()).replace("'", "''")
    yield "---"
    yield f"title: '{title}'"
    yield "---"
    yield "flowchart TD"
    for action in graph.actions:
        yield f'  subgraph {action.id}["{mermaid_text(action.title)}"]'
        for phase in action.phases:
            text = _label(phase, "<br>", mermaid_text)
            shape = f'(["{text}"])' if phase.is_deferred else f'["{text}"]'
            yield f"    {phase.id}{shape}"
        yield "  end"
    for artifact in graph.artifacts:
        yield f'  {artifact.id}[("{mermaid_text(artifact.name)}")]'
    for edge in graph.edges:
        line = "-.->" if edge.is_data else "-->"
        label = f'|"{mermaid_text(edge.label)}"|' if edge.label else ""
        yield f"  {edge.source} {line}{label} {edge.target}"


def _label(phase: PhaseNode, line_break: str, escape: Any) -> str:
    if phase.name == phase.function:
        return str(escape(phase.name))
    return f"{escape(phase.name)}{line_break}{escape(phase.function)}"


def mermaid_text(text: str) -> str:
    """Escape a text for a Mermaid label, on one line."""
    escaped = text.replace("&", "&amp;").replace('"', "&quot;")
    return " ".join(escaped.replace("<", "&lt;").replace(">", "&gt;").split())


def dot_of(graph: Graph) -> Iterator[str]:
    """Yield the lines of the graph in Graphviz syntax."""
    yield f'digraph "{dot_text(graph.title)}" {{'
    yield "  node [shape=box];"
    for action in graph.actions:
        yield f"  subgraph cluster_{action.id} {{"
        yield f'    label="{dot_text(action.title)}";'
        for phase in action.phases:
            style = ", style=rounded" if phase.is_deferred else ""
            yield f'    {phase.id} [label="{_label(phase, chr(92) + "n", dot_text)}"{style}];'
        yield "  }"
    for artifact in graph.artifacts:
        yield f'  {artifact.id} [label="{dot_text(artifact.name)}", shape=cylinder];'
    for edge in graph.edges:
        style = "style=dashed" if edge.is_data else ""
        label = f'label="{dot_text(edge.label)}"' if edge.label else ""
        attributes = ", ".join(filter(None, (label, style)))
        yield f"  {edge.source} -> {edge.target}{f' [{attributes}]' if attributes else ''};"
    yield "}"


def dot_text(text: str) -> str:
    """Escape a text for a Graphviz string, on one line."""
    return " ".join(text.replace("\\", "\\\\").replace('"', '\\"').split())
