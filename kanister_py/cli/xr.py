"""Show composite resources (XRs) of a cluster with the resources that they are composed of.

kanister-py xr tree my-bucket -n shop
kanister-py xr tree xbucket/my-bucket -n shop -o json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kanister_py.cli.composite_tree import Composite, CompositeKinds, Node, read_tree
from kanister_py.cli.connection import open_connection
from kanister_py.cli.object_verbs import Verb, add_object_verbs
from kanister_py.cli.output import Cell, Line, Tint, table, write_data
from kanister_py.cli.parser import add_output
from kanister_py.executor.revision_inventory import read_inventory
from kanister_py.wiring import read_functions

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster

_TREE: Final = """\
Show a composite resource as a tree: the resources that it is composed of, nested composite
resources included, with their conditions; then the steps of each pipeline with the function
versions that ran, and the step that failed.

kanister-py xr tree my-bucket
kanister-py xr tree xbucket/my-bucket -n shop
kanister-py xr tree xbuckets.example.org/my-bucket -n shop -o json

Use KIND/NAME if several kinds have a resource of that name. Without a message, the conditions
Synced and Ready are as the resource reports them; "-" means that it has no such condition.
"""
_CONDITION_COLOURS: Final = {"True": "green", "False": "red", "Unknown": "yellow"}
_STATUS_COLOURS: Final = {"deprecated": "yellow", "removed": "red", "planned": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_object_verbs(parser, VERBS)


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        code: int = args.run_verb(args, cluster)
        return code


def _add_tree_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="[KIND/]NAME", help="name of the composite resource, such as xbucket/one"
    )
    add_output(parser, ("text", "json", "yaml"))


def _tree(args: argparse.Namespace, cluster: Cluster) -> int:
    kinds = CompositeKinds(cluster)
    xr = kinds.find(args.name, args.namespace)
    inventory = read_inventory(cluster, read_functions().registry, composed=False)
    root = read_tree(cluster, kinds, xr, inventory)
    write_data(root.as_data(), args.output, lambda: _lines(root))
    return 0


def _lines(root: Node) -> Iterator[Line]:
    rows = list(_rows(root, "", ""))
    yield from table(("RESOURCE", "SYNCED", "READY", "REVISION", "MESSAGE"), rows)
    composites: dict[str, Composite] = {}
    for node in root.all_nodes():
        composite = node.composite
        # Of several composite resources with one revision, one with a failed step is shown.
        if composite is not None and composite.steps:
            previous = composites.get(composite.revision)
            if previous is None or (composite.failed_step and not previous.failed_step):
                composites[composite.revision] = composite
    for composite in composites.values():
        yield ""
        yield Tint(f"Pipeline of {composite.revision}", "bold")
        yield from table(("", "STEP", "FUNCTION", "REVISION", "RUNS"), list(_step_rows(composite)))


def _rows(node: Node, prefix: str, branch: str) -> Iterator[Sequence[Cell]]:
    title = f"{node.kind}/{node.name}" + (f" ({node.step_name})" if node.step_name else "")
    revision = node.composite.revision if node.composite is not None else ""
    yield (
        f"{prefix}{branch}{title}",
        _condition(node.synced),
        _condition(node.ready),
        revision or "-",
        node.message,
    )
    below = prefix + {"├─ ": "│  ", "└─ ": "   "}.get(branch, "")
    for index, child in enumerate(node.children):
        is_last = index == len(node.children) - 1
        yield from _rows(child, below, "└─ " if is_last else "├─ ")


def _condition(status: str) -> Cell:
    return Tint(status, _CONDITION_COLOURS.get(status, "dim")) if status else "-"


def _step_rows(composite: Composite) -> Iterator[Sequence[Cell]]:
    has_failed = False
    for step in composite.steps:
        mark: Cell = "" if has_failed or not composite.failed_step else Tint("✓", "green")
        if step.name == composite.failed_step:
            mark, has_failed = Tint("✗", "red"), True
        status = step.status if step.status in _STATUS_COLOURS else ""
        runs = f"{step.runs}, {status}" if status else step.runs
        yield (
            mark,
            step.name,
            step.function,
            step.revision or "-",
            Tint(runs, _STATUS_COLOURS[status]) if status else runs or "-",
        )


VERBS: Final = (
    Verb("tree", "show one with its composed resources", _TREE, _add_tree_arguments, _tree),
)
