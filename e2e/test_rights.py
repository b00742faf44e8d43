"""Permissions of the chart's accounts, compared with the table in SECURITY.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from e2e.chart import HOME, SHOP, Helm
from tests.conftest import REPOSITORY

VALUES: dict[str, Any] = {
    "crds": {"install": True},
    "endpoint": {"expose": True, "tls": True},
    "webhook": {"compositions": True},
    "compositions": {
        "enabled": True,
        "revisions": True,
        "functions": True,
        "functionsNamespace": "functions",
    },
    "watch": {"namespaces": [SHOP]},
    "notify": {"origins": ["https://notices.example.org"], "secrets": ["notices"]},
    "applications": [{"namespace": "application", "rules": [], "serviceAccounts": ["backup"]}],
}
ACCOUNTS = {"kanister-py": "ActionSets", "kanister-py-compositions": "compositions"}
PLACES = {
    "": "cluster",
    HOME: "release",
    SHOP: "watched",
    "application": "application",
    "functions": "functions",
}
NAMES = {
    "notices": "those of `notify.secrets`",
    "backup": "those of `applications[].serviceAccounts`",
}
READING = frozenset({"get", "list", "watch"})
# Reading these kinds, or writing statuses and events, is harmless.
READABLE = {
    "blueprints",
    "compositeresourcedefinitions",
    "compositions",
    "deploymentruntimeconfigs",
    "deployments",
    "endpointslices",
    "environmentconfigs",
    "functions",
    "namespaces",
    "persistentvolumeclaims",
    "pods",
    "profiles",
    "referencegrants",
    "replicasets",
    "statefulsets",
}
HARMLESS = {"events", "compositeresourcedefinitions"}


class Permission(NamedTuple):
    """Permission of an account, as a row of the table."""

    account: str
    resource: str
    verbs: frozenset[str]
    place: str


def permissions_of(objects: list[dict[str, Any]]) -> Iterator[Permission]:
    """Yield the permissions that the rendered Roles grant to the accounts."""
    rules = {
        (obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj["rules"]
        for obj in objects
        if obj["kind"] in ("Role", "ClusterRole")
    }
    for obj in objects:
        if obj["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        place, role = obj["metadata"].get("namespace", ""), obj["roleRef"]
        for rule in rules[role["kind"], place, role["name"]]:
            for resource in rule.get("resources", ()):
                names = sorted({NAMES.get(name, name) for name in rule.get("resourceNames", ())})
                text = f"{resource}: {', '.join(names)}" if names else resource
                for subject in obj["subjects"]:
                    account = ACCOUNTS[subject["name"]]
                    yield Permission(account, text, frozenset(rule["verbs"]), PLACES[place])


def is_dangerous(permission: Permission) -> bool:
    resource = permission.resource
    if resource in HARMLESS or resource.endswith(("/status", "/finalizers")):
        return False
    return not (resource in READABLE and permission.verbs <= READING)


def rows_of(page: Path) -> Iterator[Permission]:
    """Yield the rows of the table in SECURITY.md; `both` means both accounts."""
    _, _, section = page.read_text(encoding="utf-8").partition("## What a stolen account")
    for row in re.findall(r"^\| ([\w ]+) \| (.+?) \| (.+?) \| (\w+) \|", section, re.MULTILINE):
        account, resource, verbs, place = row
        if account == "account":
            continue
        for name in ("ActionSets", "compositions") if account == "both" else (account,):
            yield Permission(name, resource, frozenset(verbs.split(", ")), place)


def test_the_security_page_lists_the_dangerous_permissions_of_accounts(
    helm: Path, tmp_path: Path
) -> None:
    rendered = set(filter(is_dangerous, permissions_of(Helm(helm, tmp_path).objects(VALUES))))
    assert set(rows_of(REPOSITORY / "SECURITY.md")) == rendered
