"""Runtime of a function's revision: its Deployment, Service, ServiceAccount and health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kanister_py.core.kube.merge_rules import NO_RULE, merge_rules_of
from kanister_py.core.kube.parts import (
    condition_of,
    controller_reference,
    labels_of,
    mapping_of,
    name_of,
    spec_of,
)
from kanister_py.core.kube.patches import strategic_patched
from kanister_py.core.revisions.identity import PACKAGE_LABEL

GRPC_PORT: Final = 9443
METRICS_PORT: Final = 8080
CONTAINER: Final = "package-runtime"

_REVISION_LABEL: Final = "pkg.crossplane.io/revision"
_FUNCTION_LABEL: Final = "pkg.crossplane.io/function"
_CERTIFICATES: Final = "/tls/server"
_USER: Final = 2000
_AS_USER: Final = {"runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER}


def service_names(name: str, namespace: str) -> list[str]:
    """Return the DNS names of a revision's Service."""
    return [name, f"{name}.{namespace}", f"{name}.{namespace}.svc"]


def service_endpoint(name: str, namespace: str) -> str:
    """Return the address of a revision for its status. Our engine uses EndpointSlices instead."""
    return f"dns:///{name}.{namespace}:{GRPC_PORT}"


def server_name(name: str, namespace: str) -> str:
    """Return the name that the certificate of a revision must have."""
    return f"{name}.{namespace}"


def _metadata(revision: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    return {
        "name": revision["metadata"]["name"],
        "namespace": namespace,
        "labels": selector_of(revision),
        "ownerReferences": [controller_reference(revision)],
    }


def selector_of(revision: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that select the pods of one revision."""
    function = labels_of(revision).get(PACKAGE_LABEL) or ""
    return {_REVISION_LABEL: name_of(revision), _FUNCTION_LABEL: function}


def service_of(
    revision: Mapping[str, Any], namespace: str, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the headless Service of a revision."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _with_template_metadata(
            _metadata(revision, namespace), config.get("serviceTemplate")
        ),
        "spec": {
            "clusterIP": "None",
            "selector": selector_of(revision),
            "ports": [
                {"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc"}
                | {"protocol": "TCP", "appProtocol": "tls"}
            ],
        },
    }


def service_account_of(
    revision: Mapping[str, Any], namespace: str, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the ServiceAccount for the pods of a revision. It has no permissions."""
    template = config.get("serviceAccountTemplate")
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _with_template_metadata(_metadata(revision, namespace), template),
        "automountServiceAccountToken": False,
    }


def deployment_of(
    revision: Mapping[str, Any], namespace: str, config: Mapping[str, Any], *, certificate: str = ""
) -> dict[str, Any]:
    """Build the Deployment of a revision, with the changes of its runtime config.

    `certificate` is the fingerprint of its server certificate. Most functions read the certificate
    only at their start, so the fingerprint is an annotation of the pods: a renewed certificate
    changes it, which replaces the pods.
    """
    metadata = revision["metadata"]
    spec = spec_of(revision)
    selector = selector_of(revision)
    annotations = {"kanister-py.io/certificate": certificate[:16]} if certificate else {}
    pod: dict[str, Any] = {
        "metadata": {"labels": dict(selector), "annotations": annotations},
        "spec": {
            "serviceAccountName": metadata["name"],
            "automountServiceAccountToken": False,
            "securityContext": {**_AS_USER, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [_container(revision)],
            "volumes": [
                {"name": "tls-server", "secret": {"secretName": server_secret_of(revision)}}
            ],
        },
    }
    if spec.get("packagePullSecrets"):
        pod["spec"]["imagePullSecrets"] = [dict(secret) for secret in spec["packagePullSecrets"]]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(revision, namespace),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": selector},
            # A ready pod exists at all times, even while the Deployment is updated.
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": pod,
        },
    }
    over = mapping_of(config.get("deploymentTemplate"))
    if not over:
        return deployment
    spec_over = {"spec": over["spec"]} if "spec" in over else {}
    rules = merge_rules_of("apps/v1", "Deployment") or NO_RULE
    merged = strategic_patched(deployment, spec_over, rules)
    merged["metadata"] = _with_template_metadata(merged["metadata"], over)
    # The runtime config must not change the labels that identify the revision's pods.
    merged["spec"]["selector"] = {"matchLabels": selector}
    merged["spec"]["template"]["metadata"]["labels"].update(selector)
    return merged


def server_secret_of(revision: Mapping[str, Any]) -> str:
    name = spec_of(revision).get("tlsServerSecretName")
    return str(name or f"{revision['metadata']['name']}-tls-server")


def _container(revision: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec = revision["metadata"], spec_of(revision)
    environment = {
        "FUNCTION_NAME": labels_of(revision).get(PACKAGE_LABEL) or "",
        "REVISION_NAME": metadata["name"],
        "REVISION_UID": metadata.get("uid") or "",
        "TLS_SERVER_CERTS_DIR": _CERTIFICATES,
    }
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": spec.get("image"),
        "ports": [
            {"name": "grpc", "containerPort": GRPC_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "volumeMounts": [{"name": "tls-server", "mountPath": _CERTIFICATES, "readOnly": True}],
        "readinessProbe": {"tcpSocket": {"port": "grpc"}, "periodSeconds": 2},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            **_AS_USER,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if spec.get("packagePullPolicy"):
        container["imagePullPolicy"] = spec["packagePullPolicy"]
    return container


def _with_template_metadata(metadata: Mapping[str, Any], template: Any) -> dict[str, Any]:
    """Add the labels and annotations of a template. Name and owners are unchanged."""
    over = mapping_of(mapping_of(template).get("metadata"))
    merged = dict(metadata)
    for key in ("labels", "annotations"):
        if over.get(key):
            merged[key] = {**over[key], **(metadata.get(key) or {})}
    return merged


def unhealthy_reason(deployment: Mapping[str, Any] | None, ready_addresses: int) -> str:
    """Return why a revision cannot be called yet, or an empty string."""
    if deployment is None:
        return "its Deployment does not exist yet"
    status = mapping_of(deployment.get("status"))
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return "its Deployment has not been reconciled yet"
    available = condition_of(deployment, "Available")
    if not available:
        return "its Deployment is not available yet"
    # A Deployment with several pods can be called while one is left: if one of two pods was on
    # a lost node, the Deployment is not Available, but the other pod still responds.
    has_pods = ready_addresses and status.get("availableReplicas")
    if available.get("status") != "True" and not has_pods:
        return f"its Deployment is not available: {available.get('message') or '?'}"
    return "" if ready_addresses else "none of its addresses is ready"
