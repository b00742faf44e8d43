"""`kanister-py run`, as users and scripts call it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.cli.main import main
from kanister_py.core.kube.names import run_key
from kanister_py.core.kube.resources import PODS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.conftest import CommandLine

PATIENCE_SECONDS = 180.0
BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: greet}
actions:
  nothing: {phases: []}
  skipped:
    phases: [{func: KubeTask, name: hello, if: "false", args: {image: i, command: [x]}}]
  pod:
    phases: [{func: KubeTask, name: hello, args: {image: i, command: [x]}}]
  slow:
    phases:
    - func: KubeTask
      name: sleep
      args: {namespace: default, image: i, command: [sleep, "600"]}
    deferPhase:
      func: KubeTask
      name: tidy
      args: {namespace: default, image: i, command: [sh, -c, kando output tidied yes]}
  unknown:
    phases: [{func: Nope, name: a}]
"""


@pytest.fixture
def blueprint(tmp_path: Path) -> str:
    path = tmp_path / "greet.yaml"
    path.write_text(BLUEPRINT)
    return str(path)


def test_a_run_prints_its_final_status_as_data(
    blueprint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", blueprint, "skipped", "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["actions"][0]["phases"][0]["skipped"] is True
    assert "skipped/hello" in err


def test_invalid_manifest_is_refused_with_file_and_line(
    blueprint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "objects.yaml"
    manifest.write_text("\nkind: ConfigMap\nmetadata: {name: x}\n")
    assert main(["run", blueprint, "skipped", "-f", str(manifest)]) != 0
    assert f"{manifest}:2:1: apiVersion: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: one}\n---\n"
            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x, labels: 5}\n",
            5,
            id="the second document",
        ),
        pytest.param(
            "kind: List\napiVersion: v1\nitems:\n"
            "- {kind: ConfigMap, apiVersion: v1, metadata: {name: x, labels: 5}}\n",
            4,
            id="an item of a List",
        ),
    ],
)
def test_a_manifest_that_the_cluster_refuses_has_its_file_and_line(
    blueprint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    text: str,
    line: int,
) -> None:
    manifest = tmp_path / "objects.yaml"
    manifest.write_text(text)
    assert main([command, blueprint, "skipped", "-f", str(manifest)]) == 1
    assert f"{manifest}:{line}:" in capsys.readouterr().err


FAILS_WITH_TRIES_LEFT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: failing}
actions:
  go:
    phases:
    - func: KubeTask
      name: p
      retry: {limit: 2}
      args: {namespace: default, image: i, command: [sh, -c, "echo last words; exit 69"]}
"""


def test_failure_is_printed_when_it_happens_and_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "failing.yaml"
    path.write_text(FAILS_WITH_TRIES_LEFT)
    assert main(["run", str(path), "go", "--pods=processes"]) != 0
    printed = capsys.readouterr().err
    summary = printed.partition("✗ Run ")[2]
    why = "CommandFailed is not transient, and retry.on does not list it"
    assert (printed.count(why), summary.count(why)) == (2, 1)
    assert summary.count("last words") == 1


SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: default}
stringData: {password: hunter22}
---
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: leaky}
actions:
  leak:
    secretNames: [db]
    phases:
    - func: KubeTask
      name: leak
      args:
        namespace: default
        image: i
        command: [sh, -c, 'kando output login "as {{ .Secrets.db.Data.password | toString }}"']
"""


@pytest.mark.parametrize(
    ("more", "want"), [([], "as ***"), (["--show-secrets"], "as hunter22")], ids=["masked", "asked"]
)
def test_final_status_masks_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], want: str
) -> None:
    path = tmp_path / "leaky.yaml"
    path.write_text(SECRET)
    (tmp_path / "objects.yaml").write_text(SECRET.partition("---")[0])
    words = ["run", str(path), "leak", "--pods=processes", "-f", str(tmp_path / "objects.yaml")]
    assert main([*words, "--secret", "db=default/db", "-o", "json", *more]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["actions"][0]["phases"][0]["output"] == {"login": want}
    assert "hunter22" not in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["unknown"], "Nope", id="a function nobody brought"),
        pytest.param(["other"], "Action other", id="an action that is not there"),
        pytest.param(["pod"], "--pods processes", id="a pod that nobody would run"),
    ],
)
def test_failure_exits_with_1(
    blueprint: str, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", blueprint, *words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err


@pytest.mark.parametrize("words", [[], ["x.yaml"], ["--resume"], ["x.yaml", "a", "--retry-from=p"]])
def test_incomplete_command_line_exits_with_64(words: list[str]) -> None:
    assert main(["run", *words]) == 64


@pytest.mark.parametrize("again", [["--resume"], ["--retry-from", "p"]])
@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["blueprint.yaml", "backup"], "BLUEPRINT, ACTION"),
        (["--option", "a=b"], "--option"),
        (["--secret", "a=b/c", "--object", "Pod/a/b"], "--object, --secret"),
        (["--artifacts-from", "monday"], "--artifacts-from"),
    ],
)
def test_resumed_run_refuses_new_inputs(
    again: list[str],
    words: list[str],
    flags: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", *words, "--state", str(tmp_path), *again]) == 64
    err = capsys.readouterr().err
    assert f"kanister-py run: {flags} cannot be changed" in err
    assert "to start a new run, leave out --resume and --retry-from" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["--object", "Thing/x"],
            "--object: 'Thing/x' is not a reference to an",
            id="no such kind",
        ),
        pytest.param(["--option", "x"], "--option: must be KEY=VALUE, found 'x'", id="no value"),
        pytest.param(
            ["--secret", "db"], "--secret: 'db' is not a reference to an object", id="no Secret"
        ),
        pytest.param(
            ["--config-map", "=x"], "--config-map: '=x' is not a reference to an", id="no name"
        ),
        pytest.param(
            ["--profile", "a/b/c"], "--profile: 'a/b/c' is not a reference to an", id="no Profile"
        ),
        pytest.param(["--timeout", "soon"], "--timeout: must be a duration", id="no duration"),
        pytest.param(
            ["--pods", "here"],
            "--pods: must be one of processes, found 'here'",
            id="no such choice",
        ),
        pytest.param(["--time-out", "1m"], "flag --time-out; did you mean --timeout?", id="a slip"),
        pytest.param(["--xyzzy=1"], "Unknown flag --xyzzy; see", id="like no other flag"),
        pytest.param(["more"], "Unexpected 'more'; see", id="a word too many"),
    ],
)
def test_unknown_flag_exits_with_64(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "blueprint.yaml", "backup", *words]) == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("kanister-py run: ")
    assert err.endswith("see kanister-py run --help\n")


ACTIONSET = """\
apiVersion: cr.kanister.io/v1alpha1
kind: ActionSet
metadata: {generateName: both-}
spec:
  executionMode: Sequential
  actions:
  - &first
    name: say
    blueprint: words
    object: {kind: Namespace, name: default, namespace: default}
    options: {word: one}
    artifacts: {earlier: {keyValue: {path: /a}}}
    configMaps: {settings: {name: settings, namespace: default}}
    preferredVersion: v0.0.0
  - {<<: *first, options: {word: two}}
"""
WORDS = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: words}
actions:
  say:
    inputArtifactNames: [earlier]
    configMapNames: [settings]
    outputArtifacts:
      said:
        keyValue:
          text: >-
            {{ .Options.word }} {{ .ArtifactsIn.earlier.KeyValue.path }}
            {{ .ConfigMaps.settings.Data.colour }}
    phases: []
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {colour: red}
"""


@pytest.fixture
def actionset(tmp_path: Path) -> list[str]:
    (tmp_path / "set.yaml").write_text(ACTIONSET)
    (tmp_path / "words.yaml").write_text(WORDS)
    return [str(tmp_path / "set.yaml"), "-f", str(tmp_path / "words.yaml")]


def test_actionset_from_a_file_runs(
    actionset: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *actionset, "-o", "json"]) == 0
    out, err = capsys.readouterr()
    texts = [
        action["artifacts"]["said"]["keyValue"]["text"] for action in json.loads(out)["actions"]
    ]
    assert texts == ["one /a red", "two /a red"]
    assert "Run both-" in err


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        pytest.param(["--option", "word=x"], "--option cannot be used", id="an option"),
        pytest.param(["--object", "Pod/a/b"], "--object cannot be used", id="an object"),
    ],
)
def test_flags_that_an_actionset_sets_are_refused(
    actionset: list[str], words: list[str], refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *actionset, *words]) == 64
    assert refusal in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--pods", "processes"]], ids=["no pods", "pods"])
@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param("", "spec is missing", id="no spec"),
        pytest.param("spc: {actions: []}", "spec is missing; found spc", id="misspelt spec"),
        pytest.param("spec: {}", "spec.actions is missing", id="an empty spec"),
        pytest.param(
            "spec: {action: [{name: go}]}",
            "spec.actions is missing; found action",
            id="misspelt actions",
        ),
    ],
)
def test_backup_that_did_not_run_fails(
    actionset: list[str],
    spec: str,
    problem: str,
    words: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    head = "apiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\nmetadata: {name: backup}\n"
    Path(actionset[0]).write_text(head + spec)
    assert main(["run", *actionset, *words]) == 1
    assert f"ActionSet backup runs nothing: {problem}" in capsys.readouterr().err


def test_suspended_actionset_is_refused(
    actionset: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(actionset[0])
    file.write_text(file.read_text().replace("spec:\n", "spec:\n  suspend: true\n", 1))
    assert main(["run", *actionset, "--name", "held"]) == 1
    err = capsys.readouterr().err
    assert "ActionSet held has spec.suspend: true" in err
    assert "set spec.suspend to false" in err


def test_a_file_without_an_actionset_is_not_run_without_an_action(
    blueprint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", blueprint]) == 64
    assert "There is no ActionSet" in capsys.readouterr().err


def test_actionset_without_its_blueprint_fails(
    actionset: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", actionset[0]]) == 1
    assert "words" in capsys.readouterr().err


def test_stored_run_can_be_resumed(
    blueprint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = str(tmp_path / "state")
    assert main(["run", blueprint, "skipped", "--state", state, "--name", "one"]) == 0
    assert main(["run", "--state", state, "--resume", "one"]) == 0
    assert main(["run", "--state", state, "--resume", "two"]) == 1
    assert "available: one" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--namespace=shop"]])
def test_retry_command_of_a_resumed_run_runs_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    path = tmp_path / "typo.yaml"
    path.write_text(
        "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {name: typo}\n"
        "actions:\n  go:\n    phases:\n    - func: KubeTask\n      name: p\n"
        "      args: {image: i, command: [no-such-program]}\n"
    )
    state = ["--state", str(tmp_path / "state")]
    new = ["run", str(path), "go", "--pods=processes", "--name", "one"]
    assert main([*new, *state, *more]) == 1
    assert "no-such-program: not found on this machine" in capsys.readouterr().err
    assert main(["run", *state, "--resume", *more]) == 1
    words = [*state, "--resume", "one", *more, "--pods=processes", "--retry-from", "p"]
    assert f"kanister-py run {' '.join(words)}" in capsys.readouterr().err


def test_misspelt_phase_of_retry_from_lists_the_phases(
    blueprint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ["--state", str(tmp_path / "state")]
    assert main(["run", blueprint, "skipped", "--name", "one", *state]) == 0
    assert main(["run", *state, "--retry-from", "helo"]) == 1
    assert (
        "error: Run one cannot be retried from phase helo: no action has such a phase; "
        "the phases are hello; did you mean hello?\n"
    ) in capsys.readouterr().err


def test_blueprint_name_selects_one_from_stdin(kanister: CommandLine) -> None:
    text = f"{BLUEPRINT}---\n{BLUEPRINT.replace('greet', 'other')}"
    done = kanister("run", "-", "nothing", stdin=text)
    assert done.code == 1
    assert "several Blueprints: greet, other" in done.err
    assert kanister("run", "-", "nothing", "--blueprint-name", "other", stdin=text).code == 0
    assert kanister("run", "-", "nothing", stdin=BLUEPRINT).code == 0


def test_control_c_cancels_and_exits_with_130(blueprint: str) -> None:
    command = [sys.executable, "-m", "kanister_py", "run", blueprint, "slow"]
    with subprocess.Popen(
        [*command, "--pods=processes", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while "slow/sleep" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, err
    status = json.loads(out)
    assert status["error"]["reason"] == "Cancelled"
    assert status["actions"][0]["deferPhase"]["output"] == {"tidied": "yes"}


def test_second_control_c_stops_at_once_with_a_final_status(
    blueprint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = Path(blueprint), str(tmp_path / "state")
    # A cancelled run continues with deferred phases until the user stops it.
    slow = path.read_text().replace("kando output tidied yes", "echo tidying; sleep 600")
    path.write_text(slow.replace('[sleep, "600"]', '[sh, -c, "echo up; sleep 600"]'))
    command = [sys.executable, "-m", "kanister_py", "run", blueprint, "slow", "--state", state]
    with subprocess.Popen(
        [*command, "--name", "one", "--pods=processes", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in ("slow/sleep | up", "slow/tidy | tidying"):
            while line not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, err
    printed = json.loads(out)
    assert printed["state"] == "failed"
    assert "Run one: stopped at once" in err
    # The status in the folder is the same.
    main(["run", "--state", state, "--resume", "one", "-o", "json"])
    assert json.loads(capsys.readouterr().out) == printed


_WITH_LITTLE_ROOM = """\
import resource, sys
from kanister_py.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.exit(main(sys.argv[2:]))
"""
_WORDY = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: wordy, annotations: {text: %s}}
actions:
  write:
    phases: []
    outputArtifacts: {much: {keyValue: {text: '{{ repeat 40000 "x" }}'}}}
"""


@pytest.mark.parametrize(
    ("room", "is_written"),
    [
        pytest.param(30_000, True, id="for its end, but not for its artifacts"),
        pytest.param(0, False, id="for nothing after its beginning"),
    ],
)
def test_full_disk_still_prints_the_final_status(
    room: int, is_written: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blueprint, state = tmp_path / "wordy.yaml", str(tmp_path / "state")
    blueprint.write_text(_WORDY % ("y" * 20_000))
    words = ["run", str(blueprint), "write", "--state", state, "-o", "json"]
    assert main([*words, "--name", "free"]) == 0
    journal = (tmp_path / "state" / "runs" / "free.jsonl").read_bytes()
    begin = len(journal.splitlines(keepends=True)[0])
    capsys.readouterr()
    ended = subprocess.run(
        [sys.executable, "-c", _WITH_LITTLE_ROOM, str(begin + room), *words, "--name", "full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    status = json.loads(ended.stdout)
    assert (status["state"], status["error"]["reason"]) == ("failed", "JournalUnwritable")
    assert ("could not be written" in ended.stderr) is not is_written
    # Only written entries are found again; a run without an end in the folder gets one.
    assert main(["run", "--state", state, "--resume", "full", "-o", "json"]) == int(is_written)
    resumed = json.loads(capsys.readouterr().out)
    assert resumed == status if is_written else resumed["state"] == "complete"


WORKLOADS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: x, command: [sleep, "600"], env: [{name: A, value: web}]}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: x}]
"""
ENTERING = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: enter}
actions:
  enter:
    outputArtifacts: {said: {keyValue: {text: "{{ .Phases.one.Output.who }}"}}}
    phases:
    - func: KubeExec
      name: one
      args:
        namespace: "{{ .Deployment.Namespace }}"
        pod: "{{ index .Deployment.Pods 0 }}"
        container: main
        command: [sh, -c, 'kando output who "$A"']
  every:
    phases:
    - func: KubeExecAll
      name: all
      args:
        namespace: "{{ .StatefulSet.Namespace }}"
        pods: '{{ range .StatefulSet.Pods }} {{ . }}{{ end }}'
        containers: main
        command: [sh, -c, 'kando output "${HOSTNAME#db-}" in']
"""


@pytest.fixture
def manifests(tmp_path: Path) -> list[str]:
    (tmp_path / "workloads.yaml").write_text(WORKLOADS)
    (tmp_path / "enter.yaml").write_text(ENTERING)
    return [str(tmp_path / "enter.yaml"), str(tmp_path / "workloads.yaml")]


def test_deployment_manifest_needs_no_replica_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "objects.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: db, namespace: shop}\n"
        "spec:\n  selector: {matchLabels: {app: db}}\n  template:\n"
        "    metadata: {labels: {app: db}}\n    spec: {containers: [{name: main, image: i}]}\n"
    )
    (tmp_path / "blueprint.yaml").write_text(
        "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {name: b}\n"
        "actions:\n  look:\n    outputArtifacts:\n      found: "
        "{keyValue: {name: '{{ .Deployment.Name }}', pods: '{{ len .Deployment.Pods }}'}}\n"
        "    phases: []\n"
    )
    words = ["run", str(tmp_path / "blueprint.yaml"), "look", "-f", str(tmp_path / "objects.yaml")]
    assert main([*words, "--object", "Deployment/shop/db", "-o", "json"]) == 0
    (action,) = json.loads(capsys.readouterr().out)["actions"]
    assert action["artifacts"]["found"]["keyValue"] == {"name": "db", "pods": "0"}


def test_phase_executes_in_the_pod_of_a_deployment_manifest(
    manifests: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    blueprint, workloads = manifests
    words = ["run", blueprint, "enter", "-f", workloads, "--object", "Deployment/default/web"]
    assert main([*words, "--pods=processes", "-o", "json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["actions"][0]["phases"][0]["output"] == {"who": "web"}
    assert status["actions"][0]["artifacts"] == {"said": {"keyValue": {"text": "web"}}}


def test_phase_executes_in_all_pods_of_a_statefulset_manifest(
    manifests: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    blueprint, workloads = manifests
    words = ["run", blueprint, "every", "-f", workloads, "--object", "StatefulSet/default/db"]
    assert main([*words, "--pods=processes", "-o", "json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["actions"][0]["phases"][0]["output"] == {"0": "in", "1": "in"}


ONCE = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: once}
actions:
  go:
    phases:
      - func: KubeTask
        name: work
        args:
          namespace: default
          image: busybox
          command: [sh, -c, "echo it began; sleep 60"]
"""


def killed_and_resumed(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Kill a run during its first phase, and resume it with these arguments."""
    blueprint = folder / "once.yaml"
    blueprint.write_text(text)
    command = [sys.executable, "-m", "kanister_py", "run", "--state", str(folder / "state")]
    with subprocess.Popen(
        [*command, "--pods", "processes", str(blueprint), "go"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stderr is not None
        assert any("it began" in line for line in started.stderr), "the command never began"
        started.kill()
    return subprocess.run(
        [*command, *words, "--resume", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


def test_interrupted_command_is_not_repeated_by_default(tmp_path: Path) -> None:
    resumed = killed_and_resumed(tmp_path, ONCE, "--pods", "processes")
    assert resumed.returncode == 1
    assert json.loads(resumed.stdout)["error"]["reason"] == "Interrupted"
    assert "it began" not in resumed.stderr


def test_resumed_run_runs_the_pods_of_its_deferred_phase(tmp_path: Path) -> None:
    task = "{func: KubeTask, name: tidy, args: {image: i, command: [echo, tidied]}}"
    resumed = killed_and_resumed(tmp_path, f"{ONCE}    deferPhase: {task}\n")
    (action,) = json.loads(resumed.stdout)["actions"]
    assert action["deferPhase"]["state"] == "complete", resumed.stderr
    assert "go/tidy | tidied" in resumed.stderr
    assert "Pods run in the same way as before, with --pods processes" in resumed.stderr


def test_pods_of_ended_phases_do_not_run_again(
    tmp_path: Path,
) -> None:
    blueprint, state = tmp_path / "once.yaml", tmp_path / "state"
    blueprint.write_text(ONCE.replace("; sleep 60", ""))
    words = ["run", "--state", str(state), "--pods=processes"]
    assert main([*words, str(blueprint), "go", "--name", "once"]) == 0
    # State of a process that was stopped between the creation and the start of the pod.
    header = json.loads((state / "runs" / "once.jsonl").read_text().partition("\n")[0])
    key = run_key(header["actionSet"]["metadata"]["uid"], 0, 0, 1)
    cluster = MemoryCluster(clock=SystemClock())
    cluster.restore(json.loads((state / "cluster.json").read_text()))
    # An unreadable journal of a run that was killed before it wrote a line.
    (state / "runs" / "killed.jsonl").touch()
    container = {"name": "main", "image": "i", "command": ["sleep", "60"]}
    for name, label in (("kept", key), ("of-another", "another")):
        metadata = {"name": name, "labels": {"kanister-py.io/run": label}}
        spec = {"restartPolicy": "Never", "containers": [container]}
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    (state / "cluster.json").write_text(json.dumps(cluster.save()))
    assert main([*words, "--resume", "once"]) == 0
    after = MemoryCluster(clock=SystemClock())
    after.restore(json.loads((state / "cluster.json").read_text()))
    assert [pod["metadata"]["name"] for pod in after.list(PODS)] == ["of-another"]


def test_refused_run_offers_no_retry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blueprint = tmp_path / "once.yaml"
    blueprint.write_text(ONCE.replace("echo it began", "{{ .Options.nobody }}"))
    words = ["run", str(blueprint), "go", "--pods=processes", "--state", str(tmp_path / "state")]
    assert main(words) == 1
    summary = capsys.readouterr().err
    assert "would fail, so nothing was started" in summary
    assert "--retry-from" not in summary
    blueprint.write_text(ONCE.replace("; sleep 60", ""))
    assert main(words) == 0


LEAVES = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: leaves}
actions:
  backup:
    outputArtifacts: {dump: {keyValue: {path: here}}}
    phases:
      - {func: KubeOps, name: a, args: {operation: delete}}
  restore:
    phases: []
"""


def test_artifacts_of_a_failed_run_are_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blueprint, state = tmp_path / "b.yaml", str(tmp_path / "state")
    blueprint.write_text(LEAVES)
    assert main(["run", str(blueprint), "backup", "--state", state, "--name", "monday"]) == 1
    capsys.readouterr()
    words = ["run", str(blueprint), "restore", "--state", state, "--artifacts-from", "monday"]
    assert main(words) == 1
    assert "Run monday is failed and has no artifacts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "is_lacking"),
    [
        pytest.param((), True, id="no object is given"),
        pytest.param(("--object", "Deployment/shop/db"), False, id="another one is given"),
    ],
)
def test_missing_object_is_reported_with_its_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], is_lacking: bool
) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(BLUEPRINT.replace("command: [x]", 'command: ["{{ .StatefulSet.Name }}"]'))
    assert main(["run", str(path), "pod", *words]) == 1
    summary = capsys.readouterr().err
    assert ".StatefulSet is missing" in summary
    assert ("  fix        --object StatefulSet/NAMESPACE/NAME\n" in summary) is is_lacking


@pytest.mark.parametrize("how", [["--resume"], ["--retry-from", "dump"]])
def test_resume_does_not_create_a_missing_state_folder(
    kanister: CommandLine, tmp_path: Path, how: list[str]
) -> None:
    folder = tmp_path / "nost"
    done = kanister("run", "--state", str(folder), *how)
    assert (done.code, done.out) == (1, "")
    assert f"State folder {folder} does not exist" in done.err
    assert not folder.exists()
