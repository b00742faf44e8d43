"""Runtime of functions: something that answers for each active revision, and how it fares.

A revision is run by a Deployment of ours, in this process, or by users themselves. What is
no longer active goes on for a while: calls under way end before its pods do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kanister_py.controller.functions.settings import CompositionSettings, FunctionTools
from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.writing import (
    apply_if_changed,
    condition,
    delete_as_seen,
    write_status,
)
from kanister_py.core.actionsets.status import parse_time
from kanister_py.core.compositions.endpoints import builtin_endpoint
from kanister_py.core.errors import KanisterError, NotFound
from kanister_py.core.kube.parts import (
    annotations_of,
    condition_of,
    is_controlled_by,
    spec_of,
    status_of,
)
from kanister_py.core.kube.resources import DEPLOYMENTS, SERVICE_ACCOUNTS, SERVICES
from kanister_py.core.registry.entries import DesiredState
from kanister_py.core.revisions.functions import (
    Runtime,
    is_marked_in_process,
    runtime_of,
    tag_of_revision,
    version_of_revision,
)
from kanister_py.core.revisions.kinds import FUNCTION_REVISIONS, RUNTIME_CONFIGS
from kanister_py.core.revisions.runtime import (
    deployment_of,
    server_secret_of,
    service_account_of,
    service_endpoint,
    service_names,
    service_of,
    unhealthy_reason,
)
from kanister_py.core.revisions.substitutes import choose_for_package
from kanister_py.ports.cluster import KubeObject, Propagation, find

ENDPOINT: Final = "kanister-py.io/endpoint"
"""Where a revision answers that users run themselves."""

_DEFAULT_CONFIG: Final = "default"
_LOOKS_AGAIN_SECONDS: Final = 10.0


class FunctionRuntime:
    """Reconciler of revisions of functions: what runs for each, and where it answers."""

    def __init__(
        self,
        part: PartTools,
        tools: FunctionTools,
        settings: CompositionSettings,
        keeper: CertificateKeeper,
        ready_addresses: Callable[[str], Sequence[str]],
    ) -> None:
        self._cluster, self._clock = part.cluster, part.clock
        self._tools = tools
        self._settings = settings
        self._keeper = keeper
        self._ready_addresses = ready_addresses

    def reconcile(self, name: str) -> float | None:
        """Bring what runs one revision to rest; say after how many seconds to look again."""
        revision = find(self._cluster, FUNCTION_REVISIONS, name)
        if revision is None or revision["metadata"].get("deletionTimestamp"):
            return None
        if spec_of(revision).get("desiredState") != DesiredState.ACTIVE:
            return self._stop(revision)
        runtime = runtime_of(revision, self._settings.default_runtime)
        if runtime is Runtime.IN_PROCESS:
            self._run_here(revision)
            return None
        if runtime is Runtime.EXTERNAL:
            annotations = annotations_of(revision)
            status = status_of(revision)
            endpoint = str(annotations.get(ENDPOINT) or status.get("endpoint") or "")
            why = "" if endpoint else f"nobody has said where it answers, as {ENDPOINT}"
            self._say(revision, endpoint, why)
            return None
        return self._run(revision)

    def _run_here(self, revision: KubeObject) -> None:
        """Have exactly the version run a revision that its tag names, or say why none does."""
        image, tag = str(spec_of(revision).get("image") or ""), tag_of_revision(revision)
        try:
            choice = choose_for_package(
                entries=self._tools.entries,
                package=image,
                tag=tag,
                is_ours=is_marked_in_process(revision),
                strict=self._settings.is_strict,
            )
        except KanisterError as error:
            self._say(revision, "", error.message)
            return
        function, version = choice.chosen.function, str(choice.chosen.version)
        messages = [each.message for each in choice.notices]
        if choice.chosen.version != version_of_revision(revision):
            stable = ", the stable version" if choice.chosen.is_stable else ""
            messages.append(f"Runs {function} {version}{stable}")
        self._say(revision, builtin_endpoint(function, version), "", "; ".join(messages))

    def _run(self, revision: KubeObject) -> float:
        name, namespace = revision["metadata"]["name"], self._settings.namespace
        config = self._config_of(revision)
        apply_if_changed(self._cluster, SERVICES, service_of(revision, namespace, config))
        apply_if_changed(
            self._cluster, SERVICE_ACCOUNTS, service_account_of(revision, namespace, config)
        )
        authority = self._keeper.keep_authority(namespace, self._settings.authority)
        owners = service_account_of(revision, namespace, config)["metadata"]["ownerReferences"]
        pair = self._keeper.keep_certificate(
            namespace,
            server_secret_of(revision),
            service_names(name, namespace),
            authority,
            metadata={"ownerReferences": owners},
        )
        facts = self._tools.certificates.read(pair.certificate)
        fingerprint = facts.fingerprint if facts is not None else ""
        wanted = deployment_of(revision, namespace, config, certificate=fingerprint)
        deployment = apply_if_changed(self._cluster, DEPLOYMENTS, wanted)
        why = unhealthy_reason(deployment, len(self._ready_addresses(name)))
        self._say(revision, service_endpoint(name, namespace), why)
        # The watches tell when it is up; should one be cut, nobody waits for long.
        return _LOOKS_AGAIN_SECONDS if why else self._settings.looks_every_seconds

    def _stop(self, revision: KubeObject) -> float | None:
        """Take a revision out of service: nobody calls it any more, then its pods go."""
        name, namespace = revision["metadata"]["name"], self._settings.namespace
        stopped = condition("RuntimeActive", "False", "InactiveRuntime")
        revision = write_status(self._cluster, self._clock, revision, [stopped])
        deployment = find(self._cluster, DEPLOYMENTS, name, namespace)
        if deployment is None or not is_controlled_by(deployment, revision):
            return None
        left = self._drained_at(revision) - self._clock.now().timestamp()
        if left > 0:
            return left
        delete_as_seen(self._cluster, DEPLOYMENTS, deployment, Propagation.BACKGROUND)
        return None

    def _drained_at(self, revision: KubeObject) -> float:
        since = condition_of(revision, "RuntimeActive")["lastTransitionTime"]
        time = parse_time(since) or self._clock.now()
        return (time + self._settings.drains_for).timestamp()

    def _config_of(self, revision: KubeObject) -> Mapping[str, Any]:
        reference = spec_of(revision).get("runtimeConfigRef") or {}
        name = str(reference.get("name") or _DEFAULT_CONFIG)
        try:
            found = self._cluster.get(RUNTIME_CONFIGS, name)
        except NotFound:
            if name == _DEFAULT_CONFIG:
                return {}
            raise
        spec: Mapping[str, Any] = spec_of(found)
        return spec

    def _say(self, revision: KubeObject, endpoint: str, why_not: str, message: str = "") -> None:
        if why_not:
            healthy = condition("RuntimeHealthy", "False", "UnhealthyPackageRevision", why_not)
        else:
            healthy = condition("RuntimeHealthy", "True", "HealthyPackageRevision", message)
        active = condition("RuntimeActive", "True", "ActiveRuntime")
        image = spec_of(revision).get("image")
        status = {**status_of(revision), "endpoint": endpoint, "resolvedImage": image}
        write_status(self._cluster, self._clock, revision, [healthy, active], status)
