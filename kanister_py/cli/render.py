"""Compose the resources of an XR here and now: no cluster, no containers.

kanister-py render xr.yaml composition.yaml
kanister-py render xr.yaml composition.yaml functions.yaml -r -o observed/
kanister-py render xrs/ composition.yaml --watch
kanister-py render --assert tests/suite.yaml --junit report.xml

Prints the XR as it would be after one reconcile, then its resources, as YAML or with
`-o json`. Functions that are built in need no FUNCTIONS, and stand in for Crossplane's own of
the same name unless an annotation says what else runs them. Several XRs in a file or
a folder are composed side by side.

What runs a function is said by annotations of its Function: render.crossplane.io/runtime is
  Development  something that listens at render.crossplane.io/runtime-development-target
  Process      a program: JSON on stdin and stdout; kanister-py.io/runtime-command
  Python       a class; kanister-py.io/runtime-entry-point, as module:Class
  InProcess    the built-in function of that name
Containers are not started: a Function whose runtime is Docker, which is the default of what is
not built in, is refused with these ways out.

Data of Secrets are masked on a terminal, unless --show-secrets is given, and in a pipe or
file only with --mask-secrets. What is told of steps and errors is masked anywhere. Ends
with 1 where a pipeline or an expectation fails.
"""

from __future__ import annotations

import argparse
import sys
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
    whole,
)
from kanister_py.cli.streams import is_read
from kanister_py.core.errors import UsageError

if TYPE_CHECKING:
    from kanister_py.cli.render_run import Renderer, Rendering
    from kanister_py.core.actionsets.masking import Masker
    from kanister_py.core.compositions.dry_run import Rendered
    from kanister_py.core.compositions.messages import Data

_FORMATS = ("yaml", "json")
_LOOK_SECONDS = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("xr", metavar="XR", nargs="?", help="a file or a folder; - is stdin")
    parser.add_argument("composition", metavar="COMPOSITION", nargs="?", help="a file")
    parser.add_argument(
        "functions", metavar="FUNCTIONS", nargs="?", help="a file or a folder; default: built-ins"
    )
    what = parser.add_argument_group("what the pipeline works with")
    repeated(
        what,
        "-o",
        "--observed-resources",
        metavar="PATH",
        help="resources that are there already; the words json and yaml say the output's form",
    )
    repeated(
        what,
        "-e",
        "--required-resources",
        "--extra-resources",
        dest="required",
        metavar="PATH",
        help="what functions may ask for",
    )
    what.add_argument(
        "-s", "--required-schemas", metavar="DIR", help="OpenAPI v3 documents, *.json"
    )
    what.add_argument("--function-credentials", metavar="PATH", help="Secrets that steps name")
    repeated(what, "--context-files", metavar="KEY=PATH,…", help="context to start with")
    repeated(what, "--context-values", metavar="KEY=JSON,…", help="the same, inline")
    what.add_argument("--xrd", metavar="FILE", help="defaults and layout of the XR come from here")
    how = parser.add_argument_group("how it runs")
    add_tracing_argument(how)
    repeated(
        how,
        "-a",
        "--function-annotations",
        type=pair,
        metavar="KEY=VALUE",
        help="an annotation for all functions",
    )
    switch(
        how,
        "--strict-versions",
        help="refuse packages of releases that no built-in version stands for",
    )
    how.add_argument(
        "--timeout",
        type=seconds_from("1ms"),
        default="1m",
        metavar="DURATION",
        help="how long a step may take; default: %(default)s",
    )
    how.add_argument(
        "--max-concurrency",
        type=whole(1, 1000),
        default=8,
        metavar="N",
        help="default: %(default)s",
    )
    switch(how, "--watch", help="again whenever a file changes")
    how.add_argument(
        "--cache-dir", type=path, metavar="DIR", help="keep answers that hold for a time"
    )
    out = parser.add_argument_group("what is printed")
    switch(out, "-r", "--include-function-results", help="Result documents")
    switch(out, "-x", "--include-full-xr", help="all of the input XR")
    switch(out, "-c", "--include-context", help="the Context document")
    out.add_argument(
        "--output",
        "--mode",
        choices=(*_FORMATS, "text"),
        help="yaml, which text is as well, in the layout of the original; or json; default: yaml",
    )
    switch(out, "--trace", help="tell what each step got and gave")
    secrets = out.add_mutually_exclusive_group()
    switch(secrets, "--show-secrets", help="print data of Secrets as they are")
    switch(secrets, "--mask-secrets", help="mask them in a pipe or file as well, for logs")
    tests = parser.add_argument_group("tests")
    repeated(
        tests,
        "--assert",
        dest="suites",
        metavar="FILE",
        help="RenderSuites to run: cases, each with an XR and what is expected of it; "
        "docs/compositions.md has one",
    )
    tests.add_argument("--junit", type=path, metavar="FILE", help="write a report of the suites")
    switch(tests, "--update", help="rewrite the suites' golden files")


def run(args: argparse.Namespace) -> int:
    if args.suites:
        from kanister_py.cli.render_suites import run_suites

        return run_suites(args)
    if args.junit is not None:
        raise CommandLineError("--junit is the report of suites: it needs --assert")
    form = _form_of(args)
    if not (args.xr and args.composition):
        raise CommandLineError("An XR and a COMPOSITION are wanted, or --assert")
    from kanister_py.cli.render_run import Renderer

    with Renderer() as renderer:
        if args.watch:
            return _watch(args, form, renderer)
        return _render_once(args, form, renderer)


def _form_of(args: argparse.Namespace) -> str:
    """Say in which form to print: `-o` is the observed resources' in the original."""
    words = [
        each for each in args.observed_resources if each in _FORMATS and not Path(each).exists()
    ]
    args.observed_resources = [each for each in args.observed_resources if each not in words]
    return args.output or (words[-1] if words else "yaml")


def _render_once(args: argparse.Namespace, form: str, renderer: Renderer) -> int:
    from kanister_py.cli.render_inputs import read_inputs

    inputs = read_inputs(args)
    # What a later step says may hold what an earlier one composed.
    rendering = renderer.render(inputs, keeps_records=args.trace or args.mask_secrets)
    return _print(args, form, rendering)


def _print(args: argparse.Namespace, form: str, rendering: Rendering) -> int:
    from kanister_py.core.compositions.dry_run import OutputSections, documents_of
    from kanister_py.core.compositions.masking import masked_secrets

    results, masker = rendering.results, _masker(args, rendering)
    say_notices([*rendering.notices, *(each for result in results for each in result.notices)])
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
        made = documents_of(result, shown) if result.error is None else []
        if is_masked:
            masked: list[Data] = masked_secrets(made)
            was_masked = was_masked or masked != made
            made = masked
        documents += made
        renders.append(_as_data(result, made, args))
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
    for each, place in zip(results, rendering.places, strict=True):
        if each.error is not None:
            _say_failure(each, place, masker, several=len(results) > 1)
    return 1 if any(each.error is not None for each in results) else 0


def _traces(args: argparse.Namespace, rendering: Rendering) -> list[Data]:
    from kanister_py.cli.render_trace import traces_of

    composition, shows = rendering.inputs.composition, bool(args.show_secrets)
    return [
        each
        for result, records in zip(rendering.results, rendering.records, strict=True)
        for each in traces_of(composition, result, records, show_secrets=shows)
    ]


def _as_data(result: Rendered, documents: Sequence[Data], args: argparse.Namespace) -> Data:
    kept = [each for each in documents if each["apiVersion"] != "render.crossplane.io/v1beta1"]
    data: Data = {
        "composite": kept[0] if kept else None,
        "resources": kept[1:],
        "steps": [each.as_dict() for each in result.outcomes],
    }
    if args.include_function_results:
        data["results"] = [each.as_dict() for each in result.events]
    if args.include_context and documents:
        data["context"] = documents[-1]["fields"]
    if result.error is not None:
        data["error"] = {"reason": result.error.reason, "message": result.error.message}
    return data


def _masker(args: argparse.Namespace, rendering: Rendering) -> Masker:
    """Give what hides known secrets in a text: functions may say what they were given.

    With --mask-secrets that is also what they compose: a template may have it in so many words.
    """
    from kanister_py.core.actionsets.masking import Masker
    from kanister_py.core.compositions.masking import secrets_in

    secrets: list[Data] = []
    if not args.show_secrets:
        inputs = rendering.inputs
        secrets = [*inputs.secrets, *secrets_in([*inputs.required])]
    if args.mask_secrets:
        composed = [each.object for result in rendering.results for each in result.resources]
        secrets += secrets_in(composed)
        for record in (each for records in rendering.records for each in records):
            if record.response is not None:
                secrets += secrets_in(record.response.as_data())
    return Masker(_texts_of(secrets))


def _texts_of(secrets: Sequence[Data]) -> list[str]:
    from base64 import b64decode

    known = []
    for secret in secrets:
        known += [str(text) for text in (secret.get("stringData") or {}).values()]
        for text in (secret.get("data") or {}).values():
            try:
                known.append(b64decode(str(text)).decode("utf-8", "surrogateescape"))
            except ValueError:
                known.append(str(text))  # no base64, but a secret all the same
    return known


def _yaml_of(documents: Sequence[Mapping[str, Any]]) -> str:
    """Write documents as the original does, byte for byte: people keep them in git."""
    from kanister_py.core.yaml.go_yaml import dump_go_yaml

    return "".join(f"---\n{dump_go_yaml(each)}" for each in documents)


def _say_failure(result: Rendered, place: str, masker: Masker, *, several: bool) -> None:
    assert result.error is not None  # or it would not have failed
    if several:
        say(f"{result.composite['kind']} {result.composite['metadata']['name']}:")
    why = f"cannot compose resources: {result.error.message}"
    say_error(UsageError(masker.mask(f"{place}: {why}" if place else why)))


def _watch(args: argparse.Namespace, form: str, renderer: Renderer) -> int:
    """Render again whenever something changes that it was made from, until Ctrl-C."""
    import time

    from kanister_py.cli.render_inputs import fingerprint, watched_paths

    before = None
    try:
        while is_read(sys.stdout):
            seen = fingerprint(watched_paths(args))
            if seen != before:
                before = seen
                began = time.perf_counter()
                _render_again(args, form, renderer)
                took = (time.perf_counter() - began) * 1000
                say(f"rendered in {took:.0f} ms; waiting for a change")
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        pass
    return 0


def _render_again(args: argparse.Namespace, form: str, renderer: Renderer) -> None:
    from kanister_py.core.errors import KanisterError

    try:
        _render_once(args, form, renderer)
    except KanisterError as error:
        # Half a file was saved, say: the next change may mend it.
        say_error(error)
    sys.stdout.flush()
