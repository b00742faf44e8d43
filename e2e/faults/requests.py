"""Parsing of Kubernetes requests from their request line."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

_WRITES: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_STREAMED: Final = ("log", "exec", "attach", "portforward")


class ApiRequest(NamedTuple):
    """One request, in terms of RBAC."""

    verb: str
    """`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`."""
    group: str
    resource: str
    """Empty for what is no resource, such as discovery."""
    subresource: str
    namespace: str
    name: str
    method: str
    path: str
    """With its query."""
    user_agent: str
    authorization: str
    body: bytes

    @property
    def is_write(self) -> bool:
        return self.method in _WRITES

    @property
    def is_stream(self) -> bool:
        """Return whether the response is a stream without a fixed end."""
        return self.verb == "watch" or self.subresource in _STREAMED


def parse_request(method: str, path: str, headers: dict[str, str], body: bytes) -> ApiRequest:
    """Parse method and path into verb and resource."""
    url = urlsplit(path)
    parts = [unquote(part) for part in url.path.strip("/").split("/")]
    group = namespace = resource = name = subresource = ""
    segments: list[str] = []
    if parts[0] == "api" and len(parts) > 2:
        segments = parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, segments = parts[1], parts[3:]
    if (
        segments[:1] == ["namespaces"]
        and len(segments) > 2
        and segments[2] not in {"status", "finalize"}
    ):
        namespace, segments = segments[1], segments[2:]
    if segments:
        resource, name, subresource = (*segments, "", "")[:3]
    return ApiRequest(
        _verb_of(method, resource, name, parse_qs(url.query)),
        group,
        resource,
        subresource,
        namespace,
        name,
        method,
        path,
        headers.get("user-agent", ""),
        headers.get("authorization", ""),
        body,
    )


def _verb_of(method: str, resource: str, name: str, query: dict[str, list[str]]) -> str:
    if method in _WRITES:
        return "deletecollection" if method == "DELETE" and not name else _WRITES[method]
    if query.get("watch", ["0"])[-1].lower() in {"1", "true"}:
        return "watch"
    return "list" if resource and not name else "get"
