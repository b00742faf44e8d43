"""Commands for authors of composition functions: init, test, serve."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from xml.etree import ElementTree as ET

import grpc
import pytest

from kanister_py.adapters.runner_grpc import ClientSecurity, GrpcRunner
from kanister_py.core.compositions.messages import FunctionRequest
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.core.revisions.package import has_capability, parse_function_package
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.ports.function_runner import FunctionCall
from kanister_py.proto.decoding import decode_message
from kanister_py.proto.encoding import encode_message
from tests.conftest import CommandLine

REQUEST = {
    "meta": {"tag": "t"},
    "observed": {
        "composite": {"resource": {"metadata": {"name": "ada"}}},
        "resources": {
            "a": {
                "resource": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
                }
            }
        },
    },
    "desired": {"resources": {"a": {"resource": {"apiVersion": "v1", "kind": "ConfigMap"}}}},
}
SHELL = """import json, sys
request = json.load(sys.stdin)
json.dump({"meta": request["meta"], "context": {"greeting": "hello"}}, sys.stdout)
"""


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(REQUEST))
    return path


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(SHELL)
    return [sys.executable, "-I", str(path)]


@pytest.fixture
def project(kanister: CommandLine, tmp_path: Path) -> Path:
    done = kanister("function", "init", "function-bucket", cwd=tmp_path)
    assert done.code == 0, done.err
    return tmp_path / "function-bucket"


# init


def test_new_project_passes_its_own_tests(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:kanister-py"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_new_project_for_blueprints_passes_its_tests_and_is_a_plugin(
    kanister: CommandLine, tmp_path: Path
) -> None:
    done = kanister("function", "init", "NotifyHTTPUsers", cwd=tmp_path)
    assert done.code == 0, done.err
    folder = tmp_path / "notify-http-users-function"
    text = (folder / "pyproject.toml").read_text()
    entry_point = "notify_http_users_function.function:NotifyHTTPUsers"
    assert f'NotifyHTTPUsers = "{entry_point}"' in text
    # The metadata that pip would install.
    metadata = folder / "notify_http_users_function-0.2.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: notify-http-users-function\nVersion: 0.2.0\n"
    )
    (metadata / "entry_points.txt").write_text(f"[kanister_py.functions]\nIt = {entry_point}\n")
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:kanister-py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert "2 passed" in tests.stdout


def test_a_new_project_is_registered_under_its_name(project: Path) -> None:
    text = (project / "pyproject.toml").read_text()
    assert '[project.entry-points."kanister_py.functions"]' in text
    from kanister_py.core.registry.declared import kind_of
    from kanister_py.core.registry.entries import FunctionKind

    names: dict[str, Any] = {"__name__": "function_bucket.function"}
    source = (project / "function_bucket/function.py").read_text()
    exec(compile(source, "function.py", "exec"), names)
    assert kind_of(names["Bucket"]) is FunctionKind.COMPOSITION
    assert names["Bucket"].name == "function-bucket"


def test_a_new_project_describes_its_package(project: Path) -> None:
    package = parse_function_package((project / "package/crossplane.yaml").read_bytes(), "it")
    assert package.name == "function-bucket"
    assert has_capability(package.capabilities, "composition")
    (schema,) = parse_documents((project / "package/input/input.yaml").read_bytes(), "input.yaml")
    documents = parse_documents((project / "composition.yaml").read_bytes(), "composition.yaml")
    used = documents[0].value["spec"]["pipeline"][0]["input"]
    group, _, version = used["apiVersion"].partition("/")
    assert schema.value["spec"]["group"] == group
    assert [served["name"] for served in schema.value["spec"]["versions"]] == [version]
    assert schema.value["metadata"]["name"] == f"inputs.{group}"


def test_the_workflow_of_a_new_project_builds_and_pushes_with_crossplanes_cli(
    project: Path,
) -> None:
    text = (project / ".github/workflows/package.yaml").read_text()
    workflow = parse_documents(text, "package.yaml")[0].value
    jobs = workflow["jobs"]
    assert list(jobs) == ["test", "build", "push"]
    assert (jobs["build"]["needs"], jobs["push"]["needs"]) == ("test", "build")
    commands = {
        job: [shlex.split(step["run"]) for step in jobs[job]["steps"] if "run" in step]
        for job in jobs
    }
    built = commands["build"][-1]
    assert built[:3] == ["./crossplane", "xpkg", "build"]
    assert "--package-root=package" in built
    # The package embeds the tarball that docker writes.
    assert "--output=type=docker,dest=runtime.tar" in commands["build"][0]
    assert "--embed-runtime-image-tarball=runtime.tar" in built
    pushed = commands["push"][-1]
    assert pushed[:3] == ["./crossplane", "xpkg", "push"]
    files = [f"{platform}.xpkg" for platform in jobs["build"]["strategy"]["matrix"]["platform"]]
    assert f"--package-files={','.join(files)}" in pushed


def test_a_new_project_overwrites_nothing(kanister: CommandLine, project: Path) -> None:
    before = (project / "README.md").read_text()
    done = kanister("function", "init", "function-bucket", cwd=project.parent)
    assert done.code == 1
    assert "is not empty; choose" in done.err
    assert (project / "README.md").read_text() == before


@pytest.mark.parametrize("name", ["bucket", "function-", "function-Big", "function-a/../b"])
def test_invalid_function_names_are_refused(
    kanister: CommandLine, tmp_path: Path, name: str
) -> None:
    done = kanister("function", "init", name, cwd=tmp_path)
    assert done.code == 1
    assert "cannot be the name of a function; use function- and" in done.err
    assert list(tmp_path.iterdir()) == []


# test, with one request


def test_the_response_of_a_registered_function_is_printed(
    kanister: CommandLine, request_file: Path
) -> None:
    done = kanister("function", "test", "function-auto-ready", str(request_file))
    assert done.code == 0, done.err
    assert json.loads(done.out)["desired"]["resources"]["a"]["ready"] == "READY_TRUE"


def test_the_response_of_a_class_is_printed_as_yaml(
    kanister: CommandLine, project: Path, request_file: Path
) -> None:
    words = ("function_bucket.function:Bucket", str(request_file), "-o", "yaml")
    done = kanister("function", "test", *words, cwd=project)
    assert done.code == 0, done.err
    assert "text: Hello, ada!" in done.out


def test_exception_in_a_class_names_the_line_and_debug_prints_all_frames(
    kanister: CommandLine, tmp_path: Path, request_file: Path
) -> None:
    (tmp_path / "failing_function.py").write_text(
        "class Failing:\n    def run(self, request):\n        return request['nothing']\n"
    )
    words = ("function", "test", "failing_function:Failing", str(request_file))
    done = kanister(*words, cwd=tmp_path)
    assert done.code == 1
    assert "KeyError: 'nothing' (at failing_function.py:3 in Failing.run)" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in kanister(*words, "--debug", cwd=tmp_path).err


def test_the_response_of_a_program_is_printed(
    kanister: CommandLine, request_file: Path, program: list[str]
) -> None:
    done = kanister("function", "test", str(request_file), "--", *program)
    assert done.code == 0, done.err
    assert json.loads(done.out)["context"] == {"greeting": "hello"}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(("function-auto-redy",), 1, "only function-auto-ready", id="a misspelt name"),
        pytest.param(("KubeTask",), 1, "KubeTask", id="a function of blueprints"),
        pytest.param(("nowhere.to:Be",), 1, "No module named", id="no such module"),
        pytest.param(("a b:C",), 1, "not of the form module:Class", id="no class at all"),
        pytest.param(("json:JSONDecoder",), 1, "has no method `run`", id="not callable"),
        pytest.param(("json:loads@v1.0.0",), 1, "json:loads", id="a version of no class"),
        pytest.param(("localhost:1",), 64, "--insecure", id="an address without a how"),
        pytest.param((), 64, "Name a function and a path", id="nothing"),
    ],
)
def test_invalid_target_lists_the_valid_forms(
    kanister: CommandLine, request_file: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    done = kanister("function", "test", *words, str(request_file))
    assert done.code == code, done.err
    assert message in done.err
    assert "Traceback" not in done.err


def test_invalid_request_names_the_field(kanister: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "request.yaml"
    path.write_text("observed:\n  composit: {}\n")
    done = kanister("function", "test", "function-auto-ready", str(path))
    assert done.code == 1
    assert "observed.composit: unknown field; known fields: composite, resources" in done.err


# test, with cases


def case(folder: Path, name: str, **files: Any) -> Path:
    (folder / name).mkdir(parents=True)
    for stem, data in {"request": REQUEST, **files}.items():
        (folder / name / f"{stem}.json").write_text(json.dumps(data))
    return folder / name


def run_cases(
    kanister: CommandLine, folder: Path, program: list[str], *words: str
) -> tuple[int, str]:
    done = kanister("function", "test", str(folder), *words, "--", *program)
    assert "Traceback" not in done.err
    return done.code, done.out + done.err


def test_cases_that_differ_show_the_difference(
    kanister: CommandLine, tmp_path: Path, program: list[str]
) -> None:
    folder = tmp_path / "cases"
    case(folder, "right", response={"meta": {"tag": "t"}, "context": {"greeting": "hello"}})
    case(folder, "wrong", response={"meta": {"tag": "t"}, "context": {"greeting": "bye"}})
    code, output = run_cases(kanister, folder, program)
    assert code == 1
    assert re.search(r"^ok +right$", output, re.MULTILINE)
    assert re.search(r"^FAIL wrong$", output, re.MULTILINE)
    assert "-  greeting: bye" in output
    assert "+  greeting: hello" in output
    assert "1 of 2 cases" in output


@pytest.mark.parametrize(
    ("check", "finding"),
    [
        pytest.param({"path": "context.greeting", "equals": "hello"}, "", id="equal"),
        pytest.param({"path": "context.greeting", "contains": "ell"}, "", id="part of a text"),
        pytest.param({"path": "context", "contains": {"greeting": "hello"}}, "", id="part of it"),
        pytest.param(
            {"path": "", "contains": {"context": {"greeting": "hello"}}}, "", id="the whole answer"
        ),
        pytest.param({"path": "results", "exists": False}, "", id="not there, as expected"),
        pytest.param(
            {"path": "context.greeting", "equals": "bye"},
            'context.greeting: expected "bye", found "hello"',
            id="not equal",
        ),
        pytest.param({"path": "results", "exists": True}, "results: does not exist", id="missing"),
        pytest.param({"path": "context", "exists": False}, "context: exists", id="too much"),
        pytest.param({"path": "a.b", "equals": 1}, "a.b: does not exist", id="nowhere"),
        pytest.param({"path": "context", "is": 1}, "must have path, and one of", id="no check"),
    ],
)
def test_checks_compare_one_field(
    kanister: CommandLine, tmp_path: Path, program: list[str], check: Any, finding: str
) -> None:
    folder = tmp_path / "cases"
    (case(folder, "one") / "assert.json").write_text(json.dumps([check]))
    code, output = run_cases(kanister, folder, program)
    assert code == (1 if finding else 0), output
    assert finding in output


def test_check_finds_a_resource_with_a_numeric_name(kanister: CommandLine, tmp_path: Path) -> None:
    folder, path = tmp_path / "cases", tmp_path / "desired.py"
    path.write_text(
        "import json, sys\nprint(json.dumps({'desired': json.load(sys.stdin)['desired']}))"
    )
    resource = {"apiVersion": "v1", "kind": "ConfigMap"}
    checks = [
        {"path": "desired.resources[0].resource.kind", "equals": "ConfigMap"},
        {"path": "desired.resources[1]", "exists": False},
    ]
    request = {"meta": {"tag": "t"}, "desired": {"resources": {"0": {"resource": resource}}}}
    case(folder, "one", request=request, **{"assert": checks})
    code, output = run_cases(kanister, folder, [sys.executable, "-I", str(path)])
    assert code == 0, output


def test_update_writes_the_responses_as_expected_ones(
    kanister: CommandLine, tmp_path: Path, program: list[str]
) -> None:
    folder = tmp_path / "cases"
    case(folder, "new")
    code, output = run_cases(kanister, folder, program)
    assert (code, "--update writes one" in output) == (1, True)
    code, output = run_cases(kanister, folder, program, "--update")
    assert (code, "response.yaml written" in output) == (0, True)
    assert run_cases(kanister, folder, program)[0] == 0
    assert "written" not in run_cases(kanister, folder, program, "--update")[1]


def test_junit_report_contains_all_cases(
    kanister: CommandLine, tmp_path: Path, program: list[str]
) -> None:
    folder, report = tmp_path / "cases", tmp_path / "report.xml"
    case(folder, "right", response={"meta": {"tag": "t"}, "context": {"greeting": "hello"}})
    case(folder, "w<&>rong", response={})
    run_cases(kanister, folder, program, "--junit", str(report))
    suite = ET.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [element.get("name") for element in suite] == ["right", "w<&>rong"]
    assert suite[1].find("failure") is not None


def test_folder_without_cases_is_an_error(
    kanister: CommandLine, tmp_path: Path, program: list[str]
) -> None:
    code, output = run_cases(kanister, tmp_path, program)
    assert (code, "contains no cases" in output) == (1, True)


# serve


@contextmanager
def serving(
    *words: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Start a server; yield its output up to the line with the address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kanister_py", "function", "serve", *words],
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", **(env or {})},
    )
    assert process.stderr is not None
    try:
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("Serving "):
                break
        yield process, lines
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def port_in(lines: list[str]) -> int:
    match = re.search(r":(\d+) ", lines[-1])
    assert match, lines
    return int(match[1])


def call(port: int, security: ClientSecurity | None = None) -> Any:
    runner = GrpcRunner(security or ClientSecurity(is_insecure=True), timeout_seconds=60)
    revision = FunctionRevision("f", "f-1", 1, endpoint=f"localhost:{port}")
    try:
        return runner.run(FunctionCall("s", revision, FunctionRequest.from_data(REQUEST)))
    finally:
        runner.close()


def test_a_registered_function_is_served() -> None:
    with serving("function-auto-ready", "--insecure", "--port", "0") as (_, lines):
        assert call(port_in(lines)).desired.data["resources"]["a"]["ready"] == "READY_TRUE"


def test_class_is_served_until_sigterm(project: Path) -> None:
    words = ("function_bucket.function:Bucket", "--insecure", "--port", "0")
    with serving(*words, cwd=project) as (process, lines):
        answer = call(port_in(lines))
        assert answer.desired.data["resources"]["greeting"]["ready"] == "READY_TRUE"
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0


def test_target_that_cannot_be_called_is_not_served(kanister: CommandLine) -> None:
    done = kanister("function", "serve", "json:JSONDecoder", "--insecure", "--port", "0")
    assert done.code == 1
    assert "has no method `run`" in done.err
    assert "Serving" not in done.err


def test_a_program_is_served(program: list[str]) -> None:
    with serving("--insecure", "--port", "0", "--", *program) as (_, lines):
        assert call(port_in(lines)).context.data == {"greeting": "hello"}


def test_address_and_port_may_come_from_the_environment() -> None:
    env = {
        "KANISTER_PY_FUNCTIONS_HOST": "127.0.0.1",
        "KANISTER_PY_FUNCTIONS_PORT": "0",
        "KANISTER_PY_FUNCTIONS_INSECURE": "true",
    }
    with serving("function-auto-ready", env=env) as (_, lines):
        assert call(port_in(lines)).tag == "t"


def test_certificates_come_from_the_folder_in_the_environment(tmp_path: Path) -> None:
    from datetime import timedelta

    from kanister_py.adapters.certificates_x509 import X509Certificates
    from kanister_py.adapters.clock_system import SystemClock

    certificates = X509Certificates(SystemClock())
    authority = certificates.new_authority("test", timedelta(days=1))
    for side in ("server", "client"):
        pair = certificates.issue(
            authority, ["localhost"], timedelta(days=1), is_client=side == "client"
        )
        (tmp_path / side).mkdir()
        (tmp_path / side / "tls.crt").write_text(pair.certificate)
        (tmp_path / side / "tls.key").write_text(pair.key)
        (tmp_path / side / "ca.crt").write_text(authority.certificate)
    env = {"TLS_SERVER_CERTS_DIR": str(tmp_path / "server")}
    words = ("function-auto-ready", "--port", "0", "--host", "127.0.0.1")
    with serving(*words, env=env) as (_, lines):
        assert lines[-1].endswith("with TLS\n")
        assert call(port_in(lines), ClientSecurity(tmp_path / "client")).tag == "t"


def test_server_offers_health_reflection_and_metrics() -> None:
    words = ("function-auto-ready", "--insecure", "--port", "0", "--metrics-port", "0")
    with serving(*words) as (_, lines):
        call(port_in(lines))
        metrics = re.search(r"Metrics on 127\.0\.0\.1:(\d+)", lines[0])
        assert metrics
        with urlopen(f"http://127.0.0.1:{metrics[1]}/metrics") as answer:
            text = answer.read().decode()
        assert re.search(r'grpc_server_handled_total\{grpc_code="OK".*\} 1\.0', text)
        with grpc.insecure_channel(f"127.0.0.1:{port_in(lines)}") as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            health = decode_message("grpc.health.v1.HealthCheckResponse", check(b"", timeout=60))
            assert health == {"status": "SERVING"}
            listed = reflect(channel, "v1", {"listServices": ""})["listServicesResponse"]
            names = [service["name"] for service in listed["service"]]
            assert "apiextensions.fn.proto.v1beta1.FunctionRunnerService" in names
            symbol = {"fileContainingSymbol": "apiextensions.fn.proto.v1.FunctionRunnerService"}
            files = reflect(channel, "v1alpha", symbol)["fileDescriptorResponse"]
            assert len(files["fileDescriptorProto"]) == 3
            unknown = reflect(channel, "v1", {"fileByFilename": "nowhere.proto"})
            assert unknown["errorResponse"]["errorCode"] == 5


def reflect(channel: Any, version: str, request: dict[str, Any]) -> dict[str, Any]:
    package = f"grpc.reflection.{version}"
    method = channel.stream_stream(f"/{package}.ServerReflection/ServerReflectionInfo")
    message = encode_message(f"{package}.ServerReflectionRequest", request)
    (answer,) = method(iter([message]), timeout=60)
    return decode_message(f"{package}.ServerReflectionResponse", answer)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(("function-auto-ready",), 64, "--tls-certs-dir", id="no certificates"),
        pytest.param((), 64, "Name an installed function", id="nothing"),
        pytest.param(("a", "--insecure", "--", "sh"), 64, "not both", id="two functions"),
        pytest.param(
            ("--insecure", "--", "no-such-program"),
            1,
            "the program does not exist",
            id="no program",
        ),
        pytest.param(("no.such:Class", "--insecure"), 1, "No module named", id="no class"),
        pytest.param(
            ("function-auto-ready", "--tls-certs-dir", "/nowhere"),
            1,
            "tls.key: No such file",
            id="an empty folder",
        ),
        pytest.param(
            ("function-auto-ready", "--insecure", "--host", "192.0.2.1"),
            1,
            "Cannot listen on 192.0.2.1",
            id="another machine's address",
        ),
    ],
)
def test_invalid_targets_of_serve_are_refused_at_once(
    kanister: CommandLine, words: tuple[str, ...], code: int, message: str
) -> None:
    done = kanister("function", "serve", *words)
    assert done.code == code, done.err
    assert message in done.err
    assert "Traceback" not in done.err
