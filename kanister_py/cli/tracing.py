"""Tracing: the one flag that switches it on, and what else does."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

HELP = (
    "send a span of each run, phase, step, round and call over OTLP, to where the OTEL_* "
    "variables say; also switched on by OTEL_TRACES_EXPORTER=otlp; wants kanister-py[otel]"
)


def add_tracing_argument(group: Any) -> None:
    group.add_argument("--tracing", action="store_true", help=HELP)


def traced_as_asked(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Trace a command that was asked to; nothing is loaded for all others."""
    wanted = getattr(args, "tracing", None)
    if wanted is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return nullcontext()
    if not wanted and os.environ.get("OTEL_TRACES_EXPORTER") != "otlp":
        return nullcontext()
    from kanister_py.wiring import traced

    return traced()
