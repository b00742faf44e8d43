"""Does somebody else act on the same ActionSets?"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from kanister_py.core.errors import AnotherController, ApiError, TransientError
from kanister_py.core.objects.resources import DEPLOYMENTS
from kanister_py.ports.cluster import Cluster, KubeObject

_LOG: Final = logging.getLogger(__name__)

_OPERATOR: Final = "kanister-operator"
_IMAGES: Final = ("kanisterio/controller", "kanisterio/kanister-controller")


def refuse_neighbours(cluster: Cluster, namespaces: Sequence[str]) -> None:
    """Refuse to act where Kanister's own controller runs: it would run everything as well.

    An empty namespace means all. Where it may not be asked, it is said that nobody knows.
    """
    for namespace in namespaces:
        try:
            found = cluster.list(DEPLOYMENTS, namespace=namespace).items
        except TransientError:
            raise
        except ApiError as error:
            where = f" in {namespace}" if namespace else ""
            _LOG.warning(
                "Nobody knows whether Kanister's own controller runs%s: %s", where, error.message
            )
            continue
        for deployment in found:
            if _is_kanister(deployment):
                metadata = deployment["metadata"]
                raise AnotherController(
                    f"Kanister's controller (Deployment {metadata['namespace']}/"
                    f"{metadata['name']})",
                    "scale it to 0 or uninstall it first, or watch other namespaces",
                )


def _is_kanister(deployment: KubeObject) -> bool:
    spec: dict[str, Any] = deployment.get("spec") or {}
    if spec.get("replicas", 1) == 0:
        return False
    labels = deployment["metadata"].get("labels") or {}
    names = (labels.get("app"), labels.get("app.kubernetes.io/name"))
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    images = (str(each.get("image", "")) for each in containers)
    runs_it = any(_repository_of(image).endswith(_IMAGES) for image in images)
    return runs_it or _OPERATOR in names


def _repository_of(image: str) -> str:
    """Give an image's name without its tag and digest."""
    name = image.partition("@")[0]
    head, _, last = name.rpartition("/")
    return f"{head}/{last.partition(':')[0]}" if head else last.partition(":")[0]
