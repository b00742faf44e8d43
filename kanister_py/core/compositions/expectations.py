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

from kanister_py.core.compositions.dry_run import Rendered
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.naming import resource_name_of
from kanister_py.core.kube.parts import is_true, kind_and_version, metadata_of
from kanister_py.core.kube.reading import Reader
from kanister_py.core.yaml.documents import Document

API_VERSION = "kanister-py.io/v1alpha1"
KIND = "RenderSuite"

_FILES = ("observed", "required", "schemas", "credentials", "xrd")
_SHARED = ("composition", "functions", *_FILES, "context")
_CASE = ("name", "xr", *_SHARED, "expect")
_EXPECT = ("resources", "composite", "ready", "events", "error", "golden", "resourceCount")
_RESOURCE = ("name", "object", "ready", "absent")


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
    reader = Reader()
    data = reader.mapping(document.value, (), ("apiVersion", "kind", "metadata", *_SHARED, "cases"))
    if (data.get("apiVersion"), data.get("kind")) != (API_VERSION, KIND):
        found = kind_and_version(data)
        reader.note(("kind",), f"Must be a {KIND} of {API_VERSION}, found {found}")
    shared = {key: data[key] for key in _SHARED if key in data}
    cases: list[Case] = []
    for given, path in reader.members(data, "cases", (), _CASE):
        inputs = {**shared, **{key: each for key, each in given.items() if key in _CASE[1:-1]}}
        for key in ("xr", "composition"):
            if key not in inputs:
                reader.note((*path, key), "Must be given")
        expect = reader.mapping(given.get("expect"), (*path, "expect"), _EXPECT, keeps_nulls=True)
        if not expect:
            reader.note((*path, "expect"), "Must say what is expected")
        [*reader.members(expect, "resources", (*path, "expect"), _RESOURCE)]
        name = reader.text(given, "name", path) or f"case {len(cases) + 1}"
        cases.append(Case(name, inputs, expect))
    if not cases:
        reader.note(("cases",), "Must hold at least one case")
    for unknown in reader.unknown:
        reader.note(unknown.path, f"Unknown field{unknown.meant}")
    reader.refuse_problems(document)
    metadata = metadata_of(data)
    return Suite(str(metadata.get("name") or document.file), tuple(cases))


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
