"""Facts of an action: the objects that its templates need, and the values read from them.

`needs_of` and similar functions return the objects to read as data; the other functions build
`ActionFacts` from the objects.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import UsageError, did_you_mean
from kanister_py.core.kube.locations import InvalidProfile
from kanister_py.core.kube.parts import (
    annotations_of,
    namespace_of,
    owners_of,
    spec_of,
    status_of,
)
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
from kanister_py.core.yaml.documents import nearest


class InvalidObjectReference(UsageError, reason="InvalidObjectReference"):
    """A reference to an object does not contain enough to find the object."""

    def __init__(self, kind: str, name: str) -> None:
        kinds = tuple(ROOT_BY_KIND.values())
        super().__init__(
            f"Object {name or 'without a name'} of kind {kind!r} cannot be found: "
            "give apiVersion and resource (and group, unless it is a core resource), "
            f"or a known kind: {', '.join(kinds)}{did_you_mean(nearest(kind, kinds))}"
        )
        self.name = name


KubeObject = Mapping[str, Any]
ROOT_BY_KIND: Final = {
    kind.lower(): kind
    for kind in ("StatefulSet", "Deployment", "DeploymentConfig", "PVC", "Namespace")
}
"""Top-level parameters with details about an object, by its kind in lower case."""


# Objects to read


# A plain dict, because templates read it. It is never changed.
_NOTHING: Final[Mapping[str, Any]] = {}


class WorkloadKind(StrEnum):
    """Workloads whose pods templates can read. The values are the kinds in ActionSets."""

    STATEFUL_SET = "statefulset"
    DEPLOYMENT = "deployment"
    DEPLOYMENT_CONFIG = "deploymentconfig"


class ObjectNeed(NamedTuple):
    """Object that must be read. An empty namespace means a cluster-wide object."""

    resource: GroupVersionResource
    name: str
    namespace: str = ""


class ActionNeeds(NamedTuple):
    """Objects that must be read for the object of an action.

    With a `workload`, its pods that match the selector of the object are needed as well, and
    the `owners` between the object and its pods.
    """

    object: ObjectNeed
    workload: WorkloadKind | None = None
    owners: GroupVersionResource | None = None


_OBJECTS: Final[
    Mapping[str, tuple[GroupVersionResource, WorkloadKind | None, GroupVersionResource | None]]
] = {
    "statefulset": (STATEFUL_SETS, WorkloadKind.STATEFUL_SET, None),
    "deployment": (DEPLOYMENTS, WorkloadKind.DEPLOYMENT, REPLICA_SETS),
    "deploymentconfig": (
        DEPLOYMENT_CONFIGS,
        WorkloadKind.DEPLOYMENT_CONFIG,
        REPLICATION_CONTROLLERS,
    ),
    "pvc": (PERSISTENT_VOLUME_CLAIMS, None, None),
    "namespace": (NAMESPACES, None, None),
}


def needs_of(reference: Mapping[str, Any]) -> ActionNeeds:
    """Return the objects to read for an action on the object of `reference`.

    The kind is compared without regard to case. An unknown kind needs `apiVersion` (the version
    without the group) and `resource`.
    """
    kind = str(reference.get("kind") or "").lower()
    name, namespace = _text(reference, "name"), _text(reference, "namespace")
    if kind in _OBJECTS:
        resource, workload, owners = _OBJECTS[kind]
        where = "" if resource is NAMESPACES else namespace
        return ActionNeeds(ObjectNeed(resource, name, where), workload, owners)
    version, plural = _text(reference, "apiVersion"), _text(reference, "resource")
    if not version or not plural:
        raise InvalidObjectReference(_text(reference, "kind"), name)
    resource = GroupVersionResource(_text(reference, "group"), version, plural)
    return ActionNeeds(ObjectNeed(resource, name, namespace))


_REFERABLE: Final = {"secret": SECRETS, "configmap": CONFIG_MAPS}


def needs_of_phase(objects: Mapping[str, Mapping[str, Any]]) -> dict[str, ObjectNeed]:
    """Return the objects to read for the rendered `objects` of a phase; other kinds are ignored."""
    return {
        name: ObjectNeed(resource, _text(reference, "name"), _text(reference, "namespace"))
        for name, reference in objects.items()
        if (resource := _REFERABLE.get(_text(reference, "kind").lower())) is not None
    }


def _text(reference: Mapping[str, Any], key: str) -> str:
    value = reference.get(key)
    return "" if value is None else str(value)


# Facts


class Workload(NamedTuple):
    """Workload with its running pods, and the containers of every pod in the same order.

    `persistent_volume_claims` maps pods to their claims, and claims to mount paths.
    """

    name: str
    namespace: str
    pods: tuple[str, ...] = ()
    containers: tuple[tuple[str, ...], ...] = ()
    persistent_volume_claims: Mapping[str, Mapping[str, str]] = _NOTHING


class Named(NamedTuple):
    """Object of which templates only read name and namespace."""

    name: str
    namespace: str


class KeyPair(NamedTuple):
    """Identity and secret key, read from a Secret."""

    id: str
    secret: str


class ResolvedProfile(NamedTuple):
    """Profile with its credential. One of the last three fields is set."""

    location: Mapping[str, str]
    credential_type: str
    skip_ssl_verify: bool = False
    key_pair: KeyPair | None = None
    secret: KubeObject | None = None
    kopia_server: Mapping[str, Any] | None = None
    """Login for a Kopia server, with the names that templates read."""


class ActionFacts(NamedTuple):
    """Facts read for an action before its first phase. None corresponds to nil in Go."""

    time: str
    object: Mapping[str, Any] | None = None
    stateful_set: Workload | None = None
    deployment: Workload | None = None
    deployment_config: Workload | None = None
    pvc: Named | None = None
    namespace: Named | None = None
    artifacts: Mapping[str, Mapping[str, Any]] | None = None
    config_maps: Mapping[str, KubeObject] = _NOTHING
    secrets: Mapping[str, KubeObject] = _NOTHING
    profile: ResolvedProfile | None = None
    options: Mapping[str, str] | None = None
    pod_override: Mapping[str, Any] | None = None
    pod_labels: Mapping[str, str] | None = None
    pod_annotations: Mapping[str, str] | None = None

    @property
    def workload(self) -> Workload | None:
        """Workload of the action, of any kind."""
        return self.stateful_set or self.deployment or self.deployment_config


def facts_of_object(
    needs: ActionNeeds,
    reference: Mapping[str, Any],
    obj: KubeObject,
    workload: Workload | None = None,
) -> dict[str, Any]:
    """Return the fields of `ActionFacts` that come from the object of an action.

    Both fields of a Namespace are set to `namespace` of the reference, so they are empty for a
    reference with only a `name`. Blueprints rely on this.
    """
    facts: dict[str, Any] = {"object": obj}
    kind, namespace = _text(reference, "kind").lower(), _text(reference, "namespace")
    if needs.workload is not None:
        facts[needs.workload.name.lower()] = workload
    elif kind == "pvc":
        facts["pvc"] = Named(_text(reference, "name"), namespace)
    elif kind == "namespace":
        facts["namespace"] = Named(namespace, namespace)
    return facts


# Pods of a workload

_REVISION_MARKS: Final = {
    WorkloadKind.DEPLOYMENT: (
        ("metadata", "annotations", "deployment.kubernetes.io/revision"),
        "deployment.kubernetes.io/revision",
    ),
    WorkloadKind.DEPLOYMENT_CONFIG: (
        ("status", "latestVersion"),
        "openshift.io/deployment-config.latest-version",
    ),
}


def owner_of_pods(
    kind: WorkloadKind, workload: KubeObject, owners: Iterable[KubeObject]
) -> KubeObject | None:
    """Return the owner of the pods of the current revision of a workload, or None."""
    if kind is WorkloadKind.STATEFUL_SET:
        return workload
    path, mark = _REVISION_MARKS[kind]
    revision: Any = workload
    for step in path:
        revision = (revision or {}).get(step)
    for owner in owners:
        annotations = annotations_of(owner)
        if _is_owned_by(owner, workload) and annotations.get(mark) == str(revision):
            return owner
    return None


def workload_of(workload: KubeObject, owner: KubeObject, pods: Iterable[KubeObject]) -> Workload:
    """Build the template parameter for a workload. Only running pods count."""
    running = [
        pod for pod in pods if status_of(pod).get("phase") == "Running" and _is_owned_by(pod, owner)
    ]
    claims = {pod["metadata"]["name"]: _claims_of(pod) for pod in running}
    return Workload(
        name=workload["metadata"]["name"],
        namespace=namespace_of(workload),
        pods=tuple(claims),
        containers=tuple(
            tuple(container["name"] for container in pod["status"].get("containerStatuses") or ())
            for pod in running
        ),
        persistent_volume_claims={name: paths for name, paths in claims.items() if paths},
    )


def _is_owned_by(credential_secrets: KubeObject, owner: KubeObject) -> bool:
    uid = owner["metadata"].get("uid")
    return any(reference.get("uid") == uid for reference in owners_of(credential_secrets))


def _claims_of(pod: KubeObject) -> dict[str, str]:
    """Map the claims that the regular containers of a pod mount to the mount paths."""
    spec = spec_of(pod)
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in spec.get("volumes") or ()
        if volume.get("persistentVolumeClaim")
    }
    return {
        claims[mount["name"]]: mount["mountPath"]
        for container in spec.get("containers") or ()
        for mount in container.get("volumeMounts") or ()
        if mount["name"] in claims
    }


# Profiles


def needs_of_profile(profile: KubeObject) -> tuple[ObjectNeed, ...]:
    """Return the Secrets with the credential of a Profile."""
    return tuple(dict.fromkeys(_secrets_of(profile)))


def _secrets_of(profile: KubeObject) -> list[ObjectNeed]:
    credential = profile.get("credential") or {}
    holders: list[Mapping[str, Any] | None] = []
    match credential.get("type"):
        case "keyPair":
            holders = [credential.get("keyPair")]
        case "secret":
            holders = [credential]
        case "kopia":
            holders = list(map((credential.get("kopiaServerSecret") or {}).get, _KOPIA_KEYS))
    references = [(holder or {}).get("secret") or {} for holder in holders]
    return [
        ObjectNeed(SECRETS, _text(reference, "name"), _text(reference, "namespace"))
        for reference in references
    ]


_KOPIA_KEYS: Final = ("userPassphrase", "tlsCert")


def resolve_profile(
    profile: KubeObject, secrets: Mapping[ObjectNeed, KubeObject]
) -> ResolvedProfile:
    """Resolve the credential of a Profile with its Secrets."""
    credential = profile.get("credential") or {}
    kind = _text(credential, "type")
    location = {
        key: _text(profile.get("location") or {}, key)
        for key in ("type", "bucket", "endpoint", "prefix", "region")
    }
    credential_secrets = [secrets[need] for need in _secrets_of(profile)]
    key_pair, secret, server = None, None, None
    if kind == "keyPair":
        pair = credential.get("keyPair") or {}
        key_pair = KeyPair(
            _text_in(credential_secrets[0], _text(pair, "idField")),
            _text_in(credential_secrets[0], _text(pair, "secretField")),
        )
    elif kind == "secret":
        secret = credential_secrets[0]
        check_credential_secret(secret)
    elif kind == "kopia":
        server = _kopia_server(credential.get("kopiaServerSecret") or {}, credential_secrets)
    else:
        raise InvalidProfile(f"CredentialType '{kind}' not supported")
    skip = bool(profile.get("skipSSLVerify"))
    return ResolvedProfile(location, kind, skip, key_pair, secret, server)


def _kopia_server(server: Mapping[str, Any], secrets: Sequence[KubeObject]) -> Mapping[str, Any]:
    password, cert = (
        _text_in(secret, _text(server.get(key) or {}, "key"))
        for key, secret in zip(_KOPIA_KEYS, secrets, strict=True)
    )
    return {
        "Username": _text(server, "username"),
        "Hostname": _text(server, "hostname"),
        "Password": password,
        "Cert": cert,
        "ConnectOptions": server.get("connectOptions"),
    }


def _text_in(secret: KubeObject, key: str) -> str:
    data = secret.get("data") or {}
    if key not in data:
        meta = secret["metadata"]
        raise InvalidProfile(
            f"Key '{key}' not found in secret '{meta.get('namespace', '')}:{meta['name']}'"
        )
    return b64decode(data[key]).decode("utf-8", "surrogateescape")


_AWS: Final = "secrets.kanister.io/aws"
# Required and optional keys of Secrets, by type.
_CREDENTIALS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    _AWS: (("aws_access_key_id", "aws_secret_access_key"), ("role",)),
    "secrets.kanister.io/azure": (
        (),
        (
            "azure_storage_account_id",
            "azure_storage_key",
            "azure_storage_environment",
            "azure_federated_identity",
        ),
    ),
    "secrets.kanister.io/gcp": ((), ("gcp_project_id", "gcp_service_key", "service-account.json")),
    "secrets.kanister.io/filestore": ((), ()),
}


def check_credential_secret(secret: KubeObject) -> None:
    """Raise InvalidProfile if a Secret is not a valid credential."""
    kind, meta = secret.get("type", ""), secret["metadata"]
    name = f"{meta.get('namespace', '')}:{meta['name']}"
    if kind not in _CREDENTIALS:
        types = ", ".join(_CREDENTIALS)
        raise InvalidProfile(
            f"Secret type '{kind}' of secret '{name}' not supported; known: {types}"
        )
    required, optional = _CREDENTIALS[kind]
    keys = set(secret.get("data") or {})
    missing = [key for key in required if key not in keys]
    if missing:
        raise InvalidProfile(f"Key '{missing[0]}' not found in secret '{name}'")
    unknown = sorted(keys - {*required, *optional})
    if kind == _AWS and unknown:
        raise InvalidProfile(
            f"Secret '{name}' has an unknown field '{unknown[0]}'; "
            f"known: {', '.join((*required, *optional))}"
        )


def texts_of_secret(secret: KubeObject) -> Iterator[str]:
    """Yield the values of a Secret as text, without values that are not valid base64."""
    for value in (secret.get("data") or {}).values():
        try:
            yield b64decode(value or "").decode("utf-8", "surrogateescape")
        except (Base64Error, ValueError):
            continue
