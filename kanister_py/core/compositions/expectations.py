"""Render suites: cases with inputs, and expectations that are checked against the result.

    apiVersion: kanister-py.io/v1alpha1
    kind: RenderSuite
    composition: composition.yaml       # for all cases; a case may override it
    functions: functions.yaml           # also required, schemas, credentials, xrd, context
    cases:
      - name: a bucket in Europe
        xr: xr.yaml                     # a file, or the object itself
        observed: observed.yaml
        expect:
          resources:
            - name: bucket              # name within the XR
              ready: true
              object: {spec: {region: eu}}
            - {name: replica, absent: true}
          resourceCount: 1
          composite: {status: {url: "https://…"}}
          ready: false
          events: [{severity: Warning, message: "a part of it"}]
          golden: want.yaml             # the whole output; --update rewrites it
      - name: it refuses Mars
        xr: {apiVersion: …}
        expect: {error: no region}

An object matches if it contains all expected fields. Lists must have equal lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps
from typing import Any, NamedTuple

from pydantic import field_validator, model_validator

from kanister_py.core.compositions.dry_run import Rendered
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.naming import resource_name_of
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.parts import is_true, kind_and_version, mapping_of, metadata_of
from kanister_py.core.models import ClosedModel, Items, keys_of, read_model, read_partly, refusal
from kanister_py.core.yaml.documents import Document

API_VERSION = "kanister-py.io/v1alpha1"
KIND = "RenderSuite"


class ExpectedResource(ClosedModel):
    """Expectations of one composed resource."""

    name: Any = None
    object: Any = None
    ready: Any = None
    absent: Any = None


class Expectation(ClosedModel):
    """Expectations of a rendering."""

    resources: Items[ExpectedResource] = ()
    composite: Any = None
    ready: Any = None
    events: Any = None
    error: Any = None
    golden: Any = None
    resource_count: Any = None

    @model_validator(mode="before")
    @classmethod
    def _require_any(cls, data: Any) -> Any:
        if not data:
            raise refusal("Must have at least one expectation")
        return data


class _Inputs(ClosedModel):
    composition: Any = None
    functions: Any = None
    observed: Any = None
    required: Any = None
    schemas: Any = None
    credentials: Any = None
    xrd: Any = None
    context: Any = None


class CaseSpec(_Inputs):
    """One case in a suite file."""

    name: str = ""
    xr: Any = None
    expect: Expectation


class SuiteFile(_Inputs):
    """A file of cases, with shared inputs."""

    api_version: Any = None
    kind: Any = None
    metadata: Any = None
    cases: Items[CaseSpec]

    @field_validator("cases")
    @classmethod
    def _require_cases(cls, cases: tuple[CaseSpec, ...]) -> tuple[CaseSpec, ...]:
        if not cases:
            raise refusal("Must contain at least one case")
        return cases

    @model_validator(mode="after")
    def _require_inputs(self) -> SuiteFile:
        for index, case in enumerate(self.cases):
            if case.xr is None:
                raise refusal("Must be given", ("cases", index, "xr"))
            if case.composition is None and self.composition is None:
                raise refusal("Must be given", ("cases", index, "composition"))
        return self


class Case(NamedTuple):
    """One case of a suite: its inputs, as paths or as data, and its expectations."""

    name: str
    inputs: Mapping[str, Any]
    expect: Mapping[str, Any]


class Suite(NamedTuple):
    """The cases of a file."""

    name: str
    cases: tuple[Case, ...]


def parse_suite(document: Document) -> Suite:
    """Parse a suite. Unknown fields are refused."""
    data = mapping_of(document.value)
    if (data.get("apiVersion"), data.get("kind")) != (API_VERSION, KIND):
        message = f"Must be a {KIND} of {API_VERSION}, found {kind_and_version(data)}"
        partial = read_partly(SuiteFile, document)
        raise InvalidDocument([document.problem(("kind",), message), *partial.problems.values()])
    read_model(SuiteFile, document)
    inputs = keys_of(_Inputs)
    shared = {key: data[key] for key in inputs if data.get(key) is not None}
    cases = tuple(
        Case(
            case.get("name") or f"case {number}",
            {**shared, **{key: case[key] for key in ("xr", *inputs) if case.get(key) is not None}},
            case["expect"],
        )
        for number, case in enumerate(data["cases"], 1)
    )
    return Suite(str(metadata_of(data).get("name") or document.file), cases)


def failures(expect: Mapping[str, Any], result: Rendered) -> Iterator[str]:
    """Yield a message for every expectation that is not met.

    If an error is expected or occurred, nothing else is checked. `golden_failures` checks
    `golden`.
    """
    expected = expect.get("error")
    if expected is not None:
        message = result.error.message if result.error is not None else ""
        if not message:
            yield f"error: expected one with {expected!r}, but the pipeline succeeded"
        elif str(expected) not in message:
            yield f"error: expected {expected!r} in it, found {message!r}"
        return
    if result.error is not None:
        yield f"error: expected none, found {result.error.message!r}"
        return
    by_name = {resource_name_of(resource.object): resource for resource in result.resources}
    count = expect.get("resourceCount")
    if count is not None and count != len(by_name):
        yield f"resourceCount: expected {count}, found {len(by_name)} ({', '.join(by_name)})"
    for expected_resource in expect.get("resources") or ():
        yield from _resource_failures(expected_resource, by_name)
    if "composite" in expect:
        yield from differences(expect["composite"], result.composite, "composite")
    if "ready" in expect:
        is_ready = is_true(result.composite, "Ready")
        if is_ready is not expect["ready"]:
            yield f"ready: expected {_shown(expect['ready'])}, found {_shown(is_ready)}"
    events = [event.as_dict() for event in result.events]
    for expected_event in expect.get("events") or ():
        if not any(_is_event(expected_event, event) for event in events):
            yield f"events: expected {_shown(expected_event)}, found {_shown(events)}"


def _resource_failures(expected: Mapping[str, Any], by_name: Mapping[str, Any]) -> Iterator[str]:
    name = str(expected.get("name"))
    at = f"resources[{name}]"
    resource = by_name.get(name)
    if expected.get("absent"):
        if resource is not None:
            yield f"{at}: expected none, found a {resource.object['kind']}"
        return
    if resource is None:
        yield f"{at}: expected one; there are {', '.join(by_name) or 'none'}"
        return
    if "ready" in expected and expected["ready"] is not resource.is_ready:
        yield f"{at}.ready: expected {_shown(expected['ready'])}, found {_shown(resource.is_ready)}"
    if "object" in expected:
        yield from differences(expected["object"], resource.object, f"{at}.object")


def _is_event(expected: Mapping[str, Any], event: Mapping[str, str]) -> bool:
    return all(
        str(value) in event["message"] if key == "message" else event.get(key) == value
        for key, value in expected.items()
    )


def differences(expected: Any, actual: Any, path: str) -> Iterator[str]:
    """Yield a message for every place where a value does not contain the expected one."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            if key in actual:
                yield from differences(value, actual[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}: expected {_shown(value)}, found nothing"
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif expected != actual or isinstance(expected, bool) is not isinstance(actual, bool):
        yield f"{path}: expected {_shown(expected)}, found {_shown(actual)}"


def golden_failures(expected: list[Data], printed: list[Data]) -> Iterator[str]:
    """Yield the differences between two complete outputs. The order of Results is ignored."""
    for of_results in (False, True):
        left, right = (
            [document for document in documents if (document.get("kind") == "Result") is of_results]
            for documents in (expected, printed)
        )
        if of_results:
            left, right = (sorted(documents, key=repr) for documents in (left, right))
        if len(left) != len(right):
            what = "results" if of_results else "documents"
            yield f"golden: expected {len(left)} {what}, found {len(right)}"
        for index, (one, other) in enumerate(zip(left, right, strict=False)):
            if one != other:
                places = [*differences(one, other, ""), *differences(other, one, "")]
                yield f"golden: document {index + 1} differs at {places[0].lstrip('.')}"


def _shown(value: Any) -> str:
    text = dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else f"{text[:299]}…"
