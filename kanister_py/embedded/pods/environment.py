"""Environment of containers, and the values of `$(NAME)`s."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kanister_py.core.errors import TransientError
from kanister_py.core.kube.parts import spec_of, status_of
from kanister_py.ports.pods import PodSources


class ContainerConfigError(TransientError, reason="CreateContainerConfigError"):
    """An environment that refers to what is not there, or not yet."""


DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NODE_IP: Final = "127.0.0.1"
"""The address of every Service, and of every pod that was not given one of its own."""

_API_SERVER: Final = ("default", "kubernetes")
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_ENVIRONMENT_NAME: Final = re.compile(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")
_SUBSCRIPT: Final = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


def address_of(pod: Mapping[str, Any]) -> str:
    """Say under which address a pod's processes are reached.

    A node that has addresses to give writes one into the pod's status before it starts.
    """
    return str(status_of(pod).get("podIP") or NODE_IP)


def expand(text: str, known: Mapping[str, str]) -> str:
    """Put values in place of `$(NAME)`; unknown names stay, `$$` is one `$`."""

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return known.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def environment_of(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    sources: PodSources,
    given: Mapping[str, str],
    helpers_folder: str,
) -> dict[str, str]:
    """Say what a container finds in its environment.

    Nothing of our own environment is in there. `given` is what pods get from
    us; a container's own settings come later and win, but PATH always begins
    with our helpers.
    """
    spec, metadata = pod["spec"], pod["metadata"]
    env = {"PATH": DEFAULT_PATH, "HOME": _home(), "HOSTNAME": hostname_of(pod)}
    # restic works without a cache where it cannot make one. HOME is the user's, and a cache in a
    # pod that lives on would keep what was damaged on its way.
    env |= {"RESTIC_CACHE_DIR": "/dev/null/restic-cache", **given}
    # All pods get the API server's, and those that want them the others.
    linked = "" if spec.get("enableServiceLinks") is False else metadata["namespace"]
    env |= service_environment(linked, sources.services())
    for source in container.get("envFrom") or ():
        env |= _env_from(metadata["namespace"], source, sources)
    for entry in container.get("env") or ():
        value = _env_value(pod, entry, sources, env)
        if value is not None:
            env[entry["name"]] = value
    env["PATH"] = f"{helpers_folder}:{env['PATH']}"
    return env


def hostname_of(pod: Mapping[str, Any]) -> str:
    """Say by which name a pod's processes know their machine."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def service_environment(namespace: str, services: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Give the variables for the Services of a namespace, and for the API server's.

    No proxy stands before a Service here: the port is that on which its
    process listens.
    """
    env: dict[str, str] = {}
    for service in services:
        metadata, ports = service["metadata"], spec_of(service).get("ports") or ()
        at = metadata.get("namespace")
        if not ports or (at != namespace and (at, metadata["name"]) != _API_SERVER):
            continue
        name = re.sub(r"[^A-Z0-9_]", "_", service["metadata"]["name"].upper())
        env[f"{name}_SERVICE_HOST"] = NODE_IP
        for index, port in enumerate(ports):
            number = service_port(port)
            if index == 0:
                env[f"{name}_SERVICE_PORT"] = str(number)
                env[f"{name}_PORT"] = f"tcp://{NODE_IP}:{number}"
            if port.get("name"):
                port_name = re.sub(r"[^A-Z0-9_]", "_", port["name"].upper())
                env[f"{name}_SERVICE_PORT_{port_name}"] = str(number)
            protocol = port.get("protocol", "TCP")
            prefix = f"{name}_PORT_{port['port']}_{protocol}"
            env[prefix] = f"{protocol.lower()}://{NODE_IP}:{number}"
            env[f"{prefix}_PROTO"] = protocol.lower()
            env[f"{prefix}_PORT"] = str(number)
            env[f"{prefix}_ADDR"] = NODE_IP
    return env


def service_port(port: Mapping[str, Any]) -> int:
    """Say on which port a Service's process listens; for a named port, take the Service's own."""
    target = port.get("targetPort")
    return target if isinstance(target, int) else int(port["port"])


def field_of(pod: Mapping[str, Any], path: str) -> str:
    """Say what the downward API tells about a field of a pod."""
    metadata, spec = pod["metadata"], pod["spec"]
    if subscript := _SUBSCRIPT.match(path):
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        entries = metadata.get(path.rpartition(".")[2]) or {}
        return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted(entries.items()))
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.podIP": address_of(pod),
        "status.podIPs": address_of(pod),
        "status.hostIP": NODE_IP,
        "status.hostIPs": NODE_IP,
    }
    if path not in fields:
        raise ContainerConfigError(f"The field {path} of a pod cannot be told to it")
    return str(fields[path])


def data_of(obj: Mapping[str, Any]) -> dict[str, bytes]:
    """Give everything a ConfigMap or a Secret holds."""
    if obj.get("kind") == "Secret":
        data = {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
        return data | {k: str(v).encode() for k, v in (obj.get("stringData") or {}).items()}
    texts = {key: str(value).encode() for key, value in (obj.get("data") or {}).items()}
    binary = obj.get("binaryData") or {}
    return texts | {key: base64.b64decode(value) for key, value in binary.items()}


def _env_from(namespace: str, source: Mapping[str, Any], sources: PodSources) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    reference = source.get("configMapRef") or source.get("secretRef") or {}
    kind = "configmap" if "configMapRef" in source else "secret"
    find = sources.config_map if kind == "configmap" else sources.secret
    obj = find(namespace, reference.get("name", ""))
    if obj is None:
        if reference.get("optional"):
            return {}
        raise ContainerConfigError(f'{kind} "{reference.get("name", "")}" not found')
    return {
        prefix + key: value.decode("utf-8", "surrogateescape")
        for key, value in data_of(obj).items()
        if _ENVIRONMENT_NAME.match(prefix + key)
    }


def _env_value(
    pod: Mapping[str, Any],
    entry: Mapping[str, Any],
    sources: PodSources,
    known: Mapping[str, str],
) -> str | None:
    origin = entry.get("valueFrom")
    if not origin:
        return expand(str(entry.get("value") or ""), known)
    if reference := origin.get("fieldRef"):
        return field_of(pod, reference["fieldPath"])
    if "resourceFieldRef" in origin:
        raise ContainerConfigError("resourceFieldRef is not known to pods as processes")
    return _key_value(pod["metadata"]["namespace"], origin, sources)


def _key_value(namespace: str, origin: Mapping[str, Any], sources: PodSources) -> str | None:
    if "configMapKeyRef" in origin:
        kind, reference, find = "configmap", origin["configMapKeyRef"], sources.config_map
    else:
        kind, reference, find = "secret", origin.get("secretKeyRef") or {}, sources.secret
    name, key = reference.get("name", ""), reference.get("key", "")
    obj = find(namespace, name)
    data = data_of(obj) if obj is not None else {}
    if key in data:
        return data[key].decode("utf-8", "surrogateescape")
    if reference.get("optional"):
        return None
    if obj is None:
        raise ContainerConfigError(f'{kind} "{name}" not found')
    raise ContainerConfigError(f"couldn't find key {key} in {kind} {namespace}/{name}")


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _home() -> str:
    # The programs are this machine's, and so is the home they look for settings in.
    return os.path.expanduser("~")  # noqa: PTH111 - text is what an environment holds
