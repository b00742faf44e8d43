"""Draw the phases of a Blueprint or an ActionSet and the data flow between them.

kanister-py graph blueprint.yaml > blueprint.mmd
kanister-py graph actionset.yaml blueprint.yaml -o dot | dot -Tsvg > actionset.svg
kanister-py graph composition.yaml

An ActionSet needs the file of its Blueprint, too. Dashed lines are data, cylinders are
artifacts. A Composition is drawn as the chain of its steps.
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
        help="language of the drawing, or its data (default: mermaid)",
    )


def run(args: argparse.Namespace) -> int:
    """Draw Compositions if the files contain any, else ActionSets, else Blueprints."""
    from kanister_py.core.blueprints.graph import dot_of, mermaid_of

    documents = [
        document for in_file in documents_by_file(args.paths).values() for document in in_file
    ]
    pipelines = _pipelines_in(documents)
    if pipelines:
        return _draw_pipelines(pipelines, args.output)
    graphs = _graphs_in(documents, args.paths[0])
    if args.output in ("json", "yaml"):
        write_data({"graphs": [graph.as_dict() for graph in graphs]}, args.output, list)
        return 0
    draw = mermaid_of if args.output == "mermaid" else dot_of
    if len(graphs) > 1:
        say(f"note: The output has {len(graphs)} drawings")
    write_data(None, "lines", lambda: (line for graph in graphs for line in draw(graph)))
    return 0


def _pipelines_in(documents: Sequence[Document]) -> list[PipelineGraph]:
    # Only import the models of compositions if there is one.
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
    drawings = [
        pipeline.mermaid() if form == "mermaid" else pipeline.dot() for pipeline in pipelines
    ]
    write_data(None, "lines", lambda: (line for drawing in drawings for line in drawing))
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
            message = "The files do not contain its Blueprint or action; add the Blueprint's file"
            missing.append(obj.problem(("spec",), message))
    if missing and not blueprints:
        raise InvalidDocument(missing)
    for problem in missing:
        say(f"note: {problem}")
    if not (graphs or blueprints):
        raise refusal(path, "Contains neither a Blueprint nor an ActionSet")
    return graphs or [graph_of_blueprint(blueprint) for blueprint in blueprints]
