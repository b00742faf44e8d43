"""Answer a request of another program, on stdin and stdout.

kanister-py internal render < request > response

`render` reads a crossplane.render.v1alpha1.RenderRequest and writes a RenderResponse, so that
a program that runs Crossplane's engine can run this one instead. Exit codes: 0 success; 3 a
fatal result, with the part of the response before it on stdout; 1 any other failure, with
nothing on stdout.
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
    parser.add_argument("what", choices=("render",), help="kind of the request")
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
        raise UsageError(
            f"the response cannot be encoded: {error}", reason="RenderFailed"
        ) from None
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    if result.error is not None:
        say(f"error: {_message_of(result)}")
        return exit_codes.FATAL_RESULT
    return exit_codes.FINE


def _message_of(result: Rendered) -> str:
    assert result.error is not None
    prefix = "" if result.is_fatal else "reconcile failed: "
    message = f"cannot compose resources: {result.error.message}"
    return f"cannot render composite resource: {prefix}{message}"


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

    composite = request.get("composite")
    if composite is None:
        request_keys = ", ".join(sorted(key for key in request if key != "meta")) or "nothing"
        raise refusal(STDIN_NAME, f"Only composite resources can be rendered, found {request_keys}")
    for key in ("compositeResource", "composition"):
        if not composite.get(key):
            raise refusal(STDIN_NAME, "Is required", f"composite.{key}")
    xr, xrd = composite["compositeResource"], None
    if composite.get("compositeResourceDefinition"):
        document = Document.of(composite["compositeResourceDefinition"], "definition")
        xrd = read_model(Definition, document)
        check_definition(xr, xrd)
    composition = parse_composition(Document.of(composite["composition"], "composition"))
    steps = tuple(
        step if step.timeout_seconds else step._replace(timeout_seconds=timeout_seconds)
        for step in composition.steps
    )
    # For a document with comments only, the Crossplane CLI sends an empty object.
    observed = [resource for resource in composite.get("observedResources") or () if resource]
    required = [resource for resource in composite.get("requiredResources") or () if resource]
    source = ManifestSource(
        [xr, *observed, *required],
        composite.get("requiredSchemas") or [],
        composite.get("credentials") or [],
    )
    functions = wiring.open_render_functions(
        addresses={
            function.get("name", ""): function.get("address", "")
            for function in composite.get("functions") or []
        }
    )
    try:
        engine = Engine(functions.runner, functions.revisions, source, wiring.system_clock())
        if any(step.input_ref for step in steps):
            engine = engine._replace(artifacts=wiring.step_artifacts())
        composition = composition._replace(steps=steps)
        return render(RenderInput(xr, composition, observed, xrd), engine), source
    finally:
        functions.close()


def _response(result: Rendered, source: ManifestSource) -> Data:
    output: dict[str, Any] = {
        "compositeResource": result.composite,
        "composedResources": [resource.object for resource in result.resources],
        "deletedResources": [resource.object for resource in result.deleted],
        "events": [
            {"type": event.type, "reason": event.reason, "message": event.message}
            for event in result.events
        ],
        "requiredResources": source.requested_resources,
        "requiredSchemas": source.requested_schemas,
    }
    return {"meta": {}, "composite": output}
