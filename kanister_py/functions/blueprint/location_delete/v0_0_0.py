"""LocationDelete v0.0.0: objects of the Profile's store, by the beginning of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.kube.access import Access
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.repositories import store_of
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Args, Outputs


class LocationDeleteArgs(Args):
    """What LocationDelete takes."""

    artifact: str = Field(
        description="What the keys of the objects begin with, below the prefix of the Profile; "
        "the name of the bucket may stand in front. It is text, no folder: `a` deletes `ab` too.",
    )


class LocationDelete(Func):
    """Deletes all objects whose keys begin with a text, from where the run itself runs."""

    name = "LocationDelete"
    version: ClassVar = "v0.0.0"
    Args = LocationDeleteArgs
    Outputs = Outputs
    on_restart = OnRestart.REPEAT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        del args
        return []

    def exec(self, ctx: PhaseContext, params: Params, args: LocationDeleteArgs) -> None:
        location = store_of(ctx, params)
        key = location.key_of(args.artifact.removeprefix(location.bucket))
        store = ctx.stores.open(location)
        with ctx.idle():
            store.delete(until_cancelled(ctx, (each.key for each in store.list(key))))


def until_cancelled(ctx: PhaseContext, keys: Iterable[str]) -> Iterable[str]:
    """Give keys until the phase is to stop."""
    for key in keys:
        ctx.check_cancelled()
        yield key
