"""Judging of one admission review: bytes of an AdmissionReview to those of its answer.

This runs in a process of its own, with limits. It reads nothing of the cluster: where a
judgement depends on other objects, it says which, and is asked again with them.
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
from kanister_py.core.schedules.admission import judge_schedule, template_in
from kanister_py.core.yaml.documents import Document

_REVISIONS: Final = ("CompositionRevision", "FunctionRevision")
_VERSION: Final = "admission.k8s.io/v1"


class Needs(NamedTuple):
    """What a judgement depends on: names of objects, and the user as whom the controller acts."""

    namespace: str = ""
    blueprints: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    own_user: bool = False


class Found(NamedTuple):
    """What was found of that; a Blueprint that does not exist is None."""

    blueprints: Mapping[str, Mapping[str, Any] | None] = {}
    functions: Mapping[str, Mapping[str, Any]] = {}
    own_user: str = ""


class Asked(NamedTuple):
    """One question: the review, a pickled `Context`, and what was found if it was asked for."""

    review: bytes
    context: bytes
    found: Found | None = None


class _Pickler(pickle.Pickler):
    """Pickler that knows maps that cannot be changed."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, MappingProxyType):
            return _unchanging, (dict(value),)
        return NotImplemented


def _unchanging(entries: dict[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(entries)


def packed(value: Context | Asked) -> bytes:
    """Return a value as bytes for the process that judges."""
    written = BytesIO()
    _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(value)
    return written.getvalue()


def answer(payload: bytes) -> bytes:
    """Return JSON: `{"review": …}`, `{"needs": …}`, or null for what is no AdmissionReview."""
    asked: Asked = pickle.loads(payload)  # noqa: S301 - from the process that started this one
    request = _request_in(asked.review)
    if request is None:
        return b"null"
    found = asked.found
    if found is None:
        needs = _needs_of(request)
        if any(needs[1:]):
            return json.dumps({"needs": needs._asdict()}).encode()
        found = Found()
    verdict = _judge(request, found, _context(asked.context))
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


def _needs_of(request: Mapping[str, Any]) -> Needs:
    new, old, kind = _objects_of(request)
    if not isinstance(new, dict):
        return Needs()
    namespace = str(request.get("namespace") or "")
    is_identity = kind in _REVISIONS and old is not None and bool(identity_changes(old, new))
    needs = Needs(namespace, own_user=is_identity)
    if needs_no_check(old, new):
        return needs
    if kind == "ActionSet":
        return needs._replace(blueprints=tuple(referenced_blueprints(new)))
    if kind == "Schedule":
        return needs._replace(blueprints=tuple(referenced_blueprints(template_in(new))))
    if kind == "Composition":
        return needs._replace(functions=tuple(referenced_functions(new)))
    return needs


def _judge(request: Mapping[str, Any], found: Found, context: Context) -> Verdict:
    """Judge one request; kinds that nobody asked us to look at are fine."""
    new, old, kind = _objects_of(request)
    if not isinstance(new, dict):
        return ALLOWED
    if kind in _REVISIONS and old is not None and (changed := identity_changes(old, new)):
        user = mapping_of(request.get("userInfo")).get("username")
        verdict = review_identity(changed, str(user or ""), found.own_user)
        if not verdict.is_allowed:
            return verdict
    if needs_no_check(old, new):
        return ALLOWED
    if kind == "Blueprint":
        return review_blueprint(new, context)
    if kind == "ActionSet":
        return review_actionset(new, found.blueprints, context)
    if kind == "Schedule":
        return judge_schedule(new, found.blueprints, context)
    if kind == "Composition":
        try:
            parse_composition(Document.of(new))
        except InvalidDocument as error:
            # What would fail every resource is refused while its author still looks.
            return Verdict(tuple(str(problem) for problem in error.problems))
        return review_composition(new, found.functions, context)
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
