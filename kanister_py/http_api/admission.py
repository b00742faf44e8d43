"""Admission webhook: whether an API server may store an object, and with which warnings."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kanister_py.core.actionsets.admission import (
    FINE,
    Verdict,
    blueprints_named,
    changes_of_identity,
    functions_named,
    judge_actionset,
    judge_blueprint,
    judge_composition,
    judge_identity,
    judge_package,
    judge_revision,
    says_nothing_new,
)
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.compositions.model import parse_composition
from kanister_py.core.errors import InvalidDocument, KanisterError, NotFound
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.kube.resources import BLUEPRINTS
from kanister_py.core.revisions.kinds import FUNCTIONS
from kanister_py.core.schedules.admission import judge_schedule, template_in
from kanister_py.core.yaml.documents import Document
from kanister_py.ports.cluster import Cluster

_LOG: Final = logging.getLogger(__name__)

PATH: Final = "/validate"
MOST_BYTES: Final = 8 * 1024 * 1024
_REVISIONS: Final = ("CompositionRevision", "FunctionRevision")
_VERSION: Final = "admission.k8s.io/v1"
_UNREADABLE: Final = "The request is no AdmissionReview of admission.k8s.io/v1"


class Judge:
    """Judge of what an API server asks about.

    `context` says what functions there are, `own_user` as whom the controller writes.
    """

    def __init__(
        self,
        cluster: Cluster,
        context: Context,
        own_user: Callable[[], str],
        *,
        allows_other_namespaces: bool = False,
    ) -> None:
        self._cluster = cluster
        self._context = context
        self._own_user = own_user
        self._allows_other_namespaces = allows_other_namespaces

    def judge(self, request: Mapping[str, Any]) -> Verdict:
        """Judge one request; kinds that nobody asked us to look at are fine."""
        new, old = request.get("object"), request.get("oldObject")
        if not isinstance(new, dict):
            return FINE
        old = old if isinstance(old, dict) else None
        kind = (request.get("kind") or {}).get("kind")
        if kind in _REVISIONS and old is not None:
            verdict = self._judge_identity(request, old, new)
            if not verdict.is_allowed:
                return verdict
        if says_nothing_new(old, new):
            return FINE
        if kind == "Blueprint":
            return judge_blueprint(new, self._context)
        if kind == "ActionSet":
            namespace = str(request.get("namespace") or "")
            return judge_actionset(new, self._blueprints(new, namespace), self._context)
        if kind == "Schedule":
            namespace = str(request.get("namespace") or "")
            blueprints = self._blueprints(template_in(new), namespace)
            return judge_schedule(new, blueprints, self._context)
        if kind == "Composition":
            try:
                parse_composition(Document.of(new))
            except InvalidDocument as error:
                # What would fail every resource is refused while its author still looks.
                return Verdict(tuple(str(each) for each in error.problems))
            return judge_composition(new, self._functions(new), self._context)
        if kind == "CompositionRevision":
            return judge_revision(old, new)
        if kind in ("Function", "FunctionRevision", "Provider", "Configuration"):
            return judge_package(new)
        return FINE

    def _judge_identity(
        self, request: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> Verdict:
        changed = changes_of_identity(old, new)
        if not changed:
            return FINE
        user = mapping_of(request.get("userInfo")).get("username")
        # Who cannot find out as whom it acts itself fails here, and the change with it.
        return judge_identity(changed, str(user or ""), self._own_user())

    def _functions(self, composition: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for name in functions_named(composition):
            try:
                there = self._cluster.get(FUNCTIONS, name)
            except NotFound:
                continue
            except KanisterError as error:
                _LOG.warning("Function %s cannot be read for a judgement: %s", name, error.message)
                continue
            found[name] = {**there, "kind": "Function", "apiVersion": FUNCTIONS.api_version}
        return found

    def _blueprints(
        self, actionset: Mapping[str, Any], namespace: str
    ) -> dict[str, Mapping[str, Any] | None]:
        found: dict[str, Mapping[str, Any] | None] = {}
        for name in blueprints_named(actionset):
            where, slash, bare = name.rpartition("/")
            if slash and not self._allows_other_namespaces:
                continue
            try:
                found[name] = self._cluster.get(BLUEPRINTS, bare, namespace=where or namespace)
            except NotFound:
                found[name] = None
            except KanisterError as error:
                # Not knowing is no reason to refuse a restore.
                _LOG.warning("Blueprint %s cannot be read for a judgement: %s", name, error.message)
        return found


def admission_app(judge: Judge) -> Starlette:
    """Build what a ValidatingWebhookConfiguration points to."""

    async def validate(request: Request) -> Response:
        body = await _body_of(request)
        review = _review_in(body)
        if review is None:
            return JSONResponse({"message": _UNREADABLE}, 400)
        asked = review["request"]
        # A fault is answered with 500: the configuration says what becomes of the object then.
        verdict = await run_in_threadpool(judge.judge, asked)
        return JSONResponse(_answer(asked, verdict))

    return Starlette(routes=[Route(PATH, validate, methods=["POST"])])


async def _body_of(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            return b""
        parts.append(part)
    return b"".join(parts)


def _review_in(body: bytes) -> dict[str, Any] | None:
    try:
        review = json.loads(body)
    except ValueError:
        return None
    if not isinstance(review, dict) or review.get("apiVersion") != _VERSION:
        return None
    asked = review.get("request")
    is_asked = isinstance(asked, dict) and isinstance(asked.get("uid"), str)
    return review if is_asked else None


def _answer(asked: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": asked["uid"], "allowed": verdict.is_allowed}
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    if not verdict.is_allowed:
        response["status"] = {"code": 422, "reason": "Invalid", "message": verdict.message}
    return {"apiVersion": _VERSION, "kind": "AdmissionReview", "response": response}
