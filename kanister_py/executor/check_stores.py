"""Check of the stores of Profiles before a run acts."""

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
    """Refuse an ActionSet whose Profiles name stores that cannot be used from here.

    `why_hidden` says why pods do not see a folder, or nothing if they do. A Profile that
    is not there is left to the run, which says so with its phase.
    """
    if not any(each.get("profile") for each in actionset["spec"].get("actions") or ()):
        return
    actions = parse_actionset(parse_document(json.dumps(actionset))).spec.actions
    for spec in {each.profile: each for each in actions if each.profile}.values():
        try:
            profile = fetch_profile(cluster, spec)
        except KanisterError:
            continue
        if profile is None:
            continue
        try:
            _check(profile, open_store, why_hidden)
        except KanisterError as error:
            assert spec.profile is not None  # only actions with one are looked at
            raise UsageError(
                f"Profile {spec.profile.namespace}/{spec.profile.name} cannot be used: "
                f"{error.message}; --locations DIR lets a folder stand in for its store",
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
        raise UsageError(f"Pods do not see the folder {location.folder}: {why}")
    open_store(location.before_writing()).check()
