"""Requests and responses of composition functions, as their authors see them.

    class Bucket(CompositionFunction):
        name = "function-bucket"

        def run(self, request):
            response = Response(request)
            region = request.composite["spec"]["region"]
            response.desire("bucket", {"apiVersion": "…", "kind": "Bucket", …})
            return response

Both are also mappings with the keys of the protocol's messages, so a function can read
`request["observed"]` and return a plain dict instead.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kanister_py.core.compositions.messages import (
    REQUEST_FIELDS,
    Data,
    FunctionRequest,
    FunctionResponse,
    Part,
    duration_of,
)
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.parts import condition_of

Model = TypeVar("Model", bound=BaseModel)


class InvalidResponse(UsageError, reason="InvalidResponse"):
    """A function built a response that the protocol cannot express."""


DEFAULT_TTL_SECONDS = 60.0
ENVIRONMENT = "apiextensions.crossplane.io/environment"

_STATUSES = {
    True: "STATUS_CONDITION_TRUE",
    False: "STATUS_CONDITION_FALSE",
    None: "STATUS_CONDITION_UNKNOWN",
}
_READY = {True: "READY_TRUE", False: "READY_FALSE"}


class Request(Mapping[str, Any]):
    """The request of one function call. As a mapping it has the keys of the message.

    Large parts are decoded on first access. They are shared, so they must not be modified. With
    `is_own` they are copies, which the function may modify. With `is_lazy`, the states that `lazy`
    returns decode their resources one by one.
    """

    __slots__ = ("_composite", "_data", "_is_lazy", "_is_own", "message")

    def __init__(
        self,
        message: FunctionRequest | Mapping[str, Any],
        *,
        is_own: bool = False,
        is_lazy: bool = False,
    ) -> None:
        if isinstance(message, Request):
            message = message.message
        self.message: FunctionRequest = (
            message if isinstance(message, FunctionRequest) else FunctionRequest.from_data(message)
        )
        self._is_own = is_own
        self._is_lazy = is_lazy
        self._data: Data = {}
        self._composite: Data | None = None

    def __getitem__(self, key: str) -> Any:
        if key not in self._data:
            value = self.message.value_of(key)
            if value is None:
                raise KeyError(key)
            self._data[key] = copy_json(value) if self._is_own else value
            if key == "observed" and self._is_own and self._composite:
                self._data[key]["composite"] = self._composite
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        for key, field in REQUEST_FIELDS.items():
            if getattr(self.message, field) is not None:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def lazy(self, key: str) -> Data:
        """Return `observed` or `desired`; with `is_lazy`, its resources are decoded one by one."""
        part: Part = getattr(self.message, key)
        state: Data = part.lazy if self._is_lazy else self[key]
        return state

    @property
    def tag(self) -> str:
        return self.message.tag

    @property
    def input(self) -> Data:
        """The input of the step; empty if it has none."""
        document: Data = self.get("input") or {}
        return document

    def parse_input(self, model: type[Model]) -> Model:
        """Parse the input of the step, or raise a `UsageError` that lists every problem.

        `apiVersion`, `kind` and `metadata` are left out if the model has no such fields.
        """
        named = {field.alias or name for name, field in model.model_fields.items()}
        document = {
            key: value
            for key, value in self.input.items()
            if key in named or key not in ("apiVersion", "kind", "metadata")
        }
        try:
            return model.model_validate(document)
        except ValidationError as error:
            problems = [
                f"{'.'.join(str(part) for part in one['loc']) or 'input'}: {one['msg']}"
                for one in error.errors(include_url=False, include_input=False)
            ]
            raise UsageError(
                f"The input of the step is refused: {'; '.join(problems)}",
                reason="InvalidFunctionInput",
            ) from None

    @property
    def composite(self) -> Data:
        """The observed composite resource."""
        return self._observed().get("resource", {})  # type: ignore[no-any-return]  # JSON

    @property
    def connection_details(self) -> dict[str, bytes]:
        """The connection details of the composite resource."""
        return _plain(self._observed())

    def _observed(self) -> Data:
        if "observed" in self._data:
            return self._data["observed"].get("composite") or {}
        if self._composite is None:
            # Only this resource is decoded, not the composed ones.
            composite = self.message.observed.lazy.get("composite") or {}
            self._composite = copy_json(composite) if self._is_own else composite
        return self._composite

    @property
    def resources(self) -> dict[str, Data]:
        """The observed composed resources, by their names within the composite resource."""
        observed = self["observed"].get("resources") or {}
        return {name: resource.get("resource", {}) for name, resource in observed.items()}

    def resource_connection_details(self, name: str) -> dict[str, bytes]:
        return _plain((self["observed"].get("resources") or {}).get(name) or {})

    def condition(self, type_: str, resource: str = "") -> Data:
        """Return a condition of the composite or a composed resource, or `{}` if it has none."""
        target = self.resources.get(resource, {}) if resource else self.composite
        return dict(condition_of(target, type_))

    @property
    def context(self) -> Data:
        return self["context"]  # type: ignore[no-any-return]  # JSON

    @property
    def environment(self) -> Data:
        """The data of environment configs; empty if there are none."""
        data: Data = self.context.get(ENVIRONMENT) or {}
        return data

    def credentials(self, name: str) -> dict[str, bytes]:
        """Return the credentials with this name, or `{}` if the step has none."""
        credential = (self.get("credentials") or {}).get(name) or {}
        data = (credential.get("credentialData") or {}).get("data") or {}
        return {key: b64decode(value) for key, value in data.items()}

    def required(self, name: str) -> list[Data] | None:
        """Return the resources required under a name, or None if they were not fetched yet."""
        for field in ("requiredResources", "extraResources"):
            resources = (self.get(field) or {}).get(name)
            if resources is not None:
                return [resource.get("resource", {}) for resource in resources.get("items") or ()]
        return None

    def required_schema(self, name: str) -> Data | None:
        """Return the OpenAPI schema required under a name.

        None if it was not fetched yet, or if the cluster has no such schema.
        """
        required = (self.get("requiredSchemas") or {}).get(name) or {}
        schema: Data | None = required.get("openapiV3")
        return schema

    def can(self, capability: str) -> bool:
        """Return whether the caller announced a capability, such as `REQUIRED_SCHEMAS`."""
        return f"CAPABILITY_{capability}" in self.message.capabilities


_ANSWER_KEYS = ("meta", "desired", "results", "context", "requirements", "conditions", "output")


class _Answer(Mapping[str, Any]):
    """A response under construction, which is also a mapping with the keys of the message."""

    __slots__ = (
        "_conditions",
        "_context",
        "_desired",
        "_has_undecoded",
        "_output",
        "_request",
        "_requirements",
        "_results",
        "ttl_seconds",
    )

    def __init__(
        self, request: Request | Mapping[str, Any], *, ttl_seconds: float = DEFAULT_TTL_SECONDS
    ) -> None:
        self._request = request if isinstance(request, Request) else Request(request)
        self.ttl_seconds = ttl_seconds
        self._desired: Data | None = None
        self._has_undecoded = False
        self._context: Data | None = None
        self._results: list[Data] = []
        self._conditions: list[Data] = []
        self._requirements: Data = {}
        self._output: Data | None = None

    @property
    def desired(self) -> Data:
        """The desired state, `composite` and `resources`. The function may modify it.

        All its resources are decoded. The methods for one resource decode only that one.
        """
        state = self._state()
        if self._has_undecoded:
            self._has_undecoded = False
            for name in list(self._resources()):
                self._resource(name)
        return state

    def _state(self) -> Data:
        """Return the desired state. Resources that are not decoded yet are not dicts."""
        if self._desired is None:
            self._desired = _copy_state(self._request.message.desired.lazy)
            self._has_undecoded = True
        return self._desired

    def _resources(self) -> Data:
        resources: Data = self._state().get("resources") or {}
        return resources

    def _resource(self, name: str) -> Data | None:
        resources = self._resources()
        resource = resources.get(name)
        if resource is not None and type(resource) is not dict:
            resource = resources[name] = copy_json(resource)
        return resource

    @property
    def context(self) -> Data:
        """The context for later steps. The function may modify it."""
        if self._context is None:
            self._context = copy_json(self._request.message.context.data)
        return self._context

    @property
    def is_changed(self) -> bool:
        """Whether the desired state was accessed, and so copied."""
        return self._desired is not None

    def as_message(self) -> FunctionResponse:
        """Return the response. Parts that were not accessed are forwarded without decoding."""
        request = self._request.message
        return FunctionResponse(
            desired=request.desired if self._desired is None else Part(self._desired),
            context=request.context if self._context is None else Part(self._context),
            results=tuple(self._results),
            conditions=tuple(self._conditions),
            requirements=self._requirements or None,
            ttl_seconds=self.ttl_seconds,
            tag=request.tag,
            output=self._output,
        )

    def _value_of(self, key: str) -> Any:
        """Return one part. The others are not accessed, since that would copy them."""
        match key:
            case "meta":
                meta: Data = {"tag": self._request.tag} if self._request.tag else {}
                return meta | ({"ttl": duration_of(self.ttl_seconds)} if self.ttl_seconds else {})
            case "desired" | "context":
                return getattr(self, key)
            case "results" | "requirements" | "conditions":
                return getattr(self, f"_{key}") or None
            case "output":
                return self._output
        return None

    def __getitem__(self, key: str) -> Any:
        value = self._value_of(key)
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return (key for key in _ANSWER_KEYS if self._value_of(key) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Response(_Answer):
    """The response of a function. It starts with the desired state of earlier functions.

    The desired state and the context of the request are copied on first access. The
    response may be cached for `ttl_seconds`; zero means that it must not be cached.
    """

    __slots__ = ()

    # The composite resource

    @property
    def composite(self) -> Data:
        """The desired composite resource. Only its status has an effect."""
        resource: Data = self._composite().setdefault("resource", {})
        return resource

    def _composite(self) -> Data:
        composite: Data = self._state().setdefault("composite", {})
        return composite

    def set_status(self, status: Mapping[str, Any] | BaseModel) -> None:
        """Merge fields into the status of the composite resource."""
        _merge(self.composite.setdefault("status", {}), _as_data(status))

    def set_composite_ready(self, ready: bool | None) -> None:
        """Set whether the composite resource is ready, regardless of its composed resources."""
        _set_ready(self._composite(), ready)

    def set_connection_details(self, details: Mapping[str, bytes | str]) -> None:
        """Add connection details of the composite resource."""
        self._composite().setdefault("connectionDetails", {}).update(_base64(details))

    # The composed resources

    def resource(self, name: str) -> Data | None:
        """Return a desired composed resource, or None. The function may modify it."""
        desired = self._resource(name)
        return None if desired is None else desired.setdefault("resource", {})

    @property
    def resources(self) -> Iterator[str]:
        """Names of the desired composed resources."""
        return iter(sorted(self._resources()))

    def desire(
        self,
        name: str,
        resource: Mapping[str, Any] | BaseModel,
        *,
        ready: bool | None = None,
        connection_details: Mapping[str, bytes | str] | None = None,
    ) -> None:
        """Set a desired composed resource, replacing one of the same name."""
        desired: Data = {"resource": _as_data(resource)}
        _set_ready(desired, ready)
        if connection_details:
            desired["connectionDetails"] = _base64(connection_details)
        self._state().setdefault("resources", {})[name] = desired

    def merge(self, name: str, resource: Mapping[str, Any] | BaseModel) -> None:
        """Merge fields into a desired composed resource; add the resource if it is missing."""
        desired = self._resource(name)
        if desired is None:
            desired = self._state().setdefault("resources", {})[name] = {}
        _merge(desired.setdefault("resource", {}), _as_data(resource))

    def undesire(self, name: str) -> None:
        """Remove a desired composed resource, so that it is deleted."""
        self._resources().pop(name, None)

    def set_ready(self, name: str, ready: bool | None) -> None:
        """Set whether a desired composed resource is ready."""
        resource = self._resource(name)
        if resource is None:
            raise InvalidResponse(f"Resource {name} is not desired, so its readiness cannot be set")
        _set_ready(resource, ready)

    # Results and conditions

    def normal(self, message: str, *, reason: str = "", to_claim: bool = False) -> None:
        self._say("NORMAL", message, reason, to_claim)

    def warning(self, message: str, *, reason: str = "", to_claim: bool = False) -> None:
        self._say("WARNING", message, reason, to_claim)

    def fatal(self, message: str, *, reason: str = "", to_claim: bool = False) -> None:
        """Add a fatal result: the pipeline stops and nothing is applied."""
        self._say("FATAL", message, reason, to_claim)

    def _say(self, severity: str, message: str, reason: str, to_claim: bool) -> None:
        result: Data = {"severity": f"SEVERITY_{severity}", "message": message}
        if reason:
            result["reason"] = reason
        self._results.append({**result, **_target(to_claim)})

    def set_condition(
        self,
        type_: str,
        status: bool | None,
        reason: str,
        message: str = "",
        *,
        to_claim: bool = False,
    ) -> None:
        """Set a condition of the composite resource. A status of None means Unknown."""
        condition: Data = {"type": type_, "status": _STATUSES[status], "reason": reason}
        if message:
            condition["message"] = message
        self._conditions.append({**condition, **_target(to_claim)})

    # Requirements

    def require(
        self,
        name: str,
        api_version: str,
        kind: str,
        *,
        match_name: str | None = None,
        match_labels: Mapping[str, str] | None = None,
        namespace: str | None = None,
    ) -> None:
        """Require resources. The function is called again, with the resources under `name`.

        A function must require the same resources in every call. Without `match_name` or
        `match_labels`, all resources of the kind are fetched.
        """
        if match_name is not None and match_labels is not None:
            raise InvalidResponse(
                f"Requirement {name} is by name and by labels; it must be one of them"
            )
        selector: Data = {"apiVersion": api_version, "kind": kind}
        if match_name is not None:
            selector["matchName"] = match_name
        if match_labels is not None:
            selector["matchLabels"] = {"labels": dict(match_labels)}
        if namespace is not None:
            selector["namespace"] = namespace
        self._requirements.setdefault("resources", {})[name] = selector

    def require_schema(self, name: str, api_version: str, kind: str) -> None:
        """Require the OpenAPI schema of a kind."""
        selector = {"apiVersion": api_version, "kind": kind}
        self._requirements.setdefault("schemas", {})[name] = selector

    def set_output(self, output: Mapping[str, Any]) -> None:
        """Set the output of the function. Only Operations use it, not Compositions."""
        self._output = copy_json(output)


def _copy_state(state: Data) -> Data:
    """Copy a state, except for resources that are not decoded yet."""
    copied: Data = {}
    for key, value in state.items():
        if key == "resources" and isinstance(value, Mapping):
            copied[key] = {
                name: copy_json(resource) if type(resource) is dict else resource
                for name, resource in value.items()
            }
        else:
            copied[key] = copy_json(value)
    return copied


def _as_data(value: Mapping[str, Any] | BaseModel) -> Data:
    """Copy an object, or dump the fields that were set in a model under their JSON names."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        copied: Data = copy_json(value)
        return copied
    data: Data = dump(mode="json", exclude_unset=True, by_alias=True)
    # In models of Kubernetes objects these two fields are defaults, so `exclude_unset` drops them.
    identity: Data = dump(mode="json", by_alias=True, include={"apiVersion", "api_version", "kind"})
    return {**{key: value for key, value in identity.items() if value is not None}, **data}


def _merge(into: Data, new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        old = into.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            _merge(old, value)
        else:
            into[key] = value


def _plain(resource: Mapping[str, Any]) -> dict[str, bytes]:
    details = resource.get("connectionDetails") or {}
    return {key: b64decode(value) for key, value in details.items()}


def _base64(details: Mapping[str, bytes | str]) -> dict[str, str]:
    return {
        key: b64encode(value.encode() if isinstance(value, str) else value).decode()
        for key, value in details.items()
    }


def _set_ready(resource: Data, ready: bool | None) -> None:
    if ready is None:
        resource.pop("ready", None)
    else:
        resource["ready"] = _READY[ready]


def _target(to_claim: bool) -> Data:
    return {"target": "TARGET_COMPOSITE_AND_CLAIM" if to_claim else "TARGET_COMPOSITE"}
