"""Types of what templates of blueprints see, in Go's names."""

from __future__ import annotations

from kanister_py.core.templates.kube_types import CONFIG_MAPS, SECRET, SECRETS
from kanister_py.gotemplate.types import (
    ANY_MAP,
    BOOL,
    INT,
    STRING,
    STRING_MAP,
    STRINGS,
    Field,
    GoType,
    map_of,
    named_type,
    pointer_to,
    slice_of,
    struct_type,
)


def _workload_type(name: str) -> GoType:
    return struct_type(
        name,
        Field("Name", STRING),
        Field("Namespace", STRING),
        Field("Pods", STRINGS),
        Field("Containers", slice_of(STRINGS)),
        Field("PersistentVolumeClaims", map_of(STRING, STRING_MAP)),
    )


def _place_type(name: str) -> GoType:
    return struct_type(name, Field("Name", STRING), Field("Namespace", STRING))


LOCATION = struct_type(
    "v1alpha1.Location",
    Field("Type", named_type("v1alpha1.LocationType", STRING), "type"),
    Field("Bucket", STRING, "bucket"),
    Field("Endpoint", STRING, "endpoint"),
    Field("Prefix", STRING, "prefix"),
    Field("Region", STRING, "region"),
)
ARTIFACT = struct_type(
    "v1alpha1.Artifact",
    Field("KeyValue", STRING_MAP, "keyValue,omitempty"),
    Field("KopiaSnapshot", STRING, "kopiaSnapshot,omitempty"),
)
KEY_PAIR = struct_type("param.KeyPair", Field("ID", STRING), Field("Secret", STRING))
KOPIA_SERVER = struct_type(
    "param.KopiaServerCreds",
    Field("Username", STRING),
    Field("Hostname", STRING),
    Field("Password", STRING),
    Field("Cert", STRING),
    Field("ConnectOptions", map_of(STRING, INT)),
)
CREDENTIAL = struct_type(
    "param.Credential",
    Field("Type", named_type("param.CredentialType", STRING)),
    Field("KeyPair", pointer_to(KEY_PAIR)),
    Field("Secret", pointer_to(SECRET)),
    Field("KopiaServerSecret", pointer_to(KOPIA_SERVER)),
)
PROFILE = struct_type(
    "param.Profile",
    Field("Location", LOCATION),
    Field("Credential", CREDENTIAL),
    Field("SkipSSLVerify", BOOL),
)
PHASE = struct_type(
    "param.Phase",
    Field("Secrets", SECRETS),
    Field("ConfigMaps", CONFIG_MAPS),
    Field("Output", ANY_MAP),
)
PHASE_POINTER = pointer_to(PHASE)
PHASES = map_of(STRING, PHASE_POINTER)
TEMPLATE_PARAMS = struct_type(
    "param.TemplateParams",
    Field("StatefulSet", pointer_to(_workload_type("param.StatefulSetParams"))),
    Field("DeploymentConfig", pointer_to(_workload_type("param.DeploymentConfigParams"))),
    Field("Deployment", pointer_to(_workload_type("param.DeploymentParams"))),
    Field("PVC", pointer_to(_place_type("param.PVCParams"))),
    Field("Namespace", pointer_to(_place_type("param.NamespaceParams"))),
    Field("ArtifactsIn", map_of(STRING, ARTIFACT)),
    Field("ConfigMaps", CONFIG_MAPS),
    Field("Secrets", SECRETS),
    Field("Time", STRING),
    Field("Profile", pointer_to(PROFILE)),
    Field("Options", STRING_MAP),
    Field("Object", ANY_MAP),
    Field("Phases", PHASES),
    Field("DeferPhase", PHASE_POINTER),
    Field("CurrentPhase", PHASE_POINTER),
    Field("PodOverride", named_type("v1alpha1.JSONMap", ANY_MAP)),
    Field("PodAnnotations", STRING_MAP),
    Field("PodLabels", STRING_MAP),
)
ROOTS = tuple(TEMPLATE_PARAMS.fields)
"""What a template can read at the top of the tree."""
ROOT_NAMES = frozenset(ROOTS)
