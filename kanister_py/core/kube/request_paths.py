"""Request paths of the Kubernetes API, and the grammar of the names in them.

Every path that is sent to an API server is built here. A group, version or name that comes
from an ActionSet, a template or a function could otherwise end the request line and start a
second request with our credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

from kanister_py.core.errors import BadRequest
from kanister_py.core.kube.names import MAX_LABEL, MAX_SUBDOMAIN
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.models import refusal

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_SIGN: Final = r"[^/%\x00-\x1f\x7f]"
_SIGN_BUT_DOT: Final = r"[^./%\x00-\x1f\x7f]"
# Some kinds allow almost any name, such as `system:node` among ClusterRoles.
_NAME: Final = rf"{_SIGN_BUT_DOT}{_SIGN}*|\.{_SIGN_BUT_DOT}{_SIGN}*|\.\.{_SIGN}+"


class Grammar(NamedTuple):
    """Grammar of one field of an object's address. `pattern` is RE2 and describes all of it."""

    title: str
    pattern: str
    max_length: int
    hint: str

    def problem_with(self, value: str) -> str:
        """Return why `value` does not match, or an empty string."""
        if not value:
            return f"{self.title} must not be empty"
        shown = repr(value if len(value) <= MAX_LABEL else f"{value[:MAX_LABEL]}…")
        if len(value) > self.max_length:
            return f"{shown} is not {self.title}: at most {self.max_length} characters are allowed"
        if _compiled(self.pattern).fullmatch(value) and not _SURROGATE.search(value):
            return ""
        return f"{shown} is not {self.title}: {self.hint}"


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


_LOWER: Final = "use lower case letters, digits and '-', such as"

GRAMMARS: Final[Mapping[str, Grammar]] = {
    "group": Grammar(
        "an API group", _SUBDOMAIN, MAX_SUBDOMAIN, f"{_LOWER} apps or snapshot.storage.k8s.io"
    ),
    "version": Grammar("an API version", _LABEL_1035, MAX_LABEL, f"{_LOWER} v1 or v1beta1"),
    "apiVersion": Grammar(
        "an apiVersion",
        rf"({_SUBDOMAIN}/)?{_LABEL_1035}",
        MAX_SUBDOMAIN + 1 + MAX_LABEL,
        "write VERSION or GROUP/VERSION, such as v1 or apps/v1",
    ),
    "resource": Grammar("a plural resource name", _LABEL_1035, MAX_LABEL, f"{_LOWER} deployments"),
    "subresource": Grammar("a subresource", _LABEL_1035, MAX_LABEL, f"{_LOWER} status"),
    "kind": Grammar(
        "a kind",
        r"[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?",
        MAX_LABEL,
        "use letters, digits and '-', such as Deployment",
    ),
    "namespace": Grammar("a namespace", _LABEL, MAX_LABEL, f"{_LOWER} my-namespace"),
    "name": Grammar(
        "an object name",
        _NAME,
        MAX_SUBDOMAIN,
        "'.', '..', '/', '%' and control characters are not allowed",
    ),
    "blueprint": Grammar(
        "the name of a Blueprint",
        rf"({_LABEL}/)?({_NAME})",
        MAX_LABEL + 1 + MAX_SUBDOMAIN,
        "write NAME, or NAMESPACE/NAME for one of another namespace",
    ),
}
"""Grammars of the fields that address an object, by their names in YAML."""


class AddressPart:
    """Grammar of a model's field, for validation and its schema. Empty strings are allowed."""

    def __init__(self, field: str) -> None:
        self._grammar = GRAMMARS[field]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        grammar = self._grammar
        limits = {"maxLength": grammar.max_length, "pattern": f"^({grammar.pattern})?$"}
        return {**handler(schema), **limits}

    def _check(self, value: str) -> str:
        if value and (problem := self._grammar.problem_with(value)):
            raise refusal(problem)
        return value


GroupText = Annotated[str, AddressPart("group")]
ApiVersionText = Annotated[str, AddressPart("apiVersion")]
ResourceText = Annotated[str, AddressPart("resource")]
KindText = Annotated[str, AddressPart("kind")]
NamespaceText = Annotated[str, AddressPart("namespace")]
NameText = Annotated[str, AddressPart("name")]
BlueprintText = Annotated[str, AddressPart("blueprint")]

# Surrogates are possible in JSON strings but cannot be encoded in UTF-8.
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
# urlencode and quote escape everything else.
_TARGET: Final = re.compile(r"/[!-\"$-~]*")
_HEADER_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")


def problem_with(field: str, value: str) -> str:
    """Return why `value` cannot be a field of an object's address, or an empty string."""
    return GRAMMARS[field].problem_with(value)


def problems_with(fields: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the fields of an object's address that do not match their grammar, with the reason.

    Fields that are empty or unknown are skipped.
    """
    for field, value in fields.items():
        grammar = GRAMMARS.get(field)
        if grammar is not None and value and (problem := grammar.problem_with(str(value))):
            yield field, problem


def api_path(api_version: str) -> str:
    """Build the path of a group and version, without a leading slash: `api/v1`, `apis/apps/v1`."""
    _check("apiVersion", api_version)
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def collection_path(resource: GroupVersionResource, namespace: str = "") -> str:
    """Build the path of all objects of a resource, in one namespace or in the cluster."""
    check_resource(resource)
    prefix = f"/{api_path(resource.api_version)}"
    if not namespace:
        return f"{prefix}/{resource.resource}"
    _check("namespace", namespace)
    return f"{prefix}/namespaces/{namespace}/{resource.resource}"


def object_path(
    resource: GroupVersionResource, namespace: str, name: str, subresource: str = ""
) -> str:
    """Build the path of one object or of its subresource."""
    _check("name", name)
    path = f"{collection_path(resource, namespace)}/{quote(name, safe='')}"
    if not subresource:
        return path
    _check("subresource", subresource)
    return f"{path}/{subresource}"


def request_target(path: str, query: Sequence[tuple[str, str]]) -> str:
    """Build the target of a request line. Raise BadRequest if it could end the line."""
    target = f"{path}?{urlencode(query, errors='replace')}" if query else path
    if not _TARGET.fullmatch(target):
        raise BadRequest(f"{target[:200]!r} is not the path of a request")
    return target


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise BadRequest if a header's value could end its line. Values are not shown."""
    for name, value in headers.items():
        if not _HEADER_VALUE.fullmatch(value):
            raise BadRequest(f"The value of header {name} contains control characters")


@lru_cache(maxsize=1024)
def check_resource(resource: GroupVersionResource) -> None:
    """Raise BadRequest if a resource cannot be part of a path."""
    if resource.group:
        _check("group", resource.group)
    _check("version", resource.version)
    _check("resource", resource.resource)


def _check(field: str, value: str) -> None:
    if problem := GRAMMARS[field].problem_with(value):
        raise BadRequest(problem[0].upper() + problem[1:])
