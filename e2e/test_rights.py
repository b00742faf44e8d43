"""Rights of the chart's accounts: SECURITY.md lists what a thief of one could do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from e2e.test_chart import HOME, SHOP, Helm
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
# Reading these, or writing statuses and events, harms nobody.
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


class Right(NamedTuple):
    """Right of an account, as a row of the table has it."""

    account: str
    resource: str
    verbs: frozenset[str]
    place: str


def rights_of(objects: list[dict[str, Any]]) -> Iterator[Right]:
    """Yield the rights that the rendered Roles give to the accounts."""
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
                    yield Right(account, text, frozenset(rule["verbs"]), PLACES[place])


def is_dangerous(right: Right) -> bool:
    resource = right.resource
    if resource in HARMLESS or resource.endswith(("/status", "/finalizers")):
        return False
    return not (resource in READABLE and right.verbs <= READING)


def listed(page: Path) -> Iterator[Right]:
    """Yield the rows of the table in SECURITY.md; `both` stands for both accounts."""
    _, _, section = page.read_text(encoding="utf-8").partition("## What a stolen account")
    for row in re.findall(r"^\| ([\w ]+) \| (.+?) \| (.+?) \| (\w+) \|", section, re.MULTILINE):
        account, resource, verbs, place = row
        if account == "account":
            continue
        for name in ("ActionSets", "compositions") if account == "both" else (account,):
            yield Right(name, resource, frozenset(verbs.split(", ")), place)


def test_the_security_page_lists_what_a_thief_of_an_account_could_do(
    helm: Path, tmp_path: Path
) -> None:
    rendered = set(filter(is_dangerous, rights_of(Helm(helm, tmp_path).objects(VALUES))))
    assert set(listed(REPOSITORY / "SECURITY.md")) == rendered
