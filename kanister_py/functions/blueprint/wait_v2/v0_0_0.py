"""WaitV2 v0.0.0: conditions that are Go templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from kanister_py.core.kube.access import Access
from kanister_py.core.templates.errors import TemplateParseError
from kanister_py.core.templates.execution import execute
from kanister_py.core.templates.params import Params
from kanister_py.core.yaml.documents import Path
from kanister_py.functions.blueprint.conditions import (
    KUBECTL,
    KUBECTL_FUNCTIONS,
    Condition,
    WaitArgs,
    access_of,
    as_kubectl_sees,
    fetch_of,
    rendered,
    seconds_of,
    wait_for,
)
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.functions import FunctionTable
from kanister_py.gotemplate.limits import Budget, Limits
from kanister_py.gotemplate.template import compile_template
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Outputs


class WaitV2(Func):
    """Waits until Kubernetes objects meet conditions that are Go templates.

    A condition is a Go template as in `kubectl get -o go-template`, with the object as `.`
    and `$`: `{{ if eq .status.phase "Bound" }}true{{ end }}`. It holds if it renders to
    `true`. It can call Go's built-in functions, `exists` and `base64decode`, and has no
    access to the ActionSet. A missing key is `<no value>`, and every number is a float64:
    compare with `1.0`.

    An `objectReference` may contain templates of the blueprint; `timeout` may not. A template
    that cannot be parsed never holds. A template that fails, a missing object and a reference
    that cannot be rendered count as not met yet; the error contains them if the time limit is
    reached. Objects are watched, not polled. A phase that is resumed after a restart starts
    its wait again.
    """

    name = "WaitV2"
    version: ClassVar = "v0.0.0"
    Args = WaitArgs
    Outputs = Outputs
    on_restart = OnRestart.REPEAT
    renders_own_args = True
    condition_functions = tuple(sorted(KUBECTL))

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        return access_of(args)

    def exec(self, ctx: PhaseContext, params: Params, args: WaitArgs) -> None:
        def check(condition: Condition, path: Path) -> bool:
            reference = rendered(
                ctx, params, condition.object_reference, (*path, "objectReference")
            )
            fetched = fetch_of(ctx, reference)
            try:
                return says_true(ctx, condition.condition, fetched, kubectl_functions)
            except TemplateParseError:
                return False

        wait_for(ctx, args.conditions, seconds_of(self.name, args.timeout), check)


def says_true(
    ctx: PhaseContext,
    condition: str,
    obj: KubeObject,
    functions: Callable[[], FunctionTable],
) -> bool:
    """Return True if a condition holds for an object."""
    execution = _Condition(condition, obj, functions)
    rendered = execute(execution, ctx.renderer.effects, ctx.renderer.limits)
    return rendered.strip() == "true"


class _Condition(NamedTuple):
    """Execution of a condition for an object."""

    text: str
    obj: KubeObject
    functions: Callable[[], FunctionTable]
    is_costly: bool = False

    def run(self, effects: Effects, limits: Limits, budget: Budget | None) -> str:
        template = compile_template(
            self.text, self.functions(), name="output", missing_key="default"
        )
        return template.execute(as_kubectl_sees(self.obj), effects, limits, budget)


def kubectl_functions() -> FunctionTable:
    """Return the functions of kubectl's templates in addition to Go's built-in ones."""
    return KUBECTL_FUNCTIONS
