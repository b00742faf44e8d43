"""Key of the web pages' sessions, in a Secret, so that all replicas accept the same cookies."""

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


def ensure_session_key(cluster: Cluster, namespace: str, new_key: Callable[[], bytes]) -> bytes:
    """Return the key in the Secret of a namespace; the Secret is created if it does not exist.

    If it can be neither read nor created, the returned key is valid in this process only.
    """
    try:
        return _read_or_create(cluster, namespace, new_key)
    except KanisterError as error:
        _LOG.warning(
            "Sessions of the web pages are valid in this process only: Secret %s is not usable: %s",
            SESSION_SECRET,
            error.message,
        )
        return new_key()


def _read_or_create(cluster: Cluster, namespace: str, new_key: Callable[[], bytes]) -> bytes:
    secret = find(cluster, SECRETS, SESSION_SECRET, namespace)
    if secret is None:
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SESSION_SECRET, "namespace": namespace},
            "type": "Opaque",
            "data": {_KEY: base64.b64encode(new_key()).decode()},
        }
        try:
            secret = cluster.create(manifest)
        except AlreadyExists:
            secret = cluster.get(SECRETS, SESSION_SECRET, namespace=namespace)
    return base64.b64decode(secret["data"][_KEY])
