"""Access review: the user of a token, and what it may see."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from enum import StrEnum
from threading import Lock
from typing import Any, Final

from kanister_py.core.kube.parts import status_of
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster

_SECONDS: Final = 10.0
_MOST: Final = 1000
_READS: Final = ("get", "list")


class Access(StrEnum):
    """Verdict on a request."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    UNKNOWN = "unknown"
    """The token is of no user."""


class AccessReviewer:
    """Tokens and rights as the API server judges them; its answers are kept for a moment."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = Lock()
        self._known: OrderedDict[tuple[str, str], tuple[float, Access]] = OrderedDict()

    def review(self, token: str, asked: Mapping[str, Any]) -> Access:
        """Judge a token. `asked` are the attributes of a SubjectAccessReview's spec.

        Requests to change something are judged anew each time.
        """
        if not any(each.get("verb") in _READS for each in asked.values()):
            return self._ask(token, asked)
        # The token itself is not kept: a reader of our memory shall not be able to use it.
        key = (hashlib.sha256(token.encode()).hexdigest(), repr(asked))
        now = self._clock.monotonic()
        with self._lock:
            found = self._known.get(key)
            if found is not None and now < found[0]:
                return found[1]
        access = self._ask(token, asked)
        with self._lock:
            self._known[key] = (now + _SECONDS, access)
            self._known.move_to_end(key)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return access

    def _ask(self, token: str, asked: Mapping[str, Any]) -> Access:
        reviewed = self._answer("authentication", "TokenReview", {"token": token})
        if not reviewed.get("authenticated"):
            return Access.UNKNOWN
        user = reviewed.get("user") or {}
        who = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
        }
        answer = self._answer("authorization", "SubjectAccessReview", {**asked, **who})
        return Access.ALLOWED if answer.get("allowed") else Access.FORBIDDEN

    def _answer(self, group: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        review = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
        return status_of(self._cluster.create(review))
