"""Wait v0.0.0: conditions that are templates with JSONPaths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from kanister_py.core.kube.access import Access
from kanister_py.core.kube.jsonpath import parse_jsonpath
from kanister_py.core.templates.engines import Engine, blueprint_functions
from kanister_py.core.templates.execution import execute
from kanister_py.core.templates.params import Params
from kanister_py.core.yaml.documents import Path
from kanister_py.functions.blueprint.conditions import (
    Condition,
    WaitArgs,
    access_of,
    fetch_of,
    rendered,
    seconds_of,
    wait_for,
)
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.limits import Budget, Limits
from kanister_py.gotemplate.template import compile_template
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Outputs

_JSONPATH: Final = re.compile(r"\{\s*\$([^}]*)\}")


class Wait(Func):
    """Waits until Kubernetes objects meet conditions. WaitV2 is simpler to use.

    A condition is a template. First, every `{ $.path }` in it is replaced by the value of
    that JSONPath in the object. The resulting text is then rendered as a Go template, with
    the functions of sprig and without data. The condition holds if the result is `true`.
    Values must therefore be quoted in the template, as in `{{ if eq "{ $.status.phase }"
    "Bound" }}true{{ end }}`, and variables cannot be used.

    A missing object, a path without a value and a failed template count as not met yet; the
    error contains them if the time limit is reached. The arguments are also rendered once at
    the start, so that a mistake in them fails the phase at once. Objects are watched, not
    polled. A phase that is resumed after a restart starts its wait again.
    """

    name = "Wait"
    version: ClassVar = "v0.0.0"
    Args = WaitArgs
    Outputs = Outputs
    on_restart = OnRestart.REPEAT
    renders_own_args = True

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        return access_of(args)

    def exec(self, ctx: PhaseContext, params: Params, args: WaitArgs) -> None:
        seconds = seconds_of(self.name, self._rendered_timeout(ctx, params, args))

        def check(condition: Condition, path: Path) -> bool:
            reference = rendered(
                ctx, params, condition.object_reference, (*path, "objectReference")
            )
            fetched = fetch_of(ctx, reference)
            return self._says_true(ctx, condition.condition, fetched)

        wait_for(ctx, args.conditions, seconds, check)

    def _rendered_timeout(self, ctx: PhaseContext, params: Params, args: WaitArgs) -> str:
        """Render all arguments to find mistakes early, though conditions need an object."""
        values: dict[str, Any] = args.model_dump(by_alias=True)
        if ctx.renderer.engine is not Engine.GO:
            # Conditions are always Go templates, even if the blueprint uses another engine.
            values = {"timeout": values["timeout"]}
        return str(ctx.renderer.value(values, params)["timeout"])

    def _says_true(self, ctx: PhaseContext, condition: str, obj: KubeObject) -> bool:
        def value(match: re.Match[str]) -> str:
            return parse_jsonpath(f"{{{match[1].strip()}}}").render(obj)

        text = _JSONPATH.sub(value, condition)
        rendered = execute(_Condition(text), ctx.renderer.effects, ctx.renderer.limits)
        return rendered.strip() == "true"


class _Condition(NamedTuple):
    """Execution of a condition whose JSONPaths have been replaced by values."""

    text: str
    is_costly: bool = False

    def run(self, effects: Effects, limits: Limits, budget: Budget | None) -> str:
        template = compile_template(self.text, blueprint_functions(), missing_key="zero")
        return template.execute(None, effects, limits, budget)
