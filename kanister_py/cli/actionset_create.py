"""Create an ActionSet: one action for each object that is named or selected.

kanister-py actionset create -a backup -b mysql --deployment shop/db --profile shop/s3
kanister-py actionset create -a backup -b mysql -l app=db -k statefulset
kanister-py actionset create -a restore --from backup-x7k2p --options point=noon

What it names must be there, unless --skip-validation. --from takes over actions, objects
and artifacts of one that is complete; what is given besides wins, and maps are merged.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from secrets import choice
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.creation import create
from kanister_py.cli.parser import named_reference, object_reference, pairs, place, several, switch
from kanister_py.core.actionsets.creation import Order, new_actionset, references_of
from kanister_py.core.actionsets.references import (
    parse_named_reference,
    parse_object_reference,
    parse_place,
)
from kanister_py.core.blueprints.model import ObjectReference
from kanister_py.core.errors import NoMatch, NotFound, UsageError
from kanister_py.core.kube.resources import (
    ACTION_SETS,
    BLUEPRINTS,
    CONFIG_MAPS,
    DEPLOYMENT_CONFIGS,
    DEPLOYMENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PROFILES,
    SECRETS,
    STATEFUL_SETS,
    GroupVersionResource,
)

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject


_KINDS: Final[Mapping[str, tuple[str, GroupVersionResource]]] = {
    "deployment": ("Deployment", DEPLOYMENTS),
    "statefulset": ("StatefulSet", STATEFUL_SETS),
    "deploymentconfig": ("DeploymentConfig", DEPLOYMENT_CONFIGS),
    "pvc": ("PVC", PERSISTENT_VOLUME_CLAIMS),
    "namespace": ("Namespace", NAMESPACES),
}
_NAMED: Final = {"profile": PROFILES, "secret": SECRETS, "config map": CONFIG_MAPS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--action", default="", help="which action of the Blueprint")
    parser.add_argument("-A", "--name", default="", help="default: made of action and parent")
    parser.add_argument("-b", "--blueprint", default="", help="which Blueprint, by name")
    parser.add_argument("-f", "--from", dest="parent", default="", metavar="ACTIONSET")
    add_objects(parser.add_argument_group("what it acts on"))
    add_inputs(parser.add_argument_group("what it works with"))
    how = parser.add_argument_group("how it is created")
    add_several(how, "--labels", pairs, "KEY=VALUE,…")
    switch(how, "--dry-run", help="print it, and create nothing")
    switch(how, "--skip-validation", help="do not look whether what it names is there")
    switch(how, "--wait", help="follow it to its end")
    how.add_argument(
        "--output", choices=("yaml", "json", "name"), help="print what was created in this form"
    )


def add_objects(what: Any) -> None:
    for short, kind in (
        ("-d", "deployment"),
        ("-t", "statefulset"),
        ("-D", "deploymentconfig"),
        ("-v", "pvc"),
    ):
        add_several(what, f"--{kind}", several(place), "NAMESPACE/NAME,…", short)
    add_several(what, "--namespacetargets", several(str), "NAMESPACE,…", "-T")
    form = "GROUP/VERSION/RESOURCE/NAMESPACE/NAME,…"
    of_core = "of the core: VERSION/RESOURCE/NAMESPACE/NAME"
    add_several(what, "--objects", several(object_reference), form, "-O", help=of_core)
    what.add_argument("-l", "--selector", default="", help="all objects with these labels")
    what.add_argument(
        "-k", "--kind", choices=("all", *_KINDS), default="all", help="of this kind; default: all"
    )
    what.add_argument("--selector-namespace", default="", help="in this namespace")


def add_inputs(with_what: Any) -> None:
    add_several(with_what, "--config-maps", several(named_reference), "REF=NAMESPACE/NAME,…", "-c")
    add_several(with_what, "--secrets", several(named_reference), "REF=NAMESPACE/NAME,…", "-s")
    add_several(with_what, "--options", pairs, "KEY=VALUE,…", "-o")
    with_what.add_argument("-p", "--profile", type=place, metavar="[NAMESPACE/]NAME")
    add_several(with_what, "--podlabels", pairs, "KEY=VALUE,…")
    add_several(with_what, "--podannotations", pairs, "KEY=VALUE,…")
    with_what.add_argument(
        "--preferred-version", default="", help="for phases that name no version"
    )
    with_what.add_argument("--execution-mode", choices=("Parallel", "Sequential"), default="")


def add_several(group: Any, flag: str, read: Any, form: str, *short: str, help: str = "") -> None:  # noqa: A002 # as argparse calls it
    group.add_argument(
        *short, flag, type=read, action="extend", default=[], metavar=form, help=help or None
    )


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    parent = None
    if args.parent:
        parent = cluster.get(ACTION_SETS, args.parent, namespace=args.namespace)
    made = new_actionset(order_of(args, cluster), parent, choice)
    if not args.skip_validation:
        validate(made, cluster)
    return create(args, cluster, made)


def order_of(args: argparse.Namespace, cluster: Cluster) -> Any:
    where = args.namespace
    return Order(
        args.action,
        args.name,
        where,
        args.blueprint,
        tuple(dict.fromkeys(_objects(args, cluster))),
        dict(args.options),
        parse_place(args.profile, where) if args.profile else None,
        dict(parse_named_reference(each, where) for each in args.secrets),
        dict(parse_named_reference(each, where) for each in args.config_maps),
        dict(args.labels),
        dict(args.podlabels),
        dict(args.podannotations),
        args.preferred_version,
        args.execution_mode,
    )


def _objects(args: argparse.Namespace, cluster: Cluster) -> Iterator[ObjectReference]:
    for kind in ("deployment", "statefulset", "deploymentconfig", "pvc"):
        for text in getattr(args, kind):
            place = parse_place(text, args.namespace)
            yield place.model_copy(update={"kind": _KINDS[kind][0]})
    for name in args.namespacetargets:
        yield ObjectReference(kind="Namespace", name=name, namespace=name)
    for text in args.objects:
        yield parse_object_reference(text, args.namespace)
    if args.selector:
        yield from _selected(args, cluster)


def _selected(args: argparse.Namespace, cluster: Cluster) -> Iterator[ObjectReference]:
    kinds = [each for each in _KINDS if each != "namespace"] if args.kind == "all" else [args.kind]
    for kind in kinds:
        title, resource = _KINDS[kind]
        where = "" if kind == "namespace" else args.selector_namespace or args.namespace
        try:
            found = cluster.list(resource, namespace=where, label_selector=args.selector)
        except NoMatch:
            # A cluster without such a kind has none of them.
            if args.kind != "all":
                raise
            continue
        for each in found:
            metadata = each["metadata"]
            # Templates read a namespace's name out of `namespace`.
            inside = metadata.get("namespace") or metadata["name"]
            yield ObjectReference(kind=title, name=metadata["name"], namespace=inside)


def validate(made: Mapping[str, Any], cluster: Cluster) -> None:
    """Refuse what would fail at once, and say everything that is missing."""
    missing = list(dict.fromkeys(_missing(made, cluster)))
    if missing:
        why = f"{'; '.join(missing)}; --skip-validation creates it all the same"
        raise UsageError(why, reason="ActionSetNotFit")


def _missing(made: Mapping[str, Any], cluster: Cluster) -> Iterator[str]:
    where = made["metadata"]["namespace"]
    for action in made["spec"]["actions"]:
        name = str(action.get("blueprint") or "")
        blueprint = _found(cluster, BLUEPRINTS, where, name)
        if blueprint is None:
            yield f"There is no Blueprint {where}/{name}"
        elif action.get("name") not in (blueprint.get("actions") or {}):
            known: Sequence[str] = sorted(blueprint.get("actions") or {})
            yield (
                f"Blueprint {where}/{name} has no action {action.get('name')}, "
                f"only {', '.join(known) or 'none at all'}"
            )
        yield from _missing_object(action.get("object") or {}, cluster)
    for what, reference in references_of(made):
        place = str(reference.get("namespace") or where)
        if _found(cluster, _NAMED[what], place, str(reference.get("name"))) is None:
            yield f"There is no {what} {place}/{reference.get('name')}"


def _missing_object(reference: Mapping[str, Any], cluster: Cluster) -> Iterator[str]:
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    where = str(reference.get("namespace") or "")
    found = next((each for each in _KINDS.values() if each[0].lower() == kind.lower()), None)
    if found is not None:
        resource = found[1]
    elif reference.get("resource"):
        resource = GroupVersionResource(
            str(reference.get("group") or ""),
            str(reference.get("apiVersion") or "v1"),
            str(reference["resource"]),
        )
    else:
        return
    title = kind or resource.group_resource
    if resource == NAMESPACES:
        where = ""
    if _found(cluster, resource, where, name) is None:
        yield f"There is no {title} {f'{where}/' if where else ''}{name}"


def _found(
    cluster: Cluster, resource: GroupVersionResource, namespace: str, name: str
) -> KubeObject | None:
    try:
        return cluster.get(resource, name, namespace=namespace)
    except NotFound:
        return None
