"""Print the version of this program, and the versions of controllers on a cluster.

kanister-py version
kanister-py version --client
kanister-py version --context staging -n kanister -o json

Controllers are found by their pods, in all namespaces or in the namespace of -n. If no cluster
is configured, only the version of this program is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.connection import add_connection, is_connected, open_connection
from kanister_py.cli.output import Line, say, write_data
from kanister_py.cli.parser import add_output, switch
from kanister_py.controller.actionsets.pod_logs import POD_SELECTOR
from kanister_py.core.errors import Forbidden, KanisterError, UsageError
from kanister_py.core.kube.parts import labels_of, maps_in, spec_of
from kanister_py.core.kube.resources import PODS
from kanister_py.functions.builtin import installed_release

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject

_VERSION_LABEL: Final = "app.kubernetes.io/version"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    switch(parser, "--client", help="only the version of this program; contact no cluster")
    parser.add_argument("-n", "--namespace", default="", help="namespace of the controllers")
    add_output(parser, ("text", "json", "yaml"))
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    controllers: list[dict[str, str]] = []
    if not args.client:
        controllers = _read_controllers(args)
    data: dict[str, Any] = {"client": {"version": installed_release().bare}}
    if controllers:
        data["controllers"] = controllers
    write_data(data, args.output, lambda: _lines(data))
    return 0


def _read_controllers(args: argparse.Namespace) -> list[dict[str, str]]:
    namespace = args.namespace
    try:
        with open_connection(args) as cluster:
            return find_controllers(cluster, namespace)
    except KanisterError as error:
        # Without a cluster on the command line, the version of this program is answer enough.
        if is_connected(args):
            raise
        say(f"note: the versions of controllers are unknown: {error.message}")
        return []


def find_controllers(cluster: Cluster, namespace: str) -> list[dict[str, str]]:
    """List the pods of controllers with their versions; an empty namespace means all."""
    try:
        pods = cluster.list(PODS, namespace=namespace, label_selector=POD_SELECTOR)
    except Forbidden as error:
        if namespace:
            raise
        raise UsageError(
            f"{error.message}; name the namespace of the controllers with -n",
            reason=error.reason,
        ) from error
    return [
        {
            "version": _version_of(pod),
            "namespace": pod["metadata"]["namespace"],
            "pod": pod["metadata"]["name"],
        }
        for pod in pods
    ]


def _version_of(pod: KubeObject) -> str:
    """Return the version in the pod's label, else the tag of its image."""
    version = labels_of(pod).get(_VERSION_LABEL)
    if version:
        return str(version)
    images = [str(container.get("image")) for container in maps_in(spec_of(pod), "containers")]
    return images[0].rpartition(":")[2] if images else "unknown"


def _lines(data: Mapping[str, Any]) -> Iterator[Line]:
    yield f"Client:     {data['client']['version']}"
    for controller in data.get("controllers", ()):
        place = f"{controller['namespace']}/{controller['pod']}"
        yield f"Controller: {controller['version']} ({place})"
