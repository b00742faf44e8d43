"""Access review: the user of a token, and its rights."""

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
    """The token belongs to no user."""


class AccessReviewer:
    """Reviewer of tokens and rights through the API server; verdicts are cached briefly."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = Lock()
        self._verdicts: OrderedDict[tuple[str, str], tuple[float, Access]] = OrderedDict()

    def review(self, token: str, attributes: Mapping[str, Any]) -> Access:
        """Review a token for `attributes`, the attributes of a SubjectAccessReview's spec.

        Requests that change something are never answered from the cache.
        """
        if not any(target.get("verb") in _READS for target in attributes.values()):
            return self._fetch_access(token, attributes)
        # The cache contains hashes instead of tokens, so that a memory dump reveals no tokens.
        key = (hashlib.sha256(token.encode()).hexdigest(), repr(attributes))
        now = self._clock.monotonic()
        with self._lock:
            verdict = self._verdicts.get(key)
            if verdict is not None and now < verdict[0]:
                return verdict[1]
        access = self._fetch_access(token, attributes)
        with self._lock:
            self._verdicts[key] = (now + _SECONDS, access)
            self._verdicts.move_to_end(key)
            while len(self._verdicts) > _MOST:
                self._verdicts.popitem(last=False)
        return access

    def _fetch_access(self, token: str, attributes: Mapping[str, Any]) -> Access:
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
        answer = self._answer("authorization", "SubjectAccessReview", {**attributes, **who})
        return Access.ALLOWED if answer.get("allowed") else Access.FORBIDDEN

    def _answer(self, group: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        review = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
        return status_of(self._cluster.create(review))
