"""Check of an action before it acts: all that is sure to fail, at once."""

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
    """Acts, and touches nothing that templates read."""

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


class PatientArgs(ActArgs):
    patience: Annotated[str, AfterValidator(_time)] = "1s"


class Patient(Act):
    """Acts, and says how long."""

    name = "Patient"
    Args = PatientArgs


class Looks(Act):
    """Waits for something that others do."""

    name = "Looks"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("", "pods", ("get", "watch"))]


class Elsewhere(Act):
    """Acts outside the cluster."""

    name = "Elsewhere"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return []


class Declare(Act):
    """Changes a custom resource, of which an operator may make anything."""

    name = "Declare"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("cert-manager.io", "certificates", ("patch",))]


class Command(Act):
    """Runs a command, which may do anything."""

    name = "Command"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("", "pods", ("create",))]


def act(name: str, say: str = "x", func: str = "Act", **more: Any) -> dict[str, Any]:
    return {"func": func, "name": name, "args": {"say": say}, **more}


class NeedsPod(Act):
    """Is sure to need a pod."""

    name = "NeedsPod"
    needs_pods = True


class PodActArgs(ActArgs):
    pod_override: dict[str, Any] | None = None


class MakesPod(Act):
    """Lays the ActionSet's `podOverride` over its pod."""

    name = "MakesPod"
    Args = PodActArgs


def blueprint(*phases: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "made-up"},
        "actions": {"go": {"phases": list(phases), **more}},
    }


def ran(made: Mapping[str, Any] | Path, objects: Iterable[Any] = (), **more: Any) -> Run:
    _ACTED.clear()
    registry = registry_of(Act, Command, Looks, Elsewhere, Declare, Patient, NeedsPod, MakesPod)
    settings = RunSettings(objects=tuple(objects), registry=registry)
    return run_blueprint(made, "go", settings=settings, **more).wait(180)


def problems_of(run: Run) -> list[str]:
    error = run.progress.error
    return [] if error is None else list(error.problems)


ABSENT = {"s": {"kind": "Secret", "name": "absent", "namespace": "shop"}}
THERE = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "absent", "namespace": "shop"},
    "stringData": {"password": "correct-horse"},
}
READS_IT = '{{ index .Phases.second.Secrets.s.Data "password" | toString }}'


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
            id="an option beside what is not known yet",
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
                func="Patient",
                args={"patience": "5", "say": "{{ .Phases.first.Output.word }}"},
            ),
            "patience: Failed to decode arg `patience`: no time",
            id="an argument beside one that is not known yet",
        ),
    ],
)
def test_a_mistake_in_a_later_phase_is_told_before_the_first_one_acts(
    second: dict[str, Any], want: str
) -> None:
    run = ran(blueprint(act("first"), second), options={"word": "x"})
    (problem,) = problems_of(run)
    assert want in problem
    assert "go/second" in problem
    assert _ACTED == []
    error = run.progress.error
    assert error is not None
    assert error.phase == "second"
    states = [each["state"] for each in run.status["actions"][0]["phases"]]
    assert states == ["pending", "failed"]


def test_a_template_that_cannot_be_read_is_the_only_problem_of_its_argument() -> None:
    spec = "a: {{ .Options.x | \nb: ["
    args = {"operation": "create", "namespace": "default", "spec": spec}
    settings = RunSettings(registry=read_functions().registry)
    made = blueprint({"func": "KubeOps", "name": "create", "args": args})
    run = run_blueprint(made, "go", settings=settings).wait(180)
    assert run.progress.error is not None
    assert run.progress.error.reason == "TemplateParseError"
    assert "Not valid YAML" not in str(run.status)


def test_a_phase_that_needs_a_pod_is_refused_before_the_first_one_where_none_runs() -> None:
    needing = act("second", func="NeedsPod")
    run = ran(blueprint(act("first"), needing))
    (problem,) = problems_of(run)
    assert "NeedsPod needs a pod" in problem
    assert "--pods=processes" in problem
    assert run.progress.error is not None
    assert run.progress.error.reason == "PodsNotRun"
    assert _ACTED == []
    skipped = ran(blueprint(act("first"), {**needing, "if": "false"}))
    assert skipped.is_complete


@pytest.mark.parametrize(
    ("func", "acted"),
    [
        pytest.param("MakesPod", [], id="that makes a pod"),
        pytest.param("Act", ["first", "second"], id="that makes none"),
    ],
)
def test_a_pod_override_that_no_pod_can_take_is_refused_before_the_first_phase(
    func: str, acted: list[str]
) -> None:
    run = ran(
        blueprint(act("first"), act("second", func=func)), pod_override={"containers": "none"}
    )
    assert acted == _ACTED
    refused = [problem for problem in problems_of(run) if "podOverride.containers" in problem]
    assert bool(refused) is (not acted)


def test_all_mistakes_are_told_at_once_with_their_places(tmp_path: Path) -> None:
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
    found = problems_of(ran(file, options={"word": "x"}))
    places = [each.partition(":")[0].rpartition(" ")[0] for each in found]
    lines = [each.split("blueprint.yaml:")[1].partition(")")[0] for each in found]
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


def test_every_mistake_of_one_text_is_told_with_its_line(tmp_path: Path) -> None:
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
    found = problems_of(ran(file, options={"word": "x"}))
    lines = [each.split("blueprint.yaml:")[1].partition(")")[0] for each in found]
    assert lines == ["11", "13", "14", "14"]
    messages = (
        '"wrod" in .Options',
        ".Deployment is not there",
        "no phase frist",
        "second runs later",
    )
    assert [want in each for want, each in zip(messages, found, strict=True)] == [True] * 4


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(
            blueprint(act("first", func="Command"), act("second", READS_IT, objects=ABSENT)),
            "an earlier phase may create it",
            id="an earlier phase may make the object",
        ),
        pytest.param(
            blueprint(act("first", func="Looks"), act("second", READS_IT, objects=ABSENT)),
            "an earlier phase may create it",
            id="an earlier phase waits",
        ),
        pytest.param(
            blueprint(act("first", func="Elsewhere"), act("second", READS_IT, objects=ABSENT)),
            "an earlier phase may create it",
            id="an earlier phase acts elsewhere",
        ),
        pytest.param(
            blueprint(act("first", func="Declare"), act("second", READS_IT, objects=ABSENT)),
            "an earlier phase may create it",
            id="an earlier phase changes a custom resource",
        ),
        pytest.param(
            blueprint(
                act("first"),
                act(
                    "second",
                    READS_IT,
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
                    "second", READS_IT, objects=ABSENT, **{"if": "{{ .Phases.first.Output.word }}"}
                ),
            ),
            "its phase may be skipped",
            id="the phase may be skipped",
        ),
    ],
)
def test_what_may_come_right_is_not_held_against_the_run(made: dict[str, Any], reason: str) -> None:
    run = ran(made)
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
def test_a_branch_that_may_not_be_taken_refuses_nothing(phase: dict[str, Any]) -> None:
    run = ran(blueprint(act("first", "false"), phase), options={"word": "x"})
    assert _ACTED[0] == "first"
    assert run.is_complete or "if" in phase


def test_a_secret_that_is_there_is_read_and_masked() -> None:
    wrong = "{{ .Phases.second.Secrets.s.Data.password | toString | fail }}"
    run = ran(blueprint(act("first"), act("second", wrong, objects=ABSENT)), [THERE])
    assert len(problems_of(run)) == 1
    assert "correct-horse" not in str(run.status)


def test_a_word_before_a_run_tells_no_secret() -> None:
    named = {"s": {**ABSENT["s"], "name": '{{ index .Secrets.c.Data "password" | toString }}'}}
    made = blueprint(act("first", func="Command"), act("second", objects=named))
    run = ran(made, [THERE], secrets={"c": ABSENT["s"]})
    (warning,) = run.notices
    assert warning.reason == "NotChecked"
    assert "correct-horse" not in str(run.status)


def test_code_that_cannot_be_loaded_is_told_before_anything_acts() -> None:
    (entry,) = registry_of(Command).family("Command").candidates
    broken = entry._replace(target="kanister_py.functions.absent:Command")
    builder = RegistryBuilder(registry_of(Act))
    builder.add([broken], broken)
    settings = RunSettings(registry=builder.build())
    _ACTED.clear()
    made = blueprint(act("first"), act("second", func="Command"))
    run = run_blueprint(made, "go", settings=settings).wait(180)
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
def test_an_option_that_nothing_reads_is_worth_a_word(
    options: dict[str, str], want: list[str]
) -> None:
    run = ran(blueprint(act("first", "{{ .Options.word }}")), options=options)
    assert [each.reason for each in run.notices] == want
    assert all("did you mean word" in each.message for each in run.notices)


def test_a_declared_secret_that_is_not_given_is_worth_a_word() -> None:
    run = ran(blueprint(act("first"), secretNames=["db"]))
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
def test_a_profile_that_kando_gets_and_that_is_not_given_is_worth_a_word(
    text: str, want: list[str]
) -> None:
    run = ran(blueprint(act("first", text)))
    assert [each.reason for each in run.notices] == want


def test_a_secret_that_an_action_names_is_named_in_full_when_it_is_missing() -> None:
    named = {"db": {"name": "login", "namespace": "shop"}}
    run = ran(blueprint(act("first")), secrets=named)
    (problem,) = problems_of(run)
    assert "Secret shop/login, secrets.db of the action, is not there" in problem
    error = run.progress.error
    assert error is not None
    assert error.phase == ""


def test_a_version_that_nobody_answers_is_told_with_who_asks_for_it() -> None:
    made = blueprint(act("first"), act("second", func="Akt"), act("third", funcVersion=">=9"))
    first, second, third = problems_of(ran(made, preferred_version=">=7"))
    assert first.startswith("go/first func: preferredVersion >=7: ")
    assert second.startswith("go/second func: Requested function")
    assert third.startswith("go/third funcVersion: Function version not found")


class Grudging(MemoryCluster):
    """A cluster that lets nobody make pods."""

    def create(self, obj: Mapping[str, Any], **more: Any) -> Any:
        if obj["kind"] != "SelfSubjectAccessReview":
            return super().create(obj, **more)
        asked = obj["spec"]["resourceAttributes"]
        return {"status": {"allowed": asked["resource"] != "pods"}}


@pytest.mark.parametrize(
    ("checks_access", "want"), [pytest.param(True, 1, id="asked"), pytest.param(False, 0, id="not")]
)
def test_rights_are_looked_for_when_somebody_asks_for_that(checks_access: bool, want: int) -> None:
    _ACTED.clear()
    settings = RunSettings(
        cluster=Grudging(clock=SystemClock()),
        registry=registry_of(Act, Command),
        checks_access=checks_access,
    )
    made = blueprint(act("first"), act("second", func="Command"))
    found = problems_of(run_blueprint(made, "go", settings=settings).wait(180))
    assert len(found) == want
    assert all("go/second" in each and "create pods" in each for each in found)
    assert bool(_ACTED) is not checks_access


class Named(Act):
    """Touches a pod that its arguments name."""

    name = "Named"

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access]:
        return [Access("", "pods", ("create",), name=args["say"])]


def test_no_right_is_looked_for_under_a_name_that_is_not_known_yet() -> None:
    settings = RunSettings(
        cluster=Grudging(clock=SystemClock()), registry=registry_of(Act, Named), checks_access=True
    )
    later = act("second", "{{ .Phases.first.Output.word }}", func="Named")
    run = run_blueprint(blueprint(act("first"), later), "go", settings=settings).wait(180)
    assert problems_of(run) == []


def test_a_key_that_takes_seconds_to_make_is_not_made_twice() -> None:
    costly = "{{ .Options.absent | genPrivateKey }}"
    run = ran(blueprint(act("first"), act("second", costly)), options={})
    # What else it reads is looked for all the same.
    assert len(problems_of(run)) == 1


class Own(Act):
    """Renders its arguments itself, when it has more to render them over."""

    name = "Own"
    renders_own_args = True


def test_arguments_that_a_function_renders_itself_may_become_anything() -> None:
    _ACTED.clear()
    settings = RunSettings(registry=registry_of(Own))
    times = {"func": "Own", "name": "first", "args": {"times": "{{ .Options.times }}"}}
    run = run_blueprint(blueprint(times), "go", options={"times": "2"}, settings=settings).wait(180)
    assert problems_of(run) == []


def test_of_a_thousand_problems_as_many_are_told_as_fit_into_a_status() -> None:
    run = ran(blueprint(*(act(f"p{at}", "{{ .Options.absent }}" * 100) for at in range(1000))))
    found = problems_of(run)
    assert found[-1] == "and 950 more"
    assert sum(map(len, found)) < 50_000


def ran_set(mode: str, *actions: str, last: Mapping[str, Any] | None = None) -> Run:
    """Run an ActionSet over the actions of one Blueprint; the last one about another object."""
    _ACTED.clear()
    made = blueprint(act("first"))
    made["actions"] |= {
        "typo": {"phases": [act("second", "{{ .Options.wrod }}")]},
        "stranger": {"phases": [act("third", func="Akt")]},
        "secretive": {
            "phases": [act("fourth", READS_IT.replace("second", "fourth"), objects=ABSENT)]
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
                {"name": each, "blueprint": "made-up", "object": named} for each in actions
            ],
        },
    }
    if last is not None:
        actionset["spec"]["actions"][-1]["object"] = last
    settings = RunSettings(registry=registry_of(Act))
    return run_actionset(actionset, [made], settings).wait(180)


@pytest.mark.parametrize("mode", ["Parallel", "Sequential"])
def test_of_an_actionset_with_several_actions_all_problems_are_told(mode: str) -> None:
    run = ran_set(mode, "go", "typo", "stranger", "typo")
    found = problems_of(run)
    assert [each.split()[0] for each in found] == ["typo/second", "stranger/third"]
    error = run.progress.error
    assert error is not None
    assert (error.action, error.phase) == ("typo", "second")
    assert _ACTED == []


def test_what_an_earlier_action_of_a_sequence_may_make_is_not_held_against_a_later_one() -> None:
    run = ran_set("Sequential", "go", "secretive")
    assert _ACTED == ["first"]
    assert problems_of(run) != []


def test_a_later_action_of_a_sequence_may_be_about_what_is_not_there_but_not_about_nothing() -> (
    None
):
    absent = {"kind": "ConfigMap", "apiVersion": "v1", "resource": "configmaps", "name": "absent"}
    ran_set("Sequential", "go", "go", last={**absent, "namespace": "default"})
    assert _ACTED == ["first"]
    run = ran_set("Sequential", "go", "go", last={"kind": "Bucket", "name": "b"})
    assert _ACTED == []
    (problem,) = problems_of(run)
    assert problem.startswith("go: Object b of kind 'Bucket' cannot be found")


def test_of_actions_that_run_side_by_side_none_waits_for_what_another_may_make() -> None:
    found = problems_of(ran_set("Parallel", "go", "secretive"))
    assert _ACTED == []
    assert "Secret shop/absent" in found[0]


def test_a_missing_object_does_not_hide_other_problems() -> None:
    made = blueprint(act("first", "{{ .Options.wrod }} {{ index .Deployment.Pods 0 }}"))
    found = problems_of(ran(made, object="Deployment/shop/db", options={"word": "x"}))
    assert "Deployment shop/db, the object of the action, is not there" in found[0]
    assert [each.split(":")[0] for each in found[1:]] == ["go/first args.say"]
    assert 'no "wrod"' in found[1]


RELEASED = Source("tests", parse_version("1.4.0"))
READS = [Read("Write", parse_version("v0.0.0"))]


@pytest.mark.parametrize(
    ("removed_in", "written", "say", "want"),
    [
        pytest.param(
            "1.4.0",
            "v0.0.0",
            "{{ .ArtifactsIn.kept.KeyValue.path }}",
            "v0.0.0, which does, was removed in release 1.4.0: use an earlier one",
            id="what read it was removed",
        ),
        pytest.param(
            "1.5.0",
            "v0.0.0",
            "{{ .ArtifactsIn.kept.KeyValue.path }}",
            "v0.0.0 does: set funcVersion to it",
            id="another version reads it",
        ),
        pytest.param("1.4.0", "v0.1.0", "{{ .ArtifactsIn.kept.KeyValue.path }}", "", id="read"),
        pytest.param("1.4.0", "9.6", "{{ .ArtifactsIn.kept.KeyValue.path }}", "", id="no version"),
        pytest.param("1.4.0", "v0.0.0", "x", "", id="not used"),
    ],
)
def test_an_artifact_that_a_version_does_not_read_is_refused_before_anything_acts(
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
def test_a_word_that_a_built_in_function_is_sure_to_refuse_stops_nothing_in_mid_run(
    second: dict[str, Any], want: str, version: str
) -> None:
    first = {**_ops(operation="create", spec=CONFIG % "a"), "name": "first"}
    made = blueprint(first, {**second, "funcVersion": version})
    run = run_blueprint(made, "go").wait(180)
    (problem,) = problems_of(run)
    assert want in problem
    assert [each["state"] for each in run.status["actions"][0]["phases"]] == ["pending", "failed"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("apiVersion: shop.example.org/v1\nkind: Secert\n", id="of a group to come"),
        pytest.param("apiVersion: v1\nkind: '{{ .Phases.first.Output.kind }}'\n", id="not known"),
    ],
)
def test_what_may_yet_be_a_kind_is_not_held_against_a_run(spec: str) -> None:
    first = {**_ops(operation="create", spec=CONFIG % "a"), "name": "first"}
    run = run_blueprint(
        blueprint(first, _ops(operation="create", spec=spec + "metadata: {name: b}\n")), "go"
    ).wait(180)
    assert [each["state"] for each in run.status["actions"][0]["phases"]] == ["complete", "failed"]


def test_two_phases_of_one_name_are_worth_a_word_before_they_run() -> None:
    run = ran(blueprint(act("first"), act("first")))
    assert [each.reason for each in run.notices] == ["PhaseNameTwice"]


@pytest.mark.parametrize("field", [{"timeout": "0s"}, {"timeout": "-5s"}])
def test_a_phase_that_would_fail_at_once_for_its_timeout_is_refused(field: dict[str, str]) -> None:
    (problem,) = problems_of(ran(blueprint(act("first"), act("second", **field))))
    assert "timeout" in problem
    assert _ACTED == []


def test_an_output_of_the_defer_phase_that_a_phase_reads_refuses_the_run() -> None:
    made = blueprint(act("first", "{{ .DeferPhase.Output.x }}"), deferPhase=act("last"))
    (problem,) = problems_of(ran(made))
    assert "the deferPhase runs later" in problem
    assert _ACTED == []


def test_a_phase_without_a_function_is_told_so_and_a_misspelt_one_at_its_name() -> None:
    made = blueprint(act("first", func=""), act("second", func="Akt", funcVersion="v0.1.0"))
    nameless, misspelt = problems_of(ran(made))
    assert "names no function in `func`" in nameless
    assert " func (" in misspelt or " func:" in misspelt
