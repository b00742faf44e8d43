"""What would a phase do: which version, with which args, to which objects?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kanister_py.core.blueprints.model import Phase
from kanister_py.core.blueprints.not_yet import NOT_YET_HERE
from kanister_py.core.blueprints.reads import Read, reads_of
from kanister_py.core.blueprints.texts import is_condition
from kanister_py.core.errors import KanisterError, TemplateError
from kanister_py.core.notices import Notice
from kanister_py.core.objects.access import Access, merged
from kanister_py.core.objects.documents import Path, text_of_path
from kanister_py.core.registry.choose import asked_version, choose_version
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.templates.engines import is_template
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer, RenderFailed
from kanister_py.core.versions.semver import Version


class Unknown(NamedTuple):
    """A text that cannot be known yet: it stays as the template it is.

    `after` names the phases whose output it reads, `why` what was lacking otherwise.
    """

    path: str
    after: tuple[str, ...]
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "after": list(self.after), "why": self.why}

    def __str__(self) -> str:
        reason = f"known after {' and '.join(self.after)}" if self.after else self.why
        return f"{self.path}: {reason}"


class PlannedPhase(NamedTuple):
    """A phase as it would run. `error` says why it could not."""

    name: str
    function: str
    version: str = ""
    why: str = ""
    condition: str = ""
    args: Mapping[str, Any] = {}
    unknown: tuple[Unknown, ...] = ()
    accesses: tuple[Access, ...] = ()
    notices: tuple[Notice, ...] = ()
    error: str = ""
    is_deferred: bool = False
    is_not_yet_here: bool = False

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "function": self.function}
        if self.is_deferred:
            data["deferred"] = True
        if self.is_not_yet_here:
            data["notYetHere"] = True
        data |= {"version": self.version, "why": self.why}
        if self.condition:
            data["if"] = self.condition
        data |= {
            "args": dict(self.args),
            "unknown": [each.as_dict() for each in self.unknown],
            "objects": [
                {
                    "verbs": list(each.verbs),
                    "group": each.group,
                    "resource": each.resource,
                    "namespace": each.namespace,
                    "name": each.name,
                }
                for each in self.accesses
            ],
            "notices": [each.as_dict() for each in self.notices],
        }
        if self.error:
            data["error"] = self.error
        return data


class Known(NamedTuple):
    """Everything that a plan goes by. `open` says why what stands under some names is not known."""

    registry: Registry[FunctionEntry]
    renderer: Renderer
    params: Params
    load: Callable[[FunctionEntry], type[Any]]
    preferred_version: str = ""
    at: Mapping[str, Version] = {}
    is_strict: bool = False
    open: Mapping[tuple[str, ...], str] = {}


def plan_phase(phase: Phase, known: Known, *, is_deferred: bool = False) -> PlannedPhase:
    """Say what a phase would do, as far as that can be known before earlier ones have run."""
    bare = PlannedPhase(phase.name, phase.func, is_deferred=is_deferred)
    rendering = _Rendering(known)
    try:
        condition = rendering.value(phase.if_ or "", ("if",))
        args = rendering.value(dict(phase.args), ("args",))
    except TemplateError as error:
        return bare._replace(error=error.message)
    bare = bare._replace(condition=condition, args=args, unknown=tuple(rendering.unknown))
    if phase.func not in known.registry and phase.func in NOT_YET_HERE:
        return bare._replace(why="It is not here yet, and cannot be run", is_not_yet_here=True)
    asked = asked_version(phase.func_version, known.preferred_version)
    try:
        choice = choose_version(
            known.registry,
            phase.func,
            asked,
            at=known.at,
            strict=known.is_strict,
            kind=FunctionKind.BLUEPRINT,
        )
        told = getattr(known.load(choice.chosen), "access", lambda _: None)(args)
    except KanisterError as error:
        return bare._replace(error=error.message)
    return bare._replace(
        version=str(choice.chosen.version),
        why=choice.why,
        accesses=tuple(merged(told or ())),
        notices=choice.notices,
    )


class _Rendering:
    """Renders what can be rendered, and notes what cannot."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.unknown: list[Unknown] = []

    def value(self, value: Any, path: Path) -> Any:
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, Mapping):
            return {
                self._text(key, (*path, key)): each
                if is_condition(value, key)
                else self.value(each, (*path, key))
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(each, (*path, at)) for at, each in enumerate(value)]
        return value

    def _text(self, text: str, path: Path) -> str:
        engine = self._known.renderer.engine
        if not is_template(text, engine):
            return text
        reads = reads_of(text, engine)
        after, why = _outputs_in(reads), _why_open(reads, self._known.open)
        if after or why:
            self.unknown.append(Unknown(text_of_path(path), after, why))
            return text
        try:
            return self._known.renderer.text(text, self._known.params, path)
        except RenderFailed as error:
            # It may be there when the action is run: whoever plans may have given less.
            self.unknown.append(Unknown(text_of_path(path), (), error.why))
            return text


def _why_open(reads: Iterable[Read], not_known: Mapping[tuple[str, ...], str]) -> str:
    """Say why something that is read is not known; nothing if all of it is."""
    for read in reads:
        for names, why in not_known.items():
            shared = min(len(names), len(read.names))
            if read.names[:shared] == names[:shared]:
                return why
    return ""


def _outputs_in(reads: Iterable[Read]) -> tuple[str, ...]:
    """Name the phases whose output is read, each once."""
    found: dict[str, None] = {}
    for read in reads:
        names = read.names
        if names[0] == "Phases" and (len(names) < 3 or names[2] == "Output"):
            found.setdefault(names[1] if len(names) > 1 else "earlier phases")
        elif names[0] == "DeferPhase" and names[1:2] in ((), ("Output",)):
            found.setdefault("the deferPhase")
    return tuple(found)
