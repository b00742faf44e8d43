"""Parameters of Go templates."""

from __future__ import annotations

import pytest

from kanister_py.core.templates.facts import ActionFacts, Named
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer, RenderFailed

RENDERER = Renderer()


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{{ .StatefulSet.Name }}", "demo", id="the workload"),
        pytest.param("{{ index .StatefulSet.Containers 0 1 }}", "side", id="its containers"),
        pytest.param(
            '{{ index .StatefulSet.PersistentVolumeClaims "demo-0" "data-demo-0" }}',
            "/data",
            id="its claims",
        ),
        pytest.param("{{ if .Deployment }}yes{{ else }}no{{ end }}", "no", id="what is not there"),
        pytest.param("{{ .ArtifactsIn.dump.KeyValue.path }}", "backups/1", id="an artifact"),
        pytest.param("{{ .ConfigMaps.settings.Data.mode }}", "fast", id="a config map"),
        pytest.param("{{ .Secrets.login.Data.user }}", "[97 100 109 105 110]", id="bytes"),
        pytest.param("{{ .Secrets.login.Data.user | toString }}", "admin", id="bytes as text"),
        pytest.param("{{ .Secrets.login.Type }}", "Opaque", id="the type of a secret"),
        pytest.param("{{ .Secrets.login.Namespace }}", "app", id="where a secret is"),
        pytest.param("{{ .Phases.dump.Output.path }}", "backups/2", id="an output"),
        pytest.param("{{ .Phases.dump.Secrets.s.Data.key | toString }}", "of the phase", id="own"),
        pytest.param('{{ index .Options "none" }}', "", id="an option that is not there"),
        pytest.param('{{ index .Object.metadata "none" }}', "<no value>", id="nothing"),
        pytest.param("{{ typeOf .Object.spec.replicas }}", "int64", id="whole numbers of objects"),
        pytest.param("{{ typeOf .Object.spec.ratio }}", "float64", id="fractions of objects"),
        pytest.param("{{ typeOf .StatefulSet }}", "*param.StatefulSetParams", id="a type's name"),
        pytest.param("{{ typeOf .Secrets.login }}", "v1.Secret", id="the type of a secret"),
        pytest.param("{{ typeOf .PodOverride }}", "v1alpha1.JSONMap", id="a named map"),
        pytest.param("{{ .CurrentPhase }}", "<nil>", id="no phase runs while args are rendered"),
        pytest.param("{{ toJson .Phases.dump.Output }}", '{"path":"backups/2","size":3}', id="all"),
        pytest.param(
            "{{ toJson .Secrets.login }}",
            '{"metadata":{"name":"login","namespace":"app","creationTimestamp":null,'
            '"labels":{"tier":"db"}},"data":{"password":"cGEnc3M8d29yZD4=","user":"YWRtaW4="},'
            '"type":"Opaque"}',
            id="a secret as JSON",
        ),
        pytest.param(
            "{{ .ConfigMaps.settings }}",
            "{{ } {settings      0 0001-01-01 00:00:00 +0000 UTC <nil> <nil> map[] map[] [] [] []}"
            " <nil> map[mode:fast] map[]}",
            id="a config map as it prints",
        ),
    ],
)
def test_template_reads_the_parameters(params: Params, template: str, expected: str) -> None:
    assert RENDERER.text(template, params) == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        pytest.param(
            "{{ .Phases.later.Output }}",
            'Failed to render template: "later" not found',
            id="a phase to come",
        ),
        pytest.param(
            "{{ .Phases.own.Output.x }}",
            'Failed to render template: "x" not found',
            id="the output of a phase that has none",
        ),
        pytest.param(
            "{{ .DeferPhase.Output.x }}",
            'Failed to render template: "x" not found',
            id="a deferPhase that is not there",
        ),
        pytest.param(
            "{{ .Deployment.Name }}",
            'template: config:1:14: executing "config" at <.Deployment.Name>: '
            "nil pointer evaluating *param.DeploymentParams.Name",
            id="another workload",
        ),
        pytest.param(
            "{{ .Foo }}",
            'template: config:1:3: executing "config" at <.Foo>: '
            "can't evaluate field Foo in type param.TemplateParams",
            id="a name nobody knows",
        ),
        pytest.param(
            "{{ index .StatefulSet.Pods 2 }}",
            'template: config:1:3: executing "config" at <index .StatefulSet.Pods 2>: '
            "error calling index: reflect: slice index out of range",
            id="a pod too many",
        ),
    ],
)
def test_missing_value_is_reported_like_in_go(params: Params, template: str, message: str) -> None:
    params.enter_phase("own")
    with pytest.raises(RenderFailed) as error:
        RENDERER.text(template, params)
    assert error.value.original == message
    assert message in error.value.message


def test_profile_as_json_is_readable_for_kando(params: Params) -> None:
    assert RENDERER.text("{{ toJson .Profile }}", params) == (
        '{"Location":{"type":"s3Compliant","bucket":"b","endpoint":"http://s3:9000",'
        '"prefix":"p","region":"r"},"Credential":{"Type":"keyPair","KeyPair":'
        '{"ID":"AK\\u003c\\u0026\\u003eID","Secret":"s3cr\'et"},"Secret":null,'
        '"KopiaServerSecret":null},"SkipSSLVerify":false}'
    )


def test_missing_profile_can_be_tested() -> None:
    params = Params(ActionFacts(time=""))
    assert RENDERER.text("{{ if .Profile }}yes{{ else }}no{{ end }}", params) == "no"
    assert RENDERER.text("{{ toJson .Options }}{{ toJson .Secrets }}", params) == "null{}"


def test_field_names_are_those_of_go() -> None:
    params = Params(ActionFacts(time="", pvc=Named("data", "app"), namespace=Named("n", "n")))
    assert RENDERER.text("{{ .PVC.Name }} {{ .Namespace.Name }}", params) == "data n"


def test_phase_is_readable_after_it_is_entered(params: Params) -> None:
    params.enter_phase("next")
    assert RENDERER.text("{{ .Phases.next.Output }}", params) == "map[]"
    params.leave_phase("next", {"x": "1"})
    assert RENDERER.text("{{ .Phases.next.Output.x }}", params) == "1"
    params.leave_phase("next", None)
    with pytest.raises(RenderFailed) as error:
        RENDERER.text("{{ .Phases.next.Output.x }}", params)
    assert error.value.cause.reason == "TemplateKeyMissing"


def test_defer_phase_has_its_own_parameter(params: Params) -> None:
    params.enter_phase(None)
    params.leave_phase(None, {"x": "1"})
    assert RENDERER.text("{{ .DeferPhase.Output.x }}", params) == "1"


def test_all_secrets_are_listed_for_masking(params: Params) -> None:
    assert set(params.secret_texts()) == {"admin", "pa'ss<word>", "of the phase", "s3cr'et"}


def test_time_for_a_phase_does_not_depend_on_earlier_phases() -> None:
    # Entering a phase must not visit earlier phases: their values are not even created.
    params = Params(ActionFacts(time=""))
    for number in range(1000):
        params.enter_phase(str(number), {"s": {"metadata": {"name": "s"}, "data": {"k": "!"}}})
        params.leave_phase(str(number), {"k": number})
    assert RENDERER.text('{{ (index .Phases "999").Output.k }}', params) == "999"
    assert not any("Secrets" in phase for phase in params.root["Phases"].values())
