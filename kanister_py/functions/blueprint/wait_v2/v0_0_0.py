"""WaitV2 v0.0.0: objects of the cluster, waited for by Go templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from kanister_py.core.kube.access import Access
from kanister_py.core.templates.errors import TemplateParseError
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
from kanister_py.gotemplate.functions import FunctionTable
from kanister_py.gotemplate.template import compile_template
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Outputs


class WaitV2(Func):
    """Waits until objects of the cluster are as templates over them say.

    A condition is a Go template as `kubectl get -o go-template` takes it, with the object
    as `.` and `$`: `{{ if eq .status.phase "Bound" }}true{{ end }}`. It holds if it says
    `true`. It may call Go's own functions, `exists` and `base64decode`; it sees nothing of
    the ActionSet. A key that is missing is `<no value>`, and every number is a float64:
    compare with `1.0`. An `objectReference` may have the blueprint's templates, `timeout`
    may not. A template that cannot be parsed never says `true`; one that fails, an object
    that is not there and a reference that cannot be rendered end that look, and stand in
    the error if the time runs out. Objects are watched, not asked for again and again. A
    phase that is taken up again after a restart waits from anew.
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
            found = fetch_of(ctx, reference)
            try:
                return says_true(ctx, condition.condition, found, KUBECTL_FUNCTIONS)
            except TemplateParseError:
                return False

        wait_for(ctx, args.conditions, seconds_of(self.name, args.timeout), check)


def says_true(
    ctx: PhaseContext, condition: str, found: KubeObject, functions: FunctionTable
) -> bool:
    """Say whether a condition holds for an object."""
    template = compile_template(condition, functions, name="output", missing_key="default")
    rendered = template.execute(as_kubectl_sees(found), ctx.renderer.effects, ctx.renderer.limits)
    return rendered.strip() == "true"
