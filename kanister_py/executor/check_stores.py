"""Check of the object stores of Profiles before a run starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kanister_py.core.actionsets.model import parse_actionset
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.locations import Location, StoreKind, read_location
from kanister_py.core.templates.facts import ResolvedProfile
from kanister_py.core.yaml.documents import parse_document
from kanister_py.executor.fetch_facts import fetch_profile
from kanister_py.ports.cluster import Cluster
from kanister_py.ports.object_store import ObjectStore


def check_stores(
    cluster: Cluster,
    actionset: Mapping[str, Any],
    open_store: Callable[[Location], ObjectStore],
    why_hidden: Callable[[str], str],
) -> None:
    """Raise an error if a Profile of an ActionSet names a store that this process cannot use.

    `why_hidden` returns the reason why pods cannot access a folder, or an empty text. A missing
    Profile is reported later, with the phase that needs it.
    """
    if not any(action.get("profile") for action in actionset["spec"].get("actions") or ()):
        return
    actions = parse_actionset(parse_document(json.dumps(actionset))).spec.actions
    for spec in {action.profile: action for action in actions if action.profile}.values():
        try:
            profile = fetch_profile(cluster, spec)
        except KanisterError:
            continue
        if profile is None:
            continue
        try:
            _check(profile, open_store, why_hidden)
        except KanisterError as error:
            assert spec.profile is not None  # actions without a Profile are skipped
            raise UsageError(
                f"Profile {spec.profile.namespace}/{spec.profile.name} cannot be used: "
                f"{error.message}; --locations DIR uses a local folder in place of its store",
                reason="StoreNotUsable",
            ) from error


def _check(
    profile: ResolvedProfile,
    open_store: Callable[[Location], ObjectStore],
    why_hidden: Callable[[str], str],
) -> None:
    location = read_location(
        profile.location, profile.key_pair, profile.secret, skip_tls_verify=profile.skip_ssl_verify
    )
    if location.kind is StoreKind.FILE and (why := why_hidden(location.folder)):
        raise UsageError(f"Pods cannot access the folder {location.folder}: {why}")
    open_store(location.before_writing()).check()
