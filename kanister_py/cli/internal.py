"""Speak a protocol with another program, on stdin and stdout.

kanister-py internal render < request > response

`render` reads a crossplane.render.v1alpha1.RenderRequest and writes a RenderResponse, so
that whatever runs Crossplane's own engine can run this one. Ends with 0; with 3 after a
fatal result, when stdout holds what was gathered before it; with 1 otherwise, when it
holds nothing.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from kanister_py.cli import exit_codes
from kanister_py.cli.files import STDIN_NAME, refusal
from kanister_py.cli.output import say
from kanister_py.cli.parser import seconds_from
from kanister_py.core.errors import UsageError

if TYPE_CHECKING:
    from kanister_py.core.compositions.dry_run import Rendered
    from kanister_py.core.compositions.messages import Data
    from kanister_py.executor.manifest_source import ManifestSource

_PACKAGE = "crossplane.render.v1alpha1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("render",), help="which protocol")
    parser.add_argument(
        "--timeout",
        type=seconds_from("1ms"),
        default="2m",
        metavar="DURATION",
        help="default: %(default)s",
    )


def run(args: argparse.Namespace) -> int:
    from kanister_py.proto.decoding import decode_message
    from kanister_py.proto.encoding import NotEncodable, encode_message

    try:
        request = decode_message(f"{_PACKAGE}.RenderRequest", sys.stdin.buffer.read())
    except ValueError as error:
        raise refusal(STDIN_NAME, f"Not a RenderRequest: {error}") from None
    result, source = _rendered(request, args.timeout)
    if result.error is not None and not result.is_fatal:
        raise UsageError(_message_of(result), reason="RenderFailed")
    try:
        data = encode_message(f"{_PACKAGE}.RenderResponse", _response(result, source))
    except NotEncodable as error:
        why = f"the response cannot be written: {error}"
        raise UsageError(why, reason="RenderFailed") from None
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    if result.error is not None:
        say(f"error: {_message_of(result)}")
        return exit_codes.FATAL_RESULT
    return exit_codes.FINE


def _message_of(result: Rendered) -> str:
    assert result.error is not None  # or there is nothing to tell
    prefix = "" if result.is_fatal else "reconcile failed: "
    why = f"cannot compose resources: {result.error.message}"
    return f"cannot render composite resource: {prefix}{why}"


def _rendered(request: Data, timeout_seconds: float) -> tuple[Rendered, ManifestSource]:
    from kanister_py import wiring
    from kanister_py.core.compositions.definitions import Definition
    from kanister_py.core.compositions.dry_run import check_definition
    from kanister_py.core.compositions.model import parse_composition
    from kanister_py.core.models import read_model
    from kanister_py.core.yaml.documents import Document
    from kanister_py.executor.manifest_source import ManifestSource
    from kanister_py.executor.render_xr import RenderInput, render
    from kanister_py.executor.run_pipeline import Engine

    given = request.get("composite")
    if given is None:
        asked = ", ".join(sorted(key for key in request if key != "meta")) or "nothing"
        raise refusal(STDIN_NAME, f"Only composite resources are rendered; this asks for {asked}")
    for key in ("compositeResource", "composition"):
        if not given.get(key):
            raise refusal(STDIN_NAME, "Must be given", f"composite.{key}")
    xr, xrd = given["compositeResource"], None
    if given.get("compositeResourceDefinition"):
        document = Document.of(given["compositeResourceDefinition"], "definition")
        xrd = read_model(Definition, document)
        check_definition(xr, xrd)
    composition = parse_composition(Document.of(given["composition"], "composition"))
    steps = tuple(
        each if each.timeout_seconds else each._replace(timeout_seconds=timeout_seconds)
        for each in composition.steps
    )
    # Of a document that holds nothing but comments, the CLI sends an empty object.
    observed = [each for each in given.get("observedResources") or () if each]
    required = [each for each in given.get("requiredResources") or () if each]
    source = ManifestSource(
        [*required, *observed, xr],
        given.get("requiredSchemas") or [],
        given.get("credentials") or [],
    )
    functions = wiring.open_render_functions(
        addresses={
            each.get("name", ""): each.get("address", "") for each in given.get("functions") or []
        }
    )
    try:
        engine = Engine(functions.runner, functions.revisions, source, wiring.system_clock())
        if any(each.input_ref for each in steps):
            engine = engine._replace(artifacts=wiring.step_artifacts())
        composition = composition._replace(steps=steps)
        return render(RenderInput(xr, composition, observed, xrd), engine), source
    finally:
        functions.close()


def _response(result: Rendered, source: ManifestSource) -> Data:
    output: dict[str, Any] = {
        "compositeResource": result.composite,
        "composedResources": [each.object for each in result.resources],
        "deletedResources": [each.object for each in result.deleted],
        "events": [
            {"type": each.type, "reason": each.reason, "message": each.message}
            for each in result.events
        ],
        "requiredResources": source.asked_resources,
        "requiredSchemas": source.asked_schemas,
    }
    return {"meta": {}, "composite": output}
