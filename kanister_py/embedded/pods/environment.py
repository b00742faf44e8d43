"""Environment of containers, and expansion of `$(NAME)` references."""

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
    """The environment refers to an object that does not exist (yet)."""


DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NODE_IP: Final = "127.0.0.1"
"""Address of all Services, and of pods to which the node assigned none."""

_API_SERVER: Final = ("default", "kubernetes")
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_ENVIRONMENT_NAME: Final = re.compile(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")
_SUBSCRIPT: Final = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


def address_of(pod: Mapping[str, Any]) -> str:
    """Return the address of a pod's processes.

    A node with addresses writes one into the pod's status before it starts.
    """
    return str(status_of(pod).get("podIP") or NODE_IP)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by values. Unknown names are kept, and `$$` is an escaped `$`."""

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def environment_of(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    sources: PodSources,
    base: Mapping[str, str],
    helpers_folder: str,
) -> dict[str, str]:
    """Build the environment of a container.

    It contains nothing of the environment of this process. `base` has a lower precedence than the
    variables of the container, except that PATH always begins with our helpers.
    """
    spec, metadata = pod["spec"], pod["metadata"]
    env = {"PATH": DEFAULT_PATH, "HOME": _home(), "HOSTNAME": hostname_of(pod)}
    # If restic cannot create its cache, it works without one. HOME is that of the user, and a
    # cache in a long-running pod could keep damaged data.
    env |= {"RESTIC_CACHE_DIR": "/dev/null/restic-cache", **base}
    # All pods get the variables of the API server.
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
    """Return the host name of a pod."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def service_environment(namespace: str, services: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the variables for the Services of a namespace and for the API server.

    Services have no proxy here, so the ports are those on which the processes listen.
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
    """Return the port on which the process of a Service listens."""
    target = port.get("targetPort")
    return target if isinstance(target, int) else int(port["port"])


def field_of(pod: Mapping[str, Any], path: str) -> str:
    """Return the value of a field for the downward API."""
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
        raise ContainerConfigError(f"Field {path} of a pod is not supported by the downward API")
    return str(fields[path])


def data_of(obj: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the decoded data of a ConfigMap or Secret."""
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
    variables: Mapping[str, str],
) -> str | None:
    origin = entry.get("valueFrom")
    if not origin:
        return expand(str(entry.get("value") or ""), variables)
    if reference := origin.get("fieldRef"):
        return field_of(pod, reference["fieldPath"])
    if "resourceFieldRef" in origin:
        raise ContainerConfigError("resourceFieldRef is not supported by pods as processes")
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
    # Programs of this machine look for their settings in the user's home.
    return os.path.expanduser("~")  # noqa: PTH111 - text is what an environment holds
