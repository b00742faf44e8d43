from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml


class Finished(Protocol):
    code: int
    out: str
    err: str


class CommandLine(Protocol):
    def __call__(self, *words: str, **options: Any) -> Finished: ...


BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: tell}
actions:
  tell:
    phases:
    - name: hello
      func: Greet
      args: {name: "{{ .Options.who }}"}
    - name: tell
      func: Notify
      funcVersion: v0.1.0
      args: {to: "{{ .Object.data.to }}", text: "{{ .Phases.hello.Output.text }}"}
"""
CONFIG = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\ndata: {to: me}\n"
)
PLAN = ("plan", "-", "tell", "--option", "who=you")


class TestPlan:
    def test_plan_shows_phases_and_arguments(self, kanister: CommandLine, tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text(CONFIG)
        words = (*PLAN, "-f", str(tmp_path), "--object", "ConfigMap/c")
        done = kanister(*words, stdin=BLUEPRINT)
        assert done.code == 0
        assert "1. hello (Greet v0.0.0)" in done.out
        assert "name: you" in done.out
        assert "args.text: known after hello" in done.out
        assert "Notify v0.1.0 is deprecated" in done.err
        data = json.loads(kanister(*words, "-o", "json", stdin=BLUEPRINT).out)
        assert data["phases"][1]["args"]["to"] == "me"
        assert yaml.safe_load(kanister(*words, "-o", "yaml", stdin=BLUEPRINT).out) == data

    def test_plan_lists_declared_options_and_flags_for_missing_ones(
        self, kanister: CommandLine
    ) -> None:
        who = "{who: {required: true, description: Whom to greet}}"
        declares = BLUEPRINT.replace("    phases:", f"    options: {who}\n    phases:")
        done = kanister("plan", "-", "tell", stdin=declares)
        assert "options:\n  who: string; required: Whom to greet\n" in done.out
        assert "  --option who=VALUE\n" in done.out
        done = kanister("plan", "-", "tell", "--option", "hwo=you", stdin=declares)
        assert done.code == 1
        assert "Action tell has no option hwo; did you mean who?" in done.out

    def test_plan_warns_of_an_option_that_nothing_reads(self, kanister: CommandLine) -> None:
        done = kanister(*PLAN, "--option", "hwo=me", stdin=BLUEPRINT)
        assert "warning: Option hwo is set, but action tell does not use it" in done.err
        assert "did you mean who?" in done.err

    def test_each_problem_of_a_phase_has_a_line(self, kanister: CommandLine) -> None:
        lacking = BLUEPRINT.replace('{to: "{{ .Object.data.to }}"', '{tow: "x", by: "y"')
        out = kanister(*PLAN, stdin=lacking).out
        lines = [line for line in out.splitlines() if line.startswith("   error: tell/tell args")]
        assert [line.rpartition("): ")[2] for line in lines] == [
            "Required arg missing: to",
            "argument by is not supported",
            "argument tow is not supported; did you mean to?",
        ]

    def test_target_release_shows_removed_versions(self, kanister: CommandLine) -> None:
        described = json.loads(kanister("functions", "describe", "Notify", "-o", "json").out)
        release = f"{described['source']}=1.3.0"
        done = kanister(*PLAN, "--target-release", release, stdin=BLUEPRINT)
        assert done.code == 1
        assert "Notify v0.1.0 was removed in release 1.3.0" in done.out

    @pytest.mark.parametrize(
        ("condition", "rendered", "why"),
        [
            pytest.param('{{ index .Options "announce" }}', "", "if is empty", id="to nothing"),
            pytest.param("", "", "if is empty", id="nothing at all"),
            pytest.param("false", "false", "if is false", id="false"),
        ],
    )
    def test_phase_with_a_false_condition_is_skipped(
        self, kanister: CommandLine, condition: str, rendered: str, why: str
    ) -> None:
        text = BLUEPRINT.replace("- name: tell\n", f"- name: tell\n      if: '{condition}'\n")
        words = (*PLAN, "--object", "ConfigMap/c")
        done = kanister(*words, stdin=text)
        assert done.code == 0
        assert done.out.count(f"   skipped: {why}\n") == 1
        _, tell = json.loads(kanister(*words, "-o", "json", stdin=text).out)["phases"]
        assert (tell["if"], tell["skipped"]) == (rendered, why)

    def test_missing_inputs_are_listed_with_their_flags(self, kanister: CommandLine) -> None:
        reads = "{{ .Secrets.s.Data.x }}{{ .ConfigMaps.c.Data.y }}{{ .Deployment.Name }}"
        objects = "objects: {k: {kind: Secret, name: nope, namespace: shop}}"
        left = "    outputArtifacts: {x: {keyValue: {p: '{{ .Profile.Location.Bucket }}'}}}\n"
        text = (
            BLUEPRINT.replace("{{ .Phases.hello.Output.text }}", reads)
            .replace("- name: hello\n", f"- name: hello\n      {objects}\n")
            .replace("    phases:\n", f"{left}    phases:\n")
        )
        done = kanister("plan", "-", "tell", stdin=text)
        assert done.code == 0
        assert 'args.text: no "c" in .ConfigMaps; there is nothing in it' in done.out
        _, _, flags = done.out.partition("missing inputs, not checked:\n")
        want = [
            "--profile NAMESPACE/NAME",
            "--option who=VALUE",
            "--secret s=NAMESPACE/NAME",
            "--config-map c=NAMESPACE/NAME",
            "--object Deployment/NAMESPACE/NAME",
            "-f FILE: the manifests of missing objects",
        ]
        assert sorted(line.strip() for line in flags.splitlines()) == sorted(want)
        data = json.loads(kanister("plan", "-", "tell", "-o", "json", stdin=text).out)
        assert sorted(data["notGiven"]) == sorted(want)
        assert [entry["path"] for entry in data["unknown"]] == ["outputArtifacts.x.keyValue.p"]

    def test_errors_outside_of_phases_are_listed(self, kanister: CommandLine) -> None:
        left = "    outputArtifacts: {x: {keyValue: {p: '{{ .Phases.zzz.Output.path }}'}}}\n"
        text = BLUEPRINT.replace("    phases:\n", f"{left}    phases:\n")
        done = kanister(*PLAN, stdin=text)
        assert done.code == 1
        (problem,) = [line for line in done.out.splitlines() if line.startswith("error: ")]
        assert "tell outputArtifacts.x.keyValue.p" in problem
        assert "The action tell has no phase zzz; its phases are hello, tell" in problem
        (error,) = json.loads(kanister(*PLAN, "-o", "json", stdin=text).out)["errors"]
        assert problem == f"error: {error}"

    def test_unknown_action_fails(self, kanister: CommandLine) -> None:
        done = kanister("plan", "-", "sing", stdin=BLUEPRINT)
        assert (done.code, done.out) == (1, "")
        assert "sing" in done.err


class TestGraph:
    @pytest.mark.parametrize(
        ("form", "start"), [("mermaid", "---\ntitle:"), ("dot", "digraph"), ("json", "{")]
    )
    def test_draws_a_blueprint(self, kanister: CommandLine, form: str, start: str) -> None:
        done = kanister("graph", "-", "-o", form, stdin=BLUEPRINT)
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(start)

    def test_draws_an_action_set_that_comes_with_its_blueprint(self, kanister: CommandLine) -> None:
        action_set = (
            "---\napiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\nmetadata: {name: s}\n"
            "spec: {actions: [{name: tell, blueprint: tell, object: {kind: Pod, name: p}}]}\n"
        )
        assert 'a0["tell of Pod p"]' in kanister("graph", "-", stdin=BLUEPRINT + action_set).out
        alone = kanister("graph", "-", stdin=action_set)
        assert alone.code == 1
        assert "add the Blueprint's file" in alone.err

    def test_other_files_are_refused(self, kanister: CommandLine) -> None:
        done = kanister("graph", "-", stdin="a: 1\n")
        assert (done.code, done.out) == (1, "")


class TestRbac:
    def test_prints_roles_that_kubectl_takes(self, kanister: CommandLine) -> None:
        text = BLUEPRINT.replace(
            "{{ .Options.who }}", "{{ .Deployment.Name }}{{ .Namespace.Name }}"
        )
        done = kanister("rbac", "-", "-n", "shop", stdin=text)
        assert done.code == 0
        role, cluster_role = yaml.safe_load_all(done.out)
        assert role["metadata"] == {"name": "run-tell", "namespace": "shop"}
        assert ["deployments"] in [rule["resources"] for rule in role["rules"]]
        assert cluster_role["kind"] == "ClusterRole"
        assert "Greet does not declare its accesses" in done.err

    def test_unknown_action_fails(self, kanister: CommandLine) -> None:
        done = kanister("rbac", "-", "--action", "tel", stdin=BLUEPRINT)
        assert done.code == 1
        assert "There is no action tel, only tell" in done.err

    def test_roles_allow_reading_the_object(self, kanister: CommandLine) -> None:
        without = kanister("rbac", "-", stdin=BLUEPRINT)
        assert "tell reads its object, whose kind is unknown" in without.err
        assert without.out == ""
        done = kanister("rbac", "-", "-n", "shop", "--object", "ConfigMap/c", stdin=BLUEPRINT)
        assert "its object" not in done.err
        (role,) = yaml.safe_load_all(done.out)
        assert role["metadata"]["namespace"] == "shop"
        assert role["rules"] == [
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["c"]}
            | {"verbs": ["get"]}
        ]

    @pytest.mark.parametrize(
        ("words", "group"),
        [
            pytest.param("StorageClass/fast", "storage.k8s.io", id="by its kind"),
            pytest.param("storage.k8s.io/v1/storageclasses/x/fast", "storage.k8s.io", id="in full"),
            pytest.param("Namespace/shop", "", id="a namespace"),
        ],
    )
    def test_cluster_scoped_object_needs_a_cluster_role(
        self, kanister: CommandLine, words: str, group: str
    ) -> None:
        done = kanister("rbac", "-", "--object", words, stdin=BLUEPRINT)
        (role,) = yaml.safe_load_all(done.out)
        assert role["kind"] == "ClusterRole"
        assert [rule["apiGroups"] for rule in role["rules"]] == [[group]]

    def test_malformed_object_fails(self, kanister: CommandLine) -> None:
        done = kanister("rbac", "-", "--object", "Sandwich/c", stdin=BLUEPRINT)
        assert (done.code, done.out) == (64, "")
        assert "there is no kind Sandwich" in done.err
