"""Pull secrets: logins for package registries, in the formats that the kubelet reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

from kanister_py.core.kube.resources import SECRETS
from kanister_py.ports.cluster import Cluster, find
from kanister_py.ports.packages import RegistryLogin, credentials_in

_KEYS = (".dockerconfigjson", ".dockercfg")


def logins_of(cluster: Cluster, namespace: str, names: Sequence[str]) -> list[RegistryLogin]:
    """Read the logins of pull secrets; missing and empty Secrets are skipped."""
    logins: list[RegistryLogin] = []
    for name in names:
        secret = find(cluster, SECRETS, name, namespace) or {}
        for key in _KEYS:
            text = (secret.get("data") or {}).get(key)
            if text:
                logins += _logins_in(text)
    return logins


def _logins_in(encoded: str) -> Iterator[RegistryLogin]:
    try:
        config: Any = json.loads(base64.b64decode(encoded))
    except ValueError:
        return
    auths = (config.get("auths") or config) if isinstance(config, dict) else None
    if not isinstance(auths, dict):
        return
    for registry, login in auths.items():
        if not isinstance(login, dict):
            continue
        try:
            username, password = credentials_in(login)
        except ValueError:
            # An unreadable login must not prevent the use of the others.
            continue
        host = registry.removeprefix("https://").removeprefix("http://").partition("/")[0]
        yield RegistryLogin(host, username, password)
