"""Blueprints of an ActionSet, as far as they are on a cluster and can be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.core.blueprints.model import Blueprint, read_partial_blueprint
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.kube.parts import namespace_of, spec_of
from kanister_py.core.kube.resources import BLUEPRINTS
from kanister_py.core.yaml.documents import Document
from kanister_py.ports.cluster import Cluster


def read_blueprints(cluster: Cluster, actionset: Mapping[str, Any]) -> dict[str, Blueprint]:
    """Read them by the names that the ActionSet gives them; one that is not there is left out."""
    found = {}
    for name in {str(each.get("blueprint") or "") for each in spec_of(actionset)["actions"]}:
        where, _, bare = name.rpartition("/")
        try:
            obj = cluster.get(BLUEPRINTS, bare, namespace=where or namespace_of(actionset))
        except NotFound:
            continue
        located, _problems = read_partial_blueprint(
            LocatedObject(Document.of(obj), (), "Blueprint", obj)
        )
        found[name] = located.blueprint
    return found
