"""Reconciler of the runtimes of active FunctionRevisions.

A revision runs in a Deployment, in this process, or outside of our control (External). The pods
of an inactive revision are kept for a while, so that calls in progress can end.
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
"""Annotation with the endpoint of a revision with the runtime External."""

_DEFAULT_CONFIG: Final = "default"
_RECHECK_SECONDS: Final = 10.0


class FunctionRuntime:
    """Reconciler of the Deployments and endpoints of FunctionRevisions."""

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
        """Reconcile the runtime of one revision; return the seconds until the next time."""
        revision = find(self._cluster, FUNCTION_REVISIONS, name)
        if revision is None or revision["metadata"].get("deletionTimestamp"):
            return None
        if spec_of(revision).get("desiredState") != DesiredState.ACTIVE:
            return self._stop(revision)
        runtime = runtime_of(revision, self._settings.default_runtime)
        if runtime is Runtime.IN_PROCESS:
            self._run_in_process(revision)
            return None
        if runtime is Runtime.EXTERNAL:
            annotations = annotations_of(revision)
            status = status_of(revision)
            endpoint = str(annotations.get(ENDPOINT) or status.get("endpoint") or "")
            problem = "" if endpoint else f"it has no endpoint; set the annotation {ENDPOINT}"
            self._write_status(revision, endpoint, problem)
            return None
        return self._run_deployment(revision)

    def _run_in_process(self, revision: KubeObject) -> None:
        """Run a revision with the built-in version that its tag names, if there is one."""
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
            self._write_status(revision, "", error.message)
            return
        function, version = choice.chosen.function, str(choice.chosen.version)
        messages = [notice.message for notice in choice.notices]
        if choice.chosen.version != version_of_revision(revision):
            stable = ", the stable version" if choice.chosen.is_stable else ""
            messages.append(f"Runs {function} {version}{stable}")
        self._write_status(revision, builtin_endpoint(function, version), "", "; ".join(messages))

    def _run_deployment(self, revision: KubeObject) -> float:
        name, namespace = revision["metadata"]["name"], self._settings.namespace
        config = self._config_of(revision)
        apply_if_changed(self._cluster, SERVICES, service_of(revision, namespace, config))
        apply_if_changed(
            self._cluster, SERVICE_ACCOUNTS, service_account_of(revision, namespace, config)
        )
        authority = self._keeper.ensure_authority(namespace, self._settings.authority)
        owners = service_account_of(revision, namespace, config)["metadata"]["ownerReferences"]
        pair = self._keeper.ensure_certificate(
            namespace,
            server_secret_of(revision),
            service_names(name, namespace),
            authority,
            metadata={"ownerReferences": owners},
        )
        facts = self._tools.certificates.read(pair.certificate)
        fingerprint = facts.fingerprint if facts is not None else ""
        desired = deployment_of(revision, namespace, config, certificate=fingerprint)
        deployment = apply_if_changed(self._cluster, DEPLOYMENTS, desired)
        problem = unhealthy_reason(deployment, len(self._ready_addresses(name)))
        self._write_status(revision, service_endpoint(name, namespace), problem)
        # The watches report when it is ready; the delay is for a broken watch.
        return _RECHECK_SECONDS if problem else self._settings.certificate_check_seconds

    def _stop(self, revision: KubeObject) -> float | None:
        """Stop calling a revision, and delete its Deployment after a delay."""
        name, namespace = revision["metadata"]["name"], self._settings.namespace
        stopped = condition("RuntimeActive", "False", "InactiveRuntime")
        revision = write_status(self._cluster, self._clock, revision, [stopped])
        deployment = find(self._cluster, DEPLOYMENTS, name, namespace)
        if deployment is None or not is_controlled_by(deployment, revision):
            return None
        seconds = self._drained_at(revision) - self._clock.now().timestamp()
        if seconds > 0:
            return seconds
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
            config = self._cluster.get(RUNTIME_CONFIGS, name)
        except NotFound:
            if name == _DEFAULT_CONFIG:
                return {}
            raise
        spec: Mapping[str, Any] = spec_of(config)
        return spec

    def _write_status(
        self, revision: KubeObject, endpoint: str, problem: str, message: str = ""
    ) -> None:
        if problem:
            healthy = condition("RuntimeHealthy", "False", "UnhealthyPackageRevision", problem)
        else:
            healthy = condition("RuntimeHealthy", "True", "HealthyPackageRevision", message)
        active = condition("RuntimeActive", "True", "ActiveRuntime")
        image = spec_of(revision).get("image")
        status = {**status_of(revision), "endpoint": endpoint, "resolvedImage": image}
        write_status(self._cluster, self._clock, revision, [healthy, active], status)
