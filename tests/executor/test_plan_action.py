"""Plans of actions: phases, and what is not known of them."""

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
    """Runs something."""

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
    given = Circumstances(registry_of(Shell), moment, NO_EFFECTS)
    return plan_action(blueprint, spec, cluster, given)


def test_a_plan_names_declared_inputs_that_are_not_given() -> None:
    declares = TEXT.replace("  go:\n", "  go:\n    secretNames: [login]\n", 1)
    (located,) = blueprints_in(parse_documents(declares))
    moment = datetime(2026, 11, 18, tzinfo=UTC)
    circumstances = Circumstances(registry_of(Shell), moment, NO_EFFECTS)
    target = TargetReference(kind="Namespace", name="shop", namespace="shop")
    cluster = MemoryCluster(clock=SystemClock())
    made = plan_action(
        located.blueprint, ActionSpec(name="go", object=target), cluster, circumstances
    )
    assert "go declares the Secret login in secretNames, and none is given" in made.unchecked


def plan_of_text(
    read: str,
    kind: str = "Namespace",
    *,
    engine: str = "go",
    objects: str = "{}",
    is_real: bool = False,
) -> Plan:
    """Plan an action whose one arg reads something; a Secret and an option are given."""
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
    given = Circumstances(registry_of(Shell), moment, NO_EFFECTS, is_real=is_real)
    return plan_action(blueprint, spec, cluster, given)


class TestAPlan:
    def test_shows_every_phase_in_its_order_with_its_version_and_why(self) -> None:
        found = plan().phases
        assert [each.name for each in found] == ["first", "second", "third", "fourth", "last"]
        assert (found[0].version, found[0].why) == ("v0.0.0", "the stable version")
        assert found[1].why == "v7.0.0 is not known"
        assert [each.reason for each in found[1].notices] == ["FunctionVersionFallback"]

    def test_renders_what_can_be_known(self) -> None:
        first = plan().phases[0]
        assert first.condition == "yes"
        assert first.args["namespace"] == "shop"
        assert first.args["command"][0] == "db"

    def test_masks_secrets(self) -> None:
        first = plan().phases[0]
        assert "sesame" not in str(plan().as_dict())
        assert first.args["command"][1] == "***"

    def test_leaves_what_depends_on_an_earlier_output_as_it_is(self) -> None:
        second = plan().phases[1]
        assert second.args["command"] == ["{{ .Phases.first.Output.path }}", "fixed"]
        assert [str(each) for each in second.unknown] == ["args.command[0]: known after first"]

    @pytest.mark.parametrize(
        "objects",
        [
            pytest.param([deployment(2)], id="of a manifest"),
            pytest.param([], id="of a workload that nobody gave"),
        ],
    )
    def test_does_not_take_pods_that_are_to_come_for_none(
        self, objects: list[dict[str, Any]]
    ) -> None:
        (enter,) = plan("pods", objects).phases
        assert [each.path for each in enter.unknown] == [f"args.command[{at}]" for at in range(3)]
        assert "are not running yet" in enter.unknown[0].why
        assert enter.args["command"][3] == "db"
        assert bool(plan("pods", objects).unread) is not bool(objects)

    def test_knows_that_a_workload_without_replicas_has_no_pods(self) -> None:
        (enter,) = plan("pods", [deployment(0)]).phases
        assert [each.path for each in enter.unknown] == ["args.command[0]"]
        assert enter.args["command"][1] == ""

    def test_says_what_was_not_given(self) -> None:
        first = plan().phases[0]
        assert [(each.path, each.after) for each in first.unknown] == [("args.command[2]", ())]
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
                id="a key beside an option that is not given",
            ),
        ],
    )
    def test_refuses_a_wrong_name_in_what_is_given(self, read: str, why: str) -> None:
        found = plan_of_text(read)
        assert found.has_errors
        assert why in found.phases[0].errors[0]

    @pytest.mark.parametrize(
        "read",
        [
            pytest.param(".Secrets.cred.Data.password", id="a Secret"),
            pytest.param(".Options.other", id="an option unlike those given"),
            pytest.param(".Options.database }}{{ .Options.database2", id="one like one in use"),
        ],
    )
    def test_holds_against_no_action_what_was_not_given(self, read: str) -> None:
        found = plan_of_text(read)
        assert not found.has_errors
        assert [each.path for each in found.phases[0].unknown] == ["args.command[0]"]

    def test_lists_everything_that_a_text_lacks(self) -> None:
        found = plan_of_text(".Secrets.a.Data.x }}{{ .ConfigMaps.b.Data.y }}{{ .Profile.Location")
        assert not found.has_errors
        assert [each.split(";")[0] for each in found.lacking] == [
            'no "a" in .Secrets',
            'no "b" in .ConfigMaps',
            '.Profile is not there, and has no "Location"',
        ]

    def test_lists_everything_that_a_text_in_jinja2_lacks(self) -> None:
        read = "Secrets.a.Data.x }}{{ ConfigMaps.b.Data.y | upper }}{{ Profile.Location"
        found = plan_of_text(read, engine="jinja2")
        assert not found.has_errors
        assert [each.split(";")[0] for each in found.lacking] == [
            "Line 1: 'a' is undefined in Secrets",
            "Line 1: 'b' is undefined in ConfigMaps",
            'Line 1: Profile is not there, and has no "Location"',
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
    def test_refuses_in_jinja2_what_it_refuses_in_go(
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
    def test_refuses_a_workload_that_the_given_object_is_not(
        self, read: str, kind: str, is_wrong: bool
    ) -> None:
        assert plan_of_text(read, kind).has_errors is is_wrong

    @pytest.mark.parametrize("is_real", [True, False])
    def test_takes_an_object_that_is_not_in_a_real_cluster_for_an_error(
        self, is_real: bool
    ) -> None:
        found = plan_of_text(".Time", objects="{k: {kind: Secret, name: nope}}", is_real=is_real)
        assert found.has_errors is is_real
        assert ("Secret nope is not there" in "".join(found.phases[0].errors)) is is_real
        assert bool(found.unread) is not is_real

    def test_takes_an_action_s_object_that_a_real_cluster_lacks_for_an_error(self) -> None:
        found = plan_of_text(".Deployment.Name", "Deployment", is_real=True)
        assert "Deployment default/default" in found.errors[0]

    def test_refuses_a_profile_that_is_given_and_says_nothing_that_can_be_used(self) -> None:
        profile = {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Profile",
            "metadata": {"name": "p", "namespace": "shop"},
            "location": {"type": "s3Compliant"},
            "credential": {"type": "tape"},
        }
        found = plan(objects=[SECRET, profile], profile=True)
        assert len(found.errors) == 1
        assert "tape" in found.errors[0]
        assert plan(objects=[SECRET], profile=True).errors == ()

    def test_says_which_objects_cannot_be_named_yet(self) -> None:
        found = plan_of_text(".Time", objects='{k: {kind: Secret, name: "{{ .Options.o }}"}}')
        assert [each.path for each in found.phases[0].unknown] == ["objects.k.name"]

    def test_says_what_it_would_touch(self) -> None:
        assert plan().phases[0].accesses == (Access("", "pods", ("create", "delete"), "shop"),)

    def test_says_what_could_not_run(self) -> None:
        found = plan()
        assert found.has_errors
        assert "{Shel} has not been registered; did you mean Shell?" in found.phases[3].errors[0]
        assert "unclosed action" in found.phases[4].errors[0]

    def test_goes_on_without_what_is_not_in_the_cluster(self) -> None:
        found = plan(objects=())
        assert len(found.unread) == 2
        assert found.phases[0].args["command"][0] == "db"
        assert found.phases[0].args["command"][1].startswith("{{ index .Phases")

    def test_is_there_for_actions_that_are(self) -> None:
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
def test_a_plan_is_red_for_a_text_that_fails_whatever_else_is_given(read: str, engine: str) -> None:
    made = plan_of_text(read, engine=engine, objects=_KEYS)
    assert made.has_errors
    assert not made.lacking


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
def test_a_plan_leaves_open_what_may_fail_only_here_and_now(read: str) -> None:
    made = plan_of_text(read)
    assert not made.has_errors
    assert made.lacking


_KEYS = "{keys: {kind: Secret, name: keys, namespace: shop}}"


@pytest.mark.parametrize(
    ("read", "engine"), [("toJson .Profile", "go"), ("Profile | tojson", "jinja2")]
)
def test_a_plan_says_that_kando_would_get_no_profile(read: str, engine: str) -> None:
    made = plan_of_text(read, engine=engine)
    assert not made.has_errors
    (why,) = made.lacking
    assert why.startswith(".Profile is missing")
