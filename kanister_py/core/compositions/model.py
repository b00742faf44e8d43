"""Models of Compositions: the steps of a pipeline.

By hand, as everywhere: reading a composition must not cost more than running it. An
API server lets unknown fields through; here each one becomes a notice, since a `when`
that is misspelled changes what is composed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.old_mode import (
    environment_configs_input,
    patch_and_transform_input,
)
from kanister_py.core.compositions.step_inputs import ArtifactRef, InputRef
from kanister_py.core.errors import InvalidDocument, InvalidVersion, Problem
from kanister_py.core.kube.cel.errors import CelError
from kanister_py.core.kube.durations import InvalidDuration, parse_seconds
from kanister_py.core.kube.parts import kind_and_version
from kanister_py.core.kube.reading import Reader
from kanister_py.core.kube.request_paths import problems_with
from kanister_py.core.kube.selectors import InvalidSelector, LabelSelector, label_selector_of
from kanister_py.core.models import UnknownKey, read_partly
from kanister_py.core.notices import Notice
from kanister_py.core.registry.choose import RevisionRequest
from kanister_py.core.retries import Retry
from kanister_py.core.revisions.identity import (
    COMPOSITION_NAME_LABEL,
    composition_identity,
    revision_name,
)
from kanister_py.core.versions.semver import parse_request
from kanister_py.core.yaml.documents import Document, Path, nearest, text_of_path
from kanister_py.gotemplate.durations import SECOND, format_duration

if TYPE_CHECKING:
    from kanister_py.core.blueprints.model import Found

GROUP = "apiextensions.crossplane.io"
DEFAULT_ITERATIONS = 5
MOST_ITERATIONS = 25
MAX_STEPS = 99
PATCH_AND_TRANSFORM = "function-patch-and-transform"
ENVIRONMENT_CONFIGS = "function-environment-configs"

_NONE: Mapping[str, Any] = MappingProxyType({})


class Credential(NamedTuple):
    """Data of a Secret that a step's function gets; without a secret it gets nothing."""

    name: str
    namespace: str = ""
    secret: str = ""


class AllowedResource(NamedTuple):
    """Rule for resources that a step's function may ask for; patterns are RE2, anchored."""

    api_version: str
    kind: str
    match_name: str | None = None
    match_labels: Mapping[str, str] | None = None
    namespace: str | None = None
    selector: LabelSelector = LabelSelector()
    """Further rules for labels, which hold only where the request itself names these."""

    def __str__(self) -> str:
        text = f"{self.kind} of {self.api_version}"
        if self.namespace is not None:
            text += f" in {self.namespace}"
        if self.match_name is not None:
            text += f" named {self.match_name}"
        if self.match_labels is not None:
            pairs = ", ".join(
                f"{key}={self.match_labels[key]}" for key in sorted(self.match_labels)
            )
            text += f" with labels {pairs}"
        if self.selector.requirements:
            text += f" selected by {self.selector}"
        return text


class Step(NamedTuple):
    """One step of a pipeline."""

    name: str
    function: str
    revision: RevisionRequest = RevisionRequest()
    input: Data | None = None
    credentials: tuple[Credential, ...] = ()
    required_resources: Mapping[str, Data] = _NONE
    """Selectors of what the function gets with its first call, by name."""
    required_schemas: Mapping[str, Data] = _NONE
    when: str = ""
    timeout_seconds: float = 0.0
    retry: Retry | None = None
    ttl_seconds: float | None = None
    """The time for which an answer holds; None leaves it to the function."""
    max_iterations: int = DEFAULT_ITERATIONS
    allowed: tuple[AllowedResource, ...] | None = None
    input_ref: InputRef | ArtifactRef | None = None

    @property
    def settings(self) -> Data:
        """How the step is to be run, as far as that differs from other steps."""
        given: Data = {}
        if self.when:
            given["when"] = self.when
        if self.timeout_seconds:
            given["timeout"] = _duration(self.timeout_seconds)
        if self.retry is not None:
            given["retry"] = self.retry.model_dump(mode="json", exclude_defaults=True)
        if self.ttl_seconds is not None:
            given["ttl"] = _duration(self.ttl_seconds)
        if self.max_iterations != DEFAULT_ITERATIONS:
            given["maxIterations"] = self.max_iterations
        return given


def _duration(seconds: float) -> str:
    return format_duration(round(seconds * SECOND))


class Composition(NamedTuple):
    """The pipeline for a kind of composite resource."""

    name: str
    api_version: str
    kind: str
    steps: tuple[Step, ...]
    labels: Mapping[str, str] = _NONE
    annotations: Mapping[str, str] = _NONE
    connection_secrets_namespace: str = ""
    notices: tuple[Notice, ...] = ()
    revision: str = ""
    """The name of the revision that this is, or that a cluster would make of it."""


def parse_composition(document: Document) -> Composition:
    """Read a Composition or a CompositionRevision, or refuse it with every problem."""
    reader = _Reader()
    composition = reader.composition(document.value)
    reader.refuse_problems(document)
    return composition._replace(notices=tuple(_unknown(document, reader)))


def is_composition(value: Any) -> bool:
    """Say whether a document is a Composition or one of its revisions."""
    if not isinstance(value, dict):
        return False
    api_version = str(value.get("apiVersion"))
    kinds = ("Composition", "CompositionRevision")
    return api_version.startswith(f"{GROUP}/") and value.get("kind") in kinds


SELECTOR_KEYS = ("matchLabels", "matchExpressions")
RULE_KEYS = ("apiVersion", "kind", "namespace", "name", "matchName", *SELECTOR_KEYS)
# A key that nothing reads would make these let through more than their author meant.
_STRICT = ("allowedExtraResources", "functionRevisionSelector", "functionRevisionRef")


def _unknown(document: Document, reader: _Reader) -> list[Notice]:
    strict = _strict_problems(document, (), reader)
    if strict:
        raise InvalidDocument(strict)
    notices = []
    for each in reader.unknown:
        problem = document.problem(each.path, f"Nothing reads this field{each.meant}")
        facts = {"path": text_of_path(each.path)}
        notices.append(Notice("UnknownField", str(problem), facts=facts))
    return notices


def _strict_problems(document: Document, path: Path, reader: _Reader) -> list[Problem]:
    return [
        document.problem((*path, *each.path), f"Unknown key, which fails the step{each.meant}")
        for each in reader.unknown
        if _is_strict(each)
    ]


def _is_strict(unknown: UnknownKey) -> bool:
    return any(key in unknown.path[:-1] for key in _STRICT)


def read_what_can_be_read(found: Found) -> tuple[list[UnknownKey], list[Problem]]:
    """Read a found object as a Composition: the keys that nothing reads, and what is none."""
    reader = _Reader()
    reader.composition(found.value)
    problems = reader.problems_in(found.document, found.path)
    problems += _strict_problems(found.document, found.path, reader)
    return [each for each in reader.unknown if not _is_strict(each)], problems


_SPEC = (
    *("compositeTypeRef", "mode", "pipeline", "writeConnectionSecretsToNamespace"),
    *("revision", "publishConnectionDetailsWithStoreConfigRef"),
)
_OLD_SPEC = (*_SPEC, "resources", "patchSets", "environment")
_STEP = (
    *("step", "functionRef", "functionRevisionRef", "functionRevisionSelector", "input"),
    "inputRef",
    *("credentials", "requirements", "when", "timeout", "retry", "ttl", "maxIterations"),
    "allowedExtraResources",
)


def _mode_of(spec: Mapping[str, Any]) -> str:
    return str(spec.get("mode") or ("Pipeline" if "pipeline" in spec else "Resources"))


def called_functions(spec: Mapping[str, Any]) -> set[str]:
    """Name the functions that the spec of a composition calls, also by implication."""
    if _mode_of(spec) == "Resources":
        wants_environment = environment_configs_input(spec) is not None
        return {PATCH_AND_TRANSFORM, *((ENVIRONMENT_CONFIGS,) if wants_environment else ())}
    named = ((each.get("functionRef") or {}).get("name") for each in spec.get("pipeline") or ())
    return {str(name) for name in named if name}


# Revisions were served under the older two as well.
_API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1", f"{GROUP}/v1alpha1")


def _meant_for_pipeline(spec: Mapping[str, Any]) -> str:
    near = nearest("pipeline", [each for each in spec if each not in _OLD_SPEC])
    return f"; is {near[0]} meant for it?" if near else ""


class _Reader(Reader):
    def composition(self, value: Any) -> Composition:
        data = self.mapping(value, ())
        if not is_composition(data):
            found = kind_and_version(data)
            self.note(("kind",), f"Must be a Composition of {GROUP}/v1, found {found}")
        elif data["apiVersion"] not in _API_VERSIONS:
            self.note(("apiVersion",), f"Must be {GROUP}/v1, found {data['apiVersion']!r}")
        metadata, at = self.member(data, "metadata", ())
        spec = self.mapping(data.get("spec"), ("spec",))
        # In a pipeline there are functions for what the old mode had fields for.
        self.mapping(spec, ("spec",), _SPEC if _mode_of(spec) == "Pipeline" else _OLD_SPEC)
        target, path = self.member(spec, "compositeTypeRef", ("spec",), ("apiVersion", "kind"))
        name = self.text(metadata, "name", at)
        labels = self.texts(metadata, "labels", at)
        revision = name
        if data.get("kind") == "CompositionRevision":
            name = labels.get(COMPOSITION_NAME_LABEL) or name
        else:
            revision = revision_name(name, composition_identity(spec, labels))
        return Composition(
            name,
            self.wanted(target, "apiVersion", path),
            self.wanted(target, "kind", path),
            self.steps(spec),
            labels,
            self.texts(metadata, "annotations", at),
            self.text(spec, "writeConnectionSecretsToNamespace", ("spec",)),
            revision=revision,
        )

    def steps(self, spec: Mapping[str, Any]) -> tuple[Step, ...]:
        self.text(spec, "mode", ("spec",))
        mode = _mode_of(spec)
        if mode == "Resources":
            return self.implicit_steps(spec)
        if mode != "Pipeline":
            self.refuse(("spec", "mode"), "Pipeline or Resources", mode)
            return ()
        count = len(self.problems)
        items = self.items(spec, "pipeline", ("spec",))
        if "pipeline" not in spec:
            self.note(("spec", "pipeline"), f"Must be given{_meant_for_pipeline(spec)}")
        elif not 1 <= len(items) <= MAX_STEPS and count == len(self.problems):
            message = f"Must be a list of 1 to {MAX_STEPS} steps, found one of {len(items)}"
            self.note(("spec", "pipeline"), message)
        steps = []
        seen: set[str] = set()
        for index, item in enumerate(items):
            path: Path = ("spec", "pipeline", index)
            step = self.step(item, path)
            if step.name and step.name in seen:
                self.note((*path, "step"), f"Another step is called {step.name}; names must differ")
            seen.add(step.name)
            steps.append(step)
        return tuple(steps)

    def implicit_steps(self, spec: Mapping[str, Any]) -> tuple[Step, ...]:
        if "resources" not in spec:
            message = f"Must have a pipeline, or resources{_meant_for_pipeline(spec)}"
            self.note(("spec",), message)
        self.items(spec, "resources", ("spec",))
        patching = Step(
            "patch-and-transform", PATCH_AND_TRANSFORM, input=patch_and_transform_input(spec)
        )
        environment = environment_configs_input(spec)
        if environment is None:
            return (patching,)
        return Step("environment-configs", ENVIRONMENT_CONFIGS, input=environment), patching

    def step(self, value: Any, path: Path) -> Step:
        data = self.mapping(value, path, _STEP)
        name = self.wanted(data, "step", path)
        reference, ref_path = self.member(data, "functionRef", path, ("name", "version"))
        keys = ("requiredResources", "requiredSchemas")
        requirements, requirements_path = self.member(data, "requirements", path, keys)
        iterations = self.number(
            data, "maxIterations", path, DEFAULT_ITERATIONS, least=0, whole=True
        )
        if iterations > MOST_ITERATIONS:
            self.refuse((*path, "maxIterations"), f"at most {MOST_ITERATIONS}", iterations)
        return Step(
            name,
            self.wanted(reference, "name", ref_path),
            self.revision(data, reference, path),
            self.input(data, path),
            self.credentials(data, path),
            self.selectors(requirements, "requiredResources", requirements_path),
            self.selectors(requirements, "requiredSchemas", requirements_path),
            self.condition(data, path),
            self.seconds(data, "timeout", path) or 0.0,
            self.retry(data, path),
            self.seconds(data, "ttl", path),
            int(iterations),
            self.allowed(data, path),
            self.input_ref(data, path),
        )

    def revision(
        self, data: Mapping[str, Any], reference: Mapping[str, Any], path: Path
    ) -> RevisionRequest:
        version = self.text(reference, "version", (*path, "functionRef"))
        if version:
            try:
                parse_request(version)
            except InvalidVersion as error:
                self.note((*path, "functionRef", "version"), error.message)
        named, at = self.member(data, "functionRevisionRef", path, ("name",))
        selector, inside = self.member(data, "functionRevisionSelector", path, SELECTOR_KEYS)
        labels = self.texts(selector, "matchLabels", inside)
        name = self.text(named, "name", at)
        expressions = self.expressions(selector, inside)
        return RevisionRequest(name, labels or None, version, expressions)

    def expressions(self, selector: Mapping[str, Any], path: Path) -> LabelSelector:
        [*self.members(selector, "matchExpressions", path, ("key", "operator", "values"))]
        given = selector.get("matchExpressions")
        if not isinstance(given, list) or any(p[: len(path)] == path for p, _ in self.problems):
            return LabelSelector()
        try:
            return label_selector_of({"matchExpressions": given})
        except InvalidSelector as error:
            self.note((*path, "matchExpressions"), error.message)
            return LabelSelector()

    def input(self, data: Mapping[str, Any], path: Path) -> Data | None:
        if data.get("input") is None:
            return None
        return self.mapping(data["input"], (*path, "input"), keeps_nulls=True)

    def input_ref(self, data: Mapping[str, Any], path: Path) -> InputRef | ArtifactRef | None:
        given, here = self.member(data, "inputRef", path, ("configMapRef", "ociRef"))
        if data.get("inputRef") is None:
            return None
        if data.get("input") is not None:
            self.note(here, "input and inputRef exclude each other")
        if "ociRef" in given:
            if "configMapRef" in given:
                self.note(here, "Must have one of configMapRef and ociRef")
            return self.artifact_ref(given, here)
        found, at = self.member(given, "configMapRef", here, ("name", "namespace", "key"))
        return InputRef(
            self.wanted(found, "name", at),
            self.text(found, "namespace", at),
            self.text(found, "key", at),
        )

    def artifact_ref(self, given: Mapping[str, Any], path: Path) -> ArtifactRef | None:
        keys = ("package", "path", "packagePullSecrets")
        found, path = self.member(given, "ociRef", path, keys)
        secrets = tuple(
            self.wanted(each, "name", here)
            for each, here in self.members(found, "packagePullSecrets", path, ("name",))
        )
        text = self.wanted(found, "package", path)
        # Compositions without artifacts need no reader of their names.
        from kanister_py.core.revisions.package import (
            InvalidPackageReference,
            parse_package_reference,
        )

        try:
            package = parse_package_reference(text)
        except InvalidPackageReference as error:
            if text:
                self.note((*path, "package"), error.message)
            return None
        if not package.digest:
            # What a tag means may change, and what a revision says must not.
            self.note((*path, "package"), f"Must name a digest, as {text}@sha256:…")
        return ArtifactRef(package, self.text(found, "path", path), secrets)

    def credentials(self, data: Mapping[str, Any], path: Path) -> tuple[Credential, ...]:
        found: list[Credential] = []
        keys = ("name", "source", "secretRef")
        for given, here in self.members(data, "credentials", path, keys):
            name = self.wanted(given, "name", here)
            if name and any(each.name == name for each in found):
                self.note((*here, "name"), f"Another credential is called {name}")
            source = self.text(given, "source", here) or "Secret"
            if source not in ("Secret", "None"):
                self.refuse((*here, "source"), "Secret or None", source)
            if source == "None":
                found.append(Credential(name))
                continue
            reference, at = self.member(given, "secretRef", here, ("namespace", "name"))
            namespace = self.wanted(reference, "namespace", at)
            found.append(Credential(name, namespace, self.wanted(reference, "name", at)))
        return tuple(found)

    def selectors(self, data: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Data]:
        """Read what a function gets from the start, in the words of the protocol."""
        found: dict[str, Data] = {}
        known: tuple[str, ...] = ("requirementName", "apiVersion", "kind")
        if key == "requiredResources":
            known = (*known, "namespace", "name", "matchLabels")
        for given, here in self.members(data, key, path, known):
            name = self.wanted(given, "requirementName", here)
            if name in found:
                self.note((*here, "requirementName"), f"Another requirement is called {name}")
            selector: Data = {
                "apiVersion": self.wanted(given, "apiVersion", here),
                "kind": self.wanted(given, "kind", here),
            }
            for field, problem in problems_with(given):
                self.note((*here, field), problem)
            labels = self.texts(given, "matchLabels", here)
            if given.get("name") and labels:
                self.note(here, "Must have name or matchLabels, not both")
            if given.get("name"):
                selector["matchName"] = self.text(given, "name", here)
            elif labels:
                selector["matchLabels"] = {"labels": labels}
            if given.get("namespace"):
                selector["namespace"] = self.text(given, "namespace", here)
            found[name] = selector
        return found

    def condition(self, data: Mapping[str, Any], path: Path) -> str:
        value = data.get("when")
        if isinstance(value, bool):
            return "true" if value else "false"
        text = self.text(data, "when", path)
        if text:
            # Compositions without conditions need no parser of them.
            from kanister_py.core.kube.cel.expression import compile_cel

            try:
                if compile_cel(text).is_never_bool:
                    self.refuse((*path, "when"), "an expression that says true or false", text)
            except CelError as error:
                self.note((*path, "when"), error.message)
        return text

    def seconds(self, data: Mapping[str, Any], key: str, path: Path) -> float | None:
        text = self.text(data, key, path)
        if not text:
            return None
        try:
            found = parse_seconds(text)
        except InvalidDuration as error:
            self.note((*path, key), error.message)
            return None
        if found < 0:
            self.refuse((*path, key), "a duration of zero or more", text)
        return found

    def retry(self, data: Mapping[str, Any], path: Path) -> Retry | None:
        if data.get("retry") is None:
            return None
        partial = read_partly(Retry, Document.of(data["retry"]))
        self.problems += [
            ((*path, "retry", *inside), problem.message)
            for inside, problem in partial.problems.items()
        ]
        self.unknown += [
            unknown._replace(path=(*path, "retry", *unknown.path))
            for unknown in partial.unknown_keys
        ]
        retry = partial.value
        for key in ("backoff", "maxBackoff"):
            given = data["retry"] if isinstance(data["retry"], dict) else {}
            if isinstance(given.get(key), str):
                self.seconds(given, key, (*path, "retry"))
        return retry

    def allowed(self, data: Mapping[str, Any], path: Path) -> tuple[AllowedResource, ...] | None:
        if data.get("allowedExtraResources") is None:
            return None
        found = []
        for given, here in self.members(data, "allowedExtraResources", path, RULE_KEYS):
            spelt = [key for key in ("matchName", "name") if key in given]
            if len(spelt) > 1 or (spelt and any(key in given for key in SELECTOR_KEYS)):
                kinds = "matchName (or name) and matchLabels or matchExpressions"
                self.note(here, f"Must have one of {kinds}")
            name = self.pattern(given, spelt[0], here) if spelt else None
            labels = None
            if "matchLabels" in given:
                place = (*here, "matchLabels")
                texts = self.texts(given, "matchLabels", here)
                labels = {key: self.pattern(texts, key, place) or "" for key in texts}
            found.append(
                AllowedResource(
                    self.wanted(given, "apiVersion", here),
                    self.wanted(given, "kind", here),
                    name,
                    labels,
                    self.pattern(given, "namespace", here) if "namespace" in given else None,
                    self.promised(given, here),
                )
            )
        return tuple(found)

    def promised(self, given: Mapping[str, Any], path: Path) -> LabelSelector:
        """Read what the labels of a request must promise of all that it selects."""
        found = self.expressions(given, path)
        for index, each in enumerate(found.requirements):
            if each.operator == "!exists":
                why = "DoesNotExist would refuse every request: none can ask for a label's absence"
                self.note((*path, "matchExpressions", index), why)
        return found

    def pattern(self, given: Mapping[str, Any], key: str, path: Path) -> str | None:
        """Read a regular expression; a lone star stands for anything."""
        text = self.text(given, key, path)
        if text == "*":
            return ".*"
        import re2

        options = re2.Options()
        # A wrong pattern is an error of ours, and no line on stderr as well.
        options.log_errors = False
        try:
            re2.compile(text, options)
        except re2.error as error:
            why = error.args[0].decode() if isinstance(error.args[0], bytes) else error
            self.note(path, f"{text!r} is no regular expression: {why}")
        return text
