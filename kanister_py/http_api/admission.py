"""Admission webhook: validates objects before the API server stores them, and adds warnings.

Every client that reaches the port can post, so objects are validated in a process with limits (see
`review_process`). If a review cannot be processed, the response is an error, and the failurePolicy
of the ValidatingWebhookConfiguration decides.
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
from kanister_py.http_api.review_process import (
    FetchedObjects,
    RequiredObjects,
    ReviewTask,
    pickle_task,
)
from kanister_py.limited_calls import Bounds, CallStopped, LimitedCalls
from kanister_py.ports.cluster import Cluster

_LOG: Final = logging.getLogger(__name__)

PATH: Final = "/validate"
MOST_BYTES: Final = 4 * 1024 * 1024
"""A review contains the old and the new object; an API server stores at most 1.5 MiB."""
BOUNDS: Final = Bounds(
    cpu_seconds=4,
    wall_seconds=4.5,
    memory_bytes=256 * 1024 * 1024,
    processes=1,
    waiting=32,
)
"""Shorter than the default timeout of an API server, which is 5 s."""
_UNREADABLE: Final = "The request is not an AdmissionReview of admission.k8s.io/v1"


class Validator:
    """Validator of AdmissionReviews.

    `context` contains the registered functions. `own_user` returns the user as which the
    controller writes.
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
        self._context = pickle_task(context)
        self._own_user = own_user
        self._allows_other_namespaces = allows_other_namespaces
        self._calls = LimitedCalls("kanister_py.http_api.review_process:answer", bounds)

    def validate(self, review: bytes) -> dict[str, Any] | None:
        """Return the reviewed AdmissionReview, or None if the body is not a review.

        Raises `CallStopped` if a limit was exceeded.
        """
        answer = self._call(ReviewTask(review, self._context))
        if answer is not None and "required" in answer:
            # If the user of the controller cannot be determined, the review fails.
            objects = self._fetch(RequiredObjects(**answer["required"]))
            answer = self._call(ReviewTask(review, self._context, objects))
        return None if answer is None else answer["review"]

    def _call(self, task: ReviewTask) -> Any:
        return json.loads(self._calls(pickle_task(task)))

    def _fetch(self, required: RequiredObjects) -> FetchedObjects:
        return FetchedObjects(
            self._blueprints(required.blueprints, required.namespace),
            self._functions(required.functions),
            self._own_user() if required.own_user else "",
        )

    def _functions(self, names: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        functions: dict[str, Mapping[str, Any]] = {}
        for name in names:
            try:
                function = self._cluster.get(FUNCTIONS, name)
            except NotFound:
                continue
            except KanisterError as error:
                _LOG.warning("Function %s cannot be read for validation: %s", name, error.message)
                continue
            functions[name] = {**function, "kind": "Function", "apiVersion": FUNCTIONS.api_version}
        return functions

    def _blueprints(
        self, names: Iterable[str], namespace: str
    ) -> dict[str, Mapping[str, Any] | None]:
        blueprints: dict[str, Mapping[str, Any] | None] = {}
        for name in names:
            where, slash, bare = name.rpartition("/")
            if slash and not self._allows_other_namespaces:
                continue
            try:
                blueprints[name] = self._cluster.get(BLUEPRINTS, bare, namespace=where or namespace)
            except NotFound:
                blueprints[name] = None
            except KanisterError as error:
                # An unreadable Blueprint must not prevent a restore.
                _LOG.warning("Blueprint %s cannot be read for validation: %s", name, error.message)
        return blueprints


def admission_app(validator: Validator) -> Starlette:
    """Build the app to which a ValidatingWebhookConfiguration points."""

    async def validate(request: Request) -> Response:
        body = await _body_of(request)
        if body is None:
            return JSONResponse({"message": f"A review has at most {MOST_BYTES} bytes"}, 413)
        try:
            review = await run_in_threadpool(validator.validate, body)
        except CallStopped as stopped:
            message = f"The object cannot be validated: {stopped.why}"
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
