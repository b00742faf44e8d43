"""CheckRepository v0.1.0: check whether a repository can be opened and is undamaged."""

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
    """Arguments of CheckRepository from v0.1.0 on."""

    backup_artifact_prefix: str = REPOSITORY_PREFIX
    namespace: str = Field(
        default="",
        description="The namespace in which the pod runs; by default, the namespace of the "
        "controller.",
    )
    read_data: str = Field(
        default="",
        pattern=r"^$|^[0-9]+(\.[0-9]+)?%$|^[0-9]+/[0-9]+$|^[0-9]+[KMGT]$",
        description="The share of the data to read and verify against its checksums: a random "
        "sample such as `5%` or `2G`, or a fixed part such as `1/7`. By default, no data is "
        "read and only the structure of the repository is checked.",
    )

    @field_validator("read_data")
    @classmethod
    def _check_data_subset(cls, text: str) -> str:
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
    """Problems of a repository; all are `false` if there are none."""

    damaged: str = Field(
        description="`true` if the structure or the data of the repository is damaged, else "
        "`false`."
    )


class CheckRepositoryV010(Func, parent=CheckRepository):
    """Checks whether a repository can be opened and is undamaged, using a new pod.

    A wrong key and a missing or damaged repository do not fail the phase; the outputs report
    them, and the log contains restic's findings about damage. An error of the object store
    fails the phase.
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
            wrong = _find_problems(ctx, repository, args)
        return {
            "passwordIncorrect": str(wrong == "key").lower(),
            "repoUnavailable": str(wrong == "repository").lower(),
            "damaged": str(wrong == "data").lower(),
            "version": "v0.1.0",
        }


def _find_problems(
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
