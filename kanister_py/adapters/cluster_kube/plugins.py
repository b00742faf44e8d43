"""Credential plugins: programs that say who we are to an API server, within a time limit."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

_SECONDS: Final = 30.0
_SECONDS_WITH_PEOPLE: Final = 300.0
"""A plugin that may ask a person at a terminal, who has to find a browser first."""
_MOST_BYTES: Final = 1 << 20
_CERTIFICATE: Final = ("clientCertificateData", "clientKeyData")


class Given(NamedTuple):
    """Credentials from a plugin, as a kubeconfig has them, and until when they are good."""

    user: dict[str, str]
    expires: datetime | None


def run_plugin(plugin: Any, cluster: Any, folder: str | None, seconds: float = 0.0) -> Given:
    """Run the plugin of a user of a kubeconfig. Raises `ConfigException`."""
    from kubernetes.config import ConfigException
    from kubernetes.config.exec_provider import ExecProvider

    provider: Any = ExecProvider(plugin, folder, cluster)  # type: ignore[no-untyped-call] # the client has no types
    mode = plugin.safe_get("interactiveMode") or "IfAvailable"
    has_people = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    limit = seconds or (_SECONDS_WITH_PEOPLE if has_people else _SECONDS)
    name = provider.args[0]
    environment = {
        **provider.env,
        "KUBERNETES_EXEC_INFO": _exec_info(provider, has_people=has_people),
    }
    printed, complained = _output_of(provider, environment, has_people=has_people, seconds=limit)
    if printed is None:
        raise ConfigException(f"the credential plugin {name} {complained}")
    try:
        answer = json.loads(printed)
        status, version = answer["status"], answer["apiVersion"]
        end = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(end) if end else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigException(f"the credential plugin {name} printed no ExecCredential") from None
    if version != provider.api_version:
        why = f"answers as {version}, and {provider.api_version} is expected"
        raise ConfigException(f"the credential plugin {name} {why}")
    token, pair = status.get("token"), [status.get(key) for key in _CERTIFICATE]
    user: dict[str, str] = {}
    if isinstance(token, str) and token:
        user["token"] = token
    if all(isinstance(text, str) and text for text in pair):
        certificate, key = (base64.b64encode(text.encode()).decode() for text in pair)
        user |= {"client-certificate-data": certificate, "client-key-data": key}
    if not user:
        raise ConfigException(f"the credential plugin {name} gave no credentials")
    return Given(user, expires)


def _exec_info(provider: Any, *, has_people: bool) -> str:
    """Describe its surroundings to a plugin."""
    spec: dict[str, Any] = {"interactive": has_people}
    if provider.cluster:
        spec["cluster"] = cluster = dict(provider.cluster.value)
        for extension in cluster.get("extensions") or ():
            if extension["name"] == "client.authentication.k8s.io/exec":
                cluster["config"] = extension["extension"]
    info = {"apiVersion": provider.api_version, "kind": "ExecCredential", "spec": spec}
    return json.dumps(info)


def _output_of(
    provider: Any, environment: dict[str, str], *, has_people: bool, seconds: float
) -> tuple[bytes | None, str]:
    """Give what a plugin prints, or nothing and why."""
    try:
        process = subprocess.Popen(  # noqa: S603 # the program that the user's own file names
            provider.args,
            stdin=None if has_people else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if has_people else subprocess.PIPE,
            cwd=provider.cwd,
            env=environment,
            # A group of its own ends with it; one at a terminal must stay there.
            start_new_session=not has_people,
        )
    except OSError as error:
        return None, f"cannot be started: {error.strerror or error}"
    with process:
        try:
            printed, complained = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, f"gave no credentials within {seconds:g}s"
        finally:
            with suppress(ProcessLookupError):
                if has_people:
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
    if process.returncode or len(printed) > _MOST_BYTES:
        words = " ".join((complained or b"").decode(errors="replace").split())[-300:]
        return None, f"gave no credentials: it ended with {process.returncode} {words}".rstrip()
    return printed, ""
