"""function-auto-ready v0.2.0: as v0.1.0, but it also says what is not ready."""

from __future__ import annotations

from kanister_py.functions.composition.answering import Data
from kanister_py.functions.composition.auto_ready.health import verdict_of
from kanister_py.functions.composition.auto_ready.v0_1_0 import AutoReady


class AutoReadyV020(AutoReady):
    """Say of composed resources whether they are ready, where nobody else has said anything.

    As v0.1.0, but what a kind's own status says is the verdict, yes or no: a condition
    Ready beside it does not make a Deployment ready whose pods are not. Of other kinds the
    condition Ready says it, either way; where there is neither, nothing is said.
    """

    version = "v0.2.0"

    def own_verdict(self, resource: Data) -> bool | None:
        return verdict_of(resource)
