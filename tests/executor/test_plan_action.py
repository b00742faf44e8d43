"""Plans of actions: phases, and values that are not known yet."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.actionsets.model import ActionSpec
from kanister_py.core.blueprints.model import TargetReference, blueprints_in
from kanister_py.core.kube.access import Access
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.plan_action import Circumstances, Plan, plan_action
from kanister_py.gotemplate.effects import NO_EFFECTS
from kanister_py.ports.function import Func
from kanister_py.ports.models import Args
from kanister_py.wiring import registry_of
from tests.raising import refused_as


class ShellArgs(Args):
    command: list[str]
    namespace: str = ""


class Shell(Func):
    """Runs a command."""

    name = "Shell"
    Args = ShellArgs

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("", "pods", ("create", "delete"), args.get("namespace", ""))]

    def exec(self, ctx: Any, params: Any, args: Any) -> None:
        raise AssertionError("a plan runs nothing")


TEXT = """\
kind: Blueprint
metadata: {name: b}
actions:
  go:
    phases:
    - func: Shell
      name: first
      if: "{{ .Options.really }}"
      objects: {keys: {kind: Secret, name: keys, namespace: shop}}
      args:
        namespace: "{{ .Deployment.Namespace }}"
        command:
        - "{{ .Deployment.Name }}"
        - "{{ index .Phases.first.Secrets.keys.Data \\"password\\" | toString }}"
        - "{{ .Options.absent }}"
    - func: Shell
      name: second
      funcVersion: v7.0.0
      args: {command: ["{{ .Phases.first.Output.path }}", fixed]}
    - {func: CreateRDSSnapshot, name: third, args: {pod: p}}
    - {func: Shel, name: fourth}
    deferPhase: {func: Shell, name: last, args: {command: ["{{ .Bad"]}}
  pods:
    phases:
    - func: Shell
      name: enter
      args:
        command:
        - "{{ index .Deployment.Pods 0 }}"
        - "{{ range .Deployment.Pods }}{{ . }}{{ end }}"
        - "{{ toJson .Deployment }}"
        - "{{ .Deployment.Name }}"
"""


def deployment(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "keys", "namespace": "shop"},
    "data": {"password": b64encode(b"open sesame").decode()},
}


def plan(
    action: str = "go", objects: Iterable[Mapping[str, Any]] = (SECRET,), *, profile: bool = False
) -> Plan:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.load(list(objects))
    reference = {"kind": "Deployment", "name": "db", "namespace": "shop"}
    spec = ActionSpec(
        name=action,
        object=TargetReference(**reference),
        options={"really": "yes"},
        profile=TargetReference(name="p", namespace="shop") if profile else None,
    )
    blueprint = blueprints_in(parse_documents(TEXT))[0].blueprint
    moment = datetime(2026, 11, 18, tzinfo=UTC)
    circumstances = Circumstances(registry_of(Shell), moment, NO_EFFECTS)
    return plan_action(blueprint, spec, cluster, circumstances)


def test_a_plan_lists_missing_declared_inputs() -> None:
    declares = TEXT.replace("  go:\n", "  go:\n    secretNames: [login]\n", 1)
    (located,) = blueprints_in(parse_documents(declares))
    moment = datetime(2026, 11, 18, tzinfo=UTC)
    circumstances = Circumstances(registry_of(Shell), moment, NO_EFFECTS)
    target = TargetReference(kind="Namespace", name="shop", namespace="shop")
    cluster = MemoryCluster(clock=SystemClock())
    planned = plan_action(
        located.blueprint, ActionSpec(name="go", object=target), cluster, circumstances
    )
    assert "go declares the Secret login in secretNames, and none is given" in planned.unchecked


def plan_with_options(given: Mapping[str, str], *declared: str) -> Plan:
    """Plan an action that reads the options `count` and `who`."""
    read = '{{ .Options.count }} {{ index .Options "who" }}'
    text = f"""\
kind: Blueprint
metadata: {{name: b}}
actions:
  go:
    options: {{{", ".join(declared)}}}
    phases: [{{func: Shell, name: first, args: {{command: ['{read}']}}}}]
"""
    target = TargetReference(kind="Namespace", name="shop", namespace="shop")
    blueprint = blueprints_in(parse_documents(text))[0].blueprint
    circumstances = Circumstances(
        registry_of(Shell), datetime(2026, 11, 18, tzinfo=UTC), NO_EFFECTS
    )
    spec = ActionSpec(name="go", object=target, options=dict(given))
    return plan_action(blueprint, spec, MemoryCluster(clock=SystemClock()), circumstances)


COUNT = 'count: {type: integer, default: "3", description: How many}'


class TestOptions:
    def test_a_plan_renders_defaults_and_lists_declarations(self) -> None:
        planned = plan_with_options({"who": "Ann"}, COUNT, "who: {}")
        assert planned.phases[0].args == {"command": ["3 Ann"]}
        assert not planned.has_errors
        assert planned.as_dict()["options"] == {
            "count": {"type": "integer", "default": "3", "description": "How many"},
            "who": {},
        }

    def test_invalid_options_are_errors(self) -> None:
        planned = plan_with_options({"count": "x", "woh": "Ann"}, COUNT, "who: {}")
        assert planned.errors == (
            "Option count of action go must be an integer, found 'x'",
            "Action go has no option woh; did you mean who?",
        )
        assert planned.warnings == ()

    def test_a_missing_required_option_is_a_missing_input(self) -> None:
        planned = plan_with_options({}, COUNT, "who: {required: true}")
        assert not planned.has_errors
        assert 'there is no "who" in .Options; it is required' in planned.lacking

    def test_an_undeclared_option_that_nothing_reads_is_a_warning(self) -> None:
        planned = plan_with_options({"count": "1", "woh": "Ann"})
        assert not planned.has_errors
        assert planned.warnings == (
            "Option woh is set, but action go does not use it; did you mean who?",
        )
        assert planned.as_dict()["warnings"] == list(planned.warnings)


def plan_of_text(
    read: str,
    kind: str = "Namespace",
    *,
    engine: str = "go",
    objects: str = "{}",
    is_real: bool = False,
) -> Plan:
    """Plan an action with one argument that reads `read`; a Secret and an option are given."""
    cluster = MemoryCluster(clock=SystemClock())
    cluster.load([SECRET])
    text = f"""\
kind: Blueprint
metadata: {{name: b, annotations: {{kanister-py.io/template-engine: {engine}}}}}
actions:
  go:
    phases:
    - func: Shell
      name: first
      objects: {objects}
      args:
        command:
        - '{{{{ {read} }}}}'
"""
    spec = ActionSpec(
        name="go",
        object=TargetReference(kind=kind, name="default", namespace="default"),
        options={"database": "x"},
        secrets={"creds": TargetReference(kind="Secret", name="keys", namespace="shop")},
    )
    blueprint = blueprints_in(parse_documents(text))[0].blueprint
    moment = datetime(2026, 11, 18, tzinfo=UTC)
    circumstances = Circumstances(registry_of(Shell), moment, NO_EFFECTS, is_real=is_real)
    return plan_action(blueprint, spec, cluster, circumstances)


class TestPlan:
    def test_phases_are_in_order_with_their_versions_and_reasons(self) -> None:
        phases = plan().phases
        assert [phase.name for phase in phases] == ["first", "second", "third", "fourth", "last"]
        assert (phases[0].version, phases[0].why) == ("v0.0.0", "the stable version")
        assert phases[1].why == "v7.0.0 does not exist"
        assert [notice.reason for notice in phases[1].notices] == ["FunctionVersionFallback"]

    def test_known_values_are_rendered(self) -> None:
        first = plan().phases[0]
        assert first.condition == "yes"
        assert first.args["namespace"] == "shop"
        assert first.args["command"][0] == "db"

    def test_secrets_are_masked(self) -> None:
        first = plan().phases[0]
        assert "sesame" not in str(plan().as_dict())
        assert first.args["command"][1] == "***"

    def test_texts_that_depend_on_earlier_outputs_stay_unrendered(self) -> None:
        second = plan().phases[1]
        assert second.args["command"] == ["{{ .Phases.first.Output.path }}", "fixed"]
        assert [str(unknown) for unknown in second.unknown] == [
            "args.command[0]: known after first"
        ]

    @pytest.mark.parametrize(
        "objects",
        [
            pytest.param([deployment(2)], id="of a manifest"),
            pytest.param([], id="of a missing workload"),
        ],
    )
    def test_pods_that_are_not_running_yet_are_unknown(self, objects: list[dict[str, Any]]) -> None:
        (enter,) = plan("pods", objects).phases
        assert [unknown.path for unknown in enter.unknown] == [
            f"args.command[{at}]" for at in range(3)
        ]
        assert "are not running yet" in enter.unknown[0].why
        assert enter.args["command"][3] == "db"
        assert bool(plan("pods", objects).unread) is not bool(objects)

    def test_a_workload_without_replicas_has_no_pods(self) -> None:
        (enter,) = plan("pods", [deployment(0)]).phases
        assert [unknown.path for unknown in enter.unknown] == ["args.command[0]"]
        assert enter.args["command"][1] == ""

    def test_missing_inputs_are_listed(self) -> None:
        first = plan().phases[0]
        assert [(unknown.path, unknown.after) for unknown in first.unknown] == [
            ("args.command[2]", ())
        ]
        assert first.unknown[0].why == 'no "absent" in .Options; there are: really'

    @pytest.mark.parametrize(
        ("read", "why"),
        [
            pytest.param(
                ".Secrets.creds.Data.pasword", 'no "pasword" in .Secrets.creds.Data', id="a key"
            ),
            pytest.param(
                '(index .Secrets "creds").Data.pasword', 'no "pasword" in', id="a key of an index"
            ),
            pytest.param(".Options.datbase", 'no "datbase" in .Options', id="an option"),
            pytest.param(
                ".Options.absent }}{{ .Secrets.creds.Data.pasword",
                'no "pasword" in .Secrets.creds.Data',
                id="a key next to a missing option",
            ),
        ],
    )
    def test_an_unknown_name_in_a_given_object_is_an_error(self, read: str, why: str) -> None:
        planned = plan_of_text(read)
        assert planned.has_errors
        assert why in planned.phases[0].errors[0]

    @pytest.mark.parametrize(
        "read",
        [
            pytest.param(".Secrets.cred.Data.password", id="a Secret"),
            pytest.param(".Options.other", id="an option unlike those given"),
            pytest.param(".Options.database }}{{ .Options.database2", id="one like one in use"),
        ],
    )
    def test_missing_inputs_are_no_errors(self, read: str) -> None:
        planned = plan_of_text(read)
        assert not planned.has_errors
        assert [unknown.path for unknown in planned.phases[0].unknown] == ["args.command[0]"]

    def test_all_missing_values_of_a_text_are_listed(self) -> None:
        planned = plan_of_text(".Secrets.a.Data.x }}{{ .ConfigMaps.b.Data.y }}{{ .Profile.Location")
        assert not planned.has_errors
        assert [reason.split(";")[0] for reason in planned.lacking] == [
            'no "a" in .Secrets',
            'no "b" in .ConfigMaps',
            '.Profile is missing and has no "Location"',
        ]

    def test_all_missing_values_of_a_jinja2_text_are_listed(self) -> None:
        read = "Secrets.a.Data.x }}{{ ConfigMaps.b.Data.y | upper }}{{ Profile.Location"
        planned = plan_of_text(read, engine="jinja2")
        assert not planned.has_errors
        assert [reason.split(";")[0] for reason in planned.lacking] == [
            "Line 1: 'a' is undefined in Secrets",
            "Line 1: 'b' is undefined in ConfigMaps",
            'Line 1: Profile is missing and has no "Location"',
        ]

    @pytest.mark.parametrize(
        ("read", "kind", "is_wrong"),
        [
            pytest.param("Namespace.Nme", "Namespace", True, id="a field that cannot exist"),
            pytest.param("Namespace.Nme | default('x')", "Namespace", False, id="with a default"),
            pytest.param("Secrets.creds.Data.pasword", "Namespace", True, id="a key that is given"),
            pytest.param("Options.datbase", "Namespace", True, id="an option that is misspelt"),
            pytest.param("Options.other", "Namespace", False, id="an option unlike those given"),
            pytest.param("Deployment.Name", "StatefulSet", True, id="another workload"),
            pytest.param("Deployment.Name", "Namespace", False, id="no workload"),
            pytest.param(
                "Time }}{% set Namespace = {'Nme': 1} %}{{ Namespace.Nme",
                "Namespace",
                False,
                id="set",
            ),
        ],
    )
    def test_jinja2_templates_have_the_same_errors_as_go_templates(
        self, read: str, kind: str, is_wrong: bool
    ) -> None:
        assert plan_of_text(read.replace("'", "''"), kind, engine="jinja2").has_errors is is_wrong

    @pytest.mark.parametrize(
        ("read", "kind", "is_wrong"),
        [
            pytest.param(".Deployment.Name", "StatefulSet", True, id="of another kind"),
            pytest.param(".Namespace.Name", "StatefulSet", True, id="of a workload, no namespace"),
            pytest.param(".Deployment.Name", "Namespace", False, id="of none but the namespace"),
            pytest.param(
                "if .Options.x }}{{ .Deployment.Name }}{{ end", "StatefulSet", False, id="perhaps"
            ),
            pytest.param(
                'if index .Options "x" }}{{ else }}{{ .Deployment.Name }}{{ end',
                "StatefulSet",
                False,
                id="of another kind, but for an option",
            ),
        ],
    )
    def test_reading_another_kind_of_workload_is_an_error(
        self, read: str, kind: str, is_wrong: bool
    ) -> None:
        assert plan_of_text(read, kind).has_errors is is_wrong

    @pytest.mark.parametrize("is_real", [True, False])
    def test_a_missing_object_in_a_real_cluster_is_an_error(self, is_real: bool) -> None:
        planned = plan_of_text(".Time", objects="{k: {kind: Secret, name: nope}}", is_real=is_real)
        assert planned.has_errors is is_real
        assert ("Secret nope does not exist" in "".join(planned.phases[0].errors)) is is_real
        assert bool(planned.unread) is not is_real

    def test_a_missing_target_in_a_real_cluster_is_an_error(self) -> None:
        planned = plan_of_text(".Deployment.Name", "Deployment", is_real=True)
        assert "Deployment default/default" in planned.errors[0]

    def test_an_unusable_profile_is_an_error(self) -> None:
        profile = {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Profile",
            "metadata": {"name": "p", "namespace": "shop"},
            "location": {"type": "s3Compliant"},
            "credential": {"type": "tape"},
        }
        planned = plan(objects=[SECRET, profile], profile=True)
        assert len(planned.errors) == 1
        assert "tape" in planned.errors[0]
        assert plan(objects=[SECRET], profile=True).errors == ()

    def test_objects_with_unknown_names_are_unknown(self) -> None:
        planned = plan_of_text(".Time", objects='{k: {kind: Secret, name: "{{ .Options.o }}"}}')
        assert [unknown.path for unknown in planned.phases[0].unknown] == ["objects.k.name"]

    def test_accesses_are_listed(self) -> None:
        assert plan().phases[0].accesses == (Access("", "pods", ("create", "delete"), "shop"),)

    def test_phases_that_could_not_run_have_errors(self) -> None:
        planned = plan()
        assert planned.has_errors
        assert "{Shel} has not been registered; did you mean Shell?" in planned.phases[3].errors[0]
        assert "unclosed action" in planned.phases[4].errors[0]

    def test_planning_continues_without_missing_objects(self) -> None:
        planned = plan(objects=())
        assert len(planned.unread) == 2
        assert planned.phases[0].args["command"][0] == "db"
        assert planned.phases[0].args["command"][1].startswith("{{ index .Phases")

    def test_an_unknown_action_is_an_error(self) -> None:
        with refused_as("ActionNotFound"):
            plan("come")


@pytest.mark.parametrize(
    ("read", "engine"),
    [
        pytest.param(".Phases.first.Secrets.keys.Data.passwd", "go", id="no such key"),
        pytest.param(
            "Phases.first.Secrets.keys.Data.passwd", "jinja2", id="no such key, in Jinja2"
        ),
        pytest.param(".Time | date", "go", id="an argument is missing"),
        pytest.param("div 1 0", "go", id="a division by zero"),
        pytest.param("env `HOME`", "go", id="the environment"),
        pytest.param("1/0", "jinja2", id="a division by zero, in Jinja2"),
        pytest.param('"a" + 1', "jinja2", id="a text and a number"),
        pytest.param("Namespace.Name()", "jinja2", id="a call of a text"),
    ],
)
def test_a_text_that_always_fails_is_an_error(read: str, engine: str) -> None:
    planned = plan_of_text(read, engine=engine, objects=_KEYS)
    assert planned.has_errors
    assert not planned.lacking


@pytest.mark.parametrize(
    "read",
    [
        'if not (index .Options "x") }}{{ fail "give x" }}{{ end',
        "if not .Profile }}{{ fail `no` }}{{ end",
        "range .Options }}{{ end }}{{ div 1 (sub (len .Options) 1)",
        'define "t" }}{{ .Options.a }}{{ end }}{{ template "t" .',
        "with $ }}{{ div 1 (sub (len .Options) 1) }}{{ end",
        'if lt (.Time | trunc 4) "3000" }}{{ fail "not today" }}{{ end',
    ],
)
def test_a_text_that_may_succeed_later_is_no_error(read: str) -> None:
    planned = plan_of_text(read)
    assert not planned.has_errors
    assert planned.lacking


_KEYS = "{keys: {kind: Secret, name: keys, namespace: shop}}"


@pytest.mark.parametrize(
    ("read", "engine"), [("toJson .Profile", "go"), ("Profile | tojson", "jinja2")]
)
def test_a_missing_profile_for_kando_is_reported(read: str, engine: str) -> None:
    planned = plan_of_text(read, engine=engine)
    assert not planned.has_errors
    (why,) = planned.lacking
    assert why.startswith(".Profile is missing")
