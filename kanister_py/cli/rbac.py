"""Print the smallest roles with which a Blueprint can run.

A Role for the namespace of the run, one for each other namespace that the Blueprint
names, and a ClusterRole for what has no namespace. Names and namespaces that are
templates are not known before the run: they count as any object of its namespace.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from kanister_py.cli.output import say_notices, say_warning, write_data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("blueprint", metavar="BLUEPRINT", help="a file, or - for stdin")
    parser.add_argument(
        "--action",
        action="append",
        default=[],
        metavar="ACTION",
        help="only for this action; may be given several times",
    )
    parser.add_argument("--blueprint-name", default="", help="which one, if the file has several")
    parser.add_argument("-n", "--namespace", default="", help="the namespace of the run")
    parser.add_argument("--name", default="", help="what the roles are called")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")


def run(args: argparse.Namespace) -> int:
    """Ask every function what it does, and write the roles for it."""
    from kanister_py.cli.files import find_inputs, read_input
    from kanister_py.core.blueprints.model import only_blueprint
    from kanister_py.core.blueprints.rbac import needs_of_blueprint, roles_of
    from kanister_py.core.errors import InvalidDocument
    from kanister_py.core.objects.documents import dump_yaml, nearest, parse_documents
    from kanister_py.wiring import read_functions

    inputs, problems = find_inputs([args.blueprint])
    if problems:
        raise InvalidDocument(problems)
    documents = parse_documents(read_input(inputs[0]), inputs[0].name)
    located = only_blueprint(documents, inputs[0].name, args.blueprint_name)
    blueprint = located.blueprint
    unknown = [each for each in args.action if each not in blueprint.actions]
    if unknown:
        near = nearest(unknown[0], [*blueprint.actions]) or tuple(blueprint.actions)
        said = f"No action is called {unknown[0]}: there is {', '.join(near)}"
        raise InvalidDocument([located.found.problem(("actions",), said)])
    needs = needs_of_blueprint(blueprint, _Asker(read_functions().registry), args.action)
    roles = roles_of(needs, args.name or f"run-{blueprint.name or 'blueprint'}", args.namespace)
    for function in needs.silent_functions:
        say_warning(f"{function} does not say what it does to a cluster: its rights are missing")
    if args.output == "json":
        write_data({"apiVersion": "v1", "kind": "List", "items": roles}, "json", list)
    else:
        sys.stdout.write("---\n".join(dump_yaml(role) for role in roles))
    return 0


class _Asker:
    """Asks the class behind a function what a call of it does."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def __call__(
        self, function: str, version: str, args: Mapping[str, Any]
    ) -> Iterable[Any] | None:
        from kanister_py.core.errors import FunctionNotRegistered
        from kanister_py.core.registry.choose import choose_version
        from kanister_py.executor.loading import load_function

        try:
            choice = choose_version(self._registry, function, version)
        except FunctionNotRegistered:
            return None
        say_notices(choice.notices)
        loaded = load_function(choice.chosen)
        told: Iterable[Any] | None = loaded.access(args) if hasattr(loaded, "access") else None
        return told
