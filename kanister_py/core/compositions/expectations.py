"""Expectations of a render suite, held against what was composed.

    apiVersion: kanister-py.io/v1alpha1
    kind: RenderSuite
    composition: composition.yaml       # for all cases; each may name its own
    functions: functions.yaml           # likewise required, schemas, credentials, xrd, context
    cases:
      - name: a bucket in Europe
        xr: xr.yaml                     # a file, or the object itself
        observed: observed.yaml
        expect:
          resources:
            - name: bucket              # among the XR's resources
              ready: true
              object: {spec: {region: eu}}
            - {name: replica, absent: true}
          resourceCount: 1
          composite: {status: {url: "https://…"}}
          ready: false
          events: [{severity: Warning, message: "a part of it"}]
          golden: want.yaml             # all that is printed; --update rewrites it
      - name: it refuses Mars
        xr: {apiVersion: …}
        expect: {error: no region}

An object is as expected if it holds all that is written; lists must be equal in length.
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
    """What is expected of one composed resource."""

    name: Any = None
    object: Any = None
    ready: Any = None
    absent: Any = None


class Expectation(ClosedModel):
    """What is expected of a rendering."""

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
            raise refusal("Must say what is expected")
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
    """One case of a suite, as it is written."""

    name: str = ""
    xr: Any = None
    expect: Expectation


class SuiteFile(_Inputs):
    """A file of cases, with the inputs that they share."""

    api_version: Any = None
    kind: Any = None
    metadata: Any = None
    cases: Items[CaseSpec]

    @field_validator("cases")
    @classmethod
    def _require_cases(cls, cases: tuple[CaseSpec, ...]) -> tuple[CaseSpec, ...]:
        if not cases:
            raise refusal("Must hold at least one case")
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
    """One case of a suite: where its inputs are, and what is expected."""

    name: str
    inputs: Mapping[str, Any]
    expect: Mapping[str, Any]


class Suite(NamedTuple):
    """The cases of a file."""

    name: str
    cases: tuple[Case, ...]


def parse_suite(document: Document) -> Suite:
    """Read a suite. It is our own: unknown fields are refused."""
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
    """Find everything that is not as expected."""
    wanted = expect.get("error")
    if wanted is not None:
        found = result.error.message if result.error is not None else ""
        if not found:
            yield f"error: expected one with {wanted!r}, but the pipeline came to its end"
        elif str(wanted) not in found:
            yield f"error: expected {wanted!r} in it, found {found!r}"
        return
    if result.error is not None:
        yield f"error: expected none, found {result.error.message!r}"
        return
    by_name = {resource_name_of(each.object): each for each in result.resources}
    count = expect.get("resourceCount")
    if count is not None and count != len(by_name):
        yield f"resourceCount: expected {count}, found {len(by_name)} ({', '.join(by_name)})"
    for each in expect.get("resources") or ():
        yield from _resource_failures(each, by_name)
    if "composite" in expect:
        yield from differences(expect["composite"], result.composite, "composite")
    if "ready" in expect:
        is_ready = is_true(result.composite, "Ready")
        if is_ready is not expect["ready"]:
            yield f"ready: expected {_shown(expect['ready'])}, found {_shown(is_ready)}"
    events = [each.as_dict() for each in result.events]
    for each in expect.get("events") or ():
        if not any(_is_event(each, found) for found in events):
            yield f"events: expected {_shown(each)}, found {_shown(events)}"


def _resource_failures(each: Mapping[str, Any], by_name: Mapping[str, Any]) -> Iterator[str]:
    name = str(each.get("name"))
    at = f"resources[{name}]"
    found = by_name.get(name)
    if each.get("absent"):
        if found is not None:
            yield f"{at}: expected none, found a {found.object['kind']}"
        return
    if found is None:
        yield f"{at}: expected one; there are {', '.join(by_name) or 'none'}"
        return
    if "ready" in each and each["ready"] is not found.is_ready:
        yield f"{at}.ready: expected {_shown(each['ready'])}, found {_shown(found.is_ready)}"
    if "object" in each:
        yield from differences(each["object"], found.object, f"{at}.object")


def _is_event(wanted: Mapping[str, Any], found: Mapping[str, str]) -> bool:
    return all(
        str(value) in found["message"] if key == "message" else found.get(key) == value
        for key, value in wanted.items()
    )


def differences(wanted: Any, found: Any, path: str) -> Iterator[str]:
    """Find where something does not hold all that is wanted."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, each in wanted.items():
            if key in found:
                yield from differences(each, found[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}: expected {_shown(each)}, found nothing"
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (left, right) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif wanted != found or isinstance(wanted, bool) is not isinstance(found, bool):
        yield f"{path}: expected {_shown(wanted)}, found {_shown(found)}"


def golden_failures(wanted: list[Data], found: list[Data]) -> Iterator[str]:
    """Compare all that is printed: in order, but for Results, which come in any."""
    for of_results in (False, True):
        left, right = (
            [each for each in documents if (each.get("kind") == "Result") is of_results]
            for documents in (wanted, found)
        )
        if of_results:
            left, right = (sorted(each, key=repr) for each in (left, right))
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
