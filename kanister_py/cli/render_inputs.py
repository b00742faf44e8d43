"""Inputs of a rendering: files, flags and the context to start with."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kanister_py.cli.files import STDIN, STDIN_NAME, SUFFIXES, Input, is_folder, read_input, refusal
from kanister_py.cli.parser import CommandLineError
from kanister_py.core.errors import InvalidDocument

if TYPE_CHECKING:
    from pathlib import Path

    from kanister_py.core.compositions.definitions import Definition
    from kanister_py.core.compositions.messages import Data
    from kanister_py.core.compositions.model import Composition
    from kanister_py.core.yaml.documents import Document


class Inputs(NamedTuple):
    """All that a rendering is made from, read and checked."""

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


def read_inputs(args: argparse.Namespace, inline: Mapping[str, Data] | None = None) -> Inputs:
    """Read every file that the command line names, but for objects that are handed in."""
    from kanister_py.core.compositions.model import parse_composition
    from kanister_py.core.yaml.documents import Document

    handed_in = inline or {}

    def documents_of(key: str, path: str) -> list[Document]:
        if key in handed_in:
            return [Document.of(handed_in[key], f"the {key} of the case")]
        return documents_at(path)

    compositions = documents_of("composition", args.composition)
    if len(compositions) != 1:
        found = f"Found {len(compositions)} documents; one Composition is wanted"
        raise refusal(args.composition, found)
    xrs = tuple(_object(each) for each in documents_of("xr", args.xr))
    if not xrs:
        raise refusal(args.xr, "Found no XR in it")
    xrd = None
    if args.xrd:
        xrd = _definition(args.xrd)
        xrs = tuple(_with_defaults(each, xrd) for each in xrs)
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
    )


def documents_at(path: str) -> list[Document]:
    """Read a file, or the files of a folder in the order of their names, none below it."""
    from kanister_py.core.yaml.documents import parse_documents

    found = []
    for given in _inputs_at(path):
        found += parse_documents(read_input(given), given.name)
    return found


def _inputs_at(text: str) -> list[Input]:
    if text == STDIN:
        return [Input(STDIN_NAME, None, is_named=True)]
    if is_folder(text):
        from pathlib import Path

        found = sorted(each for each in Path(text).iterdir() if each.name.endswith(SUFFIXES[:2]))
        return [Input(str(path), str(path), is_named=False) for path in found]
    return [Input(text, text, is_named=True)]


def _object(document: Document) -> Data:
    value = document.value
    if not isinstance(value, dict) or not (value.get("apiVersion") and value.get("kind")):
        raise InvalidDocument([document.problem((), "Must be an object of Kubernetes")])
    found: Data = value
    metadata = found.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidDocument([document.problem(("metadata",), "Must be a map")])
    return found


def _objects(paths: Iterable[str]) -> list[Data]:
    return [_object(each) for path in paths for each in documents_at(path)]


def _secrets(path: str) -> list[Data]:
    """Read Secrets; what is none would be looked for in vain when a step names it."""
    documents = documents_at(path)
    problems = []
    for document in documents:
        found = _object(document)
        if (found["apiVersion"], found["kind"]) != ("v1", "Secret"):
            why = f"Must be a Secret, found {found['kind']} of {found['apiVersion']}"
            problems.append(document.problem(("kind",), why))
    if problems:
        raise InvalidDocument(problems)
    return [_object(each) for each in documents]


def _definition(path: str) -> Definition:
    from kanister_py.core.compositions.definitions import DEFINITION_KIND, Definition
    from kanister_py.core.models import read_model

    documents = documents_at(path)
    if len(documents) != 1 or _object(documents[0]).get("kind") != DEFINITION_KIND:
        raise refusal(path, f"Must contain one {DEFINITION_KIND}")
    return read_model(Definition, documents[0])


def _with_defaults(xr: Data, xrd: Definition) -> Data:
    from kanister_py.core.compositions.dry_run import check_definition
    from kanister_py.core.kube.openapi import with_defaults

    schema = check_definition(xr, xrd)
    return xr if schema is None else with_defaults(xr, schema)


def _schemas(folder: str) -> list[Data]:
    import json
    from pathlib import Path

    found = []
    if not Path(folder).is_dir():
        raise refusal(folder, "No such folder")
    for path in sorted(Path(folder).rglob("*.json")):
        try:
            found.append(json.loads(read_input(Input(str(path), str(path), is_named=False))))
        except ValueError as error:
            raise refusal(path, f"Not valid JSON: {error}") from None
    return found


def _pair(flag: str, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise _misread(flag, f"must be KEY=VALUE, found {text!r}")
    return key, value


def _misread(flag: str, why: str) -> CommandLineError:
    return CommandLineError(f"Argument {flag}: {why}")


def _context(args: argparse.Namespace) -> dict[str, Any]:
    """Read what the pipeline's context starts with; what is given inline wins."""
    found: dict[str, Any] = {}
    for text in args.context_files:
        for each in text.split(","):
            key, path = _pair("--context-files", each)
            documents = documents_at(path)
            if len(documents) != 1:
                raise refusal(path, "Must hold one value")
            found[key] = documents[0].value
    for text in args.context_values:
        found.update(_inline_values(text))
    return found


def _inline_values(text: str) -> list[tuple[str, Any]]:
    """Take `k=json,k=json` apart: commas inside of the JSON part nothing."""
    import json

    decoder = json.JSONDecoder()
    found = []
    rest = text
    while rest:
        key, value = _pair("--context-values", rest)
        try:
            parsed, end = decoder.raw_decode(value)
        except ValueError as error:
            from kanister_py.core.yaml.documents import why_no_json

            why = f"the value of {key} is not JSON: {why_no_json(error)}"
            raise _misread("--context-values", why) from None
        found.append((key, parsed))
        rest = value[end:].lstrip()
        if rest and not rest.startswith(","):
            why = f"after the value of {key} comes {rest!r}; write KEY=JSON,…"
            raise _misread("--context-values", why)
        rest = rest[1:]
    return found


def watched_paths(args: argparse.Namespace) -> list[str]:
    """Say which files and folders a rendering is made from."""
    named = [args.xr, args.composition, args.functions, args.xrd, args.required_schemas]
    named += [args.function_credentials, *args.observed_resources, *args.required]
    for text in args.context_files:
        named += [each.partition("=")[2] for each in text.split(",")]
    return [each for each in named if each and each != STDIN]


def fingerprint(paths: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    """Give something that changes when one of the files does."""
    seen = []
    for path in paths:
        folders = [path]
        if is_folder(path):
            folders += [f"{where}/{name}" for where, _, names in os.walk(path) for name in names]
        for each in folders:
            try:
                status = os.stat(each)  # noqa: PTH116 - five times a second for every file
            except OSError:
                seen.append((each, 0, 0))
            else:
                seen.append((each, status.st_mtime_ns, status.st_size))
    return tuple(seen)
