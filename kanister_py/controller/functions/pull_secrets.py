"""Pull secrets: logins for registries of packages, as a kubelet reads them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from typing import Any

from kanister_py.core.objects.resources import SECRETS
from kanister_py.ports.cluster import Cluster, find
from kanister_py.ports.packages import RegistryLogin

_KEYS = (".dockerconfigjson", ".dockercfg")


def logins_of(cluster: Cluster, namespace: str, names: Sequence[str]) -> list[RegistryLogin]:
    """Read the logins of pull secrets; one that is missing or says nothing logs in nowhere."""
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
    except (ValueError, binascii.Error):
        return
    auths = (config.get("auths") or config) if isinstance(config, dict) else None
    if not isinstance(auths, dict):
        return
    for registry, login in auths.items():
        if not isinstance(login, dict):
            continue
        username, password = str(login.get("username") or ""), str(login.get("password") or "")
        if login.get("auth"):
            try:
                pair = base64.b64decode(str(login["auth"])).decode("utf-8", "replace")
            except (ValueError, binascii.Error):
                # One that nobody can read must not keep the others from being used.
                continue
            username, _, password = pair.partition(":")
        host = registry.removeprefix("https://").removeprefix("http://").partition("/")[0]
        yield RegistryLogin(host, username, password)
