"""Two functions: one that knows nothing of versions, and one that has lived through some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py import Args, Func, OnRestart, Outputs, PhaseContext, VersionedFunc


class GreetArgs(Args):
    name: str = Field(description="Who is greeted")
    greeting: str = Field(default="Hello", description="How")


class GreetOutputs(Outputs):
    text: str = Field(description="The whole greeting")


class Greet(Func):
    """Say hello to somebody."""

    name = "Greet"
    Args = GreetArgs
    Outputs = GreetOutputs
    on_restart = OnRestart.REPEAT

    def exec(self, ctx: PhaseContext, params: Any, args: GreetArgs) -> Mapping[str, Any]:
        return {"text": f"{args.greeting}, {args.name}!"}


class NotifyV010Args(Args):
    to: str = Field(description="Who is told")
    text: str = Field(description="What they are told")
    retries: int = Field(default=0, description="How often a failed try is repeated")


class NotifyV010(Func):
    """Tell somebody something."""

    name = "Notify"
    Args = NotifyV010Args
    on_restart = OnRestart.REPEAT

    def exec(self, ctx: PhaseContext, params: Any, args: NotifyV010Args) -> Mapping[str, Any]:
        return {"told": args.to}


class NotifyV020Args(Args):
    recipient: str = Field(description="Who is told")
    text: str = Field(description="What they are told")
    retries: int = Field(default=3, description="How often a failed try is repeated")


class NotifyV020(Func, parent=NotifyV010):
    """Tell somebody something, and try again when they do not listen."""

    Args = NotifyV020Args

    def exec(self, ctx: PhaseContext, params: Any, args: NotifyV020Args) -> Mapping[str, Any]:
        return {"told": args.recipient}


class NotifyV030rc1(Func, parent=NotifyV020):
    """Tell somebody something, soon."""

    def exec(self, ctx: PhaseContext, params: Any, args: NotifyV020Args) -> Mapping[str, Any]:
        return {"told": args.recipient, "soon": True}


class Notify(VersionedFunc):
    """Tell somebody something."""

    name = "Notify"
    stable_version = "v0.2.0"
    versions: ClassVar = {
        "v0.1.0": NotifyV010,
        "v0.2.0": NotifyV020,
        "v0.3.0-rc.1": "acme_functions:NotifyV030rc1",
    }
    lifecycle: ClassVar = {
        "releases": [
            {"version": "1.0.0", "date": "2026-01-15"},
            {"version": "1.1.0", "date": "2026-05-01"},
            {"version": "1.2.0", "date": "2026-09-01"},
            {"version": "1.3.0", "date": "2027-01-15"},
        ],
        "versions": {
            "v0.0.1": {
                "since": "1.0.0",
                "deprecatedIn": "1.0.0",
                "removedIn": "1.2.0",
                "replacement": "v0.2.0",
            },
            "v0.1.0": {
                "since": "1.0.0",
                "deprecatedIn": "1.1.0",
                "removedIn": "1.3.0",
                "replacement": "v0.2.0",
                "renamedArgs": {"to": "recipient"},
                "message": "it tries only once",
            },
            "v0.2.0": {"since": "1.1.0"},
            "v0.3.0-rc.1": {"since": "1.2.0"},
        },
    }
