"""Reconciler of Functions: their packages and revisions.

It reads the Function and its revisions, resolves the package at the registry, and writes the
differences: the revision of that package, the active revisions, the deleted revisions and the
conditions of the Function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kanister_py.controller.functions.pull_secrets import logins_of
from kanister_py.controller.functions.settings import CompositionSettings, FunctionTools
from kanister_py.controller.machine.events import NORMAL, WARNING, subject_of
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.writing import (
    condition,
    condition_from_problem,
    delete_as_seen,
    write_status,
)
from kanister_py.core.errors import (
    AlreadyExists,
    Conflict,
    FunctionNotRegistered,
    FunctionVersionNotFound,
    InvalidVersion,
    KanisterError,
)
from kanister_py.core.kube.parts import (
    annotations_of,
    condition_of,
    controller_reference,
    is_controlled_by,
    labels_of,
    name_of,
    spec_of,
    status_of,
    with_controller,
)
from kanister_py.core.kube.quantities import InvalidQuantity, parse_size
from kanister_py.core.registry.entries import DesiredState, FunctionRevision
from kanister_py.core.revisions.activation import (
    DEFAULT_ACTIVE_LIMIT,
    Activation,
    ActivationPolicy,
    history_limit_of,
    plan_activation,
    problems_of_limits,
)
from kanister_py.core.revisions.collection import Revision, plan_collection
from kanister_py.core.revisions.functions import (
    ANSWER_LIMIT,
    PACKAGE_TAG,
    RUNTIME,
    Runtime,
    digest_of_revision,
    is_marked_in_process,
    revision_of,
    runtime_of,
)
from kanister_py.core.revisions.identity import (
    PACKAGE_LABEL,
    Change,
    Numbered,
    Numbering,
    content_labels,
    function_identity,
    function_revision_name,
    number_revision,
)
from kanister_py.core.revisions.kinds import FUNCTION_REVISIONS, FUNCTIONS
from kanister_py.core.revisions.lifecycles import LIFECYCLE, read_lifecycle
from kanister_py.core.revisions.package import (
    COMPOSITION,
    Dependency,
    DependencyUnresolved,
    FunctionPackage,
    Installed,
    InvalidPackageReference,
    PackageReference,
    find_installed,
    name_for,
    package_for,
    parse_function_package,
    parse_package_reference,
    source_of,
)
from kanister_py.core.revisions.substitutes import choose_for_package
from kanister_py.ports.cluster import KubeObject, find
from kanister_py.ports.packages import RegistryLogin, RegistryUnavailable

Users = Callable[[str, Sequence[FunctionRevision]], Mapping[str, Sequence[str]]]
"""Maps revisions of a function to descriptions of their users."""

_PULL_ALWAYS_SECONDS: Final = 60.0
_PAUSED: Final = "crossplane.io/paused"
# Fields that a revision copies from its Function. They are no content: a change of them creates
# no revision and updates the current one.
_COPIED_FIELDS: Final = (
    "packagePullPolicy",
    "packagePullSecrets",
    "ignoreCrossplaneConstraints",
    "skipDependencyResolution",
    "commonLabels",
    "commonAnnotations",
    "runtimeConfigRef",
)


class _ResolvedPackage(NamedTuple):
    """The package that a Function refers to now."""

    reference: PackageReference
    digest: str
    package: FunctionPackage


class FunctionReconciler:
    """Reconciler of Functions."""

    def __init__(
        self, part: PartTools, tools: FunctionTools, settings: CompositionSettings, users: Users
    ) -> None:
        self._cluster, self._clock, self._post_event = part.cluster, part.clock, part.post_event
        self._packages, self._entries = tools.packages, tools.entries
        self._settings = settings
        self._users = users

    def reconcile(self, name: str) -> float | None:
        """Reconcile one Function; return the seconds until the next time, or None for a change."""
        function = find(self._cluster, FUNCTIONS, name)
        if function is None or function["metadata"].get("deletionTimestamp"):
            return None
        if annotations_of(function).get(_PAUSED) == "true":
            paused = condition("Synced", "False", "ReconcilePaused", "Paused by an annotation")
            write_status(self._cluster, self._clock, function, [paused])
            return None
        spec = spec_of(function)
        problems = list(
            problems_of_limits(spec.get("activeRevisionLimit"), spec.get("revisionHistoryLimit"))
        )
        if problems:
            message = "; ".join(f"spec.{field}: {problem}" for field, problem in problems)
            self._refuse(function, "InvalidLimits", message)
            return None
        if problem := _problem_of_annotations(function):
            self._refuse(function, "InvalidRuntime", f"metadata.annotations{problem}")
            return None
        revisions = self._revisions_of(function)
        try:
            resolved = self._resolve(function, revisions)
        except KanisterError as error:
            self._activate(function, revisions, None)
            self._report_problem(function, revisions, error)
            if isinstance(error, RegistryUnavailable):
                # Installed revisions keep running; retry for the new one.
                raise
            return _PULL_ALWAYS_SECONDS
        revisions = self._apply_revision(function, revisions, resolved)
        self._activate(function, revisions, resolved)
        self._install_dependencies(function, resolved.package)
        return _PULL_ALWAYS_SECONDS if spec.get("packagePullPolicy") == "Always" else None

    def _revisions_of(self, function: KubeObject) -> list[KubeObject]:
        name = function["metadata"]["name"]
        listed = self._cluster.list(
            FUNCTION_REVISIONS, label_selector=f"{PACKAGE_LABEL}={name}"
        ).items
        return [
            revision for revision in listed if not revision["metadata"].get("deletionTimestamp")
        ]

    # The package

    def _resolve(self, function: KubeObject, revisions: Sequence[KubeObject]) -> _ResolvedPackage:
        spec = spec_of(function)
        reference = parse_package_reference(str(spec.get("package") or ""))
        if runtime_of(function, self._settings.default_runtime) is Runtime.IN_PROCESS:
            return self._built_in(reference, is_ours=is_marked_in_process(function))
        logins = self._logins(spec)
        digest = reference.digest or self._resolved_digest(function, revisions, reference)
        if not digest:
            digest = self._packages.resolve(reference, logins)
        text = self._packages.read(reference, digest, logins)
        package = parse_function_package(text, str(reference))
        record = package.annotations.get(LIFECYCLE)
        if record:
            # An unreadable record would hide deprecations, so it is an error.
            read_lifecycle(record)
        return _ResolvedPackage(reference, digest, package)

    def _built_in(self, reference: PackageReference, *, is_ours: bool) -> _ResolvedPackage:
        """Return the built-in function with the name of a package.

        A removed version is refused. An unknown function is reported by its revision.
        """
        name = reference.repository.rpartition("/")[2]
        with suppress(FunctionNotRegistered, FunctionVersionNotFound, InvalidVersion):
            package = str(reference)
            choose_for_package(self._entries, package, reference.tag, is_ours=is_ours)
        content = FunctionPackage(name, {}, {}, (COMPOSITION,))
        # There is no content to hash, so the digest is that of the reference.
        return _ResolvedPackage(
            reference, f"sha256:{function_identity(str(reference), None)}", content
        )

    def _resolved_digest(
        self, function: KubeObject, revisions: Sequence[KubeObject], reference: PackageReference
    ) -> str:
        """Return the digest from the status, unless the pull policy is `Always`."""
        if spec_of(function).get("packagePullPolicy") == "Always":
            return ""
        status = status_of(function)
        if status.get("currentIdentifier") != str(reference):
            return ""
        current = status.get("currentRevision")
        for revision in revisions:
            if revision["metadata"]["name"] == current:
                return digest_of_revision(revision)
        return ""

    def _logins(self, spec: Mapping[str, Any]) -> list[RegistryLogin]:
        names = [str(secret.get("name")) for secret in spec.get("packagePullSecrets") or ()]
        return logins_of(self._cluster, self._settings.namespace, names)

    # Its revision

    def _apply_revision(
        self, function: KubeObject, revisions: list[KubeObject], resolved: _ResolvedPackage
    ) -> list[KubeObject]:
        # Labels of the Function override those of the package.
        labels = content_labels({**resolved.package.labels, **labels_of(function)})
        identity = function_identity(resolved.digest, labels)
        existing = {
            revision["metadata"]["name"]: _numbered(revision, function) for revision in revisions
        }
        plan = number_revision(identity, list(existing.values()))
        by_name = {revision["metadata"]["name"]: revision for revision in revisions}
        for orphan in plan.adopted:
            by_name[orphan] = self._cluster.replace(with_controller(by_name[orphan], function))
        if plan.change is Change.CREATE:
            taken_names = {
                name for name, numbered in existing.items() if numbered.identity != identity
            }
            created = self._create(function, resolved, identity, labels, plan, taken_names)
            by_name[created["metadata"]["name"]] = created
        else:
            updated = self._update(function, by_name[plan.name], plan)
            by_name[plan.name] = self._write_capabilities(updated, resolved.package)
        return list(by_name.values())

    def _create(
        self,
        function: KubeObject,
        resolved: _ResolvedPackage,
        identity: str,
        labels: Mapping[str, str],
        plan: Numbering,
        taken_names: set[str],
    ) -> KubeObject:
        owner = function["metadata"]["name"]
        name = function_revision_name(owner, identity, taken_names)
        spec = spec_of(function)
        is_manual = spec.get("revisionActivationPolicy") == ActivationPolicy.MANUAL
        annotations = {
            **_inert_annotations(resolved.package.annotations),
            **_runtime_annotations(function),
        }
        if resolved.reference.tag:
            annotations[PACKAGE_TAG] = resolved.reference.tag
        revision = {
            "apiVersion": FUNCTION_REVISIONS.api_version,
            "kind": "FunctionRevision",
            "metadata": {
                "name": name,
                "labels": {**labels, PACKAGE_LABEL: owner},
                "annotations": annotations,
                "ownerReferences": [controller_reference(function)],
            },
            "spec": {
                "desiredState": str(DesiredState.INACTIVE if is_manual else DesiredState.ACTIVE),
                "image": resolved.reference.pinned(resolved.digest),
                "revision": plan.number,
                "tlsServerSecretName": f"{name}-tls-server",
                **{key: spec[key] for key in _COPIED_FIELDS if key in spec},
            },
        }
        try:
            created = self._cluster.create(revision)
        except AlreadyExists:
            raise Conflict(f"FunctionRevision {name} has just been created") from None
        message = f"Created new revision {name} as {plan.number}"
        self._post_event(subject_of(function), NORMAL, "CreateRevision", message)
        return self._write_capabilities(created, resolved.package)

    # Dependencies of the package

    def _install_dependencies(self, function: KubeObject, package: FunctionPackage) -> None:
        """Install missing Functions that a package depends on.

        A dependency that cannot be installed is reported, and does not affect the Function itself.
        """
        spec = spec_of(function)
        if spec.get("skipDependencyResolution"):
            return
        subject = subject_of(function)
        for dependency in package.dependencies:
            try:
                created = self._install(spec, dependency)
            except (RegistryUnavailable, Conflict):
                # Possibly temporary: retry without an event.
                raise
            except KanisterError as error:
                self._post_event(subject, WARNING, "ResolveDependencies", error.message)
                continue
            if created:
                message = f"Installed Function {created}, which the package needs ({dependency})"
                self._post_event(subject, NORMAL, "ResolveDependencies", message)

    def _install(self, spec: Mapping[str, Any], dependency: Dependency) -> str:
        """Install one dependency; return the name of the new Function, empty if there is one."""
        if dependency.kind != "Function":
            raise DependencyUnresolved(
                f"The package needs the {dependency.kind} {dependency}; install it"
            )
        installed = list(map(_installed, self._cluster.list(FUNCTIONS).items))
        if find_installed(dependency, installed) is not None:
            return ""
        tags: Sequence[str] = ()
        if not dependency.versions.startswith("sha256:"):
            tags = self._packages.tags(source_of(dependency), self._logins(spec))
        package = package_for(dependency, tags)
        name = name_for(package, [other.name for other in installed])
        secrets = spec.get("packagePullSecrets")
        function: dict[str, Any] = {
            "apiVersion": FUNCTIONS.api_version,
            "kind": "Function",
            "metadata": {"name": name},
            "spec": {"package": package, **({"packagePullSecrets": secrets} if secrets else {})},
        }
        try:
            self._cluster.create(function)
        except AlreadyExists:
            raise Conflict(f"Function {name} has just been created") from None
        return name

    def _write_capabilities(self, revision: KubeObject, package: FunctionPackage) -> KubeObject:
        """Write the capabilities of a package, which are missing after a crash."""
        status = status_of(revision)
        if status.get("capabilities"):
            return revision
        with_capabilities = {**status, "capabilities": list(package.capabilities)}
        return self._cluster.replace_status({**revision, "status": with_capabilities})

    def _update(self, function: KubeObject, revision: KubeObject, plan: Numbering) -> KubeObject:
        spec = spec_of(function)
        current = spec_of(revision)
        desired = {key: value for key, value in current.items() if key not in _COPIED_FIELDS}
        desired.update({key: spec[key] for key in _COPIED_FIELDS if key in spec})
        desired["revision"] = plan.number
        annotations = dict(annotations_of(revision))
        for key in _RUNTIME_ANNOTATIONS:
            annotations.pop(key, None)
        annotations.update(_runtime_annotations(function))
        if (desired, annotations) == (current, annotations_of(revision)):
            return revision
        metadata = {**revision["metadata"], "annotations": annotations}
        updated = self._cluster.replace({**revision, "metadata": metadata, "spec": desired})
        if plan.change is Change.RAISE:
            name = revision["metadata"]["name"]
            message = f"Revision {name} is current again as {plan.number}"
            self._post_event(subject_of(function), NORMAL, "UpdateRevision", message)
        return updated

    # Activation, garbage collection and status

    def _activate(
        self,
        function: KubeObject,
        revisions: Sequence[KubeObject],
        resolved: _ResolvedPackage | None,
    ) -> None:
        spec = spec_of(function)
        policy = ActivationPolicy(
            spec.get("revisionActivationPolicy") or ActivationPolicy.AUTOMATIC
        )
        limit = int(spec.get("activeRevisionLimit") or DEFAULT_ACTIVE_LIMIT)
        facts = [revision_of(revision) for revision in revisions]
        plan = plan_activation(facts, limit, policy)
        changed = dict.fromkeys(plan.activate, DesiredState.ACTIVE)
        changed.update(dict.fromkeys(plan.deactivate, DesiredState.INACTIVE))
        by_name = {revision["metadata"]["name"]: revision for revision in revisions}
        for name, state in changed.items():
            revision = by_name[name]
            desired = {**spec_of(revision), "desiredState": str(state)}
            by_name[name] = self._cluster.replace({**revision, "spec": desired})
            message = f"Revision {name} is now {state}"
            self._post_event(subject_of(function), NORMAL, "TransitionRevision", message)
        facts = [revision_of(revision) for revision in by_name.values()]
        removed = self._collect(function, facts, by_name)
        if resolved is not None:
            kept = [fact for fact in facts if fact.name not in removed]
            self._write_health(function, kept, by_name, plan, resolved)

    def _collect(
        self,
        function: KubeObject,
        facts: Sequence[FunctionRevision],
        by_name: Mapping[str, KubeObject],
    ) -> set[str]:
        spec = spec_of(function)
        history = history_limit_of(
            spec.get("revisionHistoryLimit"), spec.get("activeRevisionLimit")
        )
        users = self._users(function["metadata"]["name"], facts)
        revisions = [
            Revision(
                fact.name,
                fact.number,
                (
                    *(("is active",) if fact.desired_state is DesiredState.ACTIVE else ()),
                    *users.get(fact.name, ()),
                ),
            )
            for fact in facts
        ]
        removed = plan_collection(revisions, history).removed
        for name in removed:
            delete_as_seen(self._cluster, FUNCTION_REVISIONS, by_name[name])
            message = f"Removed revision {name}, which is unused and beyond the limit of {history}"
            self._post_event(subject_of(function), NORMAL, "GarbageCollect", message)
        return set(removed)

    def _write_health(
        self,
        function: KubeObject,
        facts: Sequence[FunctionRevision],
        by_name: Mapping[str, KubeObject],
        plan: Activation,
        resolved: _ResolvedPackage,
    ) -> None:
        newest = max(facts, key=lambda fact: fact.rank)
        inactive = "" if newest.desired_state is DesiredState.ACTIVE else "Package is inactive"
        message = "" if newest.is_healthy else _health_message(by_name[newest.name])
        if message and plan.held:
            message = f"{message}; {', '.join(plan.held)} serves until then"
        conditions = [
            condition_from_problem(
                "Installed", inactive, "ActivePackageRevision", "InactivePackageRevision"
            ),
            condition_from_problem(
                "Healthy", message, "HealthyPackageRevision", "UnhealthyPackageRevision"
            ),
        ]
        fields = {
            "currentRevision": newest.name,
            "currentIdentifier": str(resolved.reference),
            "resolvedPackage": resolved.reference.pinned(resolved.digest),
        }
        status = {**status_of(function), **fields}
        write_status(self._cluster, self._clock, function, conditions, status)

    def _report_problem(
        self, function: KubeObject, revisions: Sequence[KubeObject], error: KanisterError
    ) -> None:
        self._post_event(subject_of(function), WARNING, "UnpackPackage", error.message)
        has_any = any(revision_of(revision).is_routable for revision in revisions)
        if isinstance(error, RegistryUnavailable) and has_any:
            return
        self._refuse(function, "UnpackingPackage", error.message)

    def _refuse(self, function: KubeObject, reason: str, message: str) -> None:
        refused = condition("Installed", "False", reason, message)
        write_status(self._cluster, self._clock, function, [refused])


def _problem_of_annotations(function: KubeObject) -> str:
    values = _runtime_annotations(function)
    runtime = values.get(RUNTIME, "")
    if runtime and runtime not in tuple(Runtime):
        runtimes = ", ".join(Runtime)
        return f"[{RUNTIME}]: expected one of {runtimes}, found {runtime!r}"
    try:
        parse_size(values.get(ANSWER_LIMIT) or "0")
    except InvalidQuantity as error:
        return f"[{ANSWER_LIMIT}]: {error}"
    return ""


_RUNTIME_ANNOTATIONS: Final = (RUNTIME, ANSWER_LIMIT)


def _inert_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return a package's annotations without those that would configure its revision.

    Only the Function, which belongs to the user, selects a runtime, a tag or a limit.
    """
    return {
        key: value for key, value in annotations.items() if key == LIFECYCLE or not _configures(key)
    }


def _configures(key: str) -> bool:
    domain = f".{key.partition('/')[0]}"
    return domain.endswith((".kanister-py.io", ".crossplane.io"))


def _runtime_annotations(function: KubeObject) -> dict[str, str]:
    annotations = annotations_of(function)
    return {key: annotations[key] for key in _RUNTIME_ANNOTATIONS if annotations.get(key)}


def _numbered(revision: KubeObject, function: KubeObject) -> Numbered:
    metadata = revision["metadata"]
    return Numbered(
        metadata["name"],
        int(spec_of(revision).get("revision") or 0),
        function_identity(digest_of_revision(revision), metadata.get("labels")),
        not is_controlled_by(revision, function),
    )


def _health_message(revision: KubeObject) -> str:
    healthy = condition_of(revision, "RuntimeHealthy")
    if not healthy or healthy.get("status") == "True":
        return 'Package runtime health is "Unknown"'
    message = str(healthy.get("message") or "")
    health = f'Package runtime health is "{healthy.get("status")}"'
    return f"{health} with message: {message}" if message else health


def _installed(function: KubeObject) -> Installed:
    """Return the package of a Function; an invalid reference gives an empty one."""
    try:
        package = parse_package_reference(str(spec_of(function).get("package")))
    except InvalidPackageReference:
        package = PackageReference("", "")
    return Installed(name_of(function), package)
