"""Flags that name the action, the objects and the inputs of an ActionSet."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.output import say
from kanister_py.cli.parser import pairs, several
from kanister_py.cli.references import named_reference, object_reference, place
from kanister_py.core.actionsets.creation import Order, references_of, set_options
from kanister_py.core.actionsets.references import (
    parse_named_reference,
    parse_object_reference,
    parse_place,
)
from kanister_py.core.blueprints.model import ObjectReference
from kanister_py.core.errors import NoMatch, NotFound, UsageError
from kanister_py.core.kube.resources import (
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
from kanister_py.executor.read_blueprints import read_blueprints

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject


_KINDS: Final[Mapping[str, tuple[str, GroupVersionResource]]] = {
    "deployment": ("Deployment", DEPLOYMENTS),
    "statefulset": ("StatefulSet", STATEFUL_SETS),
    "deploymentconfig": ("DeploymentConfig", DEPLOYMENT_CONFIGS),
    "pvc": ("PVC", PERSISTENT_VOLUME_CLAIMS),
    "namespace": ("Namespace", NAMESPACES),
}
_INPUT_RESOURCES: Final = {"profile": PROFILES, "secret": SECRETS, "config map": CONFIG_MAPS}


def add_action_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name the action and its Blueprint."""
    parser.add_argument("-a", "--action", default="", help="name of an action of the Blueprint")
    parser.add_argument("-b", "--blueprint", default="", help="name of the Blueprint")


def add_object_flags(group: Any) -> None:
    """Add the flags that name or select the objects of the action."""
    for short, kind in (("-d", "deployment"), ("-t", "statefulset"), ("-D", "deploymentconfig")):
        title = _KINDS[kind][0]
        add_list_flag(
            group,
            f"--{kind}",
            several(place),
            "NAMESPACE/NAME,…",
            short,
            help=f"{title}s to act on",
        )
    add_list_flag(
        group, "--pvc", several(place), "NAMESPACE/NAME,…", help="PersistentVolumeClaims to act on"
    )
    # The short flag of kanctl, which has another meaning in the rest of this program.
    add_list_flag(group, "-v", several(place), "", dest="pvc", help=argparse.SUPPRESS)
    add_list_flag(
        group, "--namespacetargets", several(str), "NAMESPACE,…", "-T", help="Namespaces to act on"
    )
    add_list_flag(
        group,
        "--objects",
        several(object_reference),
        "GROUP/VERSION/RESOURCE/NAMESPACE/NAME,…",
        "-O",
        help="any other kind; without GROUP/ for the core group",
    )
    group.add_argument("-l", "--selector", default="", help="all objects with these labels")
    group.add_argument(
        "-k", "--kind", choices=("all", *_KINDS), default="all", help="kind for --selector"
    )
    group.add_argument(
        "--selector-namespace", default="", metavar="NAMESPACE", help="namespace for --selector"
    )


def add_input_flags(group: Any) -> None:
    """Add the flags that name Profile, Secrets, ConfigMaps, options and settings of pods."""
    reference, form = several(named_reference), "REF=NAMESPACE/NAME,…"
    maps_help = "ConfigMaps and their names in the Blueprint"
    add_list_flag(group, "--config-maps", reference, form, "-c", help=maps_help)
    secrets_help = "Secrets and their names in the Blueprint"
    add_list_flag(group, "--secrets", reference, form, "-s", help=secrets_help)
    add_list_flag(group, "--options", pairs, "KEY=VALUE,…", help="options of the action")
    group.add_argument(
        "-p", "--profile", type=place, metavar="[NAMESPACE/]NAME", help="Profile of the action"
    )
    add_list_flag(group, "--podlabels", pairs, "KEY=VALUE,…", help="labels of the pods of phases")
    add_list_flag(
        group, "--podannotations", pairs, "KEY=VALUE,…", help="annotations of the pods of phases"
    )
    group.add_argument(
        "--preferred-version",
        default="",
        metavar="VERSION",
        help="version for phases that do not set one",
    )
    group.add_argument(
        "--execution-mode",
        choices=("Parallel", "Sequential"),
        default="",
        help="run actions at the same time (Parallel) or one after the other (Sequential)",
    )


def add_list_flag(
    group: Any,
    flag: str,
    read: Any,
    form: str,
    *short: str,
    **more: Any,
) -> None:
    """Add a flag with comma-separated values, which may be given several times."""
    group.add_argument(*short, flag, type=read, action="extend", default=[], metavar=form, **more)


def order_of(args: argparse.Namespace, cluster: Cluster) -> Order:
    """Return the order for an ActionSet that the flags describe."""
    namespace = args.namespace
    return Order(
        args.action,
        args.name,
        namespace,
        args.blueprint,
        tuple(dict.fromkeys(_objects(args, cluster))),
        dict(args.options),
        parse_place(args.profile, namespace) if args.profile else None,
        dict(parse_named_reference(text, namespace) for text in args.secrets),
        dict(parse_named_reference(text, namespace) for text in args.config_maps),
        dict(args.labels),
        dict(args.podlabels),
        dict(args.podannotations),
        args.preferred_version,
        args.execution_mode,
    )


def _objects(args: argparse.Namespace, cluster: Cluster) -> Iterator[ObjectReference]:
    for kind in ("deployment", "statefulset", "deploymentconfig", "pvc"):
        for text in getattr(args, kind):
            reference = parse_place(text, args.namespace)
            yield reference.model_copy(update={"kind": _KINDS[kind][0]})
    for name in args.namespacetargets:
        yield ObjectReference(kind="Namespace", name=name, namespace=name)
    for text in args.objects:
        yield parse_object_reference(text, args.namespace)
    if args.selector:
        yield from _selected(args, cluster)


def _selected(args: argparse.Namespace, cluster: Cluster) -> Iterator[ObjectReference]:
    kinds = [kind for kind in _KINDS if kind != "namespace"] if args.kind == "all" else [args.kind]
    for kind in kinds:
        title, resource = _KINDS[kind]
        namespace = "" if kind == "namespace" else args.selector_namespace or args.namespace
        try:
            objects = cluster.list(resource, namespace=namespace, label_selector=args.selector)
        except NoMatch:
            # `all` skips kinds that the cluster does not have, such as DeploymentConfigs.
            if args.kind != "all":
                raise
            continue
        for obj in objects:
            metadata = obj["metadata"]
            # Templates read the name of a namespace from the field `namespace`.
            name = metadata["name"]
            yield ObjectReference(
                kind=title, name=name, namespace=metadata.get("namespace") or name
            )


def check_references(actionset: Mapping[str, Any], cluster: Cluster) -> None:
    """Refuse an ActionSet whose Blueprint, objects or inputs do not exist, naming all of them."""
    missing = list(dict.fromkeys(_missing(actionset, cluster)))
    if missing:
        raise UsageError(
            f"{'; '.join(missing)}; to create it anyway, use --skip-validation",
            reason="ActionSetNotFit",
        )


def check_options(args: argparse.Namespace, cluster: Cluster, actionset: dict[str, Any]) -> None:
    """Check the options of an ActionSet, and warn about those that no template reads."""
    blueprints = read_blueprints(cluster, actionset)
    for fields in actionset["spec"]["actions"]:
        blueprint = blueprints[str(fields["blueprint"])]
        for warning in set_options(fields, blueprint, dict(args.options)):
            say(f"warning: {warning}")


def _missing(actionset: Mapping[str, Any], cluster: Cluster) -> Iterator[str]:
    namespace = actionset["metadata"]["namespace"]
    for action in actionset["spec"]["actions"]:
        name = str(action.get("blueprint") or "")
        blueprint = _find(cluster, BLUEPRINTS, namespace, name)
        if blueprint is None:
            yield f"There is no Blueprint {namespace}/{name}"
        elif action.get("name") not in (blueprint.get("actions") or {}):
            names = sorted(blueprint.get("actions") or {})
            yield (
                f"Blueprint {namespace}/{name} has no action {action.get('name')}, "
                f"only {', '.join(names) or 'none at all'}"
            )
        yield from _missing_object(action.get("object") or {}, cluster)
    for kind, reference in references_of(actionset):
        input_namespace = str(reference.get("namespace") or namespace)
        name = str(reference.get("name"))
        if _find(cluster, _INPUT_RESOURCES[kind], input_namespace, name) is None:
            yield f"There is no {kind} {input_namespace}/{name}"


def _missing_object(reference: Mapping[str, Any], cluster: Cluster) -> Iterator[str]:
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    namespace = str(reference.get("namespace") or "")
    resources = {title.lower(): resource for title, resource in _KINDS.values()}
    resource = resources.get(kind.lower())
    if resource is None:
        if not reference.get("resource"):
            return
        resource = GroupVersionResource(
            str(reference.get("group") or ""),
            str(reference.get("apiVersion") or "v1"),
            str(reference["resource"]),
        )
    if resource == NAMESPACES:
        namespace = ""
    if _find(cluster, resource, namespace, name) is None:
        prefix = f"{namespace}/" if namespace else ""
        yield f"There is no {kind or resource.group_resource} {prefix}{name}"


def _find(
    cluster: Cluster, resource: GroupVersionResource, namespace: str, name: str
) -> KubeObject | None:
    try:
        return cluster.get(resource, name, namespace=namespace)
    except NotFound:
        return None
