"""Compose the resources of an XR locally, without a cluster or containers.

kanister-py render xr.yaml composition.yaml
kanister-py render xr.yaml composition.yaml functions.yaml -r -o observed/
kanister-py render xrs/ composition.yaml --watch
kanister-py render --assert tests/suite.yaml --junit report.xml

Prints the XR after one reconcile, then its composed resources, as YAML or with `-o json`.
Built-in functions need no FUNCTIONS file, and replace Crossplane's functions of the same name,
unless an annotation sets another runtime. Several XRs in a file or a folder are composed in
parallel.

The annotation render.crossplane.io/runtime of a Function sets how the function runs:
  Development  gRPC, at the address in render.crossplane.io/runtime-development-target
  Process      a program with JSON on stdin and stdout, in kanister-py.io/runtime-command
  Python       a class, in kanister-py.io/runtime-entry-point, as module:Class or
               module:Class@VERSION
  InProcess    the built-in function of that name
Containers are not started: a Function with the runtime Docker, the default of functions that
are not built in, is refused; the error lists these alternatives.

Data of Secrets are masked on a terminal, unless --show-secrets is set, and in a pipe or file
only with --mask-secrets. Errors and traces are always masked. Exits with 1 if a pipeline or an
expectation fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanister_py.cli.output import say, say_error, say_notices, write_data, write_text
from kanister_py.cli.parser import (
    CommandLineError,
    add_tracing_argument,
    pair,
    path,
    repeated,
    seconds_from,
    switch,
    whole_number,
)
from kanister_py.cli.streams import is_read
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.yaml.go_yaml import dump_go_yaml

if TYPE_CHECKING:
    from kanister_py.cli.render_run import Renderer, Rendering
    from kanister_py.core.actionsets.masking import Masker
    from kanister_py.core.compositions.dry_run import Rendered
    from kanister_py.core.compositions.messages import Data

_FORMATS = ("yaml", "json")
_POLL_SECONDS = 0.2
_WITHOUT_EFFECT = (
    ("--crossplane-version", "VERSION"),
    ("--crossplane-image", "IMAGE"),
    ("--crossplane-binary", "PATH"),
    ("--crossplane-docker-network", "NETWORK"),
    ("--project-file", "PATH"),
)
"""Flags of `crossplane render` for its engine and its projects, which do not exist here."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("xr", metavar="XR", nargs="?", help="a file or a folder; - is stdin")
    parser.add_argument("composition", metavar="COMPOSITION", nargs="?", help="a file")
    parser.add_argument(
        "functions", metavar="FUNCTIONS", nargs="?", help="a file or a folder; default: built-ins"
    )
    inputs = parser.add_argument_group("inputs of the pipeline")
    repeated(
        inputs,
        "-o",
        "--observed-resources",
        metavar="PATH",
        help="existing composed resources; -o json and -o yaml set the output format instead",
    )
    repeated(
        inputs,
        "-e",
        "--required-resources",
        "--extra-resources",
        dest="required",
        metavar="PATH",
        help="resources that functions may request",
    )
    inputs.add_argument(
        "-s",
        "--required-schemas",
        "--schemas",
        metavar="DIR",
        help="OpenAPI v3 documents (*.json) and CRDs (*.yaml): functions may request them, and "
        "composed resources are checked against them",
    )
    inputs.add_argument(
        "--function-credentials", metavar="PATH", help="Secrets that steps refer to"
    )
    repeated(inputs, "--context-files", metavar="KEY=PATH,…", help="initial context, from files")
    repeated(inputs, "--context-values", metavar="KEY=JSON,…", help="initial context, as JSON")
    inputs.add_argument(
        "--xrd",
        metavar="FILE",
        help="definition of the XR: sets defaults, and the XR is checked against its schema",
    )
    inputs.add_argument(
        "--validate",
        choices=("strict", "warn", "ignore"),
        default="strict",
        help="for fields that a schema lacks: strict refuses them, warn reports them, ignore "
        "accepts them; default: %(default)s",
    )
    execution = parser.add_argument_group("execution")
    add_tracing_argument(execution)
    repeated(
        execution,
        "-a",
        "--function-annotations",
        type=pair,
        metavar="KEY=VALUE",
        help="annotation to set on all functions",
    )
    switch(
        execution,
        "--strict-versions",
        help="refuse package releases that no built-in version replaces",
    )
    execution.add_argument(
        "--timeout",
        type=seconds_from("1ms"),
        default="1m",
        metavar="DURATION",
        help="timeout of each step; default: %(default)s",
    )
    execution.add_argument(
        "--max-concurrency",
        type=whole_number(1, 1000),
        default=8,
        metavar="N",
        help="XRs to compose at a time; default: %(default)s",
    )
    switch(execution, "--watch", help="render again whenever a file changes")
    execution.add_argument(
        "--cache-dir", type=path, metavar="DIR", help="cache responses that have a ttl here"
    )
    output = parser.add_argument_group("output")
    switch(output, "-r", "--include-function-results", help="print Result documents")
    switch(output, "-x", "--include-full-xr", help="print the input XR completely")
    switch(output, "-c", "--include-context", help="print the Context document")
    output.add_argument(
        "--output",
        "--mode",
        choices=(*_FORMATS, "text"),
        help="output format; text is the same as yaml; default: yaml",
    )
    switch(output, "--trace", help="print the request and the response of each step")
    secrets = output.add_mutually_exclusive_group()
    switch(secrets, "--show-secrets", help="print data of Secrets unmasked")
    switch(secrets, "--mask-secrets", help="mask data of Secrets in a pipe or file, too")
    compatibility = parser.add_argument_group("flags of crossplane render without effect here")
    for flag, metavar in _WITHOUT_EFFECT:
        names = ("-f", flag) if flag == "--project-file" else (flag,)
        compatibility.add_argument(*names, metavar=metavar, help="accepted, with a note")
    tests = parser.add_argument_group("tests")
    repeated(
        tests,
        "--assert",
        dest="suites",
        metavar="FILE",
        help="RenderSuite to run: cases with an XR and the expected resources; "
        "docs/compositions.md shows one",
    )
    tests.add_argument(
        "--junit", type=path, metavar="FILE", help="write a JUnit report of the suites"
    )
    switch(tests, "--update", help="rewrite the suites' golden files")


def run(args: argparse.Namespace) -> int:
    if args.suites:
        from kanister_py.cli.render_suites import run_suites

        return run_suites(args)
    if args.junit is not None:
        raise CommandLineError("--junit needs --assert")
    _note_flags_without_effect(args)
    form = _form_of(args)
    if not (args.xr and args.composition):
        raise CommandLineError("Name an XR and a COMPOSITION, or use --assert")
    from kanister_py.cli.render_run import Renderer

    with Renderer() as renderer:
        if args.watch:
            return _watch(args, form, renderer)
        return _render_once(args, form, renderer)


def _note_flags_without_effect(args: argparse.Namespace) -> None:
    for flag, _ in _WITHOUT_EFFECT:
        if getattr(args, flag.removeprefix("--").replace("-", "_")) is not None:
            say(f"note: {flag} has no effect: render needs no engine and reads no project")


def _form_of(args: argparse.Namespace) -> str:
    """Return the output format. `-o` names observed resources, as in the original, or a format."""
    words = [
        word for word in args.observed_resources if word in _FORMATS and not Path(word).exists()
    ]
    args.observed_resources = [text for text in args.observed_resources if text not in words]
    return args.output or (words[-1] if words else "yaml")


def _render_once(args: argparse.Namespace, form: str, renderer: Renderer) -> int:
    from kanister_py.cli.render_inputs import read_inputs

    inputs = read_inputs(args)
    # Records are needed for masking: a step may repeat secrets that an earlier one composed.
    rendering = renderer.render(inputs, keeps_records=args.trace or args.mask_secrets)
    return _print(args, form, rendering)


def _print(args: argparse.Namespace, form: str, rendering: Rendering) -> int:
    from kanister_py.core.compositions.dry_run import OutputSections, documents_of
    from kanister_py.core.compositions.masking import masked_secrets

    results, masker = rendering.results, _masker(args, rendering)
    say_notices([*rendering.notices, *(notice for result in results for notice in result.notices)])
    if args.trace and form != "json":
        from kanister_py.cli.render_trace import trace_lines

        for trace in _traces(args, rendering):
            for line in trace_lines(masker.mask_data(trace)):
                say(line)
    is_masked = args.mask_secrets or (sys.stdout.isatty() and not args.show_secrets)
    documents: list[Data] = []
    renders = []
    was_masked = False
    for xr, result in zip(rendering.inputs.xrs, results, strict=True):
        shown = OutputSections(
            args.include_function_results,
            args.include_context,
            xr if args.include_full_xr else None,
        )
        rendered = documents_of(result, shown) if result.error is None else []
        if is_masked:
            masked: list[Data] = masked_secrets(rendered)
            was_masked = was_masked or masked != rendered
            rendered = masked
        documents += rendered
        renders.append(_as_data(result, rendered, args))
    if is_masked:
        documents, renders = masker.mask_data(documents), masker.mask_data(renders)
    if form == "json":
        data = {"renders": renders}
        if args.trace:
            data["trace"] = masker.mask_data(_traces(args, rendering))
        write_data(data, form)
    else:
        write_text(_yaml_of(documents))
    if was_masked:
        say("note: data of Secrets are masked; --show-secrets prints them")
    for failed, place in zip(results, rendering.places, strict=True):
        if failed.error is not None:
            _say_failure(failed, place, masker, has_others=len(results) > 1)
    return 1 if any(result.error is not None for result in results) else 0


def _traces(args: argparse.Namespace, rendering: Rendering) -> list[Data]:
    from kanister_py.cli.render_trace import traces_of

    composition, shows = rendering.inputs.composition, bool(args.show_secrets)
    return [
        trace
        for result, records in zip(rendering.results, rendering.records, strict=True)
        for trace in traces_of(composition, result, records, show_secrets=shows)
    ]


def _as_data(result: Rendered, documents: Sequence[Data], args: argparse.Namespace) -> Data:
    objects = [
        document
        for document in documents
        if document["apiVersion"] != "render.crossplane.io/v1beta1"
    ]
    data: Data = {
        "composite": objects[0] if objects else None,
        "resources": objects[1:],
        "steps": [outcome.as_dict() for outcome in result.outcomes],
    }
    if args.include_function_results:
        data["results"] = [event.as_dict() for event in result.events]
    if args.include_context and documents:
        data["context"] = documents[-1]["fields"]
    if result.error is not None:
        data["error"] = {"reason": result.error.reason, "message": result.error.message}
    return data


def _masker(args: argparse.Namespace, rendering: Rendering) -> Masker:
    """Return a masker of known secrets, because functions may repeat their inputs in messages.

    With --mask-secrets it also masks composed secrets, which a template may contain in clear.
    """
    from kanister_py.core.actionsets.masking import Masker
    from kanister_py.core.compositions.masking import secrets_in

    secrets: list[Data] = []
    if not args.show_secrets:
        inputs = rendering.inputs
        secrets = [*inputs.secrets, *secrets_in([*inputs.required])]
    if args.mask_secrets:
        composed = [
            resource.object for result in rendering.results for resource in result.resources
        ]
        secrets += secrets_in(composed)
        for record in (record for records in rendering.records for record in records):
            if record.response is not None:
                secrets += secrets_in(record.response.as_data())
    return Masker(_texts_of(secrets))


def _texts_of(secrets: Sequence[Data]) -> list[str]:
    texts = []
    for secret in secrets:
        texts += [str(text) for text in (secret.get("stringData") or {}).values()]
        for text in (secret.get("data") or {}).values():
            try:
                texts.append(b64decode(str(text)).decode("utf-8", "surrogateescape"))
            except ValueError:
                texts.append(str(text))  # Not base64, but still a secret.
    return texts


def _yaml_of(documents: Sequence[Mapping[str, Any]]) -> str:
    """Write documents in the original's layout, so that its output in git shows no diff."""
    return "".join(f"---\n{dump_go_yaml(document)}" for document in documents)


def _say_failure(result: Rendered, place: str, masker: Masker, *, has_others: bool) -> None:
    assert result.error is not None
    if has_others:
        say(f"{result.composite['kind']} {result.composite['metadata']['name']}:")
    message = f"cannot compose resources: {result.error.message}"
    say_error(UsageError(masker.mask(f"{place}: {message}" if place else message)))


def _watch(args: argparse.Namespace, form: str, renderer: Renderer) -> int:
    """Render again whenever an input file changes, until Ctrl-C."""
    from kanister_py.cli.render_inputs import fingerprint, watched_paths

    previous = None
    try:
        while is_read(sys.stdout):
            current = fingerprint(watched_paths(args))
            if current != previous:
                previous = current
                start = time.perf_counter()
                _render_again(args, form, renderer)
                milliseconds = (time.perf_counter() - start) * 1000
                say(f"rendered in {milliseconds:.0f} ms; waiting for a change")
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        pass
    return 0


def _render_again(args: argparse.Namespace, form: str, renderer: Renderer) -> None:
    try:
        _render_once(args, form, renderer)
    except KanisterError as error:
        # For example, a file is being saved; the next change may fix the error.
        say_error(error)
    sys.stdout.flush()
