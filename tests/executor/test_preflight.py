"""Check of an action before its first phase: all certain failures at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from kanister_py import Args, Func, Outputs, PhaseContext
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.access import Access
from kanister_py.core.registry.entries import FunctionEntry, RegistryBuilder, Source
from kanister_py.core.versions.deprecation import Listing, Read
from kanister_py.core.versions.semver import parse_version
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.run.background import Run
from kanister_py.runs import RunSettings, run_actionset, run_blueprint
from kanister_py.wiring import read_functions, registry_of

_ACTED: list[str] = []


class ActArgs(Args):
    say: str = ""
    times: int = 1


class ActOutputs(Outputs):
    word: str = ""


class Act(Func):
    """Acts, and changes nothing that templates read."""

    name = "Act"
    Args = ActArgs
    Outputs = ActOutputs

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("apps", "deployments", ("get", "update"))]

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        _ACTED.append(ctx.run.phase)
        return {"word": args.say}


def _time(text: str) -> str:
    if not text.endswith("s"):
        raise ValueError("no time")
    return text


class WithDurationArgs(ActArgs):
    patience: Annotated[str, AfterValidator(_time)] = "1s"


class WithDuration(Act):
    """Acts, with a duration as argument."""

    name = "WithDuration"
    Args = WithDurationArgs


class WaitsForChange(Act):
    """Waits for a change in the cluster."""

    name = "WaitsForChange"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("", "pods", ("get", "watch"))]


class ActsOutside(Act):
    """Acts outside of the cluster."""

    name = "ActsOutside"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return []


class Declare(Act):
    """Changes a custom resource, whose operator may create anything."""

    name = "Declare"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("cert-manager.io", "certificates", ("patch",))]


class Command(Act):
    """Runs a command, which may change anything."""

    name = "Command"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("", "pods", ("create",))]


def act(name: str, say: str = "x", func: str = "Act", **more: Any) -> dict[str, Any]:
    return {"func": func, "name": name, "args": {"say": say}, **more}


class NeedsPod(Act):
    """Always needs a pod."""

    name = "NeedsPod"
    needs_pods = True


class PodActArgs(ActArgs):
    pod_override: dict[str, Any] | None = None


class MakesPod(Act):
    """Merges the ActionSet's `podOverride` into its pod."""

    name = "MakesPod"
    Args = PodActArgs


def blueprint(*phases: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "made-up"},
        "actions": {"go": {"phases": list(phases), **more}},
    }


def run_manifest(
    manifest: Mapping[str, Any] | Path, objects: Iterable[Any] = (), **more: Any
) -> Run:
    _ACTED.clear()
    registry = registry_of(
        Act, Command, WaitsForChange, ActsOutside, Declare, WithDuration, NeedsPod, MakesPod
    )
    settings = RunSettings(objects=tuple(objects), registry=registry)
    return run_blueprint(manifest, "go", settings=settings, **more).wait(180)


def problems_of(run: Run) -> list[str]:
    error = run.progress.error
    return [] if error is None else list(error.problems)


ABSENT = {"s": {"kind": "Secret", "name": "absent", "namespace": "shop"}}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "absent", "namespace": "shop"},
    "stringData": {"password": "correct-horse"},
}
READS_SECRET = '{{ index .Phases.second.Secrets.s.Data "password" | toString }}'


@pytest.mark.parametrize(
    ("second", "want"),
    [
        pytest.param(act("second", func="Akt"), "did you mean Act", id="a function"),
        pytest.param(act("second", funcVersion=">=9"), ">=9", id="a version"),
        pytest.param(act("second", "{{ .Options.word"), "unclosed action", id="no template"),
        pytest.param(act("second", "{{ .Options.wrod }}"), '"wrod"', id="an option"),
        pytest.param(act("second", "{{ .Deployment.Name }}"), ".Deployment", id="another object"),
        pytest.param(
            act("second", "{{ .Phases.first.Output.word }} {{ .Options.wrod }}"),
            '"wrod"',
            id="an option next to an unknown value",
        ),
        pytest.param(act("second", "{{ .Phases.frist.Output.word }}"), "first", id="a phase"),
        pytest.param(act("second", "{{ .Phases.first.Output.wrod }}"), "wrod", id="an output"),
        pytest.param(
            {"func": "Act", "name": "second", "args": {"sya": "x"}}, "sya", id="an argument"
        ),
        pytest.param(
            {"func": "Act", "name": "second", "args": {"times": "many"}}, "times", id="a type"
        ),
        pytest.param(act("second", objects=ABSENT), "Secret shop/absent", id="a Secret"),
        pytest.param(
            act("second", timeout="10 minutes"),
            "timeout: '10 minutes' is not a duration",
            id="a time",
        ),
        pytest.param(
            act("second", retry={"limit": 1, "backoff": "3"}),
            "backoff: '3' is not a duration",
            id="a wait",
        ),
        pytest.param(
            act(
                "second",
                func="WithDuration",
                args={"patience": "5", "say": "{{ .Phases.first.Output.word }}"},
            ),
            "patience: Failed to decode arg `patience`: no time",
            id="an argument next to an unknown one",
        ),
    ],
)
def test_an_error_in_a_later_phase_is_reported_before_the_first_phase_starts(
    second: dict[str, Any], want: str
) -> None:
    run = run_manifest(blueprint(act("first"), second), options={"word": "x"})
    (problem,) = problems_of(run)
    assert want in problem
    assert "go/second" in problem
    assert _ACTED == []
    error = run.progress.error
    assert error is not None
    assert error.phase == "second"
    states = [phase["state"] for phase in run.status["actions"][0]["phases"]]
    assert states == ["pending", "failed"]


def test_a_template_syntax_error_is_the_only_problem_of_its_argument() -> None:
    spec = "a: {{ .Options.x | \nb: ["
    args = {"operation": "create", "namespace": "default", "spec": spec}
    settings = RunSettings(registry=read_functions().registry)
    manifest = blueprint({"func": "KubeOps", "name": "create", "args": args})
    run = run_blueprint(manifest, "go", settings=settings).wait(180)
    assert run.progress.error is not None
    assert run.progress.error.reason == "TemplateParseError"
    assert "Not valid YAML" not in str(run.status)


def test_a_phase_that_needs_a_pod_is_refused_if_pods_are_not_run() -> None:
    needing = act("second", func="NeedsPod")
    run = run_manifest(blueprint(act("first"), needing))
    (problem,) = problems_of(run)
    assert "NeedsPod needs a pod" in problem
    assert "--pods processes" in problem
    assert run.progress.error is not None
    assert run.progress.error.reason == "PodsNotRun"
    assert _ACTED == []
    skipped = run_manifest(blueprint(act("first"), {**needing, "if": "false"}))
    assert skipped.is_complete


@pytest.mark.parametrize(
    ("func", "acted"),
    [
        pytest.param("MakesPod", [], id="that makes a pod"),
        pytest.param("Act", ["first", "second"], id="that makes none"),
    ],
)
def test_an_invalid_pod_override_is_refused_before_the_first_phase(
    func: str, acted: list[str]
) -> None:
    run = run_manifest(
        blueprint(act("first"), act("second", func=func)), pod_override={"containers": "none"}
    )
    assert acted == _ACTED
    refused = [problem for problem in problems_of(run) if "podOverride.containers" in problem]
    assert bool(refused) is (not acted)


def test_all_errors_are_reported_at_once_with_their_places(tmp_path: Path) -> None:
    file = tmp_path / "blueprint.yaml"
    file.write_text(
        "apiVersion: cr.kanister.io/v1alpha1\n"
        "kind: Blueprint\n"
        "metadata: {name: made-up}\n"
        "actions:\n"
        "  go:\n"
        "    phases:\n"
        "    - func: Act\n"
        "      name: first\n"
        "      args:\n"
        "        say: '{{ .Options.absent }}'\n"
        "        bogus: 1\n"
        "    - {func: Nope, name: second}\n"
        "    deferPhase: {func: Act, name: last, args: {say: '{{ if }}'}}\n"
        "    outputArtifacts: {a: {keyValue: {k: '{{ .Options.gone }}'}}}\n"
    )
    problems = problems_of(run_manifest(file, options={"word": "x"}))
    places = [problem.partition(":")[0].rpartition(" ")[0] for problem in problems]
    lines = [problem.split("blueprint.yaml:")[1].partition(")")[0] for problem in problems]
    assert sorted(places) == sorted(
        [
            "go outputArtifacts.a.keyValue.k",
            "go/deferPhase args.say",
            "go/first args.bogus",
            "go/first args.say",
            "go/second func",
        ]
    )
    assert sorted(map(int, lines)) == [10, 11, 12, 13, 14]
    assert _ACTED == []


def test_all_errors_of_one_template_are_reported_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "blueprint.yaml"
    file.write_text(
        "apiVersion: cr.kanister.io/v1alpha1\n"
        "kind: Blueprint\n"
        "metadata: {name: made-up}\n"
        "actions:\n"
        "  go:\n"
        "    phases:\n"
        "    - func: Act\n"
        "      name: first\n"
        "      args:\n"
        "        say: |\n"
        "          {{ .Options.wrod }} {{ .Options.wrod }}\n"
        "          {{ if .Options.word }}{{ .Options.sometimes }}{{ end }}\n"
        "          {{ .Deployment.Name }}\n"
        "          {{ .Phases.frist.Output.word }} {{ .Phases.second.Output.word }}\n"
        "    - {func: Act, name: second}\n"
    )
    problems = problems_of(run_manifest(file, options={"word": "x"}))
    lines = [problem.split("blueprint.yaml:")[1].partition(")")[0] for problem in problems]
    assert lines == ["11", "13", "14", "14"]
    messages = (
        '"wrod" in .Options',
        ".Deployment is missing",
        "no phase frist",
        "second runs later",
    )
    assert [want in problem for want, problem in zip(messages, problems, strict=True)] == [True] * 4


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        pytest.param(
            blueprint(act("first", func="Command"), act("second", READS_SECRET, objects=ABSENT)),
            "an earlier phase may create it",
            id="an earlier phase may make the object",
        ),
        pytest.param(
            blueprint(
                act("first", func="WaitsForChange"), act("second", READS_SECRET, objects=ABSENT)
            ),
            "an earlier phase may create it",
            id="an earlier phase waits",
        ),
        pytest.param(
            blueprint(
                act("first", func="ActsOutside"), act("second", READS_SECRET, objects=ABSENT)
            ),
            "an earlier phase may create it",
            id="an earlier phase acts elsewhere",
        ),
        pytest.param(
            blueprint(act("first", func="Declare"), act("second", READS_SECRET, objects=ABSENT)),
            "an earlier phase may create it",
            id="an earlier phase changes a custom resource",
        ),
        pytest.param(
            blueprint(
                act("first"),
                act(
                    "second",
                    READS_SECRET,
                    objects=ABSENT,
                    retry={"limit": 1, "backoff": "1ms", "on": ["NotFound"]},
                ),
            ),
            "its phase is retried on NotFound",
            id="the phase is tried again until it is there",
        ),
        pytest.param(
            blueprint(
                act("first"),
                act(
                    "second",
                    READS_SECRET,
                    objects=ABSENT,
                    **{"if": "{{ .Phases.first.Output.word }}"},
                ),
            ),
            "its phase may be skipped",
            id="the phase may be skipped",
        ),
    ],
)
def test_an_object_that_may_be_created_in_time_is_no_error(
    manifest: dict[str, Any], reason: str
) -> None:
    run = run_manifest(manifest)
    assert "first" in _ACTED
    (warning,) = run.notices
    assert warning.reason == "NotChecked"
    assert "Secret shop/absent" in warning.message
    assert reason in warning.message


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param(
            act("second", "{{ .Options.absent }}", **{"if": "{{ eq 1 2 }}"}), id="never taken"
        ),
        pytest.param(
            act("second", "{{ .Options.absent }}", **{"if": "{{ .Phases.first.Output.word }}"}),
            id="known only later",
        ),
        pytest.param(
            act("second", "{{ if .Phases.first.Output.word }}{{else}}{{ .Options.absent }}{{end}}"),
            id="inside a text",
        ),
        pytest.param(act("second", '{{ index .Options "absent" }}'), id="an index finds nothing"),
    ],
)
def test_a_branch_that_may_be_skipped_is_no_error(phase: dict[str, Any]) -> None:
    run = run_manifest(blueprint(act("first", "false"), phase), options={"word": "x"})
    assert _ACTED[0] == "first"
    assert run.is_complete or "if" in phase


def test_an_existing_secret_is_read_and_masked() -> None:
    wrong = "{{ .Phases.second.Secrets.s.Data.password | toString | fail }}"
    run = run_manifest(blueprint(act("first"), act("second", wrong, objects=ABSENT)), [SECRET])
    assert len(problems_of(run)) == 1
    assert "correct-horse" not in str(run.status)


def test_warnings_before_a_run_mask_secrets() -> None:
    named = {"s": {**ABSENT["s"], "name": '{{ index .Secrets.c.Data "password" | toString }}'}}
    manifest = blueprint(act("first", func="Command"), act("second", objects=named))
    run = run_manifest(manifest, [SECRET], secrets={"c": ABSENT["s"]})
    (warning,) = run.notices
    assert warning.reason == "NotChecked"
    assert "correct-horse" not in str(run.status)


def test_code_that_cannot_be_loaded_is_reported_before_the_first_phase() -> None:
    (entry,) = registry_of(Command).family("Command").candidates
    broken = entry._replace(target="kanister_py.functions.absent:Command")
    builder = RegistryBuilder(registry_of(Act))
    builder.add([broken], broken)
    settings = RunSettings(registry=builder.build())
    _ACTED.clear()
    manifest = blueprint(act("first"), act("second", func="Command"))
    run = run_blueprint(manifest, "go", settings=settings).wait(180)
    (problem,) = problems_of(run)
    assert "cannot be loaded: ModuleNotFoundError" in problem
    assert _ACTED == []


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param({"wrod": "x", "word": "y"}, ["OptionUnused"], id="nothing reads it"),
        pytest.param({"word": "x"}, [], id="it is read"),
    ],
)
def test_an_unused_option_is_a_warning(options: dict[str, str], want: list[str]) -> None:
    run = run_manifest(blueprint(act("first", "{{ .Options.word }}")), options=options)
    assert [notice.reason for notice in run.notices] == want
    assert all("did you mean word" in notice.message for notice in run.notices)


COUNT = {"count": {"type": "integer", "default": "3"}, "mode": {"enum": ["fast", "slow"]}}
READS_COUNT = act("first", "{{ .Options.count }}")


def test_templates_see_the_default_of_a_declared_option() -> None:
    artifacts = {"a": {"keyValue": {"count": "{{ .Options.count }}"}}}
    manifest = blueprint(READS_COUNT, options=COUNT, outputArtifacts=artifacts)
    run = run_manifest(manifest)
    assert run.artifacts["a"]["keyValue"] == {"count": "3"}
    run = run_manifest(manifest, options={"count": "4"})
    assert run.artifacts["a"]["keyValue"] == {"count": "4"}


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"count": "many"}, "Option count of action go must be an integer, found 'many'"),
        ({"cuont": "1"}, "Action go has no option cuont; did you mean count?"),
        ({"other": "1"}, "Action go has no option other; its options are count, mode"),
        ({"mode": "fats"}, "Option mode of action go must be one of fast, slow, found 'fats'"),
    ],
)
def test_options_that_contradict_declarations_are_refused_before_the_first_phase(
    options: dict[str, str], want: str
) -> None:
    run = run_manifest(blueprint(READS_COUNT, options=COUNT), options=options)
    (problem,) = problems_of(run)
    assert problem.startswith(want)
    assert run.progress.error is not None
    assert run.progress.error.reason == "OptionInvalid"
    assert _ACTED == []


def test_a_missing_required_option_is_reported_once() -> None:
    declared = {"who": {"required": True, "description": "Person to greet"}}
    run = run_manifest(blueprint(act("first", "{{ .Options.who }}"), options=declared))
    want = "Action go requires the option who (Person to greet), but it is not given"
    assert problems_of(run) == [want]
    assert _ACTED == []


def test_options_that_another_action_declares_are_accepted() -> None:
    manifest = blueprint(READS_COUNT, options=COUNT)
    manifest["actions"]["back"] = {"phases": [act("p")], "options": {"speed": {}}}
    run = run_manifest(manifest, options={"speed": "high"})
    assert [notice.reason for notice in run.notices] == ["OptionUnused"]


def test_options_are_declared_in_an_annotation() -> None:
    manifest = blueprint(READS_COUNT)
    text = '{"go": {"count": {"type": "integer", "default": "3"}}}'
    manifest["metadata"]["annotations"] = {"kanister-py.io/options": text}
    assert problems_of(run_manifest(manifest)) == []
    (problem,) = problems_of(run_manifest(manifest, options={"count": "x"}))
    assert problem == "Option count of action go must be an integer, found 'x'"


def test_a_missing_declared_secret_is_a_warning() -> None:
    run = run_manifest(blueprint(act("first"), secretNames=["db"]))
    (warning,) = run.notices
    assert (warning.reason, "Secret db" in warning.message) == ("InputMissing", True)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("kando --profile '{{ toJson .Profile }}'", ["InputMissing"], id="Go"),
        pytest.param("kando --profile '{{ .Profile | toJson }}'", ["InputMissing"], id="piped"),
        pytest.param("{{ with .Profile }}{{ toJson . }}{{ end }}", [], id="only if there is one"),
        pytest.param("{{ if .Profile }}{{ toJson .Profile }}{{ end }}", [], id="asked for first"),
    ],
)
def test_a_missing_profile_for_kando_is_a_warning(text: str, want: list[str]) -> None:
    run = run_manifest(blueprint(act("first", text)))
    assert [notice.reason for notice in run.notices] == want


def test_a_missing_secret_of_an_action_is_reported_with_its_full_name() -> None:
    named = {"db": {"name": "login", "namespace": "shop"}}
    run = run_manifest(blueprint(act("first")), secrets=named)
    (problem,) = problems_of(run)
    assert "Secret shop/login, secrets.db of the action, does not exist" in problem
    error = run.progress.error
    assert error is not None
    assert error.phase == ""


def test_an_unknown_version_is_reported_with_its_phase() -> None:
    manifest = blueprint(act("first"), act("second", func="Akt"), act("third", funcVersion=">=9"))
    first, second, third = problems_of(run_manifest(manifest, preferred_version=">=7"))
    assert first.startswith("go/first func: preferredVersion >=7: ")
    assert second.startswith("go/second func: Requested function")
    assert third.startswith("go/third funcVersion: Function version not found")


class ForbidsPods(MemoryCluster):
    """A cluster that forbids creating pods."""

    def create(self, obj: Mapping[str, Any], **more: Any) -> Any:
        if obj["kind"] != "SelfSubjectAccessReview":
            return super().create(obj, **more)
        attributes = obj["spec"]["resourceAttributes"]
        return {"status": {"allowed": attributes["resource"] != "pods"}}


@pytest.mark.parametrize(
    ("checks_access", "want"), [pytest.param(True, 1, id="asked"), pytest.param(False, 0, id="not")]
)
def test_rights_are_checked_only_on_request(checks_access: bool, want: int) -> None:
    _ACTED.clear()
    settings = RunSettings(
        cluster=ForbidsPods(clock=SystemClock()),
        registry=registry_of(Act, Command),
        checks_access=checks_access,
    )
    manifest = blueprint(act("first"), act("second", func="Command"))
    problems = problems_of(run_blueprint(manifest, "go", settings=settings).wait(180))
    assert len(problems) == want
    assert all("go/second" in problem and "create pods" in problem for problem in problems)
    assert bool(_ACTED) is not checks_access


class AccessesNamedPod(Act):
    """Accesses a pod that its arguments name."""

    name = "AccessesNamedPod"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("", "pods", ("create",), name=args["say"])]


def test_rights_for_unknown_names_are_not_checked() -> None:
    settings = RunSettings(
        cluster=ForbidsPods(clock=SystemClock()),
        registry=registry_of(Act, AccessesNamedPod),
        checks_access=True,
    )
    later = act("second", "{{ .Phases.first.Output.word }}", func="AccessesNamedPod")
    run = run_blueprint(blueprint(act("first"), later), "go", settings=settings).wait(180)
    assert problems_of(run) == []


def test_an_expensive_key_is_generated_once() -> None:
    costly = "{{ .Options.absent | genPrivateKey }}"
    run = run_manifest(blueprint(act("first"), act("second", costly)), options={})
    # Other problems are still found.
    assert len(problems_of(run)) == 1


class RendersItself(Act):
    """Renders its arguments itself, with more parameters."""

    name = "RendersItself"
    renders_own_args = True


def test_arguments_that_a_function_renders_itself_are_not_checked() -> None:
    _ACTED.clear()
    settings = RunSettings(registry=registry_of(RendersItself))
    times = {"func": "RendersItself", "name": "first", "args": {"times": "{{ .Options.times }}"}}
    run = run_blueprint(blueprint(times), "go", options={"times": "2"}, settings=settings).wait(180)
    assert problems_of(run) == []


def test_the_number_of_reported_problems_is_limited() -> None:
    run = run_manifest(
        blueprint(*(act(f"p{at}", "{{ .Options.absent }}" * 100) for at in range(1000)))
    )
    problems = problems_of(run)
    assert problems[-1] == "and 950 more"
    assert sum(map(len, problems)) < 50_000


def run_actions(mode: str, *actions: str, last: Mapping[str, Any] | None = None) -> Run:
    """Run an ActionSet with actions of one Blueprint; the last one has another object."""
    _ACTED.clear()
    manifest = blueprint(act("first"))
    manifest["actions"] |= {
        "typo": {"phases": [act("second", "{{ .Options.wrod }}")]},
        "stranger": {"phases": [act("third", func="Akt")]},
        "secretive": {
            "phases": [act("fourth", READS_SECRET.replace("second", "fourth"), objects=ABSENT)]
        },
    }
    named = {"kind": "Namespace", "name": "default"}
    actionset: dict[str, Any] = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "several"},
        "spec": {
            "executionMode": mode,
            "actions": [
                {"name": action, "blueprint": "made-up", "object": named} for action in actions
            ],
        },
    }
    if last is not None:
        actionset["spec"]["actions"][-1]["object"] = last
    settings = RunSettings(registry=registry_of(Act))
    return run_actionset(actionset, [manifest], settings).wait(180)


@pytest.mark.parametrize("mode", ["Parallel", "Sequential"])
def test_problems_of_all_actions_are_reported(mode: str) -> None:
    run = run_actions(mode, "go", "typo", "stranger", "typo")
    problems = problems_of(run)
    assert [problem.split()[0] for problem in problems] == ["typo/second", "stranger/third"]
    error = run.progress.error
    assert error is not None
    assert (error.action, error.phase) == ("typo", "second")
    assert _ACTED == []


def test_an_object_that_an_earlier_action_may_create_is_no_error() -> None:
    run = run_actions("Sequential", "go", "secretive")
    assert _ACTED == ["first"]
    assert problems_of(run) != []


def test_a_later_action_may_have_a_missing_object_but_not_an_incomplete_reference() -> None:
    absent = {"kind": "ConfigMap", "apiVersion": "v1", "resource": "configmaps", "name": "absent"}
    run_actions("Sequential", "go", "go", last={**absent, "namespace": "default"})
    assert _ACTED == ["first"]
    run = run_actions("Sequential", "go", "go", last={"kind": "Bucket", "name": "b"})
    assert _ACTED == []
    (problem,) = problems_of(run)
    assert problem.startswith("go: Object b of kind 'Bucket' cannot be found")


def test_parallel_actions_do_not_wait_for_objects_of_each_other() -> None:
    problems = problems_of(run_actions("Parallel", "go", "secretive"))
    assert _ACTED == []
    assert "Secret shop/absent" in problems[0]


def test_a_missing_object_does_not_hide_other_problems() -> None:
    manifest = blueprint(act("first", "{{ .Options.wrod }} {{ index .Deployment.Pods 0 }}"))
    problems = problems_of(
        run_manifest(manifest, object="Deployment/shop/db", options={"word": "x"})
    )
    assert "Deployment shop/db, the object of the action, does not exist" in problems[0]
    assert [problem.split(":")[0] for problem in problems[1:]] == ["go/first args.say"]
    assert 'no "wrod"' in problems[1]


RELEASED = Source("tests", parse_version("1.4.0"))
READS = [Read("Write", parse_version("v0.0.0"))]


@pytest.mark.parametrize(
    ("removed_in", "written", "say", "want"),
    [
        pytest.param(
            "1.4.0",
            "v0.0.0",
            "{{ .ArtifactsIn.kept.KeyValue.path }}",
            "v0.0.0, which reads it, was removed in release 1.4.0: use an earlier one",
            id="the version that reads it was removed",
        ),
        pytest.param(
            "1.5.0",
            "v0.0.0",
            "{{ .ArtifactsIn.kept.KeyValue.path }}",
            "v0.0.0 reads it: set funcVersion to it",
            id="another version reads it",
        ),
        pytest.param("1.4.0", "v0.1.0", "{{ .ArtifactsIn.kept.KeyValue.path }}", "", id="read"),
        pytest.param("1.4.0", "9.6", "{{ .ArtifactsIn.kept.KeyValue.path }}", "", id="no version"),
        pytest.param("1.4.0", "v0.0.0", "x", "", id="not used"),
    ],
)
def test_an_unreadable_artifact_is_refused_before_the_first_phase(
    removed_in: str, written: str, say: str, want: str
) -> None:
    (entry,) = registry_of(Act).family("Act").candidates
    since, until = parse_version("1.0.0"), parse_version(removed_in)
    window = Listing(deprecated_in=since, removed_in=until, reads=tuple(READS))
    old = entry._replace(source=RELEASED, listing=window)
    newer = [Read("Write", parse_version("v0.1.0"))]
    new = entry._replace(
        source=RELEASED,
        version=parse_version("v0.1.0"),
        listing=Listing(reads=tuple(newer)),
        is_stable=True,
    )
    builder = RegistryBuilder[FunctionEntry]()
    builder.add([new, old], new)
    _ACTED.clear()
    kept = {"kept": {"keyValue": {"path": "p", "version": written}}}
    settings = RunSettings(registry=builder.build())
    run = run_blueprint(
        blueprint(act("first"), act("second", say)), "go", settings=settings, artifacts=kept
    ).wait(180)
    if not want:
        assert (problems_of(run), _ACTED) == ([], ["first", "second"])
        return
    (problem,) = problems_of(run)
    assert f"Artifact kept was written by version {written}, which Act v0.1.0 does not read" in (
        problem
    )
    assert problem.endswith(want)
    assert _ACTED == []


def _ops(**args: Any) -> dict[str, Any]:
    return {"func": "KubeOps", "name": "second", "args": args}


CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


@pytest.mark.parametrize("version", ["v0.0.0", "v0.1.0"])
@pytest.mark.parametrize(
    ("second", "want"),
    [
        pytest.param(
            {
                "func": "ScaleWorkload",
                "name": "second",
                "args": {"kind": "statfulset", "name": "db", "replicas": 1},
            },
            "args.kind: Workload type not supported statfulset; use StatefulSet",
            id="a kind that cannot be scaled",
        ),
        pytest.param(
            _ops(operation="creat", spec=CONFIG % "b"),
            "args.operation: Invalid operation 'creat'; use create, delete, patch",
            id="an operation that is none",
        ),
        pytest.param(
            _ops(operation="create", spec=CONFIG % "b" + "---\napiVersion: v1\nkind: Secert\n"),
            'args.spec: no matches for kind "Secert" in version "v1"; did you mean Secret or',
            id="a kind that no cluster has",
        ),
        pytest.param(
            _ops(operation="create", spec="kind: [\n"), "args.spec: spec:", id="no manifest"
        ),
    ],
)
def test_an_argument_that_a_built_in_function_refuses_is_reported_before_the_run(
    second: dict[str, Any], want: str, version: str
) -> None:
    first = {**_ops(operation="create", spec=CONFIG % "a"), "name": "first"}
    manifest = blueprint(first, {**second, "funcVersion": version})
    run = run_blueprint(manifest, "go").wait(180)
    (problem,) = problems_of(run)
    assert want in problem
    assert [phase["state"] for phase in run.status["actions"][0]["phases"]] == ["pending", "failed"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("apiVersion: shop.example.org/v1\nkind: Secert\n", id="of a group to come"),
        pytest.param("apiVersion: v1\nkind: '{{ .Phases.first.Output.kind }}'\n", id="not known"),
    ],
)
def test_a_kind_that_may_exist_in_time_is_no_error(spec: str) -> None:
    first = {**_ops(operation="create", spec=CONFIG % "a"), "name": "first"}
    run = run_blueprint(
        blueprint(first, _ops(operation="create", spec=spec + "metadata: {name: b}\n")), "go"
    ).wait(180)
    assert [phase["state"] for phase in run.status["actions"][0]["phases"]] == [
        "complete",
        "failed",
    ]


def test_phases_with_the_same_name_are_a_warning() -> None:
    run = run_manifest(blueprint(act("first"), act("first")))
    assert [notice.reason for notice in run.notices] == ["PhaseNameTwice"]


@pytest.mark.parametrize("field", [{"timeout": "0s"}, {"timeout": "-5s"}])
def test_an_invalid_timeout_is_refused(field: dict[str, str]) -> None:
    (problem,) = problems_of(run_manifest(blueprint(act("first"), act("second", **field))))
    assert "timeout" in problem
    assert _ACTED == []


def test_a_phase_that_reads_the_output_of_the_deferred_phase_is_refused() -> None:
    manifest = blueprint(act("first", "{{ .DeferPhase.Output.x }}"), deferPhase=act("last"))
    (problem,) = problems_of(run_manifest(manifest))
    assert "the deferPhase runs later" in problem
    assert _ACTED == []


def test_missing_and_misspelt_functions_are_reported_at_their_places() -> None:
    manifest = blueprint(act("first", func=""), act("second", func="Akt", funcVersion="v0.1.0"))
    nameless, misspelt = problems_of(run_manifest(manifest))
    assert "names no function in `func`" in nameless
    assert " func (" in misspelt or " func:" in misspelt
