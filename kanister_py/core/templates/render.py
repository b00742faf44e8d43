"""Rendering of the args, references and artifacts of a phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.engines import Engine, blueprint_functions, is_template
from kanister_py.core.templates.errors import TemplateError, TemplateParseError
from kanister_py.core.templates.execution import execute
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.wording import explain, explain_unreadable
from kanister_py.core.yaml.documents import Path, text_of_path
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.gotemplate.errors import KeyMissing
from kanister_py.gotemplate.limits import DEFAULT, Budget, Limits
from kanister_py.gotemplate.template import compile_template

if TYPE_CHECKING:
    from kanister_py.core.templates.jinja import JinjaTemplate

ORIGINAL: Final = "; in Kanister's words: "
"""Stands in a message before what Kanister would say; where there is room, a new line."""


class RenderFailed(UsageError, reason="RenderFailed"):
    """A template of a blueprint cannot be rendered.

    The message names the place, what is wrong there and what would be right; what
    Kanister says of it, `original`, follows for searching. `path` is where the template
    stands below what was rendered, `line` the place inside it, `cause` the error of
    its engine.
    """

    def __init__(
        self, where: str, why: str, original: str, path: str, cause: TemplateError
    ) -> None:
        message = why if original in why else f"{why}{ORIGINAL}{original}"
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where
        self.why = why
        self.original = original
        self.path = path
        self.cause = cause
        self.line = cause.line

    def as_reference(self, name: str) -> RenderFailed:
        """Give the failure as Kanister words it for one of a phase's `objects`."""
        original = f"could not render object reference {{{name}}}: {self.original}"
        return RenderFailed(self.where, self.why, original, self.path, self.cause)


class Origin(NamedTuple):
    """Origin of texts: their action, and their lines in a file.

    `phases` are the names of its phases; `place_of` says `file:line` of a path inside
    the action and a line of the text there, and is None where there is no file.
    """

    action: str = ""
    phases: Sequence[str] = ()
    place_of: Callable[[Path, int], str] | None = None

    def where(self, path: Path, line: int = 0) -> str:
        """Name a place as in `backup/dump args.command[2] (blueprint.yaml:41)`."""
        root, rest = self.action, path
        if self.action and path[:1] == ("deferPhase",):
            root, rest = f"{self.action}/deferPhase", path[1:]
        elif self.action and path[:1] == ("phases",) and isinstance(path[1], int):
            root, rest = f"{self.action}/{self.phases[path[1]] or path[1]}", path[2:]
        place = " ".join(filter(None, (root, text_of_path(rest))))
        return f"{place} ({self.place_of(path, line)})" if self.place_of is not None else place


class Text(NamedTuple):
    """One text of a blueprint and the params that it is rendered over, as an execution."""

    engine: Engine
    template: str
    params: Params

    @property
    def is_costly(self) -> bool:
        return self.engine is Engine.JINJA2 and self._jinja().is_costly

    def run(self, effects: Effects, limits: Limits, budget: Budget | None) -> str:
        if self.engine is Engine.GO:
            compiled = compile_template(self.template, blueprint_functions())
            return compiled.execute(self.params.root, effects, limits, budget)
        return self._jinja().execute(self.params, effects, limits)

    def _jinja(self) -> JinjaTemplate:
        # Jinja2 takes longer to import than most runs take; they do without it.
        from kanister_py.core.templates.jinja import compile_jinja

        return compile_jinja(self.template)


class Renderer(NamedTuple):
    """Renderer of texts over params, in the language of one blueprint.

    What it is handed of the world is `effects`. How much it may do in this process
    (`limits`) holds for all args of a phase together, all its references, all artifacts
    of an action, and for any other text by itself. `is_sure` unless the language is only
    the likelier one. `base` leads from the action to what is rendered.
    """

    engine: Engine = Engine.GO
    effects: Effects = NO_EFFECTS
    limits: Limits = DEFAULT
    is_sure: bool = True
    origin: Origin = Origin()
    base: Path = ()
    budget: Budget | None = None

    def _together(self) -> Renderer:
        return self._replace(budget=Budget(self.limits)) if self.budget is None else self

    def at(self, path: Path) -> Renderer:
        """Give a renderer for what stands at a path of the action."""
        return self._replace(base=path)

    def text(self, template: str, params: Params, path: Path = ()) -> str:
        """Say what one text means."""
        if not is_template(template, self.engine):
            return template
        try:
            return self._render(template, params)
        except TemplateError as error:
            if isinstance(error, TemplateParseError):
                why = explain_unreadable(error, template, self.engine, is_sure=self.is_sure)
            else:
                why = explain(error, lambda: params.roots)
            where = self.origin.where((*self.base, *path), error.line)
            failed = RenderFailed(where, why, _original(error), text_of_path(path), error)
            raise failed from None

    def _render(self, template: str, params: Params) -> str:
        text = Text(self.engine, template, params)
        return execute(text, self.effects, self.limits, self.budget)

    def value(self, value: Any, params: Params, path: Path = ()) -> Any:
        """Render every text inside a value, keys included; anything else stays what it is.

        What a template makes is text and is not read again: `"{{ 3 }}"` is `"3"`.
        """
        if isinstance(value, str):
            return self.text(value, params, path)
        if isinstance(value, Mapping):
            return {
                self.text(key, params, (*path, key)): self.value(each, params, (*path, key))
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(each, params, (*path, at)) for at, each in enumerate(value)]
        return value

    def args(self, args: Mapping[str, Any], params: Params, path: Path = ()) -> dict[str, Any]:
        """Render the args of a phase. The names of args are rendered too, as any key is."""
        rendered = self._together().value(args, params, path)
        assert isinstance(rendered, dict)
        return rendered

    def references(
        self, objects: Mapping[str, Mapping[str, Any]], params: Params, path: Path = ()
    ) -> dict[str, dict[str, str]]:
        """Render the `objects` of a phase: which Secrets and ConfigMaps it wants to see."""
        rendered = {}
        together = self._together()
        for name, reference in objects.items():
            try:
                rendered[name] = {
                    key: together.text(_text_of(reference.get(key)), params, (*path, name, key))
                    for key in _REFERENCE_KEYS
                }
            except RenderFailed as error:
                raise error.as_reference(name) from None
        return rendered

    def artifacts(
        self, artifacts: Mapping[str, Mapping[str, Any]], params: Params, path: Path = ()
    ) -> dict[str, dict[str, Any]]:
        """Render output artifacts: their values, never their keys."""
        together = self._together()
        rendered: dict[str, dict[str, Any]] = {}
        for name, artifact in artifacts.items():
            made, key_value = rendered.setdefault(name, {}), artifact.get("keyValue")
            if key_value is not None:
                made["keyValue"] = {
                    key: together.text(_text_of(each), params, (*path, name, "keyValue", key))
                    for key, each in key_value.items()
                }
            if snapshot := artifact.get("kopiaSnapshot"):
                place = (*path, name, "kopiaSnapshot")
                made["kopiaSnapshot"] = together.text(snapshot, params, place)
        return rendered

    def is_wanted(self, condition: str, params: Params, path: Path = ()) -> bool:
        """Say whether a phase's `if` lets it run."""
        return not is_no(self.text(condition, params, path))


_REFERENCE_KEYS = ("apiVersion", "group", "resource", "kind", "name", "namespace")
_NO = frozenset({"", "false", "0", "<no value>"})


def is_no(condition: str) -> bool:
    """Say whether a rendered `if` keeps its phase from running."""
    return condition.strip() in _NO


def _text_of(value: object) -> str:
    return "" if value is None else str(value)


def _original(error: TemplateError) -> str:
    """Say what went wrong as Kanister does: of a missing key, it names no more than the key."""
    if isinstance(error, KeyMissing):
        return f'Failed to render template: "{error.missing}" not found'
    return error.message
