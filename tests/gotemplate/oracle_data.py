"""Data of the oracle's cases as Go values.

Plain JSON is converted as Kubernetes does: whole numbers are int64, other numbers
float64. An object with a single key that starts with `$` names another type.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.functions import GoError, go_function
from kanister_py.gotemplate.layouts import parse_time
from kanister_py.gotemplate.times import ZERO_TIME, Location, Time, from_datetime, zone_of
from kanister_py.gotemplate.types import (
    ANY,
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
from kanister_py.gotemplate.values import Int64, Value, register_zero, wrap
from tests.gotemplate.oracle_table import DATA


def _struct(name: str, **fields: GoType) -> GoType:
    return struct_type(name, *(Field(field, go_type) for field, go_type in fields.items()))


def _workload(name: str) -> GoType:
    return _struct(
        name,
        Name=STRING,
        Namespace=STRING,
        Pods=STRINGS,
        Containers=slice_of(STRINGS),
        PersistentVolumeClaims=map_of(STRING, STRING_MAP),
    )


TYPE_META = struct_type(
    "v1.TypeMeta",
    Field("Kind", STRING, "kind,omitempty"),
    Field("APIVersion", STRING, "apiVersion,omitempty"),
)


class Moment:
    """A timestamp of a Kubernetes object that was never set."""

    go_type = struct_type("v1.Time")

    def go_string(self) -> str:
        return ZERO_TIME.go_string()


Moment.go_type.methods["MarshalJSON"] = go_function("func() string")(lambda _: "null")
Moment.go_type.methods["IsZero"] = go_function("func() bool")(lambda _: True)
register_zero(Moment.go_type, Moment)

OBJECT_META = struct_type(
    "v1.ObjectMeta",
    Field("Name", STRING, "name,omitempty"),
    Field("GenerateName", STRING, "generateName,omitempty"),
    Field("Namespace", STRING, "namespace,omitempty"),
    Field("UID", STRING, "uid,omitempty"),
    Field("ResourceVersion", STRING, "resourceVersion,omitempty"),
    Field("Generation", INT64, "generation,omitempty"),
    Field("CreationTimestamp", Moment.go_type, "creationTimestamp"),
    Field("Labels", STRING_MAP, "labels,omitempty"),
    Field("Annotations", STRING_MAP, "annotations,omitempty"),
    Field("Finalizers", STRINGS, "finalizers,omitempty"),
)
_META = (
    Field("TypeMeta", TYPE_META, ",inline", embedded=True),
    Field("ObjectMeta", OBJECT_META, "metadata,omitempty", embedded=True),
    Field("Immutable", pointer_to(BOOL), "immutable,omitempty"),
)
SECRET = struct_type(
    "v1.Secret",
    *_META,
    Field("Data", map_of(STRING, BYTES), "data,omitempty"),
    Field("StringData", STRING_MAP, "stringData,omitempty"),
    Field("Type", named_type("v1.SecretType", STRING), "type,omitempty"),
)
CONFIG_MAP = struct_type(
    "v1.ConfigMap",
    *_META,
    Field("Data", STRING_MAP, "data,omitempty"),
    Field("BinaryData", map_of(STRING, BYTES), "binaryData,omitempty"),
)
ARTIFACT = struct_type(
    "v1alpha1.Artifact",
    Field("KeyValue", STRING_MAP, "keyValue,omitempty"),
    Field("KopiaSnapshot", STRING, "kopiaSnapshot,omitempty"),
)
LOCATION = struct_type(
    "v1alpha1.Location",
    Field("Type", named_type("v1alpha1.LocationType", STRING), "type"),
    Field("Bucket", STRING, "bucket"),
    Field("Endpoint", STRING, "endpoint"),
    Field("Prefix", STRING, "prefix"),
    Field("Region", STRING, "region"),
)
CREDENTIAL = _struct(
    "param.Credential",
    Type=named_type("param.CredentialType", STRING),
    KeyPair=pointer_to(_struct("param.KeyPair", ID=STRING, Secret=STRING)),
    Secret=pointer_to(SECRET),
    KopiaServerSecret=pointer_to(
        _struct(
            "param.KopiaServerCreds",
            Username=STRING,
            Hostname=STRING,
            Password=STRING,
            Cert=STRING,
            ConnectOptions=map_of(STRING, INT),
        )
    ),
)
PHASE = _struct(
    "param.Phase",
    Secrets=map_of(STRING, SECRET),
    ConfigMaps=map_of(STRING, CONFIG_MAP),
    Output=ANY_MAP,
)
PARAMS = _struct(
    "param.TemplateParams",
    StatefulSet=pointer_to(_workload("param.StatefulSetParams")),
    DeploymentConfig=pointer_to(_workload("param.DeploymentConfigParams")),
    Deployment=pointer_to(_workload("param.DeploymentParams")),
    PVC=pointer_to(_struct("param.PVCParams", Name=STRING, Namespace=STRING)),
    Namespace=pointer_to(_struct("param.NamespaceParams", Name=STRING, Namespace=STRING)),
    ArtifactsIn=map_of(STRING, ARTIFACT),
    ConfigMaps=map_of(STRING, CONFIG_MAP),
    Secrets=map_of(STRING, SECRET),
    Time=STRING,
    Profile=pointer_to(
        _struct("param.Profile", Location=LOCATION, Credential=CREDENTIAL, SkipSSLVerify=BOOL)
    ),
    Options=STRING_MAP,
    Object=ANY_MAP,
    Phases=map_of(STRING, pointer_to(PHASE)),
    DeferPhase=pointer_to(PHASE),
    PodOverride=named_type("v1alpha1.JSONMap", ANY_MAP),
    PodAnnotations=STRING_MAP,
    PodLabels=STRING_MAP,
)


def value_of(plain: Any) -> Value:
    """Convert the data of a case to Go values."""
    if isinstance(plain, list):
        return [value_of(item) for item in plain]
    if isinstance(plain, dict):
        if len(plain) == 1:
            ((tag, inner),) = plain.items()
            if tag.startswith("$"):
                return _TAGS[tag](inner)
        return {name: value_of(member) for name, member in plain.items()}
    return Int64(plain) if type(plain) is int else plain


def _time(text: str) -> Time:
    return parse_time("2006-01-02T15:04:05.999999999Z07:00", text)


_TAGS: dict[str, Callable[[Any], Value]] = {
    "$bytes": base64.b64decode,
    "$bytesmap": lambda entries: wrap(
        map_of(STRING, BYTES), {name: base64.b64decode(text) for name, text in entries.items()}
    ),
    "$float": float,
    "$int": int,
    "$ints": lambda items: wrap(slice_of(INT), items),
    "$params": lambda fields: _read(PARAMS, fields),
    "$textmap": lambda entries: wrap(STRING_MAP, entries),
    "$texts": lambda items: wrap(STRINGS, items),
    "$time": _time,
}


def _read(go_type: GoType, plain: Any) -> Value:
    """Decode plain JSON into a Go type as encoding/json does: by tag, or else by name."""
    if plain is None or go_type is ANY:
        return wrap(go_type, plain) if plain is None else plain
    struct = go_type.elem if go_type.kind == "ptr" else go_type
    assert struct is not None
    if struct.kind == "struct":
        fields = {}
        for field in struct.fields.values():
            name = field.json.partition(",")[0] or field.name
            if field.embedded and name == field.name:
                fields[field.name] = wrap(field.type, {})
            elif name in plain:
                # Kubernetes objects keep whole numbers; outputs of phases are plain JSON.
                is_object = field.name == "Object" and go_type is PARAMS
                fields[field.name] = (
                    value_of(plain[name]) if is_object else _read(field.type, _floats(plain[name]))
                )
        return wrap(go_type, fields)
    if struct.kind == "map" and struct.elem is not None:
        return wrap(go_type, {name: _read(struct.elem, member) for name, member in plain.items()})
    return base64.b64decode(plain) if go_type is BYTES else wrap(go_type, plain)


def _floats(plain: Any) -> Any:
    """Numbers in untyped JSON are float64."""
    if type(plain) is int:
        return float(plain)
    if isinstance(plain, list):
        return [_floats(item) for item in plain]
    if isinstance(plain, dict):
        return {name: _floats(member) for name, member in plain.items()}
    return plain


def data_of(name: str) -> Value:
    """Create a named data set, because templates may change it."""
    return value_of(DATA[name])


@functools.cache
def _zone(name: str) -> Location:
    try:
        return zone_of(name, ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise GoError(f"unknown time zone {name}") from None


def effects_at(now: str) -> Effects:
    """Return effects with the clock of a case, real zones, and reproducible randomness."""
    moment = _time(now) if now else from_datetime(datetime.fromisoformat("2030-01-02T03:04:05Z"))
    state = [0]

    def random_bytes(size: int) -> bytes:
        # A stream without a short cycle; its quality does not matter here.
        stream = bytearray()
        while len(stream) < size:
            state[0] = (state[0] * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            stream += (state[0] >> 33).to_bytes(4, "big")[1:]
        return bytes(stream[:size])

    return Effects(now=lambda: moment, load_zone=_zone, random_bytes=random_bytes)
