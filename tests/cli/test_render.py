"""Rendering on the command line: files in, documents out, errors on stderr."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from kanister_py.cli.main import main
from tests.cli.render_files import PATCH, XR, composition, patching


def templating(template: str, **step: Any) -> dict[str, Any]:
    return {
        "step": "template",
        "functionRef": {"name": "function-go-templating"},
        "input": {
            "apiVersion": "gotemplating.fn.crossplane.io/v1beta1",
            "kind": "GoTemplate",
            "source": "Inline",
            "inline": {"template": template},
        },
        **step,
    }


SECRET = """\
apiVersion: v1
kind: Secret
metadata: {annotations: {gotemplating.fn.crossplane.io/composition-resource-name: s}}
data: {password: aHVudGVyMg==}
"""


def resource_with(rest: str) -> str:
    key = "gotemplating.fn.crossplane.io/composition-resource-name"
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{annotations: {{{key}: a}}}}\n{rest}"


Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write files to the working folder, which already has an XR and a composition."""
    monkeypatch.chdir(tmp_path)

    def files(**texts: str) -> None:
        for name, text in texts.items():
            Path(f"{name}.yaml").write_text(text, encoding="utf-8")

    files(xr=XR, composition=composition(patching()))
    return files


Rendered = tuple[int, list[Any], str]


@pytest.fixture
def render(write: Write, capsys: pytest.CaptureFixture[str]) -> Callable[..., Rendered]:
    def run(*words: str, files: tuple[str, ...] = ("xr.yaml", "composition.yaml")) -> Rendered:
        capsys.readouterr()
        code = main(["render", *files, *words])
        output = capsys.readouterr()
        return (
            code,
            [document for document in yaml.safe_load_all(output.out) if document],
            output.err,
        )

    return run


Render = Callable[..., Rendered]


def function(name: str, package: str = "", **annotations: str) -> str:
    keys = {
        "runtime": "render.crossplane.io/runtime",
        "target": "render.crossplane.io/runtime-development-target",
        "command": "kanister-py.io/runtime-command",
        "entry": "kanister-py.io/runtime-entry-point",
    }
    return yaml.safe_dump(
        {
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": "Function",
            "metadata": {
                "name": name,
                "annotations": {keys[key]: text for key, text in annotations.items()},
            },
            "spec": {"package": package or f"registry.example.org/{name}:v1.0.0"},
        }
    )


class TestWhatIsPrinted:
    def test_built_in_functions_need_no_functions_file(self, render: Render) -> None:
        code, (xr, resource), err = render()
        assert code == 0
        assert xr["spec"] == {
            "crossplane": {
                "resourceRefs": [
                    {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "name": resource["metadata"]["name"],
                    }
                ]
            }
        }
        assert resource["data"] == {"r": "eu"}
        assert err == ""

    def test_prefixed_package_name_is_replaced_with_a_note(
        self, write: Write, render: Render
    ) -> None:
        name = "crossplane-contrib-function-patch-and-transform"
        write(composition=composition(patching(functionRef={"name": name})))
        code, documents, err = render()
        assert (code, len(documents)) == (0, 2)
        assert f"built in, is used in place of {name}" in err

    def test_flags_print_results_context_and_the_full_xr(self, render: Render) -> None:
        _, documents, _ = render("-r", "-c", "-x", "--context-values", 'k={"a": [1, 2]},l=3')
        assert documents[0]["spec"]["region"] == "eu"
        kinds = [document["kind"] for document in documents]
        assert kinds == ["XApp", "ConfigMap", "Result", "Result", "Context"]
        assert documents[-1]["fields"]["k"] == {"a": [1, 2]}
        assert documents[-1]["fields"]["l"] == 3

    def test_json_contains_the_outcome_of_steps(
        self, render: Render, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["render", "xr.yaml", "composition.yaml", "-o", "json", "-r"]) == 0
        [rendered] = json.loads(capsys.readouterr().out)["renders"]
        assert rendered["composite"]["kind"] == "XApp"
        assert [resource["kind"] for resource in rendered["resources"]] == ["ConfigMap"]
        [step] = rendered["steps"]
        assert (step["step"], step["revision"]) == ("patch", "function-patch-and-transform-v0.1.0")
        assert (step["calls"], step["cached"], step["worst"]) == (1, False, "Normal")
        assert rendered["results"][0]["reason"] == "SelectComposition"

    def test_flags_for_the_engine_of_crossplane_are_accepted_with_a_note(
        self, render: Render
    ) -> None:
        flags = ("--crossplane-version=v2.4.0", "--crossplane-docker-network", "host", "-f", "p")
        code, documents, err = render(*flags)
        assert (code, documents) == (0, render()[1])
        names = ("--crossplane-version", "--crossplane-docker-network", "--project-file")
        assert [line.split()[1] for line in err.splitlines()] == list(names)
        assert err.count("has no effect") == 3

    def test_several_xrs_are_printed_in_order(self, write: Write, render: Render) -> None:
        names = [f"shop-{number}" for number in range(5)]
        write(xr="---\n".join(XR.replace("shop", name) for name in names))
        code, documents, _ = render()
        assert code == 0
        xrs = [document for document in documents if document["kind"] == "XApp"]
        assert [xr["metadata"]["name"] for xr in xrs] == names
        owners = [
            document["metadata"]["ownerReferences"][0]["name"]
            for document in documents
            if document["kind"] == "ConfigMap"
        ]
        assert owners == names

    def test_observed_resources_belong_to_the_xr_of_their_label(
        self, write: Write, render: Render
    ) -> None:
        write(
            xr=f"{XR}---\n{XR.replace('shop', 'mall')}",
            observed=(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old, namespace: team-a, "
                "labels: {crossplane.io/composite: mall}, "
                "annotations: {crossplane.io/composition-resource-name: bucket}}\n"
            ),
        )
        _, documents, _ = render("-o", "observed.yaml")
        names = [
            document["metadata"]["name"]
            for document in documents
            if document["kind"] == "ConfigMap"
        ]
        assert names[1] == "old"
        assert names[0].startswith("shop-")

    def test_a_definition_gives_defaults_and_the_layout(self, write: Write, render: Render) -> None:
        properties = {"spec": {"type": "object", "properties": {"region": {"default": "mars"}}}}
        write(
            xr=XR.replace("spec: {region: eu}", "spec: {}"),
            xrd=yaml.safe_dump(
                {
                    "apiVersion": "apiextensions.crossplane.io/v1",
                    "kind": "CompositeResourceDefinition",
                    "metadata": {"name": "xapps.example.org"},
                    "spec": {
                        "group": "example.org",
                        "names": {"kind": "XApp", "plural": "xapps"},
                        "versions": [
                            {
                                "name": "v1",
                                "schema": {"openAPIV3Schema": {"properties": properties}},
                            }
                        ],
                    },
                }
            ),
        )
        _, documents, _ = render("--xrd", "xrd.yaml")
        assert documents[1]["data"] == {"r": "mars"}
        assert list(documents[0]["spec"]) == ["resourceRefs"]

    def test_a_composition_of_the_old_mode_is_one_step(self, write: Write, render: Render) -> None:
        resources = patching()["input"]["resources"]
        text = yaml.safe_load(composition())
        del text["spec"]["pipeline"]
        text["spec"]["resources"] = resources
        write(composition=yaml.safe_dump(text))
        code, documents, _ = render()
        assert code == 0
        assert documents[1]["data"] == {"r": "eu"}

    def test_old_mode_composition_may_omit_defaulted_fields(
        self, write: Write, render: Render
    ) -> None:
        text = yaml.safe_load(composition())
        del text["spec"]["pipeline"]
        transform = {"type": "string", "string": {"fmt": "%s-west"}}
        zone = {
            "type": "FromEnvironmentFieldPath",
            "fromFieldPath": "zone",
            "toFieldPath": "data.z",
        }
        base = {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}
        text["spec"]["resources"] = [
            {"base": base, "patches": [{**PATCH, "transforms": [transform]}, zone]}
        ]
        text["spec"]["environment"] = {"environmentConfigs": [{"ref": {"name": "zones"}}]}
        write(
            composition=yaml.safe_dump(text),
            configs=(
                "apiVersion: apiextensions.crossplane.io/v1alpha1\nkind: EnvironmentConfig\n"
                "metadata: {name: zones}\ndata: {zone: a}\n"
            ),
        )
        code, documents, err = render("-e", "configs.yaml")
        assert code == 0, err
        assert documents[1]["data"] == {"r": "eu-west", "z": "a"}

    def test_functions_see_the_xr_as_in_the_first_reconcile_of_a_cluster(
        self, write: Write, render: Render
    ) -> None:
        xr = "{{ .observed.composite.resource | toJson }}"
        write(
            composition=composition(templating(resource_with(f"data: {{seen: '{xr}'}}\n"))),
            observed=(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old, namespace: team-a, "
                "annotations: {crossplane.io/composition-resource-name: a}}\n"
            ),
        )
        _, documents, _ = render("-o", "observed.yaml")
        seen = json.loads(documents[1]["data"]["seen"])
        assert seen["spec"]["crossplane"] == {
            "compositionRef": {"name": "apps"},
            "resourceRefs": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "old"}],
        }
        assert seen["metadata"]["resourceVersion"] == "999"
        (condition,) = seen["status"]["conditions"]
        assert condition == {
            "type": "Responsive",
            "status": "True",
            "reason": "WatchCircuitClosed",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        }

    def test_composition_revision_of_the_xr_is_kept(self, write: Write, render: Render) -> None:
        spec = "{{ .observed.composite.resource.spec.crossplane.compositionRevisionRef.name }}"
        machinery = {"compositionRevisionRef": {"name": "apps-old"}}
        write(composition=composition(templating(resource_with(f"data: {{seen: '{spec}'}}\n"))))
        write(xr=XR.replace("{region: eu}", json.dumps({"crossplane": machinery})))
        _, documents, _ = render()
        assert documents[1]["data"]["seen"] == "apps-old"

    def test_a_revision_of_a_composition_is_rendered_as_well(
        self, write: Write, render: Render
    ) -> None:
        seen = "{{ .observed.composite.resource.spec.crossplane | toJson }}"
        document = yaml.safe_load(
            composition(templating(resource_with(f"data: {{seen: '{seen}'}}\n")))
        )
        document["kind"] = "CompositionRevision"
        document["metadata"] = {
            "name": "apps-1234567",
            "labels": {"crossplane.io/composition-name": "apps"},
        }
        write(composition=yaml.safe_dump(document))
        _, documents, _ = render()
        assert json.loads(documents[1]["data"]["seen"]) == {"compositionRef": {"name": "apps"}}

    def test_skipped_step_is_reported(self, write: Write, render: Render) -> None:
        write(composition=composition(patching(when="'nothing' in context")))
        code, documents, err = render()
        assert (code, len(documents)) == (0, 1)
        assert "note: step patch is skipped: its when is false: 'nothing' in context" in err

    def test_trace_shows_the_settings_of_steps(self, write: Write, render: Render) -> None:
        retry = {"limit": 2, "on": ["FunctionTimedOut"]}
        settings: dict[str, Any] = {
            "timeout": "2s",
            "retry": retry,
            "ttl": "5m",
            "maxIterations": 3,
        }
        write(
            composition=composition(
                patching(step="first", when="'nothing' in context"),
                patching(step="second", **settings),
            )
        )
        _, _, err = render("--trace")
        assert "step first: function-patch-and-transform, skipped: its when is false" in err
        code, documents, _ = render("--trace", "-o", "json")
        first, second = documents[0]["trace"]
        assert (code, first["skipped"][:17]) == (0, "its when is false")
        assert first["settings"] == {"when": "'nothing' in context"}
        assert second["settings"] == {**settings, "ttl": "5m0s"}
        assert second["calls"] == 1

    def test_trace_ends_with_the_unreachable_step(self, write: Write, render: Render) -> None:
        write(
            composition=composition(
                patching(),
                {"step": "x", "functionRef": {"name": "none"}},
            )
        )
        code, _, err = render("--trace")
        assert code == 1
        assert "step x: none, failed" in err
        assert err.count("Requested function {none} has not been registered") == 2

    @pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
    def test_environment_configs_of_both_versions_are_used(
        self, version: str, write: Write, render: Render
    ) -> None:
        asks = {
            "step": "environment",
            "functionRef": {"name": "function-environment-configs"},
            "input": {"spec": {"environmentConfigs": [{"ref": {"name": "zones"}}]}},
        }
        shown = '{{ (index .context "apiextensions.crossplane.io/environment").zone }}'
        write(
            composition=composition(asks, templating(resource_with(f"data: {{z: '{shown}'}}\n"))),
            configs=(
                f"apiVersion: apiextensions.crossplane.io/{version}\nkind: EnvironmentConfig\n"
                "metadata: {name: zones}\ndata: {zone: a}\n"
            ),
        )
        code, documents, err = render("-e", "configs.yaml")
        assert code == 0, err
        assert documents[1]["data"] == {"z": "a"}

    def test_object_with_two_names_is_printed_twice_with_a_warning(
        self, write: Write, render: Render
    ) -> None:
        key = "gotemplating.fn.crossplane.io/composition-resource-name"
        both = "\n---\n".join(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
            f"  {{name: m, annotations: {{{key}: {name}}}}}"
            for name in ("one", "two")
        )
        write(composition=composition(templating(both)))
        code, documents, err = render()
        assert code == 0
        assert [document["metadata"]["name"] for document in documents[1:]] == ["m", "m"]
        assert 'warning: composed resources "one" and "two" are the same object: ConfigMap m' in err


class TestWhatTheEngineAnswers:
    """Cases with surprising behaviour of the original engine."""

    def test_composition_of_the_command_line_is_selected(
        self, write: Write, render: Render
    ) -> None:
        write(
            xr=XR.replace("region: eu", "crossplane: {compositionRef: {name: other}}"),
            composition=composition(templating(resource_with("data: {}\n"))),
        )
        code, documents, err = render("-r")
        assert code == 0, err
        assert documents[-2]["reason"] == "SelectComposition"

    @pytest.mark.parametrize(
        ("metadata", "conditions"),
        [
            pytest.param(
                'annotations: {crossplane.io/paused: "true"}',
                ["Responsive WatchCircuitClosed", "Synced ReconcilePaused"],
                id="paused",
            ),
            pytest.param(
                'deletionTimestamp: "2026-01-01T00:00:00Z"',
                ["Responsive WatchCircuitClosed", "Ready Deleting", "Synced ReconcileSuccess"],
                id="under deletion",
            ),
        ],
    )
    def test_paused_and_deleted_xrs_call_no_functions(
        self, write: Write, render: Render, metadata: str, conditions: list[str]
    ) -> None:
        write(
            xr=XR.replace("name: shop", f"name: shop, {metadata}"),
            composition=composition(templating("{{ fail `was called` }}")),
        )
        code, documents, err = render()
        assert code == 0, err
        conditions_shown = documents[0]["status"]["conditions"]
        assert [
            f"{condition['type']} {condition['reason']}" for condition in conditions_shown
        ] == conditions
        assert len(documents) == 1

    def test_observed_resource_without_a_name_is_ignored(
        self, write: Write, render: Render
    ) -> None:
        write(
            composition=composition(templating(resource_with("data: {}\n"))),
            observed=(
                "# A document of nothing but comments.\n---\n"
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: other-, "
                "annotations: {crossplane.io/composition-resource-name: a}}\n"
            ),
        )
        code, documents, err = render("-o", "observed.yaml", "-e", "observed.yaml")
        assert code == 0, err
        assert documents[1]["metadata"]["generateName"] == "shop-"


class TestSecrets:
    def test_pipe_gets_unmasked_secrets_by_default(self, write: Write, render: Render) -> None:
        write(composition=composition(templating(SECRET)))
        _, documents, err = render()
        assert documents[1]["data"] == {"password": "aHVudGVyMg=="}
        assert err == ""
        _, documents, err = render("--mask-secrets")
        assert documents[1]["data"] == {"password": "**REDACTED**"}
        assert "--show-secrets prints them" in err

    def test_terminal_masks_secrets(
        self, write: Write, render: Render, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(composition=composition(templating(SECRET)))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert render()[1][1]["data"] == {"password": "**REDACTED**"}
        assert render("--show-secrets")[1][1]["data"] == {"password": "aHVudGVyMg=="}

    def test_credentials_in_results_are_masked(self, write: Write, render: Render) -> None:
        reference = {"namespace": "vault", "name": "s"}
        references = [{"name": "c", "source": "Secret", "secretRef": reference}]
        credentials = '{{ (getCredentialData . "c").token | toString }}'
        tells = resource_with(f"data: {{seen: '{credentials}'}}\n")
        write(
            secrets=(
                "apiVersion: v1\nkind: Secret\nmetadata: {namespace: vault, name: s}\n"
                "stringData: {token: open-sesame}\n"
            ),
            composition=composition(templating(tells, credentials=references)),
        )
        words = ("--function-credentials", "secrets.yaml")
        code, documents, err = render(*words, "--mask-secrets")
        assert code == 0, err
        assert documents[1]["data"] == {"seen": "***"}
        assert render(*words)[1][1]["data"] == {"seen": "open-sesame"}
        fails = '{{ fail (printf "not %s" (getCredentialData . "c").token) }}'
        write(composition=composition(templating(fails, credentials=references)))
        code, _, err = render(*words)
        assert code == 1
        assert "not ***" in err
        assert "open-sesame" not in err

    def test_composed_secrets_in_messages_are_masked(self, write: Write, render: Render) -> None:
        password = ".desired.resources.s.resource.data.password | b64dec"
        fails = f'{{{{ fail (printf "not %s" ({password})) }}}}'
        write(composition=composition(templating(SECRET), templating(fails, step="check")))
        code, _, err = render("--mask-secrets")
        assert code == 1
        assert "not ***" in err
        assert "hunter2" not in err

    def test_a_trace_masks_credentials_too(self, write: Write, render: Render) -> None:
        reference = {"namespace": "vault", "name": "s"}
        credentials = [{"name": "c", "source": "Secret", "secretRef": reference}]
        write(
            composition=composition(templating(SECRET, credentials=credentials)),
            secrets=(
                "apiVersion: v1\nkind: Secret\nmetadata: {namespace: vault, name: s}\n"
                "stringData: {token: open-sesame}\n"
            ),
        )
        words = ("--trace", "--function-credentials", "secrets.yaml")
        _, _, err = render(*words)
        assert "step template: function-go-templating" in err
        assert "+" in err
        for secret in ("b3Blbi1zZXNhbWU=", "open-sesame"):
            assert secret not in err
        # Text in a template is the author's own input, not data of a Secret.
        assert err.count("aHVudGVyMg==") == 1
        assert "aHVudGVyMg==" not in render(*words, "--mask-secrets")[2]
        _, _, err = render(*words, "--show-secrets")
        assert "b3Blbi1zZXNhbWU=" in err

    def test_connection_details_of_observed_resources_come_from_their_secret(
        self, write: Write, render: Render
    ) -> None:
        details = '(getComposedConnectionDetails . "db").password | toString'
        tells = f"data: {{secret: '{{{{ {details} }}}}'}}\n"
        write(
            composition=composition(templating(resource_with(tells))),
            secret=(
                "apiVersion: v1\nkind: Secret\nmetadata: {namespace: team-a, name: db-door}\n"
                "stringData: {password: open-sesame}\n"
            ),
            observed=(
                "apiVersion: example.org/v1\nkind: Database\n"
                "metadata: {name: d, annotations: {crossplane.io/composition-resource-name: db}}\n"
                "spec: {writeConnectionSecretToRef: {name: db-door}}\n"
            ),
        )
        words = ("-o", "observed.yaml", "-e", "secret.yaml")
        code, documents, err = render(*words, "--mask-secrets")
        assert code == 0, err
        assert documents[1]["data"] == {"secret": "***"}
        assert render(*words)[1][1]["data"] == {"secret": "open-sesame"}
        as_credential = ("-o", "observed.yaml", "--function-credentials", "secret.yaml")
        _, documents, _ = render(*as_credential, "--show-secrets")
        assert documents[1]["data"] == {"secret": "open-sesame"}
        _, documents, _ = render("-o", "observed.yaml")
        assert documents[1]["data"] == {"secret": "<nil>"}

    def test_connection_details_of_an_xr_of_the_old_layout_are_read_as_well(
        self, write: Write, render: Render
    ) -> None:
        key = "{{ .observed.composite.connectionDetails.user }}"
        write(
            composition=composition(templating(resource_with(f"data: {{user: '{key}'}}\n"))),
            xr=(
                "apiVersion: example.org/v1\nkind: XApp\nmetadata: {name: shop}\n"
                "spec: {writeConnectionSecretToRef: {namespace: doors, name: shop}}\n"
            ),
            secret=(
                "apiVersion: v1\nkind: Secret\nmetadata: {namespace: doors, name: shop}\n"
                "data: {user: YW5u}\n"
            ),
            xrd=(
                "apiVersion: apiextensions.crossplane.io/v1\nkind: CompositeResourceDefinition\n"
                "spec: {group: example.org, names: {kind: XApp}, versions: [{name: v1}]}\n"
            ),
        )
        _, documents, _ = render("--xrd", "xrd.yaml", "-e", "secret.yaml", "--show-secrets")
        assert documents[1]["data"] == {"user": "YW5u"}


class TestWhatRunsAFunction:
    def test_program_is_called_with_stdin(self, write: Write, render: Render) -> None:
        Path("fn.py").write_text(
            "import json, sys\n"
            "request = json.load(sys.stdin)\n"
            "made = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {}, 'data': {'a': 'b'}}\n"
            "json.dump({'desired': {'resources': {'x': {'resource': made}}}}, sys.stdout)\n",
            encoding="utf-8",
        )
        step = {"step": "own", "functionRef": {"name": "function-own"}}
        command = f"{sys.executable} fn.py"
        write(
            composition=composition(step),
            functions=function("function-own", runtime="Process", command=command),
        )
        code, documents, err = render("functions.yaml")
        assert (code, err) == (0, "")
        assert documents[1]["data"] == {"a": "b"}

    def test_python_class_in_the_working_folder_is_called(
        self, write: Write, render: Render
    ) -> None:
        Path("own_function_of_test.py").write_text(
            "from kanister_py.ports.composition_function import CompositionFunction\n"
            "class Own(CompositionFunction):\n"
            "    name = 'function-own'\n"
            "    def run(self, request):\n"
            "        made = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}}\n"
            "        return {'desired': {'resources': {'x': {'resource': made}}}}\n",
            encoding="utf-8",
        )
        step = {"step": "own", "functionRef": {"name": "function-own"}}
        write(
            composition=composition(step),
            functions=function("function-own", runtime="Python", entry="own_function_of_test:Own"),
        )
        _, documents, _ = render("functions.yaml")
        assert documents[1]["metadata"]["name"] == "p"

    @pytest.mark.parametrize("runtime", ["Process", "Python", "InProcess"])
    def test_large_integers_are_kept_by_all_runtimes(
        self, write: Write, render: Render, runtime: str
    ) -> None:
        own = (
            "import json, sys\n"
            "from kanister_py.ports.composition_function import CompositionFunction\n"
            "class Own(CompositionFunction):\n"
            "    name = 'function-own'\n"
            "    def run(self, request):\n"
            "        xr = request['observed']['composite']['resource']\n"
            "        made = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'},\n"
            "                'spec': {'number': xr['spec']['number'], 'text': "
            "str(int(xr['spec']['number'])), 'own': 2**53 + 1}}\n"
            "        return {'desired': {'resources': {'x': {'resource': made}}}}\n"
            "if __name__ == '__main__':\n"
            "    json.dump(Own().run(json.load(sys.stdin)), sys.stdout)\n"
        )
        Path("own_numbers.py").write_text(own, encoding="utf-8")
        template = (
            f"{resource_with('spec:')}\n  number: {{{{ .observed.composite.resource.spec.number"
            " | int64 }}\n  text: {{ .observed.composite.resource.spec.number | int64 | quote }}"
            f"\n  own: {2**53 + 1}\n"
        )
        case: dict[str, Any] = {
            "Process": {"command": f"{sys.executable} own_numbers.py"},
            "Python": {"entry": "own_numbers:Own"},
            "InProcess": {},
        }[runtime]
        name = "function-go-templating" if runtime == "InProcess" else "function-own"
        step = {"step": "own", "functionRef": {"name": name}}
        write(
            xr=XR.replace("region: eu", f"number: {2**53 + 1}"),
            composition=composition(templating(template) if runtime == "InProcess" else step),
            functions=function(name, runtime=runtime, **case),
        )
        code, documents, err = render("functions.yaml")
        assert code == 0, err
        want = {"number": 2**53, "text": str(2**53), "own": 2**53}
        assert documents[1]["spec"] == want
        assert "cannot be represented as a double" in err

    def test_served_function_responds_as_the_built_in_one(
        self, write: Write, render: Render
    ) -> None:
        name = "function-patch-and-transform"
        served = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kanister_py",
                "function",
                "serve",
                name,
                "--insecure",
                "--port",
                "0",
                "--metrics-port",
                "0",
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        try:
            assert served.stderr is not None
            line = next(text for text in served.stderr if text.startswith("Serving"))
            address = line.split(" on ")[1].split()[0]
            write(functions=function(name, runtime="Development", target=address))
            code, documents, err = render("functions.yaml", "-r", "-c")
            assert (code, err) == (0, "")
            assert documents == render("-r", "-c")[1]
        finally:
            served.terminate()
            served.wait(180)
            if served.stderr is not None:
                served.stderr.close()

    def test_built_in_function_that_the_file_of_functions_lacks_is_named(
        self, write: Write, render: Render
    ) -> None:
        name = "function-patch-and-transform"
        write(functions=function("function-own", runtime="Development"))
        code, documents, err = render("functions.yaml")
        assert (code, documents) == (1, [])
        assert f"note: {name} is built in, but the file of Functions does not list it" in err
        write(functions=function(name, runtime="InProcess"))
        code, _, err = render("functions.yaml")
        assert (code, "does not list it" in err) == (0, False)

    def test_unreachable_function_suggests_the_built_in_one(
        self, write: Write, render: Render
    ) -> None:
        name = "function-patch-and-transform"
        # Nothing listens on the port of tcpmux.
        write(functions=function(name, runtime="Development", target="127.0.0.1:1"))
        code, documents, err = render("functions.yaml", "--timeout", "200ms")
        assert (code, documents) == (1, [])
        assert f"note: {name} v0.1.0 is built in" in err
        hint = re.findall(r"render.crossplane.io/runtime=\w+", err)
        code, documents, err = render("functions.yaml", "-a", *hint)
        assert (code, documents[1]["data"]) == (0, {"r": "eu"})
        assert "is built in; " not in err

    @pytest.mark.parametrize(
        "annotations",
        [
            pytest.param({}, id="nothing says what runs it"),
            pytest.param({"runtime": "Docker"}, id="its annotation says Docker"),
        ],
    )
    def test_container_is_refused_with_the_alternatives(
        self, write: Write, render: Render, annotations: dict[str, str]
    ) -> None:
        step = {"step": "own", "functionRef": {"name": "function-own"}}
        write(composition=composition(step), functions=function("function-own", **annotations))
        code, documents, err = render("functions.yaml")
        assert (code, documents) == (1, [])
        assert "functions.yaml:" in err
        assert "Needs a container of " in err
        for hint in ("Development", "runtime-command", "runtime-entry-point", "InProcess"):
            assert hint in err

    def test_unused_container_function_is_ignored(self, write: Write, render: Render) -> None:
        unused = function("function-own")
        used = function("function-patch-and-transform", runtime="InProcess")
        write(functions=f"{used}---\n{unused}")
        code, documents, err = render("functions.yaml")
        assert (code, len(documents)) == (0, 2), err

    def test_upstream_package_is_replaced_by_the_built_in_function(
        self, write: Write, render: Render
    ) -> None:
        package = (
            "xpkg.example.org/crossplane-contrib/function-patch-and-transform@sha256:" + "0" * 64
        )
        write(functions=function("function-patch-and-transform", package))
        code, _, err = render("functions.yaml")
        assert code == 0
        assert f"is used in place of {package}" in err

    @pytest.mark.parametrize(
        ("annotations", "problem"),
        [
            pytest.param({"runtime": "Podman"}, "Must be one of Development", id="unknown runtime"),
            pytest.param(
                {"runtime": "InProcess"}, "No built-in function can run", id="not built in"
            ),
            pytest.param({"runtime": "Process"}, "Must contain the command", id="no command"),
            pytest.param({"runtime": "Python", "entry": "x"}, "module:Class", id="no class"),
            pytest.param(
                {"runtime": "Python", "entry": "nowhere:It"}, "No module named", id="no module"
            ),
            pytest.param(
                {"runtime": "Python", "entry": "json:loads"}, "name a class", id="not a class"
            ),
        ],
    )
    def test_invalid_annotation_is_reported_with_its_place(
        self, write: Write, render: Render, annotations: dict[str, str], problem: str
    ) -> None:
        write(functions=function("function-own", **annotations))
        code, _, err = render("functions.yaml")
        assert code == 1
        assert problem in err
        assert "functions.yaml:" in err

    def test_revisions_in_the_file_are_chosen_among(self, write: Write, render: Render) -> None:
        def revision(number: int, channel: str, state: str) -> str:
            return yaml.safe_dump(
                {
                    "apiVersion": "pkg.crossplane.io/v1",
                    "kind": "FunctionRevision",
                    "metadata": {
                        "name": f"pt-{number}",
                        "labels": {"pkg.crossplane.io/package": "pt", "channel": channel},
                        "annotations": {"render.crossplane.io/runtime": "InProcess"},
                    },
                    "spec": {
                        "image": "x.example.org/crossplane-contrib/function-patch-and-transform:v1",
                        "revision": number,
                        "desiredState": state,
                    },
                }
            )

        selector = {"matchLabels": {"channel": "beta"}}
        write(
            composition=composition(
                patching(functionRef={"name": "pt"}, functionRevisionSelector=selector)
            ),
            functions="---\n".join(
                (revision(1, "stable", "Active"), revision(2, "beta", "Active"))
            ),
        )
        assert (
            render("functions.yaml", "--output", "json")[1][0]["renders"][0]["steps"][0]["revision"]
            == "pt-2"
        )
        write(
            functions="---\n".join(
                (revision(1, "stable", "Active"), revision(2, "beta", "Inactive"))
            )
        )
        code, _, err = render("functions.yaml")
        assert code == 1
        assert "pt-2 (revision 2) is inactive" in err
        assert "pt-1 (revision 1) has channel=stable" in err


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("change", "refusal"),
        [
            pytest.param({"kind": "XOther"}, "compositeTypeRef.kind (XApp)", id="another kind"),
            pytest.param(
                {"apiVersion": "example.org/v2"}, "(example.org/v1)", id="another version"
            ),
            pytest.param(
                {"spec": {"crossplane": {"compositionSelector": {"matchLabels": {"tier": "tin"}}}}},
                "tier=tin: it has gold",
                id="another label",
            ),
            pytest.param({"metadata": {}}, "the XR has no name", id="no name"),
        ],
    )
    def test_xr_of_another_kind_is_refused(
        self, write: Write, render: Render, change: dict[str, Any], refusal: str
    ) -> None:
        write(xr=yaml.safe_dump({**yaml.safe_load(XR), **change}))
        code, documents, err = render()
        assert (code, documents) == (1, [])
        assert refusal in err

    def test_yaml_with_expanding_aliases_is_refused(self, write: Write, render: Render) -> None:
        bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
        for before, name in zip("abcdefg", "bcdefgh", strict=True):
            bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        write(xr=XR + bomb)
        code, _, err = render()
        assert code == 1
        assert "xr.yaml" in err

    def test_template_with_huge_output_is_refused(self, write: Write, render: Render) -> None:
        bomb = '{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}'
        write(composition=composition(templating(bomb)))
        code, _, err = render()
        assert code == 1
        assert 'pipeline step "template"' in err
        assert "function function-go-templating, revision" in err

    def test_unknown_field_is_reported_with_its_line(self, write: Write, render: Render) -> None:
        write(composition=composition(patching(wenn="true")))
        code, _, err = render()
        assert code == 0
        assert "spec.pipeline[0].wenn: Unknown field; did you mean when?" in err

    def test_unknown_field_of_an_input_is_refused(self, write: Write, render: Render) -> None:
        step = patching()
        step["input"]["resorces"] = []
        write(composition=composition(step))
        code, _, err = render()
        assert code == 1
        assert 'pipeline step "patch"' in err
        assert 'unknown name "resorces"' in err
        assert "function function-patch-and-transform, revision" in err

    def test_observed_resource_must_have_a_resource_name(
        self, write: Write, render: Render
    ) -> None:
        write(observed="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: team-a}\n")
        code, _, err = render("-o", "observed.yaml")
        assert code == 1
        assert "has no annotation crossplane.io/composition-resource-name" in err

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (("--timeout", "soon"), "--timeout: must be a duration such as 30s or 1m30s"),
            (("-a", "x"), "-a/--function-annotations: must be KEY=VALUE, found 'x'"),
            (("--context-files", "k"), "--context-files: must be KEY=VALUE, found 'k'"),
            (("--context-values", "k"), "--context-values: must be KEY=VALUE, found 'k'"),
            (
                ("--context-values", "k={"),
                "--context-values: the value of k is not JSON: it ends too early at",
            ),
            (("--context-values", "k=1 2"), "--context-values: found '2' after the value of k"),
        ],
    )
    def test_malformed_flag_is_named(
        self, words: tuple[str, ...], problem: str, render: Render
    ) -> None:
        code, _, err = render(*words)
        assert (code, "rgument " + problem in err) == (64, True), err

    def test_invalid_condition_is_reported_with_its_place(
        self, write: Write, render: Render
    ) -> None:
        write(composition=composition(patching(when="1 +")))
        code, documents, err = render()
        assert (code, documents) == (1, [])
        assert "composition.yaml:" in err
        assert "spec.pipeline[0].when: CEL expression '1 +': a value expected" in err

    def test_missing_folder_of_schemas_is_refused(self, render: Render) -> None:
        code, documents, err = render("--required-schemas", "nowhere")
        assert (code, documents, err) == (1, [], "error: nowhere: No such folder\n")

    def test_credentials_must_be_secrets(self, render: Render) -> None:
        code, documents, err = render("--function-credentials", "xr.yaml")
        assert (code, documents) == (1, [])
        assert err == ("error: xr.yaml:2:1: kind: Must be a Secret, found XApp of example.org/v1\n")

    def test_a_command_line_without_files(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["render"]) == 64


SUITE: dict[str, Any] = {
    "apiVersion": "kanister-py.io/v1alpha1",
    "kind": "RenderSuite",
    "composition": "composition.yaml",
}


class TestSuites:
    def suite(self, *cases: dict[str, Any]) -> str:
        return yaml.safe_dump({**SUITE, "cases": [{"xr": "xr.yaml", **case} for case in cases]})

    def test_met_expectations_pass(self, write: Write, render: Render, tmp_path: Path) -> None:
        write(
            suite=self.suite(
                {
                    "name": "europe",
                    "expect": {
                        "resourceCount": 1,
                        "ready": False,
                        "resources": [
                            {"name": "bucket", "ready": False, "object": {"data": {"r": "eu"}}},
                            {"name": "other", "absent": True},
                        ],
                        "composite": {"kind": "XApp"},
                        "events": [{"severity": "Normal", "message": "not yet ready"}],
                    },
                },
                {
                    "name": "written in the suite",
                    "xr": {**yaml.safe_load(XR), "spec": {"region": "us"}},
                    "expect": {"resources": [{"name": "bucket", "object": {"data": {"r": "us"}}}]},
                },
                {
                    "name": "refused",
                    "xr": {**yaml.safe_load(XR), "kind": "XOther"},
                    "expect": {"error": "does not match XR's kind"},
                },
            )
        )
        code, _, err = render("--assert", "suite.yaml", "--junit", "report.xml", files=())
        assert code == 0, err
        assert "3 passed, 0 failed" in err
        report = ET.parse(tmp_path / "report.xml").getroot()
        assert (report.get("tests"), report.get("failures")) == ("3", "0")

    @pytest.mark.parametrize(
        ("expect", "failure"),
        [
            pytest.param({"resourceCount": 2}, "resourceCount: expected 2, found 1", id="count"),
            pytest.param({"ready": True}, "ready: expected true, found false", id="ready"),
            pytest.param({"error": "x"}, "the pipeline succeeded", id="no error"),
            pytest.param(
                {"resources": [{"name": "no"}]},
                "resources[no]: expected one; there are bucket",
                id="none",
            ),
            pytest.param(
                {"resources": [{"name": "bucket", "absent": True}]}, "found a ConfigMap", id="one"
            ),
            pytest.param(
                {"resources": [{"name": "bucket", "object": {"data": {"r": "us", "q": 1}}}]},
                'resources[bucket].object.data.r: expected "us", found "eu"',
                id="another value",
            ),
            pytest.param({"composite": {"status": {"url": "x"}}}, "found nothing", id="nothing"),
            pytest.param({"events": [{"severity": "Warning"}]}, "events: expected", id="no event"),
            pytest.param({"golden": "none.yaml"}, "--update writes it", id="no golden file"),
        ],
    )
    def test_failed_expectations_are_reported_with_their_place(
        self, write: Write, render: Render, expect: dict[str, Any], failure: str
    ) -> None:
        write(suite=self.suite({"name": "case", "expect": expect}))
        code, _, err = render("--assert", "suite.yaml", "--junit", "report.xml", files=())
        assert code == 1
        assert failure in err
        assert "0 passed, 1 failed" in err
        assert ET.parse("report.xml").find("testcase/failure") is not None

    def test_golden_file_is_written_and_compared(self, write: Write, render: Render) -> None:
        write(suite=self.suite({"name": "all", "expect": {"golden": "want.yaml"}}))
        words = ("--assert", "suite.yaml")
        assert render(*words, "--update", files=())[0] == 0
        assert render(*words, files=())[0] == 0
        write(xr=XR.replace("eu", "us"))
        code, _, err = render(*words, files=())
        assert code == 1
        assert 'data.r: expected "eu", found "us"' in err

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            pytest.param({"kind": "Suite"}, "Must be a RenderSuite", id="kind"),
            pytest.param({"cases": []}, "at least one case", id="no cases"),
            pytest.param({"case": []}, "did you mean cases?", id="misspelled"),
            pytest.param(
                {"cases": [{"xr": "x", "expect": {"redy": True}}]}, "did you mean ready?", id="deep"
            ),
            pytest.param({"cases": [{"xr": "x"}]}, "expect: Must be given", id="nothing wanted"),
        ],
    )
    def test_invalid_suite_is_refused(
        self, write: Write, render: Render, change: dict[str, Any], problem: str
    ) -> None:
        case = {"name": "c", "xr": "xr.yaml", "expect": {"ready": True}}
        write(suite=yaml.safe_dump({**SUITE, "cases": [case], **change}))
        code, _, err = render("--assert", "suite.yaml", files=())
        assert code == 1
        assert problem in err


def test_watching_renders_again_when_a_file_changes(write: Write, tmp_path: Path) -> None:
    def put(text: str) -> None:
        # Written atomically, so that the watcher sees one change.
        (tmp_path / "new.yaml").write_text(text, encoding="utf-8")
        (tmp_path / "new.yaml").replace("xr.yaml")

    process = subprocess.Popen(
        [sys.executable, "-m", "kanister_py", "render", "xr.yaml", "composition.yaml", "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        assert process.stderr is not None
        assert process.stdout is not None
        assert "rendered in" in process.stderr.readline()
        put("kind: [")
        assert "error:" in process.stderr.readline()
        assert "rendered in" in process.stderr.readline()
        put(XR.replace("eu", "us"))
        assert "rendered in" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out = process.stdout.read()
        assert process.wait(180) == 0
        process.stderr.close()
        process.stdout.close()
    finally:
        process.kill()
        process.wait()
    regions = [
        document["data"]["r"]
        for document in yaml.safe_load_all(out)
        if document and document["kind"] == "ConfigMap"
    ]
    assert regions == ["eu", "us"]


def test_responses_with_a_ttl_are_cached(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(composition=composition(patching(ttl="10m")))
    words = ["render", "xr.yaml", "composition.yaml", "-o", "json", "--cache-dir", "cache"]
    cached = []
    for _ in range(2):
        assert main(words) == 0
        cached.append(json.loads(capsys.readouterr().out)["renders"][0]["steps"][0]["cached"])
    assert cached == [False, True]
