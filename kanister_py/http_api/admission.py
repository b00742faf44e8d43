"""Admission webhook: whether an API server may store an object, and with which warnings.

Anybody who reaches the port can post, so objects are judged in a process with limits: see
`judging`. A review that cannot be judged is answered with an error, and the failurePolicy of
the ValidatingWebhookConfiguration decides.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.errors import KanisterError, NotFound
from kanister_py.core.kube.resources import BLUEPRINTS
from kanister_py.core.revisions.kinds import FUNCTIONS
from kanister_py.http_api.judging import Asked, Found, Needs, packed
from kanister_py.limited_calls import Bounds, CallStopped, LimitedCalls
from kanister_py.ports.cluster import Cluster

_LOG: Final = logging.getLogger(__name__)

PATH: Final = "/validate"
MOST_BYTES: Final = 4 * 1024 * 1024
"""A review holds an object as it was and as it will be; an API server stores 1.5 MiB at most."""
BOUNDS: Final = Bounds(
    cpu_seconds=4,
    wall_seconds=4.5,
    memory_bytes=256 * 1024 * 1024,
    processes=1,
    waiting=32,
)
"""Less than the 5 s after which an API server gives up by default."""
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
        bounds: Bounds = BOUNDS,
    ) -> None:
        self._cluster = cluster
        self._context = packed(context)
        self._own_user = own_user
        self._allows_other_namespaces = allows_other_namespaces
        self._calls = LimitedCalls("kanister_py.http_api.judging:answer", bounds)

    def judge(self, review: bytes) -> dict[str, Any] | None:
        """Return the answer to a review, or None if it is none; raises CallStopped."""
        answer = self._ask(Asked(review, self._context))
        if answer is not None and "needs" in answer:
            # An identity that cannot be found out fails the review.
            found = self._found(Needs(**answer["needs"]))
            answer = self._ask(Asked(review, self._context, found))
        return None if answer is None else answer["review"]

    def _ask(self, asked: Asked) -> Any:
        return json.loads(self._calls(packed(asked)))

    def _found(self, needs: Needs) -> Found:
        return Found(
            self._blueprints(needs.blueprints, needs.namespace),
            self._functions(needs.functions),
            self._own_user() if needs.own_user else "",
        )

    def _functions(self, names: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for name in names:
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
        self, names: Iterable[str], namespace: str
    ) -> dict[str, Mapping[str, Any] | None]:
        found: dict[str, Mapping[str, Any] | None] = {}
        for name in names:
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
        if body is None:
            return JSONResponse({"message": f"A review has at most {MOST_BYTES} bytes"}, 413)
        try:
            review = await run_in_threadpool(judge.judge, body)
        except CallStopped as stopped:
            message = f"The object cannot be judged: {stopped.why}"
            _LOG.warning("%s (%d bytes)", message, len(body))
            return JSONResponse({"message": message}, 503)
        return (
            JSONResponse({"message": _UNREADABLE}, 400) if review is None else JSONResponse(review)
        )

    return Starlette(routes=[Route(PATH, validate, methods=["POST"])])


async def _body_of(request: Request) -> bytes | None:
    """Return the body of a request, or None if it is too long."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)
