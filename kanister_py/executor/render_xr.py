"""Rendering of XRs without a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.compositions.definitions import Definition
from kanister_py.core.compositions.desired import ComposedRules, connection_secret_of
from kanister_py.core.compositions.dry_run import (
    Rendered,
    check_composition,
    names_composition,
    observed_for,
    prepare_xr,
    rendered,
    result_without_composing,
)
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.model import Composition
from kanister_py.core.compositions.pipeline import Observed
from kanister_py.core.kube.parts import namespace_of
from kanister_py.executor.run_pipeline import Engine, compose


class RenderInput(NamedTuple):
    """Input of a rendering. `xr` has its schema's defaults already."""

    xr: Data
    composition: Composition
    observed: Sequence[Data] = ()
    xrd: Definition | None = None
    context: Data | None = None


def render(given: RenderInput, engine: Engine) -> Rendered:
    """Run one reconcile of an XR; nothing remains of it but what it gives back."""
    legacy = given.xrd is not None and given.xrd.is_legacy
    check_composition(given.xr, given.composition, legacy=legacy)
    stopped = result_without_composing(given.xr)
    if stopped is not None:
        return stopped
    xr = prepare_xr(given.xr, given.composition, given.observed, legacy=legacy)
    observed = _with_connection_details(observed_for(xr, given.observed), engine, legacy=legacy)
    # As the original does here: whatever the kind, an object may stand in a namespace.
    engine = engine._replace(rules=ComposedRules(is_legacy=legacy, allows_twins=True))
    composed = compose(given.composition, observed, engine, context=given.context)
    was_selected = not names_composition(given.xr, given.composition, legacy=legacy)
    return rendered(xr, given.composition, composed, legacy=legacy, was_selected=was_selected)


def _with_connection_details(observed: Observed, engine: Engine, *, legacy: bool) -> Observed:
    """Add what Secrets hold that observed objects, or an XR of the old layout, name as theirs."""
    namespace = namespace_of(observed.composite)

    def details_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
        place = connection_secret_of(obj, namespace)
        return (engine.source.fetch_secret(*place) if place else None) or {}

    found = {name: details_of(each) for name, each in observed.resources.items()}
    return observed._replace(
        connection_details=details_of(observed.composite) if legacy else {},
        resource_connection_details={name: each for name, each in found.items() if each},
    )
