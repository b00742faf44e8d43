"""function-patch-and-transform v0.1.0: the same responses as the original function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar, Final

from kanister_py.core.compositions.authoring import Request
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.field_paths import FieldNotFound, FieldPathError, parse_field_path
from kanister_py.functions.composition.answering import (
    ENVIRONMENT_KEY,
    DescribedFunction,
    add_result,
    meta_of,
)
from kanister_py.functions.composition.fields import Refusal
from kanister_py.functions.composition.patch_and_transform.connection import (
    extract_details,
    is_modern,
    name_of,
)
from kanister_py.functions.composition.patch_and_transform.fields import FIELDS
from kanister_py.functions.composition.patch_and_transform.patches import COMPOSED, Patch
from kanister_py.functions.composition.patch_and_transform.plans import Plan, Template, plan_for
from kanister_py.functions.composition.patch_and_transform.problems import InvalidInput, quoted
from kanister_py.functions.composition.patch_and_transform.readiness import is_ready
from kanister_py.functions.composition.patch_and_transform.values import (
    Document,
    Unresolved,
    missing_kind,
)

_ENVIRONMENT_API_VERSION: Final = "internal.crossplane.io/v1alpha1"


class PatchAndTransform(DescribedFunction):
    """Composes resources from templates, and patches fields to and from the composite resource."""

    name: ClassVar[str] = "function-patch-and-transform"
    version: ClassVar[str] = "v0.1.0"
    fields: ClassVar = FIELDS

    def plan(self, function_input: Any) -> Plan:
        """Prepare an input."""
        return plan_for(function_input)

    def refusal_of_decoded(self, function_input: dict[str, Any]) -> Refusal | None:
        try:
            unresolved = self.plan(function_input).unresolved
        except InvalidInput as error:
            if error.problem is None:
                raise
            return Refusal(*error.problem)
        if unresolved:
            return Refusal("resources", f"cannot resolve PatchSets: {unresolved}")
        return next(chain(_unusable_bases(function_input), _unreadable_paths(function_input)), None)

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer: dict[str, Any] = {"meta": meta_of(request)}
        try:
            plan = self.plan(request.get("input"))
            if plan.unresolved:
                raise Unresolved(f"cannot resolve PatchSets: {plan.unresolved}")
            _Run(request, plan, answer).run()
            return answer
        except (InvalidInput, Unresolved) as error:
            why = str(error)
        except RecursionError:
            why = "the request is nested too deeply"
        # The desired state of earlier steps is kept unless the whole call succeeds.
        for key in ("desired", "context"):
            if request.get(key) is not None:
                answer[key] = request[key]
        add_result(answer, "FATAL", why)
        return answer


def _unusable_bases(function_input: Mapping[str, Any]) -> Iterator[Refusal]:
    for at, template in enumerate(function_input.get("resources", ())):
        base = template.get("base")
        if isinstance(base, dict) and not (isinstance(base.get("kind"), str) and base["kind"]):
            yield Refusal(f"resources[{at}].base", missing_kind(base))


def _unreadable_paths(function_input: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield the invalid field paths of patches. Patch sets that are not used are ignored."""
    templates = function_input.get("resources", ())
    used = {patch.get("patchSetName") for one in templates for patch in one.get("patches", ())}
    parents = [("environment", function_input.get("environment", {}))]
    for key in ("patchSets", "resources"):
        parents += [
            (f"{key}[{at}]", parent)
            for at, parent in enumerate(function_input.get(key, ()))
            if key == "resources" or parent.get("name") in used
        ]
    for place, parent in parents:
        for at, patch in enumerate(parent.get("patches", ())):
            here = f"{place}.patches[{at}]"
            variables = enumerate(patch.get("combine", {}).get("variables", ()))
            paths = {f"{here}.{key}": patch.get(key) for key in ("fromFieldPath", "toFieldPath")}
            for index, variable in variables:
                where = f"{here}.combine.variables[{index}].fromFieldPath"
                paths[where] = variable.get("fromFieldPath")
            for field, path in paths.items():
                try:
                    parse_field_path(path or "metadata")
                except FieldPathError as error:
                    yield Refusal(field, error.message)


class _Run:
    """State of one call: the request, and the results so far."""

    def __init__(self, request: Mapping[str, Any], plan: Plan, answer: dict[str, Any]) -> None:
        self.plan = plan
        self.answer = answer
        # Resources of other steps are passed on without being parsed.
        state_of = request.lazy if isinstance(request, Request) else request.get
        observed, desired = state_of("observed") or {}, state_of("desired") or {}
        context = request.get("context") or {}
        self.context = context
        self.composite = self._document(_object(observed.get("composite")))
        self.observed: Mapping[str, Any] = observed.get("resources") or {}
        composite = desired.get("composite") or {}
        self.desired_composite = self._document(copy_json(_object(composite)))
        for key in ("apiVersion", "kind"):
            value = self.composite.data.get(key)
            self.desired_composite.data[key] = value if isinstance(value, str) else ""
        self.details = dict(composite.get("connectionDetails") or {})
        self.ready = _readiness_of(composite)
        self.desired: dict[str, Mapping[str, Any]] = {
            name: _with_ready_state(resource)
            for name, resource in (desired.get("resources") or {}).items()
        }
        self.environment = self._document(_environment(context.get(ENVIRONMENT_KEY)))

    def _document(self, data: dict[str, Any]) -> Document:
        return Document(data, is_decoded=self.plan.has_integers)

    def run(self) -> None:
        for at, patch in enumerate(self.plan.environment):
            self._apply_to_environment(patch, at)
        for template in self.plan.resources:
            self._render(template)
        if self.details and is_modern(self.composite.data):
            self._add_secret()
        composite = _resource(self.desired_composite.data, self.ready)
        if self.details:
            composite["connectionDetails"] = self.details
        self.answer["desired"] = {"composite": composite}
        if self.desired:
            self.answer["desired"]["resources"] = self.desired
        self.answer["context"] = {**self.context, ENVIRONMENT_KEY: self.environment.data}

    # Environment

    def _apply_to_environment(self, patch: Patch, at: int) -> None:
        source = (self.composite, self.environment)[patch.source]
        target = (self.desired_composite, self.environment)[patch.target]
        try:
            patch.apply(source, target)
        except (FieldPathError, Unresolved) as error:
            if isinstance(error, FieldNotFound) and not patch.is_required:
                return
            raise Unresolved(
                f"cannot apply the {quoted(patch.type)} environment patch at index {at}: {error}"
            ) from error

    # Resources

    def _render(self, template: Template) -> None:
        resource = self._base(template)
        ready = ""
        observed = self.observed.get(template.name)
        seen = None if observed is None else self._document(_object(observed))
        if observed is not None and seen is not None:
            _keep_names(resource.data, seen.data)
            self.details |= extract_details(
                template.details, seen.data, observed.get("connectionDetails") or {}
            )
            ready = self._readiness(template, seen)
        if self._apply(template, resource, seen):
            self.desired[template.name] = _resource(resource.data, ready)
        else:
            self.ready = "READY_FALSE"

    def _base(self, template: Template) -> Document:
        base = template.base
        if base is None:
            existing = self.desired.get(template.name)
            if existing is None:
                raise Unresolved(
                    f"composed resource {quoted(template.name)} has no base template, "
                    "and was not produced by a previous Function in the pipeline"
                )
            return self._document(copy_json(existing["resource"]))
        if isinstance(base, dict):
            kind = base.get("kind")
            if isinstance(kind, str) and kind:
                return Document(copy_json(base), is_decoded=True)
            why = missing_kind(base)
        else:
            why = "json: cannot unmarshal value into Go value of type map[string]interface {}"
        raise Unresolved(
            f"cannot parse base template of composed resource {quoted(template.name)}: {why}"
        )

    def _readiness(self, template: Template, seen: Document) -> str:
        try:
            return "READY_TRUE" if is_ready(seen.data, template.checks) else ""
        except Unresolved as error:
            self._warn(
                f"cannot check readiness of composed resource {quoted(template.name)}: {error}"
            )
            return ""

    def _apply(self, template: Template, resource: Document, seen: Document | None) -> bool:
        """Apply all patches of a template. Returns False if the resource cannot be composed yet."""
        sources = (self.composite, self.environment, seen or resource)
        targets = (self.desired_composite, self.environment, resource)
        for at, patch in enumerate(template.patches):
            if patch.source == COMPOSED and seen is None:
                continue
            try:
                patch.apply(sources[patch.source], targets[patch.target])
            except FieldNotFound as error:
                if not patch.is_required:
                    continue
                is_new = patch.target == COMPOSED and seen is None
                self._warn_of_nothing(template, patch, at, error, is_new=is_new)
                if is_new:
                    return False
            except (FieldPathError, Unresolved) as error:
                raise Unresolved(
                    f"cannot render composed resource {quoted(template.name)} "
                    f"{quoted(patch.type)} patch at index {at}: {error}"
                ) from error
        return True

    def _warn_of_nothing(
        self, template: Template, patch: Patch, at: int, error: FieldNotFound, *, is_new: bool
    ) -> None:
        name, kind = quoted(template.name), quoted(patch.type)
        if is_new:
            self._warn(
                f"not adding new composed resource {name} to desired state because {kind} patch "
                f"at index {at} has 'policy.fromFieldPath: Required': {error}"
            )
        else:
            self._warn(
                f"cannot render composed resource {name} {kind} patch at index {at}: ignoring "
                f"'policy.fromFieldPath: Required' because 'to' resource already exists: {error}"
            )

    def _warn(self, message: str) -> None:
        add_result(self.answer, "WARNING", message)

    # Connection

    def _add_secret(self) -> None:
        try:
            secret = self.plan.secret.secret(self.composite, self.details)
        except Unresolved as error:
            raise Unresolved(
                "cannot compose connection secret: "
                f"cannot generate connection secret reference: {error}"
            ) from error
        name = f"{name_of(self.composite.data)}-connection-secret"
        self.desired[name] = _resource(secret, "READY_TRUE")


def _object(part: Any) -> dict[str, Any]:
    """Return the object inside a part of a request; an empty one if there is none."""
    resource = part.get("resource") if isinstance(part, Mapping) else None
    return resource if isinstance(resource, dict) else {}


def _readiness_of(part: Mapping[str, Any]) -> str:
    ready = part.get("ready")
    return ready if ready in ("READY_TRUE", "READY_FALSE") else ""


def _resource(data: dict[str, Any], ready: str) -> dict[str, Any]:
    return {"resource": data, "ready": ready} if ready else {"resource": data}


def _with_ready_state(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the desired state of an earlier step, without its connection details."""
    ready = _readiness_of(part)
    is_plain = "resource" in part and "connectionDetails" not in part
    if is_plain and part.get("ready", "") == ready and not isinstance(part, dict):
        return part
    return _resource(_object(part), ready)


def _environment(value: Any) -> dict[str, Any]:
    """Return a copy of the environment, with a kind if it has neither kind nor version."""
    environment: dict[str, Any] = copy_json(value) if isinstance(value, dict) else {}
    api_version, kind = environment.get("apiVersion"), environment.get("kind")
    is_version = isinstance(api_version, str) and api_version not in ("", "/")
    if is_version and api_version.count("/") > 1:  # type: ignore[union-attr]  # it is a text
        kind = ""
        is_version = False
    if not is_version and not (isinstance(kind, str) and kind):
        environment["apiVersion"] = _ENVIRONMENT_API_VERSION
        environment["kind"] = "Environment"
    return environment


def _keep_names(data: dict[str, Any], seen: Mapping[str, Any]) -> None:
    """Copy the names of the observed resource, so that it is not replaced by another one."""
    function_input = seen.get("metadata")
    for key in ("namespace", "name"):
        value = function_input.get(key) if isinstance(function_input, dict) else None
        metadata = data.get("metadata")
        if isinstance(value, str) and value:
            if "metadata" not in data:
                data["metadata"] = {key: value}
            elif isinstance(metadata, dict):
                metadata[key] = value
        elif isinstance(metadata, dict):
            metadata.pop(key, None)
