"""CheckRepository v0.1.0: whether a repository can be opened, and whether it is whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import Field, field_validator

from kanister_py.core.errors import CommandFailed
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.check_repository.v0_0_0 import (
    CheckRepository,
    CheckRepositoryOutputs,
)
from kanister_py.functions.blueprint.keyed_repository import (
    HelperPod,
    KeyedArgs,
    KeyedRepository,
    repository_in_pod,
)
from kanister_py.functions.blueprint.repositories import REPOSITORY_PREFIX, place_of
from kanister_py.functions.blueprint.restic import is_damaged, is_missing
from kanister_py.ports.function import Func, PhaseContext

_MOST_PARTS: Final = 256


class CheckRepositoryArgsV010(KeyedArgs):
    """What CheckRepository takes from v0.1.0 on."""

    backup_artifact_prefix: str = REPOSITORY_PREFIX
    namespace: str = Field(
        default="", description="Where the pod runs; left out, where the controller does."
    )
    read_data: str = Field(
        default="",
        pattern=r"^$|^[0-9]+(\.[0-9]+)?%$|^[0-9]+/[0-9]+$|^[0-9]+[KMGT]$",
        description="How much of the data is read and compared with its checksums: `5%` or `2G`, "
        "by chance, or a part such as `1/7`; left out, none, and only the structure is checked.",
    )

    @field_validator("read_data")
    @classmethod
    def _is_some_of_it(cls, text: str) -> str:
        part, _, parts = text.partition("/")
        if text.endswith("%"):
            holds = 0 < float(part[:-1]) <= 100
        elif parts:
            holds = 1 <= int(part) <= int(parts) <= _MOST_PARTS
        else:
            holds = not text or int(text[:-1]) > 0
        if not holds:
            raise ValueError(f"must be above 0% up to 100%, or from 1/n up to n/n of {_MOST_PARTS}")
        return text


class CheckRepositoryOutputsV010(CheckRepositoryOutputs):
    """What is wrong with a repository; all are `false` if nothing is."""

    damaged: str


class CheckRepositoryV010(Func, parent=CheckRepository):
    """Tells whether a repository can be opened and is whole, in a new pod.

    A wrong key, a missing or a damaged repository does not fail the phase: the outputs say
    so. What restic found stands in the log. A store that fails does.
    """

    version: ClassVar = "v0.1.0"
    Args = CheckRepositoryArgsV010
    Outputs = CheckRepositoryOutputsV010

    def exec(
        self, ctx: PhaseContext, params: Params, args: CheckRepositoryArgsV010
    ) -> Mapping[str, Any]:
        place, helper = (
            place_of(ctx, params, args.backup_artifact_prefix),
            HelperPod(args.namespace),
        )
        with repository_in_pod(ctx, params, self.name, args, place, helper) as repository:
            wrong = _what_is_wrong(ctx, repository, args)
        return {
            "passwordIncorrect": str(wrong == "key").lower(),
            "repoUnavailable": str(wrong == "repository").lower(),
            "damaged": str(wrong == "data").lower(),
            "version": "v0.1.0",
        }


def _what_is_wrong(
    ctx: PhaseContext, repository: KeyedRepository, args: CheckRepositoryArgsV010
) -> str:
    sample = [f"--read-data-subset={args.read_data}"] if args.read_data else []
    try:
        repository.run("cat", "config")
        repository.run("check", *sample)
    except CommandFailed as error:
        if "does not open" in error.message:
            return "key"
        if is_missing(error.message):
            return "repository"
        if not is_damaged(error.message):
            raise
        ctx.log(error.message)
        return "data"
    return ""
