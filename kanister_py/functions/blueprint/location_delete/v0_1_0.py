"""LocationDelete v0.1.0: deletion of an object or a folder of the Profile's store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.location_delete.v0_0_0 import LocationDelete, until_cancelled
from kanister_py.functions.blueprint.repositories import store_of
from kanister_py.ports.function import Func, PhaseContext
from kanister_py.ports.models import Args, Outputs


class LocationDeleteArgsV010(Args):
    """Arguments of LocationDelete from v0.1.0 on."""

    artifact: str = Field(
        min_length=1,
        description="The object or folder to delete, below the prefix of the Profile. A folder "
        "is deleted with its contents. The path may start with the name of the bucket as a "
        "folder.",
    )


class LocationDeleteOutputs(Outputs):
    """Outputs of LocationDelete."""

    deleted: str = Field(description="The number of deleted objects.")


class LocationDeleteV010(Func, parent=LocationDelete):
    """Deletes an object of the Profile's store, or a folder with its contents.

    Like v0.0.0, except that `a` deletes `a` and `a/b` but not `ab`, and a path that denotes
    the whole bucket or the whole prefix is rejected.
    """

    version: ClassVar = "v0.1.0"
    Args = LocationDeleteArgsV010
    Outputs = LocationDeleteOutputs

    def exec(
        self, ctx: PhaseContext, params: Params, args: LocationDeleteArgsV010
    ) -> Mapping[str, Any]:
        location = store_of(ctx, params)
        path = args.artifact.removeprefix(f"{location.bucket}/").strip("/")
        key = location.key_of(path)
        if not path or path == location.bucket or key == location.key_of(""):
            raise UsageError(
                f"Artifact {args.artifact!r} names no object and no folder",
                reason="InvalidArguments",
            )
        store = ctx.stores.open(location)
        count = (
            obj.key for obj in store.list(key) if obj.key == key or obj.key.startswith(f"{key}/")
        )
        with ctx.idle():
            deleted = store.delete(until_cancelled(ctx, count))
        return {"deleted": str(deleted)}
