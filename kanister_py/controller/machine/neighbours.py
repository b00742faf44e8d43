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
    """Controller of another project, and the label and images of its Deployment."""

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
    """Raise `UsageError` if Kanister's own controller runs: it would run every ActionSet as well.

    An empty namespace means all. For a namespace that cannot be read, a warning is logged.
    Returns whether all could be read. Otherwise a later check would find nothing more.
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
                "Cannot check whether Kanister's own controller runs%s: %s", where, error.message
            )
            sees_all = False
            continue
        if neighbour:
            raise another_controller(
                neighbour, "scale it to 0 or uninstall it first, or watch other namespaces"
            )
    return sees_all


def another_controller(name: str, hint: str) -> UsageError:
    """Build the error for another controller that would act on the same objects."""
    return UsageError(f"{name} acts on the same objects; {hint}", reason="AnotherController")


def find_neighbour(cluster: Cluster, neighbour: Neighbour, namespace: str = "") -> str:
    """Return the name of a running Deployment of another project's controller, or ""."""
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
    """Return an image's name without its tag and digest."""
    name = image.partition("@")[0]
    head, _, last = name.rpartition("/")
    return f"{head}/{last.partition(':')[0]}" if head else last.partition(":")[0]
