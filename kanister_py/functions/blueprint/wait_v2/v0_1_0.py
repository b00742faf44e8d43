"""WaitV2 v0.1.0: like v0.0.0, but conditions that can never hold fail at once."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.engines import blueprint_functions
from kanister_py.core.templates.errors import TemplateParseError
from kanister_py.core.templates.params import Params
from kanister_py.core.yaml.documents import Path
from kanister_py.functions.blueprint.conditions import (
    KUBECTL,
    Condition,
    WaitArgs,
    fetch_of,
    paths_of,
    rendered,
    seconds_of,
    wait_for,
)
from kanister_py.functions.blueprint.wait_v2.v0_0_0 import WaitV2, says_true
from kanister_py.gotemplate.functions import FunctionTable
from kanister_py.gotemplate.template import compile_template
from kanister_py.ports.function import Func, PhaseContext


class WaitV2V010(Func, parent=WaitV2):
    """Waits until Kubernetes objects meet conditions that are Go templates.

    Like v0.0.0, with these differences: `timeout` may contain templates of the blueprint.
    Conditions can call the functions of sprig. A condition that cannot be parsed or a
    reference that cannot be rendered fails the phase at once. A condition of `anyOf` that
    cannot be evaluated yet does not prevent the evaluation of the others.
    """

    version: ClassVar = "v0.1.0"
    condition_functions = ("*", *sorted(KUBECTL))

    def exec(self, ctx: PhaseContext, params: Params, args: WaitArgs) -> None:
        timeout = ctx.renderer.text(args.timeout, params, ("timeout",))
        references = {}
        for condition, path in paths_of(args.conditions):
            try:
                compile_template(condition.condition, _functions(), name="output")
            except TemplateParseError as error:
                raise UsageError(error.message, reason=error.reason) from error
            at = (*path, "objectReference")
            references[path] = rendered(ctx, params, condition.object_reference, at)

        def check(condition: Condition, path: Path) -> bool:
            fetched = fetch_of(ctx, references[path])
            return says_true(ctx, condition.condition, fetched, _functions)

        wait_for(
            ctx,
            args.conditions,
            seconds_of(self.name, timeout),
            check,
            goes_on_after_failure=True,
        )


@cache
def _functions() -> FunctionTable:
    return blueprint_functions().extended(KUBECTL)
