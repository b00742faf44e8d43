"""FunctionRevisions in a cluster, converted to callable revisions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from kanister_py.core.kube.parts import (
    annotations_of,
    condition_of,
    is_true,
    labels_of,
    spec_of,
    status_of,
)
from kanister_py.core.kube.quantities import InvalidQuantity, parse_size
from kanister_py.core.registry.entries import DesiredState, FunctionRevision
from kanister_py.core.revisions.identity import PACKAGE_LABEL
from kanister_py.core.revisions.lifecycles import LIFECYCLE
from kanister_py.core.versions.semver import Version, version_or_none

PACKAGE_TAG: Final = "kanister-py.io/package-tag"
"""Annotation with the tag from which the revision was created. Its image only has a digest."""
RUNTIME: Final = "kanister-py.io/runtime"
RENDER_RUNTIME: Final = "render.crossplane.io/runtime"
ANSWER_LIMIT: Final = "kanister-py.io/max-answer-size"
"""Annotation with the maximum size of a function's response, as a quantity such as 32Mi."""


class Runtime(StrEnum):
    """The ways in which a function runs."""

    DEPLOYMENT = "Deployment"
    IN_PROCESS = "InProcess"
    EXTERNAL = "External"


def runtime_of(obj: Mapping[str, Any], default: Runtime = Runtime.DEPLOYMENT) -> Runtime:
    """Return the runtime in the annotation of a Function or FunctionRevision."""
    runtime = annotations_of(obj).get(RUNTIME)
    return Runtime(runtime) if runtime in tuple(Runtime) else default


def is_marked_in_process(obj: Mapping[str, Any]) -> bool:
    """Return whether a Function or FunctionRevision has the annotation to run in this process."""
    return annotations_of(obj).get(RUNTIME) == Runtime.IN_PROCESS


def revision_of(obj: Mapping[str, Any]) -> FunctionRevision:
    """Convert the Kubernetes object to the value that is chosen from a registry and called."""
    metadata, spec, status = obj["metadata"], spec_of(obj), status_of(obj)
    labels = labels_of(obj)
    is_running = is_healthy(obj)
    is_active = spec.get("desiredState") == DesiredState.ACTIVE
    return FunctionRevision(
        str(labels.get(PACKAGE_LABEL) or ""),
        metadata["name"],
        int(spec.get("revision") or 0),
        labels,
        DesiredState.ACTIVE if is_active else DesiredState.INACTIVE,
        is_running,
        str(status.get("endpoint") or ""),
        digest_of_revision(obj),
        version_of_revision(obj),
        tuple(str(capability) for capability in status.get("capabilities") or ()),
        _answer_limit_of(obj),
        trouble="" if is_running else str(condition_of(obj, "RuntimeHealthy").get("message") or ""),
        lifecycle=str(annotations_of(obj).get(LIFECYCLE) or ""),
    )


def _answer_limit_of(obj: Mapping[str, Any]) -> int:
    """Return the size limit for responses, or 0 for the default. Invalid values are ignored."""
    text = annotations_of(obj).get(ANSWER_LIMIT)
    if not text:
        return 0
    try:
        return parse_size(text)
    except InvalidQuantity:
        return 0


def is_healthy(obj: Mapping[str, Any]) -> bool:
    """Return whether the RuntimeHealthy condition of a revision is True."""
    return is_true(obj, "RuntimeHealthy")


def digest_of_revision(obj: Mapping[str, Any]) -> str:
    """Return the digest of a revision's package, or an empty string if only the tag is known."""
    image = str(spec_of(obj).get("image") or "")
    return image.partition("@")[2]


def package_name(obj: Mapping[str, Any]) -> str:
    """Return the last part of the repository of a revision's package."""
    image = str(spec_of(obj).get("image") or "")
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def tag_of_revision(obj: Mapping[str, Any]) -> str:
    """Return the tag of a revision's package, or an empty string."""
    image = str(spec_of(obj).get("image") or "").partition("@")[0]
    return str(annotations_of(obj).get(PACKAGE_TAG) or image.rpartition("/")[2].partition(":")[2])


def version_of_revision(obj: Mapping[str, Any]) -> Version | None:
    """Return the version in the tag of a revision's package, or None."""
    return version_or_none(tag_of_revision(obj))
