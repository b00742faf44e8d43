"""List, compare, switch and delete revisions of compositions and functions.

kanister-py revisions list
kanister-py revisions diff bucket-70ebc69 bucket-1f2e3d4
kanister-py revisions users function-x-42fd03e
kanister-py revisions deactivate function-x-42fd03e
kanister-py revisions gc --dry-run --keep 3

A composite resource uses a CompositionRevision that it pins or that its selector matches. A
composition uses a FunctionRevision that a step names or that the selector of a step matches.
`activate` and `deactivate` need a function with the revisionActivationPolicy Manual, because the
controller sets the states of other functions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.output import (
    DATA_FORMATS,
    LIST_FORMATS,
    Cell,
    Line,
    Tint,
    put,
    say,
    table,
    write_data,
)
from kanister_py.cli.parser import add_output, add_verbs, switch, whole_number
from kanister_py.core.errors import NotFound, UsageError
from kanister_py.core.kube.parts import labels_of, spec_of
from kanister_py.core.registry.entries import DesiredState
from kanister_py.core.revisions.activation import history_limit_of
from kanister_py.core.revisions.collection import Revision, describe_uses, plan_collection
from kanister_py.core.revisions.identity import content_labels
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, FUNCTION_REVISIONS
from kanister_py.core.yaml.documents import dump_yaml
from kanister_py.executor.revision_inventory import read_inventory
from kanister_py.wiring import read_functions

if TYPE_CHECKING:
    from kanister_py.executor.revision_inventory import Inventory, ListedRevision
    from kanister_py.ports.cluster import Cluster


_KINDS: Final = {"composition": "CompositionRevision", "function": "FunctionRevision"}
_COLOURS: Final = {
    "routable": "green",
    "newest": "green",
    "inactive": "dim",
    "older": "dim",
    "deprecated": "yellow",
    "removed": "red",
    "planned": "dim",
}
_DEFAULT_KEEP: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = add_verbs(parser)
    list_ = verbs.add_parser(
        "list",
        help="list revisions, their states and users",
        description="List all revisions, the newest of each composition and function first."
        "\n\nkanister-py revisions list my-composition\n"
        "kanister-py revisions list --kind function\n",
    )
    list_.add_argument(
        "owner",
        metavar="NAME",
        nargs="?",
        default="",
        help="only revisions of this composition or function",
    )
    diff = verbs.add_parser(
        "diff",
        help="compare two revisions",
        description="Print the differences of labels and content as a unified diff."
        "\n\nkanister-py revisions diff bucket-70ebc69 bucket-1f2e3d4\n",
    )
    diff.add_argument("old", metavar="A")
    diff.add_argument("new", metavar="B")
    users = verbs.add_parser(
        "users",
        help="list the users of a revision",
        description="List the objects that pin, name or select a revision."
        "\n\nkanister-py revisions users function-x-42fd03e\n",
    )
    activate = verbs.add_parser(
        "activate",
        help="activate a revision of a function",
        description="Activate a revision of a function, in addition to active ones."
        "\n\nkanister-py revisions activate function-x-42fd03e\n",
    )
    deactivate = verbs.add_parser(
        "deactivate",
        help="deactivate a revision of a function",
        description="Deactivate a revision of a function; active calls may end."
        "\n\nkanister-py revisions deactivate function-x-42fd03e\n",
    )
    for verb_parser in (users, activate, deactivate):
        verb_parser.add_argument("revision", metavar="REV", help="name of the revision")
    switch(deactivate, "--force", help="even if it is used, or if no other revision is active")
    gc = verbs.add_parser(
        "gc",
        help="delete old unused revisions",
        description="Delete old revisions without users; list the kept ones with the reason."
        "\n\nkanister-py revisions gc --dry-run --keep 3\n",
    )
    gc.add_argument(
        "--keep",
        type=whole_number(1, 10**6),
        metavar="N",
        help="number of revisions to keep even without users; default: "
        f"revisionHistoryLimit of a function, {_DEFAULT_KEEP} of a composition",
    )
    switch(gc, "--dry-run", help="list the revisions to delete, and delete nothing")
    for verb_parser in (list_, gc):
        verb_parser.add_argument("--kind", choices=tuple(_KINDS), help="default: both")
    add_output(list_, (*LIST_FORMATS, "markdown"))
    for verb_parser in (users, gc):
        add_output(verb_parser, DATA_FORMATS)
    for verb_parser in (list_, diff, users, activate, deactivate, gc):
        add_connection(verb_parser)
        verb_parser.set_defaults(namespace="")


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        return act(args, cluster)


def act(args: argparse.Namespace, cluster: Cluster) -> int:
    """Run a verb on an open cluster."""
    inventory = read_inventory(cluster, read_functions().registry)
    if args.verb == "list":
        return _list(inventory, args)
    if args.verb == "diff":
        return _diff(inventory.find(args.old), inventory.find(args.new))
    if args.verb == "users":
        return _users(inventory.find(args.revision), args.output)
    if args.verb == "gc":
        return _collect(cluster, inventory, args)
    return _switch(cluster, inventory, args)


def _chosen(inventory: Inventory, kind: str | None, owner: str = "") -> list[ListedRevision]:
    return [
        revision
        for revision in inventory.revisions
        if kind in (None, "") or revision.kind == _KINDS[str(kind)]
        if owner in ("", revision.owner)
    ]


def _list(inventory: Inventory, args: argparse.Namespace) -> int:
    revisions = _chosen(inventory, args.kind, args.owner)

    def table_lines() -> Iterable[Line]:
        if not revisions:
            return ["There are no revisions."]
        head = ["KIND", "OF", "REVISION", "NAME", "STATE", "RUNS", "FROM", "USED BY"]
        rows = [_row(revision) for revision in revisions]
        if args.output == "wide":
            head += ["CREATED", "IMAGE"]
            details = [revision.as_data() for revision in revisions]
            rows = [
                [*row, data["created"], data.get("image", "")]
                for row, data in zip(rows, details, strict=True)
            ]
        return table(head, rows, markdown=args.output == "markdown")

    names = [revision.name for revision in revisions]
    write_data(
        {"revisions": [revision.as_data() for revision in revisions]},
        args.output,
        table_lines,
        names,
    )
    return 0


def _row(revision: ListedRevision) -> Sequence[Cell]:
    uses = [f"{use.split()[1]} {_number_of(users)}" for use, users in revision.uses.items()]
    state = Tint(_state_of(revision), _COLOURS.get(revision.state, "yellow"))
    data = revision.as_data()
    colour = _COLOURS.get(data.get("status") or "")
    runs = Tint(_runs_of(data), colour) if colour else _runs_of(data)
    described = (state, runs, data.get("origin", ""), ", ".join(uses))
    return (revision.kind, revision.owner, str(revision.number), revision.name, *described)


def _runs_of(data: Mapping[str, Any]) -> str:
    """Return the version that a revision of a function runs, with its status if not supported."""
    runs, status = str(data.get("runs", "")), data.get("status")
    if status in (None, "served"):
        return runs
    until = f" until {data['removedIn']}" if "removedIn" in data else ""
    return f"{runs}, {status}{until if status == 'deprecated' else ''}"


def _state_of(revision: ListedRevision) -> str:
    """Return the state of a revision; of an active one that is not routable, with the reason."""
    if revision.function is None or revision.state != "active":
        return revision.state
    return f"{revision.state}, {revision.function.why_not_routable}"


def _number_of(users: Sequence[str]) -> str:
    return f"by {len(users)}" if len(users) > 1 else f"by {users[0]}"


def _diff(old: ListedRevision, new: ListedRevision) -> int:

    before, after = (dump_yaml(_content(revision)).splitlines() for revision in (old, new))
    old_title, new_title = (
        f"{revision.name} (revision {revision.number} of {revision.owner})"
        for revision in (old, new)
    )
    lines = list(unified_diff(before, after, old_title, new_title, lineterm=""))
    if not lines:
        say(f"{old.name} and {new.name} have the same content")
    for line in lines:
        colour = _COLOUR_OF_LINES.get(line[:1])
        put(Tint(line, colour) if colour else line)
    return 0


_COLOUR_OF_LINES: Final = {"+": "green", "-": "red", "@": "blue"}


def _content(revision: ListedRevision) -> dict[str, Any]:
    """Return the content of a revision, without its number and state."""
    spec = dict(spec_of(revision.object))
    for key in ("revision", "desiredState"):
        spec.pop(key, None)
    return {"labels": content_labels(labels_of(revision.object)), "spec": spec}


def _users(revision: ListedRevision, form: str) -> int:
    def table_lines() -> Iterable[Line]:
        rows = [(use, user) for use, users in revision.uses.items() for user in users]
        if not rows:
            return [f"No object pins, names or selects {revision.name}."]
        return table(("USE", "USER"), rows, markdown=form == "markdown")

    write_data({"name": revision.name, "usedBy": revision.as_data()["usedBy"]}, form, table_lines)
    return 0


# Writing


def _switch(cluster: Cluster, inventory: Inventory, args: argparse.Namespace) -> int:
    revision = inventory.find(args.revision)
    state = DesiredState.ACTIVE if args.verb == "activate" else DesiredState.INACTIVE
    obstacle = _obstacle(revision, inventory, state, is_forced=getattr(args, "force", False))
    if obstacle:
        raise UsageError(
            f"{revision.name} is not changed: {obstacle}", reason="RevisionNotSwitched"
        )
    if revision.function is not None and revision.function.desired_state is state:
        put(f"{revision.name} is already {state}")
        return 0
    patch = {
        "metadata": {"resourceVersion": revision.object["metadata"]["resourceVersion"]},
        "spec": {"desiredState": str(state)},
    }
    cluster.patch(FUNCTION_REVISIONS, revision.name, patch)
    put(f"{revision.name} is now {state}")
    return 0


def _obstacle(
    revision: ListedRevision, inventory: Inventory, state: DesiredState, *, is_forced: bool
) -> str:
    """Return the reason why the state of a revision cannot be changed, or an empty text."""
    if revision.function is None:
        return (
            "it belongs to a composition; change the composition back, or pin the revision in "
            "compositionRevisionRef of resources"
        )
    function = inventory.functions.get(revision.owner) or {}
    policy = spec_of(function).get("revisionActivationPolicy") or "Automatic"
    if function and policy != "Manual":
        return (
            f"the controller sets the states of {revision.owner}; set its revisionActivationPolicy "
            "to Manual first, or raise its activeRevisionLimit"
        )
    if state is DesiredState.ACTIVE or is_forced:
        return ""
    if revision.uses:
        uses = "; ".join(describe_uses(_as_sets(revision.uses)))
        return f"it {uses}; to deactivate it anyway, use --force"
    siblings = [
        sibling.function
        for sibling in inventory.revisions
        if sibling.owner == revision.owner
        and sibling.name != revision.name
        and sibling.function is not None
    ]
    if revision.function.is_routable and not any(sibling.is_routable for sibling in siblings):
        owner = revision.owner
        return f"no other revision of {owner} is routable; to deactivate it anyway, use --force"
    return ""


def _collect(cluster: Cluster, inventory: Inventory, args: argparse.Namespace) -> int:
    removed: list[dict[str, str]] = []
    kept: list[dict[str, Any]] = []
    revisions = _chosen(inventory, args.kind)
    for kind, owner in dict.fromkeys((revision.kind, revision.owner) for revision in revisions):
        family = [
            revision for revision in revisions if (revision.kind, revision.owner) == (kind, owner)
        ]
        plan = _plan(inventory, owner, family, args.keep)
        kept += [
            {"kind": kind, "of": owner, "name": revision.name, "why": list(revision.why)}
            for revision in plan.kept
        ]
        resource = COMPOSITION_REVISIONS if kind == _KINDS["composition"] else FUNCTION_REVISIONS
        uids = {revision.name: revision.object["metadata"]["uid"] for revision in family}
        for name in plan.removed:
            if not args.dry_run:
                try:
                    cluster.delete(resource, name, uid=uids[name])
                except NotFound:
                    continue
            removed.append({"kind": kind, "of": owner, "name": name})

    def table_lines() -> Iterator[Line]:
        outcome = "would be deleted" if args.dry_run else "deleted"
        rows: list[Sequence[Cell]] = [
            (entry["kind"], entry["name"], Tint(outcome, "red"), "") for entry in removed
        ]
        rows += [(entry["kind"], entry["name"], "kept", "; ".join(entry["why"])) for entry in kept]
        if not rows:
            yield "There are no revisions."
            return
        head = ("KIND", "NAME", "OUTCOME", "REASON")
        yield from table(head, rows, markdown=args.output == "markdown")

    write_data({"dryRun": args.dry_run, "removed": removed, "kept": kept}, args.output, table_lines)
    return 0


def _plan(
    inventory: Inventory, owner: str, family: Sequence[ListedRevision], keep: int | None
) -> Any:
    revisions = []
    for revision in family:
        uses = list(describe_uses(_as_sets(revision.uses)))
        if revision.function is not None and revision.function.desired_state is DesiredState.ACTIVE:
            uses.insert(0, "is active")
        revisions.append(Revision(revision.name, revision.number, tuple(uses)))
    limit = _DEFAULT_KEEP if keep is None else keep
    if keep is None and family[0].function is not None:
        spec = spec_of(inventory.functions.get(owner) or {})
        limit = history_limit_of(spec.get("revisionHistoryLimit"), spec.get("activeRevisionLimit"))
    return plan_collection(revisions, limit)


def _as_sets(uses: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    return {use: set(users) for use, users in uses.items()}
