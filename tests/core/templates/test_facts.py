"""Facts of an action: objects to read, and values from them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from kanister_py.core.kube.locations import InvalidProfile
from kanister_py.core.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENT_CONFIGS,
    DEPLOYMENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SECRETS,
    STATEFUL_SETS,
    GroupVersionResource,
)
from kanister_py.core.templates.facts import (
    ActionFacts,
    ActionNeeds,
    InvalidObjectReference,
    Named,
    ObjectNeed,
    WorkloadKind,
    facts_of_object,
    needs_of,
    needs_of_phase,
    needs_of_profile,
    owner_of_pods,
    resolve_profile,
    workload_of,
)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        pytest.param(
            {"kind": "StatefulSet", "name": "db", "namespace": "app"},
            ActionNeeds(ObjectNeed(STATEFUL_SETS, "db", "app"), WorkloadKind.STATEFUL_SET),
            id="a stateful set",
        ),
        pytest.param(
            {"kind": "deployment", "name": "web", "namespace": "app"},
            ActionNeeds(
                ObjectNeed(DEPLOYMENTS, "web", "app"), WorkloadKind.DEPLOYMENT, REPLICA_SETS
            ),
            id="a deployment",
        ),
        pytest.param(
            {"kind": "DEPLOYMENTCONFIG", "name": "web", "namespace": "app"},
            ActionNeeds(
                ObjectNeed(DEPLOYMENT_CONFIGS, "web", "app"),
                WorkloadKind.DEPLOYMENT_CONFIG,
                REPLICATION_CONTROLLERS,
            ),
            id="a deployment config",
        ),
        pytest.param(
            {"kind": "PVC", "name": "data", "namespace": "app"},
            ActionNeeds(ObjectNeed(PERSISTENT_VOLUME_CLAIMS, "data", "app")),
            id="a claim",
        ),
        pytest.param(
            {"kind": "Namespace", "name": "app", "namespace": "app"},
            ActionNeeds(ObjectNeed(NAMESPACES, "app")),
            id="a namespace is of the whole cluster",
        ),
        pytest.param(
            {"group": "x.io", "apiVersion": "v1", "resource": "dbs", "name": "a"},
            ActionNeeds(ObjectNeed(GroupVersionResource("x.io", "v1", "dbs"), "a")),
            id="a custom resource",
        ),
    ],
)
def test_objects_to_read_depend_on_the_reference(
    reference: dict[str, Any], expected: ActionNeeds
) -> None:
    assert needs_of(reference) == expected


@pytest.mark.parametrize(
    "reference",
    [{"kind": "Database", "name": "a"}, {"name": "a", "apiVersion": "v1"}, {}],
    ids=["a kind nobody knows", "no resource", "nothing"],
)
def test_incomplete_reference_is_refused(reference: dict[str, Any]) -> None:
    with pytest.raises(InvalidObjectReference) as error:
        needs_of(reference)
    assert error.value.name == reference.get("name", "")


def test_misspelt_kind_is_reported_with_a_similar_one() -> None:
    with pytest.raises(
        InvalidObjectReference, match=r"of kind 'Namespce' .*did you mean Namespace"
    ):
        needs_of({"kind": "Namespce", "name": "a"})


def test_phase_reads_only_secrets_and_config_maps() -> None:
    objects = {
        "s": {"kind": "Secret", "name": "a", "namespace": "app"},
        "c": {"kind": "CONFIGMAP", "name": "b", "namespace": "app"},
        "p": {"kind": "Pod", "name": "c", "namespace": "app"},
    }
    assert needs_of_phase(objects) == {
        "s": ObjectNeed(SECRETS, "a", "app"),
        "c": ObjectNeed(CONFIG_MAPS, "b", "app"),
    }


def test_namespace_has_the_namespace_of_its_reference_as_name() -> None:
    reference = {"kind": "Namespace", "name": "app"}
    facts = facts_of_object(needs_of(reference), reference, {})
    assert ActionFacts(time="", **facts).namespace == Named("", "")


# Pods


def _owned(name: str, owner: str, **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", "ownerReferences": [{"uid": f"uid-{owner}"}]}
    return {"metadata": meta | fields.pop("metadata", {})} | fields


def _pod(name: str, owner: str, phase: str = "Running") -> dict[str, Any]:
    return _owned(
        name,
        owner,
        spec={
            "volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": f"data-{name}"}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "of-init-alone"}},
                {"name": "tmp", "emptyDir": {}},
            ],
            "initContainers": [
                {"name": "i", "volumeMounts": [{"name": "w", "mountPath": "/init"}]}
            ],
            "containers": [
                {
                    "name": "main",
                    "volumeMounts": [
                        {"name": "v", "mountPath": "/data"},
                        {"name": "tmp", "mountPath": "/tmp"},
                    ],
                }
            ],
        },
        status={"phase": phase, "containerStatuses": [{"name": "side"}, {"name": "main"}]},
    )


WEB: dict[str, Any] = {
    "metadata": {
        "name": "web",
        "namespace": "app",
        "uid": "uid-web",
        "annotations": {"deployment.kubernetes.io/revision": "2"},
    }
}


def _replica_set(name: str, revision: str, owner: str = "web") -> dict[str, Any]:
    mark = {"deployment.kubernetes.io/revision": revision}
    return _owned(name, owner, metadata={"annotations": mark})


def test_pods_of_a_deployment_belong_to_its_current_revision() -> None:
    sets = [_replica_set("a", "1"), _replica_set("b", "2", "other"), _replica_set("c", "2")]
    owner = owner_of_pods(WorkloadKind.DEPLOYMENT, WEB, sets)
    assert owner is sets[2]
    assert owner_of_pods(WorkloadKind.DEPLOYMENT, WEB, sets[:2]) is None


def test_pods_of_a_deployment_config_belong_to_its_latest_version() -> None:
    config = {"metadata": WEB["metadata"], "status": {"latestVersion": 3}}
    mark = {"openshift.io/deployment-config.latest-version": "3"}
    controller = _owned("c", "web", metadata={"annotations": mark})
    assert owner_of_pods(WorkloadKind.DEPLOYMENT_CONFIG, config, [controller]) is controller


def test_only_running_pods_count_with_the_claims_their_containers_mount() -> None:
    pods = [_pod("web-0", "web"), _pod("web-1", "web", "Pending"), _pod("x", "other")]
    assert owner_of_pods(WorkloadKind.STATEFUL_SET, WEB, []) is WEB
    workload = workload_of(WEB, WEB, pods)
    assert (workload.name, workload.namespace) == ("web", "app")
    assert workload.pods == ("web-0",)
    assert workload.containers == (("side", "main"),)
    assert workload.persistent_volume_claims == {"web-0": {"data-web-0": "/data"}}


# Profiles


def _secret(kind: str = "Opaque", **data: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "s", "namespace": "app"},
        "type": kind,
        "data": {key: b64encode(value.encode()).decode() for key, value in data.items()},
    }


REFERENCE = {"name": "s", "namespace": "app"}
NEED = ObjectNeed(SECRETS, "s", "app")


def _profile(credential: dict[str, Any]) -> dict[str, Any]:
    return {"location": {"type": "s3Compliant", "bucket": "b"}, "credential": credential}


KEY_PAIR = _profile(
    {"type": "keyPair", "keyPair": {"idField": "id", "secretField": "key", "secret": REFERENCE}}
)


def test_key_pair_is_read_from_its_secret() -> None:
    assert needs_of_profile(KEY_PAIR) == (NEED,)
    profile_with_credential = resolve_profile(KEY_PAIR, {NEED: _secret(id="AKID", key="hush")})
    assert profile_with_credential.key_pair is not None
    assert (profile_with_credential.key_pair.id, profile_with_credential.key_pair.secret) == (
        "AKID",
        "hush",
    )
    assert profile_with_credential.location == {
        "type": "s3Compliant",
        "bucket": "b",
        "endpoint": "",
        "prefix": "",
        "region": "",
    }


def test_a_kopia_server_has_two_secrets() -> None:
    entry = {"key": "k", "secret": REFERENCE}
    server = {
        "username": "u",
        "hostname": "h",
        "userPassphrase": entry,
        "tlsCert": {"key": "c", "secret": REFERENCE},
        "connectOptions": {"n": 1},
    }
    profile = _profile({"type": "kopia", "kopiaServerSecret": server})
    assert needs_of_profile(profile) == (NEED,)
    kopia = resolve_profile(profile, {NEED: _secret(k="pass", c="cert")}).kopia_server
    assert kopia is not None
    assert (kopia["Username"], kopia["Password"], kopia["Cert"]) == ("u", "pass", "cert")


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        pytest.param(_secret(), "Secret type 'Opaque'", id="a type nobody knows"),
        pytest.param(
            _secret("secrets.kanister.io/aws", aws_access_key_id="x"),
            "Key 'aws_secret_access_key' not found in secret 'app:s'",
            id="a key that is missing",
        ),
        pytest.param(
            _secret(
                "secrets.kanister.io/aws",
                aws_access_key_id="x",
                aws_secret_access_key="y",
                region="z",
            ),
            "unknown field 'region'",
            id="a key too many",
        ),
    ],
)
def test_invalid_credential_secret_is_refused(secret: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProfile, match=message):
        resolve_profile(_profile({"type": "secret", "secret": REFERENCE}), {NEED: secret})


@pytest.mark.parametrize("kind", ["aws", "azure", "gcp", "filestore"])
def test_secrets_of_known_types_are_kept_unchanged(kind: str) -> None:
    secret = _secret(
        f"secrets.kanister.io/{kind}", aws_access_key_id="x", aws_secret_access_key="y"
    )
    profile = _profile({"type": "secret", "secret": REFERENCE})
    assert resolve_profile(profile, {NEED: secret}).secret is secret


def test_missing_key_of_a_profile_is_named() -> None:
    with pytest.raises(InvalidProfile, match="Key 'key' not found in secret 'app:s'"):
        resolve_profile(KEY_PAIR, {NEED: _secret(id="AKID")})
    with pytest.raises(InvalidProfile, match="CredentialType 'none' not supported"):
        resolve_profile(_profile({"type": "none"}), {})
