"""Blueprints of an ActionSet that exist on a cluster and can be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.core.blueprints.model import Blueprint, read_partial_blueprint
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.kube.parts import maps_in, namespace_of, spec_of
from kanister_py.core.kube.resources import BLUEPRINTS
from kanister_py.core.yaml.documents import Document
from kanister_py.ports.cluster import Cluster


def read_blueprints(cluster: Cluster, actionset: Mapping[str, Any]) -> dict[str, Blueprint]:
    """Read Blueprints by the names that the ActionSet uses; missing ones are omitted."""
    blueprints = {}
    actions = maps_in(spec_of(actionset), "actions")
    for name in {str(action["blueprint"]) for action in actions if action.get("blueprint")}:
        where, _, bare = name.rpartition("/")
        try:
            obj = cluster.get(BLUEPRINTS, bare, namespace=where or namespace_of(actionset))
        except NotFound:
            continue
        located, _problems = read_partial_blueprint(
            LocatedObject(Document.of(obj), (), "Blueprint", obj)
        )
        blueprints[name] = located.blueprint
    return blueprints
