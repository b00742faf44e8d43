"""Inputs of a rendering: files, flags and the initial context."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kanister_py.cli.files import STDIN, STDIN_NAME, SUFFIXES, Input, is_folder, read_input, refusal
from kanister_py.cli.parser import CommandLineError
from kanister_py.core.compositions.composite_crds import crd_of
from kanister_py.core.compositions.definitions import DEFINITION_KIND, Definition
from kanister_py.core.compositions.dry_run import check_definition
from kanister_py.core.compositions.model import Composition, parse_composition
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.openapi import CRD_KIND, openapi_of_crd, with_defaults
from kanister_py.core.kube.resources import group_version_of
from kanister_py.core.kube.schema_checks import unknown_fields, violations
from kanister_py.core.models import read_model
from kanister_py.core.notices import Notice
from kanister_py.core.yaml.documents import Document, parse_documents, why_no_json

if TYPE_CHECKING:
    from kanister_py.core.compositions.messages import Data


class Inputs(NamedTuple):
    """Inputs of a rendering, read and checked."""

    xrs: tuple[Data, ...]
    composition: Composition
    composition_document: Document
    functions: tuple[Document, ...] | None
    function_annotations: dict[str, str]
    observed: tuple[Data, ...] = ()
    required: tuple[Data, ...] = ()
    schemas: tuple[Data, ...] = ()
    secrets: tuple[Data, ...] = ()
    xrd: Definition | None = None
    context: Data | None = None
    timeout_seconds: float = 60.0
    max_concurrency: int = 8
    cache_folder: Path | None = None
    is_strict: bool = False
    validate: str = "strict"
    notices: tuple[Notice, ...] = ()
    """Findings about the inputs that do not stop the rendering."""


def read_inputs(args: argparse.Namespace, inline: Mapping[str, Data] | None = None) -> Inputs:
    """Read the files that the command line names; `inline` has objects to use instead of files."""
    objects = inline or {}

    def documents_of(key: str, path: str) -> list[Document]:
        if key in objects:
            return [Document.of(objects[key], f"the {key} of the case")]
        return documents_at(path)

    compositions = documents_of("composition", args.composition)
    if len(compositions) != 1:
        problem = f"Must contain one Composition, found {len(compositions)} documents"
        raise refusal(args.composition, problem)
    xr_documents = documents_of("xr", args.xr)
    xrs = tuple(_object(document) for document in xr_documents)
    if not xrs:
        raise refusal(args.xr, "Must contain an XR, found none")
    xrd, notices = None, []
    if args.xrd:
        xrd = _definition(args.xrd)
        xrs = tuple(_with_defaults(xr, xrd) for xr in xrs)
        notices = _check_xrs(xr_documents, xrs, xrd, args.validate)
    return Inputs(
        xrs,
        parse_composition(compositions[0]),
        compositions[0],
        tuple(documents_at(args.functions)) if args.functions else None,
        dict(args.function_annotations),
        tuple(_objects(args.observed_resources)),
        tuple(_objects(args.required)),
        tuple(_schemas(args.required_schemas)) if args.required_schemas else (),
        tuple(_secrets(args.function_credentials)) if args.function_credentials else (),
        xrd,
        _context(args) or None,
        args.timeout,
        args.max_concurrency,
        args.cache_dir,
        args.strict_versions,
        args.validate,
        tuple(notices),
    )


def documents_at(path: str) -> list[Document]:
    """Read a file, or the files of a folder by name; folders below it are not read."""
    documents = []
    for input_ in _inputs_at(path):
        documents += parse_documents(read_input(input_), input_.name)
    return documents


def _inputs_at(text: str) -> list[Input]:
    if text == STDIN:
        return [Input(STDIN_NAME, None, is_named=True)]
    if is_folder(text):
        paths = sorted(path for path in Path(text).iterdir() if path.name.endswith(SUFFIXES[:2]))
        return [Input(str(path), str(path), is_named=False) for path in paths]
    return [Input(text, text, is_named=True)]


def _object(document: Document) -> Data:
    value = document.value
    if not isinstance(value, dict) or not (value.get("apiVersion") and value.get("kind")):
        raise InvalidDocument([document.problem((), "Must be a Kubernetes object")])
    obj: Data = value
    metadata = obj.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidDocument([document.problem(("metadata",), "Must be a map")])
    return obj


def _objects(paths: Iterable[str]) -> list[Data]:
    return [_object(document) for path in paths for document in documents_at(path)]


def _secrets(path: str) -> list[Data]:
    """Read Secrets; refuse other kinds, which no step could find later."""
    documents = documents_at(path)
    problems = []
    for document in documents:
        obj = _object(document)
        if (obj["apiVersion"], obj["kind"]) != ("v1", "Secret"):
            message = f"Must be a Secret, found {obj['kind']} of {obj['apiVersion']}"
            problems.append(document.problem(("kind",), message))
    if problems:
        raise InvalidDocument(problems)
    return [_object(document) for document in documents]


def _definition(path: str) -> Definition:
    documents = documents_at(path)
    if len(documents) != 1 or _object(documents[0]).get("kind") != DEFINITION_KIND:
        raise refusal(path, f"Must contain one {DEFINITION_KIND}")
    return read_model(Definition, documents[0])


def _with_defaults(xr: Data, xrd: Definition) -> Data:
    schema = check_definition(xr, xrd)
    return xr if schema is None else with_defaults(xr, schema)


def _check_xrs(
    documents: Sequence[Document], xrs: Sequence[Data], xrd: Definition, validate: str
) -> list[Notice]:
    """Check XRs against their definition, as an API server does with the generated CRD."""
    versions = {version["name"]: version for version in crd_of(xrd)["spec"]["versions"]}
    problems, unknown = [], []
    for document, xr in zip(documents, xrs, strict=True):
        _, version = group_version_of(str(xr["apiVersion"]))
        schema = versions[version]["schema"]["openAPIV3Schema"]
        problems += violations(document, xr, schema)
        unknown += unknown_fields(document, schema)
    if validate == "strict":
        problems += unknown
    if problems:
        raise InvalidDocument(problems)
    return [Notice("UnknownField", str(problem)) for problem in unknown if validate == "warn"]


def _schemas(folder: str) -> list[Data]:
    schemas = []
    if not Path(folder).is_dir():
        raise refusal(folder, "No such folder")
    for path in sorted(Path(folder).rglob("*.json")):
        try:
            schemas.append(json.loads(read_input(Input(str(path), str(path), is_named=False))))
        except ValueError as error:
            raise refusal(path, f"Not valid JSON: {error}") from None
    for path in sorted(path for path in Path(folder).rglob("*") if path.suffix in SUFFIXES[:2]):
        for document in documents_at(str(path)):
            if isinstance(document.value, dict) and document.value.get("kind") == CRD_KIND:
                schemas += [openapi_of_crd(document.value)]
    return schemas


def _pair(flag: str, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise _malformed(flag, f"must be KEY=VALUE, found {text!r}")
    return key, value


def _malformed(flag: str, problem: str) -> CommandLineError:
    return CommandLineError(f"Argument {flag}: {problem}")


def _context(args: argparse.Namespace) -> dict[str, Any]:
    """Read the initial context of the pipeline; inline values override files."""
    context: dict[str, Any] = {}
    for text in args.context_files:
        for part in text.split(","):
            key, path = _pair("--context-files", part)
            documents = documents_at(path)
            if len(documents) != 1:
                raise refusal(path, "Must contain one value")
            context[key] = documents[0].value
    for text in args.context_values:
        context.update(_inline_values(text))
    return context


def _inline_values(text: str) -> list[tuple[str, Any]]:
    """Parse `KEY=JSON,KEY=JSON`. Commas inside JSON do not separate values."""
    decoder = json.JSONDecoder()
    parts = []
    remaining = text
    while remaining:
        key, value = _pair("--context-values", remaining)
        try:
            parsed, end = decoder.raw_decode(value)
        except ValueError as error:
            problem = f"the value of {key} is not JSON: {why_no_json(error)}"
            raise _malformed("--context-values", problem) from None
        parts.append((key, parsed))
        remaining = value[end:].lstrip()
        if remaining and not remaining.startswith(","):
            problem = f"found {remaining!r} after the value of {key}; write KEY=JSON,…"
            raise _malformed("--context-values", problem)
        remaining = remaining[1:]
    return parts


def watched_paths(args: argparse.Namespace) -> list[str]:
    """Return the files and folders that a rendering reads."""
    names = [args.xr, args.composition, args.functions, args.xrd, args.required_schemas]
    names += [args.function_credentials, *args.observed_resources, *args.required]
    for text in args.context_files:
        names += [part.partition("=")[2] for part in text.split(",")]
    return [name for name in names if name and name != STDIN]


def fingerprint(paths: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    """Return a value that changes when one of the files changes."""
    entries = []
    for path in paths:
        files = [path]
        if is_folder(path):
            files += [f"{parent}/{name}" for parent, _, names in os.walk(path) for name in names]
        for file in files:
            try:
                status = os.stat(file)  # noqa: PTH116 - called five times a second for each file
            except OSError:
                entries.append((file, 0, 0))
            else:
                entries.append((file, status.st_mtime_ns, status.st_size))
    return tuple(entries)
