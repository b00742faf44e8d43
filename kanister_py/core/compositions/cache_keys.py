"""Cache keys: equal requests have one, and answers a time for which they are kept."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from hashlib import blake2b, sha256
from json import JSONEncoder
from typing import Any, NamedTuple

from kanister_py.core.compositions.messages import Data, FunctionRequest, FunctionResponse, Part
from kanister_py.core.registry.entries import FunctionRevision

# What a cluster changes by itself.
_NOISE = ("managedFields", "resourceVersion")

_encode = JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode


class CacheKey(NamedTuple):
    """Key of a kept answer: a revision, never a name alone, and a request."""

    revision: str
    tag: str

    @classmethod
    def of(cls, revision: FunctionRevision, tag: str) -> CacheKey:
        # A name may come again with other content; its digest, number and endpoint do not.
        parts = (revision.function, revision.name, str(revision.number), revision.digest)
        return cls("|".join((*parts, revision.endpoint)), tag)


class Digests:
    """The hashes of objects that pass through one run of a pipeline, each made once.

    Most of what a step desires is what the step before desired, the same objects in
    memory. They are held on to, so that no other object takes their place in there.

    What came over a wire may have its parts in another order each time. Unless
    `is_exact`, its bytes are hashed all the same, and objects as their keys stand: for a
    tag that is never looked up that is good enough, and reading or sorting them would take
    longer than the call.
    """

    def __init__(self, *, is_exact: bool = True) -> None:
        self._known: dict[int, tuple[Any, bytes]] = {}
        self._is_exact = is_exact

    def of(self, value: Any) -> bytes:
        """Hash a value of JSON; what stands in metadata for the cluster's own use is left out."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        kept = _without_noise(value)
        if not self._is_exact:
            try:
                return self._note(value, _passing(marshal.dumps(kept, 0)))
            except ValueError:  # too deep, or no plain JSON
                pass
        return self._note(value, sha256(_encode(kept).encode()).digest())

    def _note(self, value: Any, digest: bytes) -> bytes:
        self._known[id(value)] = (value, digest)
        return digest

    def of_part(self, part: Part) -> bytes:
        """Hash a State or a Struct, object by object."""
        received = None if self._is_exact else part.as_received
        if received is not None:
            known = self._known.get(id(part))
            if known is not None:
                return known[1]
            return self._note(part, _passing(received))
        data = part.data
        known = self._known.get(id(data))
        if known is not None:
            return known[1]
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

    def of_resources(self, found: Mapping[str, Data]) -> bytes:
        """Hash a map of Resources."""
        digest = sha256()
        for name in sorted(found):
            digest.update(f"{name}\n".encode())
            for item in found[name].get("items") or ():
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


def _passing(data: bytes) -> bytes:
    """Hash what is not kept: of a large state, this takes half the time."""
    return blake2b(data, digest_size=32).digest()


def _plain(value: Any) -> bytes:
    return f"{_encode(value)}\n".encode()


def _without_noise(value: Any) -> Any:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict) or not any(key in metadata for key in _NOISE):
        return value
    kept = {key: each for key, each in metadata.items() if key not in _NOISE}
    return {**value, "metadata": kept}


def tag_of(request: FunctionRequest, digests: Digests) -> str:
    """Give the tag of a request: equal ones have one, whatever the cluster did to metadata."""
    digest = sha256()
    for part in (request.observed, request.desired, request.context):
        digest.update(digests.of_part(part))
    for value in (request.input, request.credentials, request.required_schemas):
        digest.update(digests.of(value) if value is not None else b"-")
    for found in (request.required_resources, request.extra_resources):
        digest.update(digests.of_resources(found) if found is not None else b"-")
    return digest.hexdigest()


def cache_seconds(response: FunctionResponse, override: float | None) -> float:
    """Say how long an answer may be kept; a fatal one never is."""
    if response.is_fatal:
        return 0.0
    return max(response.ttl_seconds if override is None else override, 0.0)


def is_storable(request: FunctionRequest, response: FunctionResponse) -> bool:
    """Say whether an answer may lie on a disk: nothing secret went in or came out."""
    if request.credentials:
        return False
    return not (_has_secrets(request.observed.data) or _has_secrets(response.desired.data))


def _has_secrets(state: Data) -> bool:
    resources = [state.get("composite"), *(state.get("resources") or {}).values()]
    for each in resources:
        if not isinstance(each, dict):
            continue
        if each.get("connectionDetails"):
            return True
        resource = each.get("resource")
        if isinstance(resource, dict) and resource.get("kind") == "Secret":
            return True
    return False
