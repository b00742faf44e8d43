"""See which revisions of compositions and functions a cluster has, and who uses them.

kanister-py revisions list
kanister-py revisions diff bucket-70ebc69 bucket-1f2e3d4
kanister-py revisions users function-x-42fd03e
kanister-py revisions deactivate function-x-42fd03e
kanister-py revisions gc --dry-run --keep 3

A resource uses a revision of a composition if it holds it, or if its selector would pick it;
a composition uses one of a function if a step names it or would pick it by its labels.
`activate` and `deactivate` are for functions whose revisionActivationPolicy is Manual: with
Automatic the controller would put them back.
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
from kanister_py.cli.parser import add_output, add_verbs, switch, whole
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
_KEPT: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = add_verbs(parser)
    list_ = verbs.add_parser(
        "list",
        help="every revision, and by how many it is used",
        description="Every revision, the newest of each composition and function first.",
    )
    list_.add_argument("owner", metavar="NAME", nargs="?", default="", help="only revisions of it")
    diff = verbs.add_parser(
        "diff",
        help="what another revision says otherwise",
        description="The labels and the content of two revisions, as a unified diff.",
    )
    diff.add_argument("old", metavar="A")
    diff.add_argument("new", metavar="B")
    users = verbs.add_parser(
        "users", help="who holds or selects a revision", description="Who uses a revision, and how."
    )
    activate = verbs.add_parser(
        "activate",
        help="have a revision of a function serve",
        description="Have a revision of a function serve beside those that do.",
    )
    deactivate = verbs.add_parser(
        "deactivate",
        help="take a revision of a function out of service",
        description="Take a revision of a function out of service; calls under way still end.",
    )
    for verb_parser in (users, activate, deactivate):
        verb_parser.add_argument("revision", metavar="REV")
    switch(deactivate, "--force", help="also if it is used, or if no other one serves")
    gc = verbs.add_parser(
        "gc",
        help="delete revisions that nobody uses",
        description="Delete old revisions that nobody uses; say what stays, and why.",
    )
    gc.add_argument(
        "--keep",
        type=whole(1, 10**6),
        metavar="N",
        help="how many of each are kept whoever uses them; default: "
        f"revisionHistoryLimit of a function, {_KEPT} of a composition",
    )
    switch(gc, "--dry-run", help="say what would go, and delete nothing")
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
    """Do what a command line says on a cluster that is open."""
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

    def people() -> Iterable[Line]:
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
        {"revisions": [revision.as_data() for revision in revisions]}, args.output, people, names
    )
    return 0


def _row(known: ListedRevision) -> Sequence[Cell]:
    uses = [f"{way.split()[1]} {_number_of(who)}" for way, who in known.uses.items()]
    state = Tint(_state_of(known), _COLOURS.get(known.state, "yellow"))
    data = known.as_data()
    colour = _COLOURS.get(data.get("status") or "")
    runs = Tint(_runs_of(data), colour) if colour else _runs_of(data)
    described = (state, runs, data.get("origin", ""), ", ".join(uses))
    return (known.kind, known.owner, str(known.number), known.name, *described)


def _runs_of(data: Mapping[str, Any]) -> str:
    """Say which version a revision of a function runs, and what it is worth if that is little."""
    runs, status = str(data.get("runs", "")), data.get("status")
    if status in (None, "served"):
        return runs
    until = f" until {data['removedIn']}" if "removedIn" in data else ""
    return f"{runs}, {status}{until if status == 'deprecated' else ''}"


def _state_of(known: ListedRevision) -> str:
    """Say how a revision fares; of one that is meant to serve and does not, why not."""
    if known.function is None or known.state != "active":
        return known.state
    return f"{known.state}, {known.function.why_not_routable}"


def _number_of(who: Sequence[str]) -> str:
    return f"by {len(who)}" if len(who) > 1 else f"by {who[0]}"


def _diff(old: ListedRevision, new: ListedRevision) -> int:

    before, after = (dump_yaml(_content(revision)).splitlines() for revision in (old, new))
    one, other = (
        f"{revision.name} (revision {revision.number} of {revision.owner})"
        for revision in (old, new)
    )
    lines = list(unified_diff(before, after, one, other, lineterm=""))
    if not lines:
        say(f"{old.name} and {new.name} say the same")
    for line in lines:
        colour = _COLOUR_OF_LINES.get(line[:1])
        put(Tint(line, colour) if colour else line)
    return 0


_COLOUR_OF_LINES: Final = {"+": "green", "-": "red", "@": "blue"}


def _content(known: ListedRevision) -> dict[str, Any]:
    """Give what a revision is: not its number, nor how it fares."""
    spec = dict(spec_of(known.object))
    for key in ("revision", "desiredState"):
        spec.pop(key, None)
    return {"labels": content_labels(labels_of(known.object)), "spec": spec}


def _users(known: ListedRevision, form: str) -> int:
    def people() -> Iterable[Line]:
        rows = [(way, user) for way, who in known.uses.items() for user in who]
        if not rows:
            return [f"Nobody holds, names or selects {known.name}."]
        return table(("HOW", "WHO"), rows, markdown=form == "markdown")

    write_data({"name": known.name, "usedBy": known.as_data()["usedBy"]}, form, people)
    return 0


# Writing


def _switch(cluster: Cluster, inventory: Inventory, args: argparse.Namespace) -> int:
    revision = inventory.find(args.revision)
    state = DesiredState.ACTIVE if args.verb == "activate" else DesiredState.INACTIVE
    why = _why_not(revision, inventory, state, is_forced=getattr(args, "force", False))
    if why:
        raise UsageError(f"{revision.name} stays as it is: {why}", reason="RevisionNotSwitched")
    if revision.function is not None and revision.function.desired_state is state:
        put(f"{revision.name} is {state} already")
        return 0
    patch = {
        "metadata": {"resourceVersion": revision.object["metadata"]["resourceVersion"]},
        "spec": {"desiredState": str(state)},
    }
    cluster.patch(FUNCTION_REVISIONS, revision.name, patch)
    put(f"{revision.name} is {state} now")
    return 0


def _why_not(known: ListedRevision, inventory: Inventory, wanted: Any, *, is_forced: bool) -> str:
    if known.function is None:
        return (
            "it is of a composition; change the composition back, or let resources pin it with "
            "compositionRevisionRef"
        )
    function = inventory.functions.get(known.owner) or {}
    policy = spec_of(function).get("revisionActivationPolicy") or "Automatic"
    if function and policy != "Manual":
        return (
            f"the controller decides for {known.owner}; set its revisionActivationPolicy to "
            "Manual first, or raise its activeRevisionLimit"
        )
    if wanted is DesiredState.ACTIVE or is_forced:
        return ""
    if known.uses:
        uses = "; ".join(describe_uses({way: set(who) for way, who in known.uses.items()}))
        return f"it {uses}; --force does it all the same"
    siblings = [
        revision
        for revision in inventory.revisions
        if revision.owner == known.owner
        and revision.name != known.name
        and revision.function is not None
    ]
    if known.function.is_routable and not any(
        sibling.function.is_routable for sibling in siblings if sibling.function is not None
    ):
        return f"no other revision of {known.owner} serves; --force does it all the same"
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

    def people() -> Iterator[Line]:
        goes = "would go" if args.dry_run else "removed"
        rows: list[Sequence[Cell]] = [
            (entry["kind"], entry["name"], Tint(goes, "red"), "") for entry in removed
        ]
        rows += [(entry["kind"], entry["name"], "kept", "; ".join(entry["why"])) for entry in kept]
        if not rows:
            yield "There are no revisions."
            return
        head = ("KIND", "NAME", "WHAT", "WHY")
        yield from table(head, rows, markdown=args.output == "markdown")

    write_data({"dryRun": args.dry_run, "removed": removed, "kept": kept}, args.output, people)
    return 0


def _plan(
    inventory: Inventory, owner: str, family: Sequence[ListedRevision], keep: int | None
) -> Any:
    revisions = []
    for revision in family:
        uses = list(describe_uses({way: set(who) for way, who in revision.uses.items()}))
        if revision.function is not None and revision.function.desired_state is DesiredState.ACTIVE:
            uses.insert(0, "is active")
        revisions.append(Revision(revision.name, revision.number, tuple(uses)))
    limit = _KEPT if keep is None else keep
    if keep is None and family[0].function is not None:
        spec = spec_of(inventory.functions.get(owner) or {})
        limit = history_limit_of(spec.get("revisionHistoryLimit"), spec.get("activeRevisionLimit"))
    return plan_collection(revisions, limit)
