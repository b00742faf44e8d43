"""Inputs of steps by reference: in a ConfigMap, or as an artifact in a registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kanister_py.core.compositions.messages import Data
from kanister_py.core.errors import InvalidDocument, UsageError
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.revisions.package import PackageReference
from kanister_py.core.yaml.documents import parse_document


class InputRef(NamedTuple):
    """Reference to the input of a step in a ConfigMap.

    The default namespace is that of the composite resource. The key may be left out if the
    ConfigMap has only one.
    """

    name: str
    namespace: str = ""
    key: str = ""

    def selector(self, namespace: str) -> Data:
        """Return the selector of the ConfigMap, in the form of a function's requirement."""
        namespace = self.namespace or namespace
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "matchName": self.name,
            "namespace": namespace,
        }


class ArtifactRef(NamedTuple):
    """Reference to the input of a step in a registry, by digest."""

    package: PackageReference
    path: str = ""
    pull_secrets: tuple[str, ...] = ()


class StepInputUnusable(UsageError, reason="StepInputUnusable"):
    """The referenced input of a step is missing or invalid."""


def input_in(ref: InputRef, namespace: str, config_map: Mapping[str, Any] | None) -> Data:
    """Parse the input of a step in the referenced ConfigMap."""
    if not ref.namespace and not namespace:
        raise StepInputUnusable(
            f"inputRef names ConfigMap {ref.name} without a namespace, and the composite resource "
            "has none"
        )
    where = f"ConfigMap {ref.namespace or namespace}/{ref.name}"
    if config_map is None:
        raise StepInputUnusable(f"inputRef names {where}, which does not exist")
    data = mapping_of(config_map.get("data"))
    key = ref.key or (next(iter(data)) if len(data) == 1 else "")
    if key not in data:
        keys = f"it has {', '.join(sorted(data))}" if data else "it has none"
        problem = f"no key {key}" if key else "more than one key, or none; name one in inputRef"
        raise StepInputUnusable(f"{where} has {problem}: {keys}")
    return parse_input(str(data[key]), where, key)


def parse_input(text: str | bytes, where: str, part: str) -> Data:
    """Parse an input in YAML."""
    try:
        data = parse_document(text, f"{where} {part}".strip()).value
    except InvalidDocument as error:
        raise StepInputUnusable(error.message) from None
    if not isinstance(data, dict):
        raise StepInputUnusable(f"{where} has no input{part and f' at {part}'}: an input is a map")
    return data
