"""LocationDelete v0.0.0: deletion of objects of the Profile's store, by prefix."""

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
    """Arguments of LocationDelete."""

    artifact: str = Field(
        description="The prefix of the keys of the objects to delete, below the prefix of the "
        "Profile; may start with the name of the bucket. It is a text prefix, not a folder: `a` "
        "also deletes `ab`.",
    )


class LocationDelete(Func):
    """Deletes all objects of the Profile's store whose keys start with a given text.

    The objects are deleted from the process that runs the phase, without a pod.
    """

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
            store.delete(until_cancelled(ctx, (obj.key for obj in store.list(key))))


def until_cancelled(ctx: PhaseContext, keys: Iterable[str]) -> Iterable[str]:
    """Yield keys until the phase is cancelled."""
    for key in keys:
        ctx.check_cancelled()
        yield key
