"""Parameters of templates: all that the templates of one action see.

The tree is in Go's names and of Go's types, so that texts of errors and everything
that prints a type say what Go would say. It is built from facts that were read
before, each part when it is first looked at; it grows with each phase and is never
built anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kanister_py.core.templates.facts import (
    ActionFacts,
    Named,
    ResolvedProfile,
    Workload,
    texts_of_secret,
)
from kanister_py.core.templates.kube_types import (
    CONFIG_MAPS,
    SECRET,
    SECRETS,
    config_map_value,
    secret_value,
    whole_numbers,
)
from kanister_py.core.templates.param_types import (
    PHASE_POINTER,
    PHASES,
    ROOT_NAMES,
    TEMPLATE_PARAMS,
)
from kanister_py.gotemplate.types import (
    ANY_MAP,
    STRING_MAP,
    GoType,
    pointer_to,
)
from kanister_py.gotemplate.values import GoMap, NilPointer, Struct, Value, wrap, zero

KubeObject = Mapping[str, Any]


class Params:
    """What the templates of one action see; belongs to that action's run alone.

    A phase is entered before its args are rendered and left with its output; both
    cost the same however many phases came before.
    """

    __slots__ = ("_phases", "_seen", "facts", "root")

    def __init__(self, facts: ActionFacts) -> None:
        self.facts = facts
        self._seen: list[KubeObject] = []
        self._phases = GoMap(PHASES)
        self.root = Struct(
            TEMPLATE_PARAMS,
            {
                "Time": facts.time,
                "Phases": self._phases,
                "DeferPhase": Struct(PHASE_POINTER),
            },
            {
                "StatefulSet": lambda: _workload("StatefulSet", facts.stateful_set),
                "DeploymentConfig": lambda: _workload("DeploymentConfig", facts.deployment_config),
                "Deployment": lambda: _workload("Deployment", facts.deployment),
                "PVC": lambda: _place("PVC", facts.pvc),
                "Namespace": lambda: _place("Namespace", facts.namespace),
                "ArtifactsIn": lambda: _artifacts(facts.artifacts),
                "ConfigMaps": lambda: _config_maps(facts.config_maps),
                "Secrets": lambda: _secrets(facts.secrets),
                "Profile": lambda: _profile(facts.profile),
                "Options": lambda: wrap(STRING_MAP, facts.options),
                "Object": lambda: _custom(ANY_MAP, facts.object),
                "PodOverride": lambda: _custom(_type_of("PodOverride"), facts.pod_override),
                "PodAnnotations": lambda: wrap(STRING_MAP, facts.pod_annotations),
                "PodLabels": lambda: wrap(STRING_MAP, facts.pod_labels),
            },
        )

    def enter_phase(
        self,
        name: str,
        secrets: Mapping[str, KubeObject] | None = None,
        config_maps: Mapping[str, KubeObject] | None = None,
    ) -> None:
        """Let templates see the objects of a phase, whose output is nil until it is left."""
        self._phases[name] = self._phase(secrets, config_maps)

    def leave_phase(self, name: str, output: Mapping[str, Any] | None) -> None:
        """Let templates see what a phase gave; a phase that failed gives None."""
        if name not in self._phases:
            self.enter_phase(name)
        self._phases[name]["Output"] = _output(output)

    def enter_defer_phase(
        self,
        secrets: Mapping[str, KubeObject] | None = None,
        config_maps: Mapping[str, KubeObject] | None = None,
    ) -> None:
        """As for a phase: the deferPhase is found under a name of its own."""
        self.root["DeferPhase"] = self._phase(secrets, config_maps)

    def leave_defer_phase(self, output: Mapping[str, Any] | None) -> None:
        """Let templates see what the deferPhase gave."""
        self.root["DeferPhase"]["Output"] = _output(output)

    def _phase(
        self,
        secrets: Mapping[str, KubeObject] | None,
        config_maps: Mapping[str, KubeObject] | None,
    ) -> Struct:
        self._seen += (secrets or {}).values()
        return Struct(
            PHASE_POINTER,
            None,
            {
                "Secrets": lambda: _secrets(secrets),
                "ConfigMaps": lambda: _config_maps(config_maps),
            },
        )

    @property
    def roots(self) -> list[str]:
        """The names at the top of the tree under which there is anything for this action."""
        return [name for name in ROOT_NAMES if not isinstance(self.root[name], NilPointer)]

    def secret_texts(self) -> Iterator[str]:
        """Every secret that a template could have read so far, as text; some more than once."""
        profile = self.facts.profile
        if profile is not None:
            if profile.key_pair is not None:
                yield profile.key_pair.secret
            if profile.kopia_server is not None:
                yield profile.kopia_server.password
            if profile.secret is not None:
                yield from texts_of_secret(profile.secret)
        for secret in (*self.facts.secrets.values(), *self._seen):
            yield from texts_of_secret(secret)


def _type_of(field: str) -> GoType:
    return TEMPLATE_PARAMS.fields[field].type


def _workload(field: str, found: Workload | None) -> Value:
    if found is None:
        return zero(_type_of(field))
    return wrap(
        _type_of(field),
        {
            "Name": found.name,
            "Namespace": found.namespace,
            "Pods": list(found.pods),
            "Containers": [list(each) for each in found.containers],
            "PersistentVolumeClaims": found.persistent_volume_claims,
        },
    )


def _place(field: str, found: Named | None) -> Value:
    if found is None:
        return zero(_type_of(field))
    return wrap(_type_of(field), {"Name": found.name, "Namespace": found.namespace})


def _artifacts(found: Mapping[str, Mapping[str, Any]] | None) -> Value:
    if found is None:
        return zero(_type_of("ArtifactsIn"))
    return wrap(
        _type_of("ArtifactsIn"),
        {
            name: {
                "KeyValue": each.get("keyValue"),
                "KopiaSnapshot": each.get("kopiaSnapshot") or "",
            }
            for name, each in found.items()
        },
    )


def _secrets(found: Mapping[str, KubeObject] | None) -> GoMap:
    return GoMap(SECRETS, {name: secret_value(each) for name, each in (found or {}).items()})


def _config_maps(found: Mapping[str, KubeObject] | None) -> GoMap:
    return GoMap(
        CONFIG_MAPS, {name: config_map_value(each) for name, each in (found or {}).items()}
    )


def _custom(go_type: GoType, found: Mapping[str, Any] | None) -> Value:
    if found is None:
        return zero(go_type)
    numbered = whole_numbers(found)
    return numbered if go_type is ANY_MAP else GoMap(go_type, numbered)


def _profile(found: ResolvedProfile | None) -> Value:
    if found is None:
        return zero(_type_of("Profile"))
    pair, server = found.key_pair, found.kopia_server
    credential = {
        "Type": found.credential_type,
        "KeyPair": pair and {"ID": pair.id, "Secret": pair.secret},
        "Secret": found.secret and secret_value(found.secret, pointer_to(SECRET)),
        "KopiaServerSecret": server
        and {
            "Username": server.username,
            "Hostname": server.hostname,
            "Password": server.password,
            "Cert": server.cert,
            "ConnectOptions": server.connect_options,
        },
    }
    location = {key.capitalize(): each for key, each in found.location.items()}
    return wrap(
        _type_of("Profile"),
        {
            "Location": location,
            "Credential": credential,
            "SkipSSLVerify": found.skip_ssl_verify,
        },
    )


def _output(output: Mapping[str, Any] | None) -> Value:
    return zero(ANY_MAP) if output is None else dict(output)
