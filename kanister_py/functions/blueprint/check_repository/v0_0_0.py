"""CheckRepository v0.0.0: whether a repository can be opened, and if not, why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from pydantic import Field

from kanister_py.core.errors import CommandFailed
from kanister_py.core.objects.access import Access
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.repositories import (
    HelperArgs,
    Repository,
    access_of_helper,
    helper_job,
    helper_pod,
    location_of,
    prefixed,
    repository_path,
)
from kanister_py.functions.blueprint.restic import NO_REPOSITORY, WRONG_PASSWORD
from kanister_py.ports.function import Func, OnRestart, Outputs, PhaseContext

_PREFIX: Final = "check-repository-"


class CheckRepositoryArgs(HelperArgs):
    """What CheckRepository takes."""

    backup_artifact_prefix: str = Field(
        description="Where the repository is in the Profile's bucket, whose name may stand in "
        "front.",
    )


class CheckRepositoryOutputs(Outputs):
    """What keeps a repository from being opened; both are `false` if nothing does."""

    password_incorrect: str
    repo_unavailable: str
    version: str


class CheckRepository(Func):
    """Tells whether a repository can be opened, in a new pod where the controller runs.

    A wrong key or a missing repository does not fail the phase: the outputs say so.
    """

    name = "CheckRepository"
    version: ClassVar = "v0.0.0"
    Args = CheckRepositoryArgs
    Outputs = CheckRepositoryOutputs
    on_restart = OnRestart.ADOPT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return access_of_helper(args)

    def exec(
        self, ctx: PhaseContext, params: Params, args: CheckRepositoryArgs
    ) -> Mapping[str, Any]:
        location = location_of(ctx, params)
        path = repository_path(args.backup_artifact_prefix, location)
        job = helper_job(_PREFIX, "", args)
        is_wrong = is_missing = False
        with helper_pod(ctx, params, self.name, job, {}) as target:
            try:
                with prefixed("Failed to list snapshots"):
                    Repository(ctx, location, path, args, target).latest_snapshots()
            except CommandFailed as error:
                is_wrong = WRONG_PASSWORD in error.message
                is_missing = not is_wrong and NO_REPOSITORY in error.message
                if not (is_wrong or is_missing):
                    raise
        return {
            "passwordIncorrect": str(is_wrong).lower(),
            "repoUnavailable": str(is_missing).lower(),
            "version": "v0.0.0",
        }
