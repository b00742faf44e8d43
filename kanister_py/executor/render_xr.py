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
    result_if_paused_or_deleted,
)
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.model import Composition
from kanister_py.core.compositions.pipeline import Observed
from kanister_py.core.kube.parts import namespace_of
from kanister_py.executor.run_pipeline import Engine, compose


class RenderInput(NamedTuple):
    """Input of a rendering. `xr` already has the defaults of its schema."""

    xr: Data
    composition: Composition
    observed: Sequence[Data] = ()
    xrd: Definition | None = None
    context: Data | None = None


def render(inputs: RenderInput, engine: Engine) -> Rendered:
    """Run one reconcile of an XR in memory."""
    legacy = inputs.xrd is not None and inputs.xrd.is_legacy
    check_composition(inputs.xr, inputs.composition, legacy=legacy)
    stopped = result_if_paused_or_deleted(inputs.xr)
    if stopped is not None:
        return stopped
    xr = prepare_xr(inputs.xr, inputs.composition, inputs.observed, legacy=legacy)
    observed = _with_connection_details(observed_for(xr, inputs.observed), engine, legacy=legacy)
    # As in `crossplane render`, objects of any kind may have a namespace here.
    engine = engine._replace(rules=ComposedRules(is_legacy=legacy, allows_duplicates=True))
    composed = compose(inputs.composition, observed, engine, context=inputs.context)
    was_selected = not names_composition(inputs.xr, inputs.composition, legacy=legacy)
    return rendered(xr, inputs.composition, composed, legacy=legacy, was_selected=was_selected)


def _with_connection_details(observed: Observed, engine: Engine, *, legacy: bool) -> Observed:
    """Add the connection details from the Secrets of observed objects and of a legacy XR."""
    namespace = namespace_of(observed.composite)

    def details_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
        place = connection_secret_of(obj, namespace)
        return (engine.source.fetch_secret(*place) if place else None) or {}

    details = {name: details_of(resource) for name, resource in observed.resources.items()}
    return observed._replace(
        connection_details=details_of(observed.composite) if legacy else {},
        resource_connection_details={name: values for name, values in details.items() if values},
    )
