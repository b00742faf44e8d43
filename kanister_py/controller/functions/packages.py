"""Functions: the package that each means, its active revisions, and those to be deleted.

One pass reads the Function and its revisions, asks the registry which package is meant
now, and writes what differs: the revision of that package, which revisions are active,
which are deleted, and the conditions of the Function.
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
    delete_as_seen,
    judgement,
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
    function_identity,
    function_revision_name,
    labels_that_count,
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
    answers,
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
"""Say of each revision of a function who needs it kept, in words."""

_PULL_ALWAYS_SECONDS: Final = 60.0
_PAUSED: Final = "crossplane.io/paused"
# What a revision has from its Function besides its package: it is no content, so it makes
# no revision, and reaches the one in force.
_HANDED_ON: Final = (
    "packagePullPolicy",
    "packagePullSecrets",
    "ignoreCrossplaneConstraints",
    "skipDependencyResolution",
    "commonLabels",
    "commonAnnotations",
    "runtimeConfigRef",
)


class _Found(NamedTuple):
    """The package that a Function means now."""

    reference: PackageReference
    digest: str
    package: FunctionPackage


class FunctionReconciler:
    """Reconciler of Functions: the revisions that each has, and those it no longer needs."""

    def __init__(
        self, part: PartTools, tools: FunctionTools, settings: CompositionSettings, users: Users
    ) -> None:
        self._cluster, self._clock, self._tell = part.cluster, part.clock, part.post_event
        self._packages, self._entries = tools.packages, tools.entries
        self._settings = settings
        self._users = users

    def reconcile(self, name: str) -> float | None:
        """Bring one Function to rest; say after how many seconds to look again, if at all."""
        function = find(self._cluster, FUNCTIONS, name)
        if function is None or function["metadata"].get("deletionTimestamp"):
            return None
        if annotations_of(function).get(_PAUSED) == "true":
            paused = condition("Synced", "False", "ReconcilePaused", "Paused by an annotation")
            write_status(self._cluster, self._clock, function, [paused])
            return None
        spec = spec_of(function)
        wrong = list(
            problems_of_limits(spec.get("activeRevisionLimit"), spec.get("revisionHistoryLimit"))
        )
        if wrong:
            message = "; ".join(f"spec.{field}: {why}" for field, why in wrong)
            self._refuse(function, "InvalidLimits", message)
            return None
        if why := _problem_of_annotations(function):
            self._refuse(function, "InvalidRuntime", f"metadata.annotations{why}")
            return None
        revisions = self._revisions_of(function)
        try:
            found = self._resolve(function, revisions)
        except KanisterError as error:
            self._settle(function, revisions, None)
            self._say_trouble(function, revisions, error)
            if isinstance(error, RegistryUnavailable):
                # What runs keeps running; only what is new has to wait.
                raise
            return _PULL_ALWAYS_SECONDS
        revisions = self._number(function, revisions, found)
        self._settle(function, revisions, found)
        self._install_needed(function, found.package)
        return _PULL_ALWAYS_SECONDS if spec.get("packagePullPolicy") == "Always" else None

    def _revisions_of(self, function: KubeObject) -> list[KubeObject]:
        name = function["metadata"]["name"]
        listed = self._cluster.list(
            FUNCTION_REVISIONS, label_selector=f"{PACKAGE_LABEL}={name}"
        ).items
        return [each for each in listed if not each["metadata"].get("deletionTimestamp")]

    # The package

    def _resolve(self, function: KubeObject, revisions: Sequence[KubeObject]) -> _Found:
        spec = spec_of(function)
        reference = parse_package_reference(str(spec.get("package") or ""))
        if runtime_of(function, self._settings.default_runtime) is Runtime.IN_PROCESS:
            return self._built_in(reference, is_ours=is_marked_in_process(function))
        logins = self._logins(spec)
        digest = reference.digest or self._known_digest(function, revisions, reference)
        if not digest:
            digest = self._packages.resolve(reference, logins)
        text = self._packages.read(reference, digest, logins)
        package = parse_function_package(text, str(reference))
        record = package.annotations.get(LIFECYCLE)
        if record:
            # What cannot be read would say of no version that it is on its way out.
            read_lifecycle(record)
        return _Found(reference, digest, package)

    def _built_in(self, reference: PackageReference, *, is_ours: bool) -> _Found:
        """Take a function that comes with us for the package that a Function names.

        One that was removed is refused; of one that nobody knows, its revision will say so.
        """
        name = reference.repository.rpartition("/")[2]
        with suppress(FunctionNotRegistered, FunctionVersionNotFound, InvalidVersion):
            package = str(reference)
            choose_for_package(self._entries, package, reference.tag, is_ours=is_ours)
        described = FunctionPackage(name, {}, {}, (COMPOSITION,))
        # There are no bytes to name: the reference itself is what it is.
        return _Found(reference, f"sha256:{function_identity(str(reference), None)}", described)

    def _known_digest(
        self, function: KubeObject, revisions: Sequence[KubeObject], reference: PackageReference
    ) -> str:
        """Give the digest that was resolved before: only `Always` looks where a tag has moved."""
        if spec_of(function).get("packagePullPolicy") == "Always":
            return ""
        status = status_of(function)
        if status.get("currentIdentifier") != str(reference):
            return ""
        current = status.get("currentRevision")
        for each in revisions:
            if each["metadata"]["name"] == current:
                return digest_of_revision(each)
        return ""

    def _logins(self, spec: Mapping[str, Any]) -> list[RegistryLogin]:
        names = [str(each.get("name")) for each in spec.get("packagePullSecrets") or ()]
        return logins_of(self._cluster, self._settings.namespace, names)

    # The revision of it

    def _number(
        self, function: KubeObject, revisions: list[KubeObject], found: _Found
    ) -> list[KubeObject]:
        # Labels of its package, and over them those of the Function.
        labels = labels_that_count({**found.package.labels, **labels_of(function)})
        identity = function_identity(found.digest, labels)
        existing = {each["metadata"]["name"]: _numbered(each, function) for each in revisions}
        plan = number_revision(identity, list(existing.values()))
        by_name = {each["metadata"]["name"]: each for each in revisions}
        for orphan in plan.adopted:
            by_name[orphan] = self._cluster.replace(with_controller(by_name[orphan], function))
        if plan.change is Change.CREATE:
            taken = {each for each, numbered in existing.items() if numbered.identity != identity}
            made = self._create(function, found, identity, labels, plan, taken)
            by_name[made["metadata"]["name"]] = made
        else:
            updated = self._update(function, by_name[plan.name], plan)
            by_name[plan.name] = self._say_capabilities(updated, found.package)
        return list(by_name.values())

    def _create(
        self,
        function: KubeObject,
        found: _Found,
        identity: str,
        labels: Mapping[str, str],
        plan: Numbering,
        taken: set[str],
    ) -> KubeObject:
        owner = function["metadata"]["name"]
        name = function_revision_name(owner, identity, taken)
        spec = spec_of(function)
        is_manual = spec.get("revisionActivationPolicy") == ActivationPolicy.MANUAL
        annotations = {
            **_inert_annotations(found.package.annotations),
            **_runtime_annotations(function),
        }
        if found.reference.tag:
            annotations[PACKAGE_TAG] = found.reference.tag
        made = {
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
                "image": found.reference.pinned(found.digest),
                "revision": plan.number,
                "tlsServerSecretName": f"{name}-tls-server",
                **{key: spec[key] for key in _HANDED_ON if key in spec},
            },
        }
        try:
            created = self._cluster.create(made)
        except AlreadyExists:
            raise Conflict(f"FunctionRevision {name} has just been made") from None
        message = f"Created new revision {name} as {plan.number}"
        self._tell(subject_of(function), NORMAL, "CreateRevision", message)
        return self._say_capabilities(created, found.package)

    # What it needs

    def _install_needed(self, function: KubeObject, package: FunctionPackage) -> None:
        """Install the Functions that a package needs and nobody has installed.

        What cannot be had is reported, and keeps the Function itself from nothing.
        """
        spec = spec_of(function)
        if spec.get("skipDependencyResolution"):
            return
        subject = subject_of(function)
        for dependency in package.dependencies:
            try:
                made = self._install(spec, dependency)
            except (RegistryUnavailable, Conflict):
                # Nobody's news, or what may pass: looked at again.
                raise
            except KanisterError as error:
                self._tell(subject, WARNING, "ResolveDependencies", error.message)
                continue
            if made:
                message = f"Installed Function {made}, which the package needs ({dependency})"
                self._tell(subject, NORMAL, "ResolveDependencies", message)

    def _install(self, spec: Mapping[str, Any], dependency: Dependency) -> str:
        """Install one dependency; give the name of what was made, if anything was."""
        if dependency.kind != "Function":
            raise DependencyUnresolved(
                f"The package needs the {dependency.kind} {dependency}; see that it is installed"
            )
        there = list(map(_installed, self._cluster.list(FUNCTIONS).items))
        if answers(dependency, there) is not None:
            return ""
        tags: Sequence[str] = ()
        if not dependency.versions.startswith("sha256:"):
            tags = self._packages.tags(source_of(dependency), self._logins(spec))
        wanted = package_for(dependency, tags)
        name = name_for(wanted, [each.name for each in there])
        secrets = spec.get("packagePullSecrets")
        made: dict[str, Any] = {
            "apiVersion": FUNCTIONS.api_version,
            "kind": "Function",
            "metadata": {"name": name},
            "spec": {"package": wanted, **({"packagePullSecrets": secrets} if secrets else {})},
        }
        try:
            self._cluster.create(made)
        except AlreadyExists:
            raise Conflict(f"Function {name} has just been made") from None
        return name

    def _say_capabilities(self, revision: KubeObject, package: FunctionPackage) -> KubeObject:
        """Say what a package is made for: a crash may have left its revision without that."""
        status = status_of(revision)
        if status.get("capabilities"):
            return revision
        with_capabilities = {**status, "capabilities": list(package.capabilities)}
        return self._cluster.replace_status({**revision, "status": with_capabilities})

    def _update(self, function: KubeObject, revision: KubeObject, plan: Numbering) -> KubeObject:
        spec = spec_of(function)
        theirs = spec_of(revision)
        wanted = {key: value for key, value in theirs.items() if key not in _HANDED_ON}
        wanted.update({key: spec[key] for key in _HANDED_ON if key in spec})
        wanted["revision"] = plan.number
        annotations = dict(annotations_of(revision))
        for key in _RUNTIME_ANNOTATIONS:
            annotations.pop(key, None)
        annotations.update(_runtime_annotations(function))
        if (wanted, annotations) == (theirs, annotations_of(revision)):
            return revision
        metadata = {**revision["metadata"], "annotations": annotations}
        updated = self._cluster.replace({**revision, "metadata": metadata, "spec": wanted})
        if plan.change is Change.RAISE:
            name = revision["metadata"]["name"]
            message = f"Revision {name} is in force again as {plan.number}"
            self._tell(subject_of(function), NORMAL, "UpdateRevision", message)
        return updated

    # Which revisions serve, which go, and what the status says of it

    def _settle(
        self, function: KubeObject, revisions: Sequence[KubeObject], found: _Found | None
    ) -> None:
        spec = spec_of(function)
        policy = ActivationPolicy(
            spec.get("revisionActivationPolicy") or ActivationPolicy.AUTOMATIC
        )
        limit = int(spec.get("activeRevisionLimit") or DEFAULT_ACTIVE_LIMIT)
        facts = [revision_of(each) for each in revisions]
        plan = plan_activation(facts, limit, policy)
        changed = dict.fromkeys(plan.activate, DesiredState.ACTIVE)
        changed.update(dict.fromkeys(plan.deactivate, DesiredState.INACTIVE))
        by_name = {each["metadata"]["name"]: each for each in revisions}
        for name, state in changed.items():
            revision = by_name[name]
            wanted = {**spec_of(revision), "desiredState": str(state)}
            by_name[name] = self._cluster.replace({**revision, "spec": wanted})
            message = f"Revision {name} is now {state}"
            self._tell(subject_of(function), NORMAL, "TransitionRevision", message)
        facts = [revision_of(each) for each in by_name.values()]
        gone = self._collect(function, facts, by_name)
        if found is not None:
            kept = [each for each in facts if each.name not in gone]
            self._say_health(function, kept, by_name, plan, found)

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
                each.name,
                each.number,
                (
                    *(("is active",) if each.desired_state is DesiredState.ACTIVE else ()),
                    *users.get(each.name, ()),
                ),
            )
            for each in facts
        ]
        removed = plan_collection(revisions, history).removed
        for name in removed:
            delete_as_seen(self._cluster, FUNCTION_REVISIONS, by_name[name])
            message = f"Removed revision {name}: {history} are kept, and nothing uses it"
            self._tell(subject_of(function), NORMAL, "GarbageCollect", message)
        return set(removed)

    def _say_health(
        self,
        function: KubeObject,
        facts: Sequence[FunctionRevision],
        by_name: Mapping[str, KubeObject],
        plan: Activation,
        found: _Found,
    ) -> None:
        newest = max(facts, key=lambda each: each.rank)
        inactive = "" if newest.desired_state is DesiredState.ACTIVE else "Package is inactive"
        message = "" if newest.is_healthy else _health_message(by_name[newest.name])
        if message and plan.held:
            message = f"{message}; {', '.join(plan.held)} serves until then"
        conditions = [
            judgement("Installed", inactive, "ActivePackageRevision", "InactivePackageRevision"),
            judgement("Healthy", message, "HealthyPackageRevision", "UnhealthyPackageRevision"),
        ]
        fields = {
            "currentRevision": newest.name,
            "currentIdentifier": str(found.reference),
            "resolvedPackage": found.reference.pinned(found.digest),
        }
        status = {**status_of(function), **fields}
        write_status(self._cluster, self._clock, function, conditions, status)

    def _say_trouble(
        self, function: KubeObject, revisions: Sequence[KubeObject], error: KanisterError
    ) -> None:
        self._tell(subject_of(function), WARNING, "UnpackPackage", error.message)
        has_any = any(revision_of(each).is_routable for each in revisions)
        if isinstance(error, RegistryUnavailable) and has_any:
            return
        self._refuse(function, "UnpackingPackage", error.message)

    def _refuse(self, function: KubeObject, reason: str, message: str) -> None:
        refused = condition("Installed", "False", reason, message)
        write_status(self._cluster, self._clock, function, [refused])


def _problem_of_annotations(function: KubeObject) -> str:
    found = _runtime_annotations(function)
    runtime = found.get(RUNTIME, "")
    if runtime and runtime not in tuple(Runtime):
        known = ", ".join(Runtime)
        return f"[{RUNTIME}]: expected one of {known}, found {runtime!r}"
    try:
        parse_size(found.get(ANSWER_LIMIT) or "0")
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
    found = condition_of(revision, "RuntimeHealthy")
    if not found or found.get("status") == "True":
        return 'Package runtime health is "Unknown"'
    message = str(found.get("message") or "")
    health = f'Package runtime health is "{found.get("status")}"'
    return f"{health} with message: {message}" if message else health


def _installed(function: KubeObject) -> Installed:
    """Say which package a Function is of; one whose package nobody can read is of none."""
    try:
        package = parse_package_reference(str(spec_of(function).get("package")))
    except InvalidPackageReference:
        package = PackageReference("", "")
    return Installed(name_of(function), package)
