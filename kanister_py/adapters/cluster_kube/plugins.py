"""Credential plugins: programs that return credentials for an API server."""

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
"""Time limit of a plugin that may prompt a user at a terminal and open a browser."""
_MOST_BYTES: Final = 1 << 20
_CERTIFICATE: Final = ("clientCertificateData", "clientKeyData")


class PluginCredentials(NamedTuple):
    """Credentials of a plugin, as fields of a kubeconfig, and their expiry."""

    user: dict[str, str]
    expires: datetime | None


def run_plugin(
    plugin: Any, cluster: Any, folder: str | None, seconds: float = 0.0
) -> PluginCredentials:
    """Run the credential plugin of a user in a kubeconfig. Raises `ConfigException`."""
    from kubernetes.config import ConfigException
    from kubernetes.config.exec_provider import ExecProvider

    provider: Any = ExecProvider(plugin, folder, cluster)  # type: ignore[no-untyped-call] # the client has no types
    mode = plugin.safe_get("interactiveMode") or "IfAvailable"
    is_interactive = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    limit = seconds or (_SECONDS_WITH_PEOPLE if is_interactive else _SECONDS)
    name = provider.args[0]
    environment = {
        **provider.env,
        "KUBERNETES_EXEC_INFO": _exec_info(provider, is_interactive=is_interactive),
    }
    printed, problem = _output_of(
        provider, environment, is_interactive=is_interactive, seconds=limit
    )
    if printed is None:
        raise ConfigException(f"the credential plugin {name} {problem}")
    try:
        answer = json.loads(printed)
        status, version = answer["status"], answer["apiVersion"]
        end = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(end) if end else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigException(f"the credential plugin {name} printed no ExecCredential") from None
    if version != provider.api_version:
        why = f"returned {version} instead of {provider.api_version}"
        raise ConfigException(f"the credential plugin {name} {why}")
    token, pair = status.get("token"), [status.get(key) for key in _CERTIFICATE]
    user: dict[str, str] = {}
    if isinstance(token, str) and token:
        user["token"] = token
    if all(isinstance(text, str) and text for text in pair):
        certificate, key = (base64.b64encode(text.encode()).decode() for text in pair)
        user |= {"client-certificate-data": certificate, "client-key-data": key}
    if not user:
        raise ConfigException(f"the credential plugin {name} returned no credentials")
    return PluginCredentials(user, expires)


def _exec_info(provider: Any, *, is_interactive: bool) -> str:
    """Return the ExecCredential object that describes the environment to a plugin."""
    spec: dict[str, Any] = {"interactive": is_interactive}
    if provider.cluster:
        spec["cluster"] = cluster = dict(provider.cluster.value)
        for extension in cluster.get("extensions") or ():
            if extension["name"] == "client.authentication.k8s.io/exec":
                cluster["config"] = extension["extension"]
    info = {"apiVersion": provider.api_version, "kind": "ExecCredential", "spec": spec}
    return json.dumps(info)


def _output_of(
    provider: Any, environment: dict[str, str], *, is_interactive: bool, seconds: float
) -> tuple[bytes | None, str]:
    """Return the output of a plugin, or an empty output and the reason of the failure."""
    try:
        process = subprocess.Popen(  # noqa: S603 # the program that the user's own file names
            provider.args,
            stdin=None if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if is_interactive else subprocess.PIPE,
            cwd=provider.cwd,
            env=environment,
            # A separate process group is killed as a whole. With a terminal, the plugin must stay
            # in the foreground group.
            start_new_session=not is_interactive,
        )
    except OSError as error:
        return None, f"cannot be started: {error.strerror or error}"
    with process:
        try:
            printed, complained = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, f"returned no credentials within {seconds:g}s"
        finally:
            with suppress(ProcessLookupError):
                if is_interactive:
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
    if process.returncode or len(printed) > _MOST_BYTES:
        words = " ".join((complained or b"").decode(errors="replace").split())[-300:]
        return None, f"returned no credentials: exit code {process.returncode} {words}".rstrip()
    return printed, ""
