from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

import jsonschema
import pytest
import yaml


class Finished(Protocol):
    code: int
    out: str
    err: str


class CommandLine(Protocol):
    def __call__(self, *words: str, **options: Any) -> Finished: ...


HEAD = "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {name: tell}\n"
DEPRECATED = f"""\
{HEAD}actions:
  tell:
    phases:
    - name: first
      func: Notify
      funcVersion: v0.1.0
      args: {{to: me, text: hi}}
"""
FINE = DEPRECATED.replace("v0.1.0", "v0.2.0").replace("to:", "recipient:")
REMOVED = FINE.replace("v0.2.0", "v0.0.1")
TARGET = "kanister-py-sample-plugin"


def write(folder: Path, **texts: str | bytes) -> Path:
    for name, text in texts.items():
        data = text.encode() if isinstance(text, str) else text
        (folder / f"{name}.yaml").write_bytes(data)
    return folder


class TestLint:
    @pytest.mark.parametrize(
        ("text", "code"),
        [
            pytest.param(FINE, 0, id="fine"),
            pytest.param(DEPRECATED, 2, id="deprecated"),
            pytest.param(REMOVED, 3, id="removed"),
            pytest.param(FINE.replace("Notify", "Notfy"), 1, id="unknown function"),
            pytest.param("a: [", 1, id="no YAML"),
        ],
    )
    def test_exit_code_depends_on_the_findings(
        self, kanister: CommandLine, tmp_path: Path, text: str, code: int
    ) -> None:
        assert kanister("lint", str(write(tmp_path, b=text))).code == code
        assert kanister("lint", "-", stdin=text).code == code

    def test_prints_a_table_with_a_line_for_each_use(
        self, kanister: CommandLine, tmp_path: Path
    ) -> None:
        done = kanister("lint", "d.yaml", "r.yaml", cwd=write(tmp_path, d=DEPRECATED, r=REMOVED))
        head, first, second = done.out.splitlines()
        columns = ["PLACE", "RULE", "ACTION", "PHASE", "VERSION", "REPLACEMENT", "REMOVED IN"]
        assert all(column in head for column in columns)
        for word in (
            "d.yaml:9",
            "version-deprecated",
            "tell",
            "first",
            "Notify",
            "v0.2.0",
            "1.3.0",
        ):
            assert word in first
        assert "r.yaml:9" in second
        assert "2 Blueprints and 0 ActionSets in 2 files: 1 error, 1 warning" in done.err

    def test_no_findings_print_nothing_to_stdout(self, kanister: CommandLine) -> None:
        done = kanister("lint", "-", stdin=FINE)
        assert done.out == ""
        assert "nothing found" in done.err

    @pytest.mark.parametrize("form", ["json", "yaml"])
    def test_prints_data(self, kanister: CommandLine, form: str) -> None:
        done = kanister("lint", "-", "-o", form, stdin=DEPRECATED)
        read = json.loads if form == "json" else yaml.safe_load
        (finding,) = read(done.out)["findings"]
        assert finding["file"] == "<stdin>"
        assert finding["line"] == 9
        assert (finding["replacement"], finding["removedIn"]) == ("v0.2.0", "1.3.0")

    def test_target_release_reports_readiness_for_the_upgrade(
        self, kanister: CommandLine, tmp_path: Path
    ) -> None:
        words = ("lint", str(write(tmp_path, b=DEPRECATED)), "--target-release")
        name = plugin_name(kanister)
        assert kanister(*words, f"{name}=1.2.5").code == 2
        ended = kanister(*words, f"{name}=1.3.0")
        assert ended.code == 3
        assert f"Not ready for the upgrade to {name} 1.3.0" in ended.err
        early = kanister(*words, f"{name.replace('-', '_').upper()}=1.0.0")
        assert early.code == 0
        assert "Ready for the upgrade" in early.err

    def test_unreadable_file_is_not_reported_as_ready(self, kanister: CommandLine) -> None:
        text = FINE.replace("func: Notify", "func: 3")
        release = f"{plugin_name(kanister)}=1.3.0"
        words = ("lint", "-", "--only-removed", "--target-release", release)
        done = kanister(*words, stdin=text)
        assert done.code == 1
        assert "blueprint-invalid" in done.out
        assert "Unknown whether ready" in done.err
        assert "Ready for" not in done.err

    def test_actionset_without_its_blueprint_is_not_reported_as_ready(
        self, kanister: CommandLine
    ) -> None:
        text = (
            "apiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\nmetadata: {name: s}\n"
            "spec: {actions: [{name: go, blueprint: b, preferredVersion: v0.1.0}]}\n"
        )
        done = kanister("lint", "-", "--only-removed", "--target-release", "1.0.0", stdin=text)
        assert done.code == 0
        assert "blueprint-not-given" in done.out
        assert "Ready for" not in done.err

    def test_release_beyond_the_record_has_no_plans(self, kanister: CommandLine) -> None:
        release = f"{plugin_name(kanister)}=99.0.0"
        done = kanister("lint", "-", "--target-release", release, stdin=FINE)
        assert done.code == 0
        assert "99.0.0 is later than 1.3.0, the last release with known plans" in done.err
        assert "Nothing known prevents the upgrade" in done.err
        assert "Ready for" not in done.err

    def test_release_of_an_unknown_package_lists_the_packages(self, kanister: CommandLine) -> None:
        done = kanister("lint", "-", "--target-release", "nobody=1.0.0", stdin=FINE)
        assert done.code == 1
        assert "No package nobody with functions is installed; there are " in done.err
        assert "kanister-py" in done.err

    @pytest.mark.parametrize(
        "words",
        [
            pytest.param((), id="no path"),
            pytest.param(("-", "--target-release", "1"), id="no release"),
            pytest.param(("-", "--target-release", "=1.0.0"), id="no name"),
            pytest.param(("-", "--ignore", "version-depricated"), id="no rule"),
            pytest.param(("-", "-o", "xml"), id="no format"),
            pytest.param(("--explain", "nothing"), id="nothing to explain"),
        ],
    )
    def test_invalid_combinations_of_flags_are_refused(
        self, kanister: CommandLine, words: tuple[str, ...]
    ) -> None:
        done = kanister("lint", *words, stdin=FINE)
        assert (done.code, done.out) == (64, "")

    def test_flags_come_from_the_environment(self, kanister: CommandLine, tmp_path: Path) -> None:
        folder = write(tmp_path, b=DEPRECATED)

        def lint(**env: str) -> Finished:
            named = {f"KANISTER_PY_LINT_{key}": value for key, value in env.items()}
            return kanister("lint", str(folder), env=named)

        release = f"{plugin_name(kanister)}=1.3.0"
        assert lint(TARGET_RELEASE=release).code == 3
        assert lint(IGNORE="version-deprecated,unknown-key").code == 0
        assert lint(ONLY_REMOVED="true").code == 0
        assert json.loads(lint(OUTPUT="json").out)["findings"]
        assert lint(STRICT_VERSIONS="1").code == 2
        assert lint(IGNORE="nonsense").code == 64
        assert "KANISTER_PY_LINT_" in kanister("lint", "--help").out

    def test_only_removed_reports_removed_versions_only(self, kanister: CommandLine) -> None:
        text = f"{REMOVED}---\n{DEPRECATED}"
        done = kanister("lint", "-", "--only-removed", "-o", "json", stdin=text)
        assert [finding["rule"] for finding in json.loads(done.out)["findings"]] == [
            "version-removed"
        ]
        assert done.code == 3

    def test_broken_file_does_not_stop_lint(self, kanister: CommandLine, tmp_path: Path) -> None:
        done = kanister("lint", str(write(tmp_path, a="a: [", b=DEPRECATED)), "missing.yaml")
        assert done.code == 1
        assert "version-deprecated" in done.out
        assert re.search(r"error: .*a\.yaml:\d+:\d+: Not valid YAML", done.err)
        assert "error: missing.yaml: No such file" in done.err

    def test_explains_its_rules(self, kanister: CommandLine) -> None:
        done = kanister("lint", "--explain", "version-removed")
        assert (done.code, done.err) == (0, "")
        assert "kanister-py upgrade" in done.out
        explained = kanister("lint", "--explain", "all", "-o", "json")
        assert {"version-removed", "unknown-key"} <= {
            rule["rule"] for rule in json.loads(explained.out)
        }


def plugin_name(kanister: CommandLine) -> str:
    """Return the name of the package with Notify, from an error message."""
    done = kanister("lint", "-", "--target-release", "nobody=1.0.0", stdin=FINE)
    names = done.err.partition("there are ")[2].split(",")
    return next(name.strip() for name in names if name.strip() != "kanister-py")


class TestAnnotationsOfGitHub:
    def test_annotations_have_file_line_and_rule(self, kanister: CommandLine) -> None:
        done = kanister("lint", "-", "-o", "github", stdin=DEPRECATED)
        (line,) = done.out.splitlines()
        assert line.startswith("::warning line=9,col=7,title=version-deprecated::Notify v0.1.0 is")

    def test_cannot_be_forged_by_names(self, kanister: CommandLine, tmp_path: Path) -> None:
        file = tmp_path / "a,b::c%.yaml"
        file.write_text(FINE.replace("Notify", '"x%\\n::error::y"'))
        done = kanister("lint", file.name, "-o", "github", cwd=tmp_path)
        (line,) = done.out.splitlines()
        assert line.startswith("::error file=a%2Cb%3A%3Cc".replace("%3C", "%3A") + "%25.yaml,")
        assert "x%25%0A::error::y" in line


@pytest.mark.parametrize("form", ["table", "github", "sarif"])
def test_table_shows_the_path_of_a_finding(kanister: CommandLine, form: str) -> None:
    done = kanister("lint", "-", "-o", form, stdin=FINE.replace("func: Notify", "func: [3]"))
    assert "actions.tell.phases[0].func: Must be text, found a list" in done.out


def test_names_cannot_steer_a_terminal(kanister: CommandLine, tmp_path: Path) -> None:
    name = "b\x1b[31m\u202e.yaml"
    (tmp_path / name).write_text(
        f'{HEAD}actions:\n  "x\\e[2J\\ny":\n    phases:\n'
        '    - {name: "p\\u202e", func: "F\\e]0;t\\a"}\n'
    )
    (tmp_path / "empty\x1b[31m.yaml").write_text("a: 1\n")
    done = kanister("lint", name, "empty\x1b[31m.yaml", cwd=tmp_path)
    assert "function-unknown" in done.out
    assert "\\x1b[2J\\ny" in done.out
    assert "p\\u202e" in done.out
    for character in "\x1b\x07\u202e":
        assert character not in done.out
        assert character not in done.err


# The parts of the schema of SARIF 2.1.0 that readers rely on.
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"enum": ["2.1.0"]},
        "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
    },
    "$defs": {
        "message": {"type": "object", "required": ["text"]},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "run": {
            "type": "object",
            "required": ["tool"],
            "additionalProperties": False,
            "properties": {
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
                "tool": {
                    "type": "object",
                    "required": ["driver"],
                    "properties": {
                        "driver": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "semanticVersion": {"type": "string"},
                                "rules": {
                                    "type": "array",
                                    "uniqueItems": True,
                                    "items": {"$ref": "#/$defs/rule"},
                                },
                            },
                        }
                    },
                },
            },
        },
        "rule": {
            "type": "object",
            "required": ["id"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "string"},
                "shortDescription": {"$ref": "#/$defs/message"},
                "fullDescription": {"$ref": "#/$defs/message"},
                "help": {"$ref": "#/$defs/message"},
                "defaultConfiguration": {
                    "type": "object",
                    "properties": {"level": {"$ref": "#/$defs/level"}},
                },
            },
        },
        "result": {
            "type": "object",
            "required": ["message"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": {"$ref": "#/$defs/level"},
                "message": {"$ref": "#/$defs/message"},
                "properties": {"type": "object"},
                "locations": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "physicalLocation": {
                                "type": "object",
                                "required": ["artifactLocation"],
                                "properties": {
                                    "artifactLocation": {
                                        "properties": {
                                            "uri": {"type": "string", "pattern": "^[^ <>]+$"}
                                        }
                                    },
                                    "region": {
                                        "properties": {
                                            "startLine": {"type": "integer", "minimum": 1},
                                            "startColumn": {"type": "integer", "minimum": 1},
                                        }
                                    },
                                },
                            },
                            "logicalLocations": {"type": "array"},
                        },
                    },
                },
            },
        },
    },
}


def uris_of(run: dict[str, Any]) -> list[str]:
    return [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in run["results"]
    ]


class TestSarif:
    def test_sarif_matches_its_schema(self, kanister: CommandLine, tmp_path: Path) -> None:
        undeclared = FINE.replace("text: hi", "text: '{{ .ConfigMaps.c.Data.x }}'")
        folder = write(tmp_path, a=DEPRECATED, b=REMOVED, c="a: [", d=undeclared)
        (tmp_path / "with space.yaml").write_text(DEPRECATED)
        sarif = json.loads(kanister("lint", ".", "-o", "sarif", cwd=folder).out)
        jsonschema.Draft202012Validator(SARIF).validate(sarif)
        (run,) = sarif["runs"]
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
        assert {result["level"] for result in run["results"]} == {"note", "warning", "error"}
        uris = uris_of(run)
        of_stdin = json.loads(kanister("lint", "-", "-o", "sarif", stdin=REMOVED).out)
        assert uris_of(of_stdin["runs"][0]) == ["stdin"]
        assert sorted(uris) == ["a.yaml", "b.yaml", "c.yaml", "d.yaml", "with%20space.yaml"]

    def test_sarif_without_findings_has_an_empty_run(self, kanister: CommandLine) -> None:
        sarif = json.loads(kanister("lint", "-", "-o", "sarif", stdin=FINE).out)
        assert sarif["runs"][0]["results"] == []


def alias_bomb() -> str:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    lines += [
        f"{after}: &{after} [{','.join([f'*{before}'] * 10)}]"
        for before, after in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    return "\n".join(lines)


BAD_FILES: dict[str, str | bytes] = {
    "bad YAML": f"{HEAD}actions: {{a: [}}\n",
    "duplicate keys": f"{HEAD}actions: {{}}\nactions: {{}}\n",
    "an alias bomb": alias_bomb(),
    "50 MB": b"#" * 50_000_000,
    "not UTF-8": HEAD.encode() + b"# caf\xe9\n",
    "UTF-16": HEAD.encode("utf-16"),
    "a list where a map belongs": f"{HEAD}actions: [a, b]\n",
    "a list as the document": "- {a: 1}\n",
    "nesting 10,000 deep": "{a: " * 10_000 + "}" * 10_000,
    "a control character": f"{HEAD}# \x07\n",
}


class TestABadFile:
    @pytest.mark.parametrize("name", BAD_FILES)
    @pytest.mark.parametrize("command", ["lint", "upgrade"])
    def test_ends_in_one_clear_error_within_seconds_and_200_megabytes(
        self, tmp_path: Path, name: str, command: str
    ) -> None:
        write(tmp_path, bad=BAD_FILES[name])
        limits = (
            "import resource, sys\n"
            "resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))\n"
            "from kanister_py.cli.main import main\n"
            "code = main(sys.argv[1:])\n"
            "used = resource.getrusage(resource.RUSAGE_SELF)\n"
            "assert used.ru_utime + used.ru_stime < 5, used\n"
            "sys.exit(code)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", limits, command, "bad.yaml"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "defect" not in done.stderr
        problems = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        if name == "a list where a map belongs" and command == "lint":
            problems = [line for line in done.stdout.splitlines() if "blueprint-invalid" in line]
        assert len(problems) == 1
        assert "bad.yaml" in problems[0]

    def test_all_problems_are_reported_at_once(self, kanister: CommandLine) -> None:
        text = f"{HEAD}actions:\n  a: 5\n  b: {{phases: {{}}}}\n  c:\n    phases: [{{args: []}}]\n"
        done = kanister("lint", "-", "-o", "json", stdin=text)
        findings = [
            (finding["line"], finding["path"])
            for finding in json.loads(done.out)["findings"]
            if finding["rule"] == "blueprint-invalid"
        ]
        assert findings == [
            (5, "actions.a"),
            (6, "actions.b.phases"),
            (8, "actions.c.phases[0].args"),
        ]


def test_lint_imports_nothing_that_talks_to_a_cluster_or_renders() -> None:
    script = (
        "import sys\n"
        "from kanister_py.cli.main import main\n"
        "code = main(['lint', '-v', '-'])\n"
        "heavy = {'kubernetes', 'grpc', 'uvicorn', 'starlette', 'rich', 'jinja2', 'cryptography',\n"
        "         'obstore', 'prometheus_client', 'urllib3', 'websocket', 'boto3',\n"
        "         'opentelemetry'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=(
            f"{HEAD}actions:\n  a:\n    phases:\n    - func: KubeTask\n      name: p\n"
            "      args: {image: x, command: [echo, '{{ index .Options \"a\" | toString }}']}\n"
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"
    assert "template-engine" in done.stdout


def test_lint_fails_for_a_composition_that_render_refuses(
    kanister: CommandLine, tmp_path: Path
) -> None:
    text = """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: apps}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: App}
  pipeline:
  - step: ready
    functionRef: {name: function-auto-redy}
    timeout: 5x
"""
    done = kanister("lint", str(write(tmp_path, apps=text)), "-o", "json")
    assert done.code == 1
    assert [
        (finding["line"], finding["rule"], finding["path"])
        for finding in json.loads(done.out)["findings"]
    ] == [
        (8, "step-function-unknown", "spec.pipeline[0].functionRef.name"),
        (9, "composition-invalid", "spec.pipeline[0].timeout"),
    ]


PIPELINE = """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: apps}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: App}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {name: function-NAME}
    input: INPUT
"""
PATCHING = """
      resources:
      - name: bucket
        base: {apiVersion: s3.example.org/v1, kind: Bucket}
        patches:
        - PATCH
"""
FROM_REGION = "fromFieldPath: spec.region"


@pytest.mark.parametrize(
    ("function", "given", "line", "path", "message"),
    [
        pytest.param(
            "patch-and-transform",
            PATCHING.replace("PATCH", f"{{type: FromCompositFieldPath, {FROM_REGION}}}"),
            15,
            ".resources[0].patches[0].type",
            "unknown patch type; did you mean FromCompositeFieldPath",
            id="a misspelt type of a patch",
        ),
        pytest.param(
            "patch-and-transform",
            PATCHING.replace("PATCH", "{fromFeldPath: spec.region}"),
            15,
            ".resources[0].patches[0].fromFeldPath",
            'Unknown name "fromFeldPath"; did you mean fromFieldPath',
            id="a misspelt key of a patch",
        ),
        pytest.param(
            "patch-and-transform",
            PATCHING.replace("PATCH", f"{{{FROM_REGION}, transforms: [{{type: maths}}]}}"),
            15,
            ".resources[0].patches[0].transforms[0].type",
            "did you mean math",
            id="a misspelt type of a transform",
        ),
        pytest.param(
            "patch-and-transform",
            PATCHING.replace("PATCH", "{type: PatchSet, patchSetName: common}"),
            11,
            ".resources",
            "cannot find PatchSet by name common",
            id="a set of patches that is not there",
        ),
        pytest.param(
            "patch-and-transform",
            "{}",
            10,
            ".resources",
            "resources or environment patches",
            id="no input",
        ),
        pytest.param(
            "go-templating",
            "{source: Inlin, inline: {template: hi}}",
            10,
            ".source",
            "invalid source: Inlin; did you mean Inline",
            id="a misspelt source of a template",
        ),
        pytest.param(
            "go-templating",
            "{source: Inline, inline: {template: '{{ nosuch 1 }}'}}",
            10,
            ".inline",
            'function "nosuch" not defined',
            id="a template that cannot be read",
        ),
        pytest.param(
            "jinja-templating",
            "{source: Inline, inline: {template: '{% for %}'}}",
            10,
            ".inline",
            "cannot parse the provided templates",
            id="a template of Jinja2 that cannot be read",
        ),
        pytest.param(
            "patch-and-transform",
            "{resources: [{name: a, base: {apiVersion: v1, kind: A}, patches: ["
            "{type: FromCompositeFieldPath, fromFieldPath: spec..size}]}]}",
            10,
            ".resources[0].patches[0].fromFieldPath",
            "unexpected '.'",
            id="a field path that cannot be read",
        ),
        pytest.param(
            "patch-and-transform",
            "{patchSets: [{name: p, patches: [{type: FromCompositeFieldPath, fromFieldPath: 'a['}]"
            "}], resources: [{name: a, base: {kind: A}, patches: ["
            "{type: PatchSet, patchSetName: p}]}]}",
            10,
            ".patchSets[0].patches[0].fromFieldPath",
            "cannot parse path",
            id="a field path of a set that cannot be read",
        ),
        pytest.param(
            "patch-and-transform",
            "{resources: [{name: a, base: {apiVersion: v1, knd: A}}]}",
            10,
            ".resources[0].base",
            "'Kind' is missing",
            id="a base without a kind",
        ),
        pytest.param(
            "extra-resources",
            "{spec: {extraResource: []}}",
            10,
            ".spec.extraResource",
            "did you mean extraResources",
            id="a misspelt key of another function",
        ),
    ],
)
def test_lint_and_render_refuse_a_wrong_input_of_a_built_in_function_at_the_same_line(
    kanister: CommandLine,
    tmp_path: Path,
    function: str,
    given: str,
    line: int,
    path: str,
    message: str,
) -> None:
    text = PIPELINE.replace("NAME", function).replace("INPUT", given)
    xr = "apiVersion: example.org/v1\nkind: App\nmetadata: {name: shop}\n"
    folder = write(tmp_path, apps=text, xr=xr)
    rendered = kanister("render", str(folder / "xr.yaml"), str(folder / "apps.yaml"))
    assert rendered.code == 1
    assert f"error: {folder / 'apps.yaml'}:{line}: cannot compose resources: " in rendered.err
    done = kanister("lint", str(folder / "apps.yaml"), "-o", "json")
    assert done.code == 1
    (finding,) = json.loads(done.out)["findings"]
    assert (finding["line"], finding["rule"]) == (line, "step-input-invalid")
    assert finding["path"] == f"spec.pipeline[0].input{path}"
    assert message.casefold() in finding["message"].casefold()


def test_inputs_from_references_and_foreign_functions_are_not_checked(
    kanister: CommandLine,
) -> None:
    wrong = "{source: Inlin}"
    fine = PIPELINE.replace("NAME", "go-templating")
    elsewhere = fine.replace("INPUT", "{source: Environment, environment: {key: text}}")
    assert kanister("lint", "-", stdin=elsewhere).code == 0
    by_name = fine.replace("input: INPUT", "inputRef: {configMapRef: {name: x, namespace: ops}}")
    assert kanister("lint", "-", stdin=by_name).code == 0
    package = (
        "---\napiVersion: pkg.crossplane.io/v1\nkind: Function\n"
        "metadata: {name: function-go-templating}\nspec: {package: 'REPOSITORY:v0.12.0'}\n"
    )
    both = fine.replace("INPUT", wrong) + package
    renamed = both.replace("REPOSITORY", "xpkg.example.org/painters/function-paint")
    assert kanister("lint", "-", stdin=renamed).code == 0
    stood_for = "xpkg.crossplane.io/crossplane-contrib/function-go-templating"
    assert kanister("lint", "-", stdin=both.replace("REPOSITORY", stood_for)).code == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 0),
        (["--fail-on", "error"], 0),
        (["--fail-on", "warning"], 1),
        (["--fail-on", "info"], 1),
    ],
    ids=["by default", "error", "warning", "info"],
)
def test_fail_on_sets_the_severity_for_exit_code_1(
    kanister: CommandLine, words: list[str], code: int
) -> None:
    assert kanister("lint", "-", *words, stdin=FINE + "x: 1\n").code == code
    assert kanister("lint", "-", *words, stdin=FINE).code == 0


def test_file_without_problems_has_no_row(kanister: CommandLine) -> None:
    text = FINE.replace("text: hi", "text: '{{ .Options.x }}'")
    assert "{{ .Options.x }}" in text
    assert kanister("lint", "-", stdin=text).out == ""
    assert "read as Go templates" in kanister("lint", "-", "-v", stdin=text).out
    (finding,) = json.loads(kanister("lint", "-", "-o", "json", stdin=text).out)["findings"]
    assert finding["rule"] == "template-engine"


def test_misspelt_field_of_a_pod_override_is_a_warning(
    kanister: CommandLine,
) -> None:
    phase = {
        "func": "KubeTask",
        "name": "one",
        "args": {
            "namespace": "shop",
            "image": "x",
            "command": ["true"],
            "podOverride": {"conainers": [], "quiteNew": 5},
        },
    }
    text = json.dumps(
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Blueprint",
            "metadata": {"name": "b"},
            "actions": {"go": {"phases": [phase]}},
        }
    )
    done = kanister("lint", "-", "-o", "json", stdin=text)
    (finding,) = json.loads(done.out)["findings"]
    assert (done.code, finding["rule"], finding["severity"]) == (0, "pod-field-unknown", "warning")
    assert finding["message"].endswith(
        "podOverride.conainers is not a field of a pod; did you mean containers?"
    )


def test_manifests_in_phases_are_checked(kanister: CommandLine) -> None:
    args = {"operation": "create", "namespace": "shop", "spec": "kind: [ConfigMap"}
    phase = {"func": "KubeOps", "name": "one", "args": args}
    text = json.dumps(
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Blueprint",
            "metadata": {"name": "b"},
            "actions": {"go": {"phases": [phase]}},
        }
    )
    done = kanister("lint", "-", "-o", "json", stdin=text)
    (finding,) = json.loads(done.out)["findings"]
    assert (done.code, finding["rule"], finding["path"]) == (
        1,
        "argument-type",
        "actions.go.phases[0].args.spec",
    )
