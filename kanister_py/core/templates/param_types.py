"""Go types of the template parameters, with the names of Kubernetes' Go API."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kanister_py.core.kube.parts import metadata_of
from kanister_py.gotemplate.functions import Function, go_function
from kanister_py.gotemplate.layouts import format_time
from kanister_py.gotemplate.times import TIME, UTC, ZERO_TIME, Time, from_datetime
from kanister_py.gotemplate.types import (
    ANY_MAP,
    BOOL,
    BYTES,
    INT,
    INT64,
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
from kanister_py.gotemplate.values import GoMap, Int64, Struct, Value, register_zero, wrap

KUBE_TIME = struct_type("v1.Time", Field("Time", TIME, embedded=True))


class KubeTime(Struct):
    """Kubernetes' `metav1.Time`: precision of seconds, and null in JSON for the zero time."""

    __slots__ = ()

    def __init__(self, moment: Time = ZERO_TIME) -> None:
        super().__init__(KUBE_TIME, {"Time": moment})

    @property
    def moment(self) -> Time:
        moment = self["Time"]
        assert isinstance(moment, Time)
        return moment

    def go_string(self) -> str:
        return format_time(self.moment, "2006-01-02 15:04:05.999999999 -0700 MST")


def _to_json(value: KubeTime) -> bytes:
    if value.moment.unix_nanoseconds == ZERO_TIME.unix_nanoseconds:
        return b"null"
    return f'"{format_time(value.moment.in_zone(UTC), "2006-01-02T15:04:05Z07:00")}"'.encode()


def _promoted(method: Function) -> Function:
    """Return a method of the embedded time as a method of the struct."""

    def call(*args: Any) -> Any:
        *context, value = args[: 1 + method.wants_context]
        return method.call(*context, value.moment, *args[1 + method.wants_context :])

    return Function(method.signature, call, context=method.wants_context)


KUBE_TIME.methods.update({name: _promoted(method) for name, method in TIME.methods.items()})
KUBE_TIME.methods["MarshalJSON"] = go_function("func() ([]byte, error)")(_to_json)
register_zero(KUBE_TIME, KubeTime)
UID = named_type("types.UID", STRING)
BYTES_MAP = map_of(STRING, BYTES)

TYPE_META = struct_type(
    "v1.TypeMeta",
    Field("Kind", STRING, "kind,omitempty"),
    Field("APIVersion", STRING, "apiVersion,omitempty"),
)
OWNER_REFERENCE = struct_type(
    "v1.OwnerReference",
    Field("APIVersion", STRING, "apiVersion"),
    Field("Kind", STRING, "kind"),
    Field("Name", STRING, "name"),
    Field("UID", UID, "uid"),
    Field("Controller", pointer_to(BOOL), "controller,omitempty"),
    Field("BlockOwnerDeletion", pointer_to(BOOL), "blockOwnerDeletion,omitempty"),
)
# Templates do not need managed fields, so the entries are never filled in.
_MANAGED_FIELDS = struct_type("v1.ManagedFieldsEntry", Field("Manager", STRING, "manager"))
OBJECT_META = struct_type(
    "v1.ObjectMeta",
    Field("Name", STRING, "name,omitempty"),
    Field("GenerateName", STRING, "generateName,omitempty"),
    Field("Namespace", STRING, "namespace,omitempty"),
    Field("SelfLink", STRING, "selfLink,omitempty"),
    Field("UID", UID, "uid,omitempty"),
    Field("ResourceVersion", STRING, "resourceVersion,omitempty"),
    Field("Generation", INT64, "generation,omitempty"),
    Field("CreationTimestamp", KUBE_TIME, "creationTimestamp,omitempty"),
    Field("DeletionTimestamp", pointer_to(KUBE_TIME), "deletionTimestamp,omitempty"),
    Field("DeletionGracePeriodSeconds", pointer_to(INT64), "deletionGracePeriodSeconds,omitempty"),
    Field("Labels", STRING_MAP, "labels,omitempty"),
    Field("Annotations", STRING_MAP, "annotations,omitempty"),
    Field("OwnerReferences", slice_of(OWNER_REFERENCE), "ownerReferences,omitempty"),
    Field("Finalizers", STRINGS, "finalizers,omitempty"),
    Field("ManagedFields", slice_of(_MANAGED_FIELDS), "managedFields,omitempty"),
)
SECRET = struct_type(
    "v1.Secret",
    Field("TypeMeta", TYPE_META, ",inline", embedded=True),
    Field("ObjectMeta", OBJECT_META, "metadata,omitempty", embedded=True),
    Field("Immutable", pointer_to(BOOL), "immutable,omitempty"),
    Field("Data", BYTES_MAP, "data,omitempty"),
    Field("StringData", STRING_MAP, "stringData,omitempty"),
    Field("Type", named_type("v1.SecretType", STRING), "type,omitempty"),
)
CONFIG_MAP = struct_type(
    "v1.ConfigMap",
    Field("TypeMeta", TYPE_META, ",inline", embedded=True),
    Field("ObjectMeta", OBJECT_META, "metadata,omitempty", embedded=True),
    Field("Immutable", pointer_to(BOOL), "immutable,omitempty"),
    Field("Data", STRING_MAP, "data,omitempty"),
    Field("BinaryData", BYTES_MAP, "binaryData,omitempty"),
)
SECRETS = map_of(STRING, SECRET)
CONFIG_MAPS = map_of(STRING, CONFIG_MAP)


def secret_value(obj: Mapping[str, Any], go_type: GoType = SECRET) -> Struct:
    """Convert a Secret from JSON into the struct for templates.

    `apiVersion` and `kind` are empty, because a typed Go client omits them.
    """
    return _lazy_struct(
        go_type,
        obj,
        {
            "Data": lambda: _bytes_map(obj.get("data")),
            "StringData": lambda: wrap(STRING_MAP, obj.get("stringData")),
            "Type": lambda: wrap(SECRET.fields["Type"].type, obj.get("type")),
        },
    )


def config_map_value(obj: Mapping[str, Any]) -> Struct:
    """Convert a ConfigMap from JSON into the struct for templates."""
    return _lazy_struct(
        CONFIG_MAP,
        obj,
        {
            "Data": lambda: wrap(STRING_MAP, obj.get("data")),
            "BinaryData": lambda: _bytes_map(obj.get("binaryData")),
        },
    )


def _lazy_struct(
    go_type: GoType, obj: Mapping[str, Any], lazy: Mapping[str, Callable[[], Value]]
) -> Struct:
    immutable = obj.get("immutable")
    fields: dict[str, Value] = {} if immutable is None else {"Immutable": immutable}
    return Struct(go_type, fields, {"ObjectMeta": lambda: _meta_value(obj), **lazy})


def _bytes_map(data: Mapping[str, str] | None) -> Value:
    if data is None:
        return wrap(BYTES_MAP, None)
    return GoMap(BYTES_MAP, {key: b64decode(text or "") for key, text in data.items()})


_META_KEYS = {
    field.json.partition(",")[0]: field
    for field in OBJECT_META.fields.values()
    if field.type in (STRING, UID, INT64, STRING_MAP, STRINGS)
}


def _meta_value(obj: Mapping[str, Any]) -> Struct:
    meta = metadata_of(obj)
    fields: dict[str, Value] = {
        field.name: wrap(field.type, meta.get(key))
        for key, field in _META_KEYS.items()
        if meta.get(key) is not None
    }
    for key in ("creationTimestamp", "deletionTimestamp"):
        if meta.get(key):
            fields[key[0].upper() + key[1:]] = KubeTime(
                from_datetime(datetime.fromisoformat(meta[key]))
            )
    grace = meta.get("deletionGracePeriodSeconds")
    if grace is not None:
        fields["DeletionGracePeriodSeconds"] = Int64(grace)
    owners = meta.get("ownerReferences")
    if owners:
        fields["OwnerReferences"] = wrap(
            OBJECT_META.fields["OwnerReferences"].type, [_owner_value(owner) for owner in owners]
        )
    return Struct(OBJECT_META, fields)


def _owner_value(owner: Mapping[str, Any]) -> Struct:
    by_key = {entry.json.partition(",")[0]: entry for entry in OWNER_REFERENCE.fields.values()}
    fields: dict[str, Value] = {}
    for key, value in owner.items():
        field = by_key.get(key)
        if field is not None:
            fields[field.name] = value if isinstance(value, bool) else wrap(field.type, value)
    return Struct(OWNER_REFERENCE, fields)


def with_int64(value: Value) -> Value:
    """Convert the integers of a custom object to int64, like Kubernetes' Go client."""
    if type(value) is int:
        return Int64(value)
    if isinstance(value, Mapping):
        return {key: with_int64(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [with_int64(member) for member in value]
    return value


# Parameters


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
"""Names of the top-level template parameters."""
ROOT_NAMES = frozenset(ROOTS)
