"""Selection of the Composition and the revision that a composite resource is composed with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kanister_py.controller.compositions.composition_index import CompositionIndex
from kanister_py.controller.compositions.reconciliation import Reconciliation
from kanister_py.controller.compositions.tasks import Kind
from kanister_py.controller.machine.events import NORMAL, PostEvent
from kanister_py.core.compositions.definitions import machinery_of
from kanister_py.core.compositions.model import Composition
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.revisions.policy import (
    CompositionSelection,
    RevisionFacts,
    UpdatePolicy,
    choose_composition,
    choose_composition_revision,
    selection_of,
)


class Selection(NamedTuple):
    """The composition that a composite resource uses; `revision` is empty without revisions."""

    composition: Composition
    name: str
    revision: str = ""


class CompositionSelector:
    """Selector of compositions for one kind of composite resource."""

    def __init__(
        self,
        compositions: CompositionIndex,
        kind: Kind,
        post_event: PostEvent,
        *,
        uses_revisions: bool,
    ) -> None:
        self._compositions = compositions
        self._kind = kind
        self._post_event = post_event
        self._uses_revisions = uses_revisions

    def select(self, run: Reconciliation) -> Selection:
        """Select a composition, and set the references to it in `run.machinery`."""
        kind = self._kind
        selection = selection_of(machinery_of(run.xr, legacy=kind.is_legacy))
        name = self._select_composition(selection)
        selected = [] if name == selection.composition else [f"Composition {name}"]
        if selected:
            run.machinery["compositionRef"] = {"name": name}
        revision = ""
        if self._uses_revisions:
            choice = choose_composition_revision(
                selection, kind.rules, name, self._candidates(selection, name)
            )
            if choice.selector is not None:
                selector = choice.selector or {"matchLabels": {}}
                run.machinery["compositionRevisionSelector"] = copy_json(selector)
            revision = choice.revision
            if revision != selection.revision:
                selected.append(f"composition revision {revision}")
                run.machinery["compositionRevisionRef"] = {"name": revision}
        if selected:
            message = f"Selected {' and '.join(selected)}"
            self._post_event(run.subject, NORMAL, "SelectComposition", message)
        composition = self._compositions.read(name, revision)
        self._set_connection_secret(run, composition)
        return Selection(composition, name, revision)

    def _select_composition(self, selection: CompositionSelection) -> str:
        rules = self._kind.rules
        name = rules.enforced_composition or selection.composition
        if not name and selection.selector is None:
            name = rules.default_composition
        named = self._compositions.composition(name) if name else None
        api_version, kind = self._kind.api_version, self._kind.kind
        candidates = (
            [named] if named is not None else self._compositions.compositions_for(api_version, kind)
        )
        return choose_composition(selection, rules, api_version, kind, candidates)

    def _candidates(
        self, selection: CompositionSelection, composition: str
    ) -> Sequence[RevisionFacts]:
        """List the revisions to choose from: under a Manual policy only the pinned one."""
        rules = self._kind.rules
        policy = rules.enforced_policy or selection.policy or rules.default_policy
        pinned = self._compositions.revision(selection.revision) if selection.revision else None
        if policy == UpdatePolicy.MANUAL and pinned is not None:
            return [pinned]
        return self._compositions.revisions(composition)

    def _set_connection_secret(self, run: Reconciliation, composition: Composition) -> None:
        namespace = composition.connection_secrets_namespace
        has_secret = spec_of(run.xr).get("writeConnectionSecretToRef")
        if self._kind.is_legacy and namespace and not has_secret:
            secret = {"namespace": namespace, "name": run.metadata["uid"]}
            run.machinery["writeConnectionSecretToRef"] = secret
