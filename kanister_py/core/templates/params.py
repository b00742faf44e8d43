"""Parameters of the templates of one action.

The tree has Go's names and types, so that error messages and printed types are those of Go. It is
built lazily from facts, and grows with every phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kanister_py.core.kube.copies import copy_json
from kanister_py.core.templates.facts import (
    ActionFacts,
    KubeObject,
    Named,
    ResolvedProfile,
    Workload,
    texts_of_secret,
)
from kanister_py.core.templates.param_types import (
    CONFIG_MAPS,
    PHASE_POINTER,
    PHASES,
    ROOT_NAMES,
    SECRET,
    SECRETS,
    TEMPLATE_PARAMS,
    config_map_value,
    secret_value,
    with_int64,
)
from kanister_py.gotemplate.types import ANY_MAP, STRING_MAP, GoType, pointer_to
from kanister_py.gotemplate.values import GoMap, NilPointer, Struct, Value, is_nil, wrap, zero

_Objects = tuple[Mapping[str, KubeObject] | None, Mapping[str, KubeObject] | None]


class Params:
    """Template parameters of one action. Must not be shared between runs.

    A phase is entered before its arguments are rendered, and left with its output. The time for
    both does not depend on the number of earlier phases.
    """

    __slots__ = ("_entered", "_phase_secrets", "_phases", "facts", "root")

    def __init__(self, facts: ActionFacts) -> None:
        self.facts = facts
        self._phase_secrets: list[KubeObject] = []
        self._entered: dict[str | None, _Objects] = {}
        self._phases = GoMap(PHASES)
        self.root = Struct(
            TEMPLATE_PARAMS,
            {"Time": facts.time, "Phases": self._phases, "DeferPhase": Struct(PHASE_POINTER)},
            {
                "StatefulSet": lambda: _filled("StatefulSet", facts.stateful_set, _go_fields),
                "DeploymentConfig": lambda: _filled(
                    "DeploymentConfig", facts.deployment_config, _go_fields
                ),
                "Deployment": lambda: _filled("Deployment", facts.deployment, _go_fields),
                "PVC": lambda: _filled("PVC", facts.pvc, _go_fields),
                "Namespace": lambda: _filled("Namespace", facts.namespace, _go_fields),
                "ArtifactsIn": lambda: _filled("ArtifactsIn", facts.artifacts, _artifacts),
                "ConfigMaps": lambda: _config_maps(facts.config_maps),
                "Secrets": lambda: _secrets(facts.secrets),
                "Profile": lambda: _filled("Profile", facts.profile, _profile),
                "Options": lambda: wrap(STRING_MAP, facts.options),
                "Object": lambda: _custom(ANY_MAP, facts.object),
                "PodOverride": lambda: _custom(_type_of("PodOverride"), facts.pod_override),
                "PodAnnotations": lambda: wrap(STRING_MAP, facts.pod_annotations),
                "PodLabels": lambda: wrap(STRING_MAP, facts.pod_labels),
            },
        )

    def enter_phase(
        self,
        name: str | None,
        secrets: Mapping[str, KubeObject] | None = None,
        config_maps: Mapping[str, KubeObject] | None = None,
    ) -> None:
        """Add the objects of a phase. Its output is nil until it is left.

        None stands for the deferPhase.
        """
        self._phase_secrets += (secrets or {}).values()
        self._entered[name] = (secrets, config_maps)
        lazy = {
            "Secrets": lambda: _secrets(secrets),
            "ConfigMaps": lambda: _config_maps(config_maps),
        }
        phase = Struct(PHASE_POINTER, None, lazy)
        if name is None:
            self.root["DeferPhase"] = phase
        else:
            self._phases[name] = phase

    def leave_phase(self, name: str | None, output: Mapping[str, Any] | None) -> None:
        """Set the output of a phase; None for a failed phase."""
        if name is not None and name not in self._phases:
            self.enter_phase(name)
        phase = self.root["DeferPhase"] if name is None else self._phases[name]
        phase["Output"] = zero(ANY_MAP) if output is None else dict(output)

    def __reduce__(self) -> tuple[Any, ...]:
        phases = [(name, objects, self._output_of(name)) for name, objects in self._entered.items()]
        return _rebuilt, (self.facts, phases)

    def _output_of(self, name: str | None) -> Any:
        """Return the output of a phase: an empty tuple before it is left, None if it failed."""
        phase = self.root["DeferPhase"] if name is None else self._phases[name]
        if "Output" not in phase:
            return ()
        output = phase["Output"]
        return None if is_nil(output) else output

    @property
    def roots(self) -> list[str]:
        """Names of the top-level parameters that are set for this action."""
        return [name for name in ROOT_NAMES if not isinstance(self.root[name], NilPointer)]

    def secret_texts(self) -> Iterator[str]:
        """Yield every secret that a template could have read so far; values may repeat."""
        profile = self.facts.profile
        if profile is not None:
            if profile.key_pair is not None:
                yield profile.key_pair.secret
            if profile.kopia_server is not None:
                yield profile.kopia_server["Password"]
            if profile.secret is not None:
                yield from texts_of_secret(profile.secret)
        for secret in (*self.facts.secrets.values(), *self._phase_secrets):
            yield from texts_of_secret(secret)


def _rebuilt(facts: ActionFacts, phases: Sequence[tuple[str | None, _Objects, Any]]) -> Params:
    """Rebuild unpickled parameters."""
    params = Params(facts)
    for name, objects, output in phases:
        params.enter_phase(name, *objects)
        if output != ():
            params.leave_phase(name, output)
    return params


def _type_of(field: str) -> GoType:
    return TEMPLATE_PARAMS.fields[field].type


def _filled(field: str, source: Any, fields_of: Callable[[Any], Mapping[str, Any]]) -> Value:
    """Build the value of a top-level parameter; nil if there is no source."""
    go_type = _type_of(field)
    return zero(go_type) if source is None else wrap(go_type, fields_of(source))


def _go_fields(source: Workload | Named) -> Mapping[str, Any]:
    """Return the fields of facts with Go's names."""
    return {
        "".join(map(str.capitalize, name.split("_"))): copy_json(value)
        for name, value in source._asdict().items()
    }


def _artifacts(source: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    return {
        name: {
            "KeyValue": artifact.get("keyValue"),
            "KopiaSnapshot": artifact.get("kopiaSnapshot") or "",
        }
        for name, artifact in source.items()
    }


def _secrets(source: Mapping[str, KubeObject] | None) -> GoMap:
    return GoMap(SECRETS, {name: secret_value(secret) for name, secret in (source or {}).items()})


def _config_maps(source: Mapping[str, KubeObject] | None) -> GoMap:
    return GoMap(CONFIG_MAPS, {name: config_map_value(obj) for name, obj in (source or {}).items()})


def _custom(go_type: GoType, source: Mapping[str, Any] | None) -> Value:
    if source is None:
        return zero(go_type)
    numbered = with_int64(source)
    return numbered if go_type is ANY_MAP else GoMap(go_type, numbered)


def _profile(source: ResolvedProfile) -> Mapping[str, Any]:
    pair = source.key_pair
    credential = {
        "Type": source.credential_type,
        "KeyPair": pair and {"ID": pair.id, "Secret": pair.secret},
        "Secret": source.secret and secret_value(source.secret, pointer_to(SECRET)),
        "KopiaServerSecret": source.kopia_server,
    }
    return {
        "Location": {key.capitalize(): text for key, text in source.location.items()},
        "Credential": credential,
        "SkipSSLVerify": source.skip_ssl_verify,
    }
