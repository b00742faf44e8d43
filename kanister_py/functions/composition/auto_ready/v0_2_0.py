"""function-auto-ready v0.2.0: like v0.1.0, but resources are also marked as not ready."""

from __future__ import annotations

from kanister_py.functions.composition.answering import Data
from kanister_py.functions.composition.auto_ready.health import verdict_of
from kanister_py.functions.composition.auto_ready.v0_1_0 import AutoReady


class AutoReadyV020(AutoReady):
    """Marks composed resources as ready or not ready if no earlier step has set their readiness.

    Like v0.1.0, except that the status of a built-in kind decides in both directions: a
    condition Ready does not make a Deployment ready whose pods are not ready. For other kinds
    the condition Ready decides in both directions. A resource with neither is not marked.
    """

    version = "v0.2.0"

    def own_verdict(self, resource: Data) -> bool | None:
        return verdict_of(resource)
