"""Step conditions (`when`, in CEL)."""

from __future__ import annotations

from kanister_py.core.compositions.pipeline import PipelineState
from kanister_py.core.objects.cel.errors import CelError


def why_not_due(when: str, state: PipelineState) -> str:
    """Say why a step is left out, by what CEL makes of its `when`; empty if its turn has come.

    The expression sees `observed`, `desired` and `context` as a function would; maps of
    resources in which there is nothing are there for it, and empty.
    """
    if not when or when == "true":
        return ""
    if when == "false":
        return "its when is false"
    from kanister_py.core.objects.cel.expression import compile_cel

    said = compile_cel(when).evaluate(
        {
            "observed": {"resources": {}, **state.observed.data},
            "desired": {"composite": {}, "resources": {}, **state.desired.data},
            "context": state.context.data,
        }
    )
    if not isinstance(said, bool):
        raise CelError(when, f"it must say true or false, and says {said!r}")
    return "" if said else f"its when is false: {when}"
