"""Validation of one AdmissionReview, from its bytes to those of the response.

This runs in a separate process with limits, which has no access to the cluster. If the result
depends on other objects, the first call returns their names, and the second call receives them.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.admission import (
    ALLOWED,
    Verdict,
    identity_changes,
    needs_no_check,
    referenced_blueprints,
    referenced_functions,
    review_actionset,
    review_blueprint,
    review_composition,
    review_identity,
    review_package,
    review_revision,
)
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.compositions.model import parse_composition
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.schedules.admission import review_schedule, template_in
from kanister_py.core.yaml.documents import Document

_REVISIONS: Final = ("CompositionRevision", "FunctionRevision")
_VERSION: Final = "admission.k8s.io/v1"


class RequiredObjects(NamedTuple):
    """Names of objects that a validation depends on, and whether it needs the controller's user."""

    namespace: str = ""
    blueprints: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    own_user: bool = False


class FetchedObjects(NamedTuple):
    """Objects read from the cluster. A Blueprint that does not exist is None."""

    blueprints: Mapping[str, Mapping[str, Any] | None] = {}
    functions: Mapping[str, Mapping[str, Any]] = {}
    own_user: str = ""


class ReviewTask(NamedTuple):
    """One call: the review, a pickled `Context`, and required objects in the second call."""

    review: bytes
    context: bytes
    objects: FetchedObjects | None = None


class _Pickler(pickle.Pickler):
    """Pickler that supports read-only mappings."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, MappingProxyType):
            return _read_only, (dict(value),)
        return NotImplemented


def _read_only(entries: dict[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(entries)


def pickle_task(value: Context | ReviewTask) -> bytes:
    """Serialize a value for the process that validates."""
    buffer = BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def answer(payload: bytes) -> bytes:
    """Return JSON: `{"review": …}`, `{"required": …}`, or null if it is not an AdmissionReview."""
    task: ReviewTask = pickle.loads(payload)  # noqa: S301 - written by the parent process
    request = _request_in(task.review)
    if request is None:
        return b"null"
    objects = task.objects
    if objects is None:
        required = _required_by(request)
        if any(required[1:]):
            return json.dumps({"required": required._asdict()}).encode()
        objects = FetchedObjects()
    verdict = _validate(request, objects, _context(task.context))
    return json.dumps({"review": _review_of(request, verdict)}).encode()


@lru_cache(maxsize=1)
def _context(pickled: bytes) -> Context:
    context: Context = pickle.loads(pickled)  # noqa: S301 - as above
    return context


def _request_in(body: bytes) -> dict[str, Any] | None:
    try:
        review = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(review, dict) or review.get("apiVersion") != _VERSION:
        return None
    request = review.get("request")
    is_request = isinstance(request, dict) and isinstance(request.get("uid"), str)
    return request if is_request else None


def _objects_of(request: Mapping[str, Any]) -> tuple[Any, dict[str, Any] | None, Any]:
    old = request.get("oldObject")
    kind = mapping_of(request.get("kind")).get("kind")
    return request.get("object"), old if isinstance(old, dict) else None, kind


def _required_by(request: Mapping[str, Any]) -> RequiredObjects:
    new, old, kind = _objects_of(request)
    if not isinstance(new, dict):
        return RequiredObjects()
    namespace = str(request.get("namespace") or "")
    is_identity = kind in _REVISIONS and old is not None and bool(identity_changes(old, new))
    required = RequiredObjects(namespace, own_user=is_identity)
    if needs_no_check(old, new):
        return required
    if kind == "ActionSet":
        return required._replace(blueprints=tuple(referenced_blueprints(new)))
    if kind == "Schedule":
        return required._replace(blueprints=tuple(referenced_blueprints(template_in(new))))
    if kind == "Composition":
        return required._replace(functions=tuple(referenced_functions(new)))
    return required


def _validate(request: Mapping[str, Any], objects: FetchedObjects, context: Context) -> Verdict:
    """Validate one request. Kinds without rules are accepted."""
    new, old, kind = _objects_of(request)
    if not isinstance(new, dict):
        return ALLOWED
    if kind in _REVISIONS and old is not None and (changed := identity_changes(old, new)):
        user = mapping_of(request.get("userInfo")).get("username")
        verdict = review_identity(changed, str(user or ""), objects.own_user)
        if not verdict.is_allowed:
            return verdict
    if needs_no_check(old, new):
        return ALLOWED
    if kind == "Blueprint":
        return review_blueprint(new, context)
    if kind == "ActionSet":
        return review_actionset(new, objects.blueprints, context)
    if kind == "Schedule":
        return review_schedule(new, objects.blueprints, context)
    if kind == "Composition":
        try:
            parse_composition(Document.of(new))
        except InvalidDocument as error:
            # Stored, it would fail every composite resource that uses it.
            return Verdict(tuple(str(problem) for problem in error.problems))
        return review_composition(new, objects.functions, context)
    if kind == "CompositionRevision":
        return review_revision(old, new)
    if kind in ("Function", "FunctionRevision", "Provider", "Configuration"):
        return review_package(new)
    return ALLOWED


def _review_of(request: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": request["uid"], "allowed": verdict.is_allowed}
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    if not verdict.is_allowed:
        response["status"] = {"code": 422, "reason": "Invalid", "message": verdict.message}
    return {"apiVersion": _VERSION, "kind": "AdmissionReview", "response": response}
