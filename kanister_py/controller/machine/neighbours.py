"""Neighbours: other controllers that act on the same objects."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from kanister_py.core.errors import ApiError, TransientError, UsageError
from kanister_py.core.kube.parts import labels_of, spec_of
from kanister_py.core.kube.resources import DEPLOYMENTS
from kanister_py.ports.cluster import Cluster, KubeObject

_LOG: Final = logging.getLogger(__name__)


class Neighbour(NamedTuple):
    """Another project's controller, and how its Deployment is recognised."""

    name: str
    app: str
    images: tuple[str, ...]


KANISTER: Final = Neighbour(
    "Kanister's controller",
    "kanister-operator",
    ("kanisterio/controller", "kanisterio/kanister-controller"),
)
CROSSPLANE: Final = Neighbour("Crossplane", "crossplane", ("crossplane/crossplane",))


def refuse_neighbours(cluster: Cluster, namespaces: Sequence[str]) -> bool:
    """Refuse to act where Kanister's own controller runs: it would run everything as well.

    An empty namespace means all. One that may not be read gets a warning in the log; the result
    says whether everything could be seen, so that it is worth to look again.
    """
    sees_all = True
    for namespace in namespaces:
        try:
            neighbour = find_neighbour(cluster, KANISTER, namespace)
        except TransientError:
            raise
        except ApiError as error:
            where = f" in {namespace}" if namespace else ""
            _LOG.warning(
                "Nobody knows whether Kanister's own controller runs%s: %s", where, error.message
            )
            sees_all = False
            continue
        if neighbour:
            raise another_controller(
                neighbour, "scale it to 0 or uninstall it first, or watch other namespaces"
            )
    return sees_all


def another_controller(who: str, what_to_do: str) -> UsageError:
    """Refuse to act on objects that another controller acts on: all would be run twice."""
    return UsageError(f"{who} acts on the same objects; {what_to_do}", reason="AnotherController")


def find_neighbour(cluster: Cluster, neighbour: Neighbour, namespace: str = "") -> str:
    """Name the Deployment of another project's controller that runs; empty if there is none."""
    for deployment in cluster.list(DEPLOYMENTS, namespace=namespace):
        if _runs(deployment, neighbour):
            metadata = deployment["metadata"]
            return f"{neighbour.name} (Deployment {metadata['namespace']}/{metadata['name']})"
    return ""


def _runs(deployment: KubeObject, neighbour: Neighbour) -> bool:
    spec = spec_of(deployment)
    if spec.get("replicas", 1) == 0:
        return False
    labels = labels_of(deployment)
    names = (labels.get("app"), labels.get("app.kubernetes.io/name"))
    containers = spec_of(spec.get("template") or {}).get("containers") or ()
    images = (str(container.get("image", "")) for container in containers)
    runs_it = any(_repository_of(image).endswith(neighbour.images) for image in images)
    return runs_it or neighbour.app in names


def _repository_of(image: str) -> str:
    """Give an image's name without its tag and digest."""
    name = image.partition("@")[0]
    head, _, last = name.rpartition("/")
    return f"{head}/{last.partition(':')[0]}" if head else last.partition(":")[0]
