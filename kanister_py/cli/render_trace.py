"""Traces of a pipeline: requests, responses and changes of each step."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kanister_py.cli.output import Line, Tint
from kanister_py.core.compositions.masking import masked_message
from kanister_py.core.yaml.documents import dump_yaml
from kanister_py.executor.run_pipeline import Record

if TYPE_CHECKING:
    from kanister_py.core.compositions.dry_run import Rendered
    from kanister_py.core.compositions.messages import Data
    from kanister_py.core.compositions.model import Composition
    from kanister_py.core.errors import KanisterError


def traces_of(
    composition: Composition, result: Rendered, records: Sequence[Record], *, show_secrets: bool
) -> Iterator[Data]:
    """Yield the steps of one XR's pipeline as data, in order and including skipped steps."""
    settings = {step.name: step.settings for step in composition.steps}
    called = {record.call.step: record for record in records}
    for outcome in result.outcomes:
        data: Data = {
            "composite": result.composite["metadata"].get("name"),
            "step": outcome.step,
            "function": outcome.function,
        }
        if settings.get(outcome.step):
            data["settings"] = settings[outcome.step]
        record = called.get(outcome.step)
        if record is not None:
            data |= _call(record, show_secrets=show_secrets)
        elif outcome.skipped:
            data["skipped"] = outcome.skipped
        elif result.error is not None:
            data["error"] = _error(result.error)
        yield data


def _call(record: Record, *, show_secrets: bool) -> Data:
    call = record.call
    data: Data = {
        "revision": call.revision.name,
        "seconds": round(record.seconds, 6),
        "request": call.request.as_data(),
    }
    if record.response is not None:
        data["calls"] = record.response.calls
        data["response"] = record.response.as_data()
    if record.error is not None:
        data["error"] = _error(record.error)
    masked: Data = data if show_secrets else masked_message(data)
    if record.response is not None:
        before, after = masked["request"]["desired"], masked["response"]["desired"]
        masked["desiredDiff"] = _diff(before, after)
    return masked


def _error(error: KanisterError) -> Data:
    return {"reason": error.reason, "message": error.message}


def trace_lines(data: Data) -> Iterator[Line]:
    """Yield the lines that show the trace of one step."""
    title = f"step {data['step']}: {data['function']}"
    if "revision" in data:
        title += f" ({data['revision']}), {data['seconds'] * 1000:.1f} ms"
    yield Tint(f"── {title}, {_outcome(data)}", "bold")
    for key in ("settings", "request", "response", "error"):
        if key in data:
            yield f"{key}:"
            yield from (f"  {line}" for line in dump_yaml(data[key]).splitlines())
    if "desiredDiff" in data:
        yield (
            "desired, compared with the previous step:"
            if data["desiredDiff"]
            else "desired: unchanged"
        )
        colours = {"+": "green", "-": "red"}
        for line in data["desiredDiff"]:
            yield ["  ", Tint(line, colours.get(line[:1], ""))]


def _outcome(data: Data) -> str:
    if "skipped" in data:
        return f"skipped: {data['skipped']}"
    if "error" in data:
        return "failed"
    calls = data["calls"]
    return f"{calls} call{'s' if calls != 1 else ''}" if calls else "cached"


def _diff(before: Any, after: Any) -> list[str]:
    if before == after:
        return []

    old, new = ([] if not state else dump_yaml(state).splitlines() for state in (before, after))
    return list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
