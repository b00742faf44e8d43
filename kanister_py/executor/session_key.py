"""Key of the pages' sessions: in a Secret, so that all replicas read each other's cookies."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from typing import Final

from kanister_py.core.errors import AlreadyExists, KanisterError
from kanister_py.core.kube.resources import SECRETS
from kanister_py.ports.cluster import Cluster, find

_LOG: Final = logging.getLogger(__name__)
SESSION_SECRET: Final = "kanister-py-session"  # noqa: S105 - the name of a Secret
_KEY: Final = "key"


def keep_session_key(cluster: Cluster, namespace: str, new_key: Callable[[], bytes]) -> bytes:
    """Return the key in the Secret of a namespace, which is created if it does not exist.

    If the Secret can be neither read nor created, the key is of this process alone.
    """
    try:
        return _kept(cluster, namespace, new_key)
    except KanisterError as error:
        _LOG.warning(
            "Sessions of the pages hold in this process alone: Secret %s cannot be kept: %s",
            SESSION_SECRET,
            error.message,
        )
        return new_key()


def _kept(cluster: Cluster, namespace: str, new_key: Callable[[], bytes]) -> bytes:
    secret = find(cluster, SECRETS, SESSION_SECRET, namespace)
    if secret is None:
        made = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SESSION_SECRET, "namespace": namespace},
            "type": "Opaque",
            "data": {_KEY: base64.b64encode(new_key()).decode()},
        }
        try:
            secret = cluster.create(made)
        except AlreadyExists:
            secret = cluster.get(SECRETS, SESSION_SECRET, namespace=namespace)
    return base64.b64decode(secret["data"][_KEY])
