"""Draw the actions and phases of a Blueprint or an ActionSet, and the data that flow between them.

Compositions are drawn as the chain of their steps.
An ActionSet is drawn with the Blueprint it names: give both files, or a folder
with both. Dashed lines are data, cylinders are artifacts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kanister_py.cli.files import documents_by_file, refusal
from kanister_py.cli.output import say, write_data
from kanister_py.core.errors import InvalidDocument, Problem

if TYPE_CHECKING:
    from kanister_py.core.blueprints.graph import Graph
    from kanister_py.core.compositions.graph import PipelineGraph
    from kanister_py.core.yaml.documents import Document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="+", help="a file, a folder, or - for stdin")
    parser.add_argument(
        "-o",
        "--output",
        choices=("mermaid", "dot", "json", "yaml"),
        default="mermaid",
        help="the language of the drawing, or its data (default: mermaid)",
    )


def run(args: argparse.Namespace) -> int:
    """Draw what the files hold: ActionSets if there are any, Blueprints otherwise."""
    from kanister_py.core.blueprints.graph import dot_of, mermaid_of

    documents = [document for read in documents_by_file(args.paths).values() for document in read]
    pipelines = _pipelines_in(documents)
    if pipelines:
        return _draw_pipelines(pipelines, args.output)
    graphs = _graphs_in(documents, args.paths[0])
    if args.output in ("json", "yaml"):
        write_data({"graphs": [graph.as_dict() for graph in graphs]}, args.output, list)
        return 0
    draw = mermaid_of if args.output == "mermaid" else dot_of
    if len(graphs) > 1:
        say(f"note: {len(graphs)} drawings, one after the other")
    write_data(None, "lines", lambda: (line for graph in graphs for line in draw(graph)))
    return 0


def _pipelines_in(documents: Sequence[Document]) -> list[PipelineGraph]:
    # A folder of blueprints must not wait for what only compositions need.
    if not any(
        isinstance(document.value, dict) and "Composition" in str(document.value.get("kind"))
        for document in documents
    ):
        return []
    from kanister_py.core.compositions.graph import PipelineGraph
    from kanister_py.core.compositions.model import is_composition, parse_composition

    return [
        PipelineGraph(parse_composition(document))
        for document in documents
        if is_composition(document.value)
    ]


def _draw_pipelines(pipelines: Sequence[PipelineGraph], form: str) -> int:
    if form in ("json", "yaml"):
        write_data({"graphs": [pipeline.as_dict() for pipeline in pipelines]}, form, list)
        return 0
    drawn = [pipeline.mermaid() if form == "mermaid" else pipeline.dot() for pipeline in pipelines]
    write_data(None, "lines", lambda: (line for lines in drawn for line in lines))
    return 0


def _graphs_in(documents: Sequence[Document], path: str) -> list[Graph]:
    from kanister_py.core.blueprints.graph import graph_of_action_set, graph_of_blueprint
    from kanister_py.core.blueprints.model import blueprints_in, objects_in

    blueprints = [located.blueprint for located in blueprints_in(documents)]
    by_name = {blueprint.name: blueprint for blueprint in blueprints}
    graphs: list[Graph] = []
    missing: list[Problem] = []
    for obj in objects_in(documents):
        if obj.kind != "ActionSet":
            continue
        graph = graph_of_action_set(obj, by_name)
        if graph is not None:
            graphs.append(graph)
        else:
            why = "Its Blueprint or action is not in the files; give the Blueprint's file too"
            missing.append(obj.problem(("spec",), why))
    if missing and not blueprints:
        raise InvalidDocument(missing)
    for problem in missing:
        say(f"note: {problem}")
    if not (graphs or blueprints):
        raise refusal(path, "Neither a Blueprint nor an ActionSet in it")
    return graphs or [graph_of_blueprint(blueprint) for blueprint in blueprints]
