"""Rendering of the arguments, references and artifacts of a phase."""

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
"""Separates our message from Kanister's. Replaced by a new line where there is space."""


class RenderFailed(UsageError, reason="RenderFailed"):
    """A template of a Blueprint cannot be rendered.

    The message has the place, the problem, the fix, and Kanister's message (`original`) for
    searching. `path` is the path of the text below the rendered value, `line` the line in the text,
    and `cause` the error of the engine.
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
        """Return the failure with Kanister's message for one of the `objects` of a phase."""
        original = f"could not render object reference {{{name}}}: {self.original}"
        return RenderFailed(self.where, self.why, original, self.path, self.cause)


class Origin(NamedTuple):
    """Origin of texts: their action, and their lines in a file.

    `phases` are the names of the phases. `place_of` returns `file:line` for a path in the action
    and a line of the text; None without a file.
    """

    action: str = ""
    phases: Sequence[str] = ()
    place_of: Callable[[Path, int], str] | None = None

    def where(self, path: Path, line: int = 0) -> str:
        """Describe a place, such as `backup/dump args.command[2] (blueprint.yaml:41)`."""
        root, relative = self.action, path
        if self.action and path[:1] == ("deferPhase",):
            root, relative = f"{self.action}/deferPhase", path[1:]
        elif self.action and path[:1] == ("phases",) and isinstance(path[1], int):
            root, relative = f"{self.action}/{self.phases[path[1]] or path[1]}", path[2:]
        place = " ".join(filter(None, (root, text_of_path(relative))))
        return f"{place} ({self.place_of(path, line)})" if self.place_of is not None else place


class Text(NamedTuple):
    """Execution of one text of a Blueprint with its parameters."""

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
        # Imported on demand: importing Jinja2 takes longer than most runs.
        from kanister_py.core.templates.jinja import compile_jinja

        return compile_jinja(self.template)


class Renderer(NamedTuple):
    """Renderer for the texts of one Blueprint.

    `effects` gives templates access to the outside. `limits` apply to all arguments of a phase
    together, to all its references, to all artifacts of an action, and to any other single text.
    `is_sure` is False if the engine is only a guess. `base` is the path of the rendered value in
    the action.
    """

    engine: Engine = Engine.GO
    effects: Effects = NO_EFFECTS
    limits: Limits = DEFAULT
    is_sure: bool = True
    origin: Origin = Origin()
    base: Path = ()
    budget: Budget | None = None

    def _with_shared_budget(self) -> Renderer:
        return self._replace(budget=Budget(self.limits)) if self.budget is None else self

    def at(self, path: Path) -> Renderer:
        """Return a renderer for the value at a path of the action."""
        return self._replace(base=path)

    def text(self, template: str, params: Params, path: Path = ()) -> str:
        """Render one text."""
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
        """Render all texts in a value, including keys; other values are unchanged.

        The result of a template is always text: `"{{ 3 }}"` is `"3"`.
        """
        if isinstance(value, str):
            return self.text(value, params, path)
        if isinstance(value, Mapping):
            return {
                self.text(key, params, (*path, key)): self.value(child, params, (*path, key))
                for key, child in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                self.value(member, params, (*path, index)) for index, member in enumerate(value)
            ]
        return value

    def args(self, args: Mapping[str, Any], params: Params, path: Path = ()) -> dict[str, Any]:
        """Render the arguments of a phase, including their names."""
        rendered = self._with_shared_budget().value(args, params, path)
        assert isinstance(rendered, dict)
        return rendered

    def references(
        self, objects: Mapping[str, Mapping[str, Any]], params: Params, path: Path = ()
    ) -> dict[str, dict[str, str]]:
        """Render the `objects` of a phase: references to Secrets and ConfigMaps."""
        rendered = {}
        shared = self._with_shared_budget()
        for name, reference in objects.items():
            try:
                rendered[name] = {
                    key: shared.text(_text_of(reference.get(key)), params, (*path, name, key))
                    for key in _REFERENCE_KEYS
                }
            except RenderFailed as error:
                raise error.as_reference(name) from None
        return rendered

    def artifacts(
        self, artifacts: Mapping[str, Mapping[str, Any]], params: Params, path: Path = ()
    ) -> dict[str, dict[str, Any]]:
        """Render the values of output artifacts. Their keys are not templates."""
        shared = self._with_shared_budget()
        rendered: dict[str, dict[str, Any]] = {}
        for name, artifact in artifacts.items():
            values, key_value = rendered.setdefault(name, {}), artifact.get("keyValue")
            if key_value is not None:
                values["keyValue"] = {
                    key: shared.text(_text_of(text), params, (*path, name, "keyValue", key))
                    for key, text in key_value.items()
                }
            if snapshot := artifact.get("kopiaSnapshot"):
                place = (*path, name, "kopiaSnapshot")
                values["kopiaSnapshot"] = shared.text(snapshot, params, place)
        return rendered

    def is_wanted(self, condition: str, params: Params, path: Path = ()) -> bool:
        """Return whether the `if` of a phase lets the phase run."""
        return not is_false(self.text(condition, params, path))


_REFERENCE_KEYS = ("apiVersion", "group", "resource", "kind", "name", "namespace")
_NO = frozenset({"", "false", "0", "<no value>"})


def is_false(condition: str) -> bool:
    """Return whether a rendered `if` skips its phase."""
    return condition.strip() in _NO


def _text_of(value: object) -> str:
    return "" if value is None else str(value)


def _original(error: TemplateError) -> str:
    """Return Kanister's message. For a missing key, it only contains the key."""
    if isinstance(error, KeyMissing):
        return f'Failed to render template: "{error.missing}" not found'
    return error.message
