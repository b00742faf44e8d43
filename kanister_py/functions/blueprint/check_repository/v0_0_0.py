"""CheckRepository v0.0.0: check whether a repository can be opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import CommandFailed
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.repositories import (
    REPOSITORY_PREFIX,
    HelperArgs,
    HelperFunc,
    place_of,
    prefixed,
)
from kanister_py.functions.blueprint.restic import NO_REPOSITORY, WRONG_PASSWORD
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Outputs


class CheckRepositoryArgs(HelperArgs):
    """Arguments of CheckRepository."""

    backup_artifact_prefix: str = REPOSITORY_PREFIX


class CheckRepositoryOutputs(Outputs):
    """Reasons why a repository cannot be opened; both are `false` if it can."""

    password_incorrect: str = Field(
        description="`true` if the encryption key is wrong, else `false`."
    )
    repo_unavailable: str = Field(
        description="`true` if there is no repository at the path, else `false`."
    )
    version: str = Field(description="The version of the function.")


class CheckRepository(HelperFunc):
    """Checks whether a repository can be opened, using a new pod in the controller's namespace.

    A wrong key or a missing repository does not fail the phase; the outputs report them.
    """

    name = "CheckRepository"
    version: ClassVar = "v0.0.0"
    Args = CheckRepositoryArgs
    Outputs = CheckRepositoryOutputs
    pod_prefix: ClassVar = "check-repository-"

    def exec(
        self, ctx: PhaseContext, params: Params, args: CheckRepositoryArgs
    ) -> Mapping[str, Any]:
        place = place_of(ctx, params, args.backup_artifact_prefix)
        is_wrong = is_missing = False
        with self.repository(ctx, params, args, place) as repository:
            try:
                with prefixed("Failed to list snapshots"):
                    repository.latest_snapshots()
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
