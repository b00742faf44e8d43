"""What did each step of a pipeline get, what did it give, and what changed by it?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kanister_py.cli.output import paint
from kanister_py.core.compositions.masking import masked_message
from kanister_py.executor.recording import Record


def trace_of(record: Record, *, show_secrets: bool) -> dict[str, Any]:
    """Give one call as data."""
    call = record.call
    xr = (call.request.observed.data.get("composite") or {}).get("resource") or {}
    data: dict[str, Any] = {
        "composite": (xr.get("metadata") or {}).get("name"),
        "step": call.step,
        "function": call.revision.function,
        "revision": call.revision.name,
        "seconds": round(record.seconds, 6),
        "request": call.request.as_data(),
    }
    if record.response is not None:
        data["calls"] = record.response.calls
        data["response"] = record.response.as_data()
    if record.error is not None:
        data["error"] = {"reason": record.error.reason, "message": record.error.message}
    masked: dict[str, Any] = data if show_secrets else masked_message(data)
    if record.response is not None:
        before, after = masked["request"]["desired"], masked["response"]["desired"]
        masked["desiredDiff"] = _diff(before, after)
    return masked


def trace_lines(record: Record, *, show_secrets: bool) -> Iterator[str]:
    """Tell one call to people."""
    import sys

    from kanister_py.core.objects.documents import dump_yaml

    data = trace_of(record, show_secrets=show_secrets)
    calls = data.get("calls", 0)
    how = "kept from before" if calls == 0 else f"{calls} call{'s' if calls != 1 else ''}"
    if record.error is not None:
        how = "failed"
    took = f"{record.seconds * 1000:.1f} ms, {how}"
    title = f"step {data['step']}: {data['function']} ({data['revision']}), {took}"
    yield paint(f"── {title}", "bold", sys.stderr)
    for key in ("request", "response", "error"):
        if key in data:
            yield f"{key}:"
            yield from (f"  {line}" for line in dump_yaml(data[key]).splitlines())
    if "desiredDiff" in data:
        yield "desired, against the step before:" if data["desiredDiff"] else "desired: unchanged"
        colours = {"+": "green", "-": "red"}
        for line in data["desiredDiff"]:
            colour = colours.get(line[:1])
            yield f"  {paint(line, colour, sys.stderr) if colour else line}"


def _diff(before: Any, after: Any) -> list[str]:
    if before == after:
        return []
    import difflib

    from kanister_py.core.objects.documents import dump_yaml

    old, new = ([] if not each else dump_yaml(each).splitlines() for each in (before, after))
    return list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
