"""Keys and lifetimes of cached responses. Equal requests have equal keys."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from hashlib import blake2b, sha256
from json import JSONEncoder
from typing import Any, NamedTuple

from kanister_py.core.compositions.messages import Data, FunctionRequest, FunctionResponse, Part
from kanister_py.core.registry.entries import FunctionRevision

# Metadata that the cluster changes even if the content of an object stays the same.
_NOISE = ("managedFields", "resourceVersion")

_encode = JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode


class CacheKey(NamedTuple):
    """Key of a cached response: the revision of the function, and the request."""

    revision: str
    tag: str

    @classmethod
    def of(cls, revision: FunctionRevision, tag: str) -> CacheKey:
        # The name of a revision can be reused for other content. Digest, number or endpoint differ
        # then.
        parts = (revision.function, revision.name, str(revision.number), revision.digest)
        return cls("|".join((*parts, revision.endpoint)), tag)


class Digests:
    """Hashes of the objects in one run of a pipeline. Every object is hashed once.

    Steps mostly return the desired objects of earlier steps unchanged, so hashes are stored by the
    identity of the object. A reference to the object is kept so that its `id` is not reused.

    In parts that were received as bytes, the order of map keys may differ each time. With
    `is_exact`, such parts are decoded and hashed with sorted keys. Otherwise the bytes are hashed
    as they are. That is sufficient for a tag that is not used as a cache key, and saves decoding
    and sorting, which would take longer than the call.
    """

    def __init__(self, *, is_exact: bool = True) -> None:
        self._known: dict[int, tuple[Any, bytes]] = {}
        self._is_exact = is_exact

    def of(self, value: Any) -> bytes:
        """Hash a JSON value, without the metadata that the cluster changes by itself."""
        entry = self._known.get(id(value))
        if entry is not None:
            return entry[1]
        kept = _without_noise(value)
        if not self._is_exact:
            try:
                return self._note(value, _fast_hash(marshal.dumps(kept, 0)))
            except ValueError:  # too deep, or no plain JSON
                pass
        return self._note(value, sha256(_encode(kept).encode()).digest())

    def _note(self, value: Any, digest: bytes) -> bytes:
        self._known[id(value)] = (value, digest)
        return digest

    def of_part(self, part: Part) -> bytes:
        """Hash a State or a Struct message, object by object."""
        received = None if self._is_exact else part.as_received
        if received is not None:
            entry = self._known.get(id(part))
            if entry is not None:
                return entry[1]
            return self._note(part, _fast_hash(received))
        data = part.data
        entry = self._known.get(id(data))
        if entry is not None:
            return entry[1]
        digest = sha256()
        for key in sorted(data):
            value = data[key]
            digest.update(f"{key}\n".encode())
            if key == "resources" and isinstance(value, dict):
                for name in sorted(value):
                    digest.update(f"{name}\n".encode())
                    self._add_resource(digest, value[name])
            elif key == "composite":
                self._add_resource(digest, value)
            else:
                digest.update(self.of(value) if isinstance(value, dict) else _plain(value))
        return self._note(data, digest.digest())

    def of_resources(self, resources: Mapping[str, Data]) -> bytes:
        """Hash a map of Resources."""
        digest = sha256()
        for name in sorted(resources):
            digest.update(f"{name}\n".encode())
            for item in resources[name].get("items") or ():
                self._add_resource(digest, item)
        return digest.digest()

    def _add_resource(self, digest: Any, value: Any) -> None:
        if not isinstance(value, dict):
            digest.update(_plain(value))
            return
        for key in sorted(value):
            inside = value[key]
            digest.update(f"{key}:".encode())
            digest.update(self.of(inside) if isinstance(inside, dict) else _plain(inside))


def _fast_hash(data: bytes) -> bytes:
    """Hash data for a tag that is not stored, in half the time of SHA-256."""
    return blake2b(data, digest_size=32).digest()


def _plain(value: Any) -> bytes:
    return f"{_encode(value)}\n".encode()


def _without_noise(value: Any) -> Any:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict) or not any(key in metadata for key in _NOISE):
        return value
    kept = {key: value for key, value in metadata.items() if key not in _NOISE}
    return {**value, "metadata": kept}


def tag_of(request: FunctionRequest, digests: Digests) -> str:
    """Return the tag of a request. Metadata that the cluster changes by itself is ignored."""
    digest = sha256()
    for part in (request.observed, request.desired, request.context):
        digest.update(digests.of_part(part))
    for value in (request.input, request.credentials, request.required_schemas):
        digest.update(digests.of(value) if value is not None else b"-")
    for resources in (request.required_resources, request.extra_resources):
        digest.update(digests.of_resources(resources) if resources is not None else b"-")
    return digest.hexdigest()


def cache_seconds(response: FunctionResponse, override: float | None) -> float:
    """Return for how long a response may be cached; zero for a fatal one.

    `override` is the `ttl` of the step, which overrides the TTL of the response.
    """
    if response.is_fatal:
        return 0.0
    return max(response.ttl_seconds if override is None else override, 0.0)


def is_storable(request: FunctionRequest, response: FunctionResponse) -> bool:
    """Return whether a response may be stored on disk.

    It may not if the request has credentials, or if observed, desired or required resources are
    Secrets or have connection details. The context is not checked.
    """
    if request.credentials:
        return False
    required = {**(request.required_resources or {}), **(request.extra_resources or {})}
    return not (
        any(map(_is_secret, _resources_of(request.observed.data)))
        or any(map(_is_secret, _resources_of(response.desired.data)))
        or any(
            _is_secret(item) for matches in required.values() for item in matches.get("items") or ()
        )
    )


def _resources_of(state: Data) -> list[Any]:
    return [state.get("composite"), *(state.get("resources") or {}).values()]


def _is_secret(resource: Any) -> bool:
    if not isinstance(resource, dict):
        return False
    manifest = resource.get("resource")
    is_secret = isinstance(manifest, dict) and manifest.get("kind") == "Secret"
    return is_secret or bool(resource.get("connectionDetails"))
