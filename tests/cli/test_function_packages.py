"""Packages of functions: built, pushed to a registry, and run."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kanister_py.adapters.packages_oci.images import (
    Image,
    build_image,
    files_layer,
    package_layer,
    read_archive,
)
from kanister_py.adapters.packages_oci.registry import OciPackages
from kanister_py.core.revisions.lifecycles import LIFECYCLE
from kanister_py.core.revisions.package import (
    PackageReference,
    has_capability,
    parse_function_package,
    parse_package_reference,
)
from tests.conftest import CommandLine, Finished
from tests.oci_registry import RunningRegistry, running_registry

PROJECT = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "function-bucket"
version = "0.1.0"
dependencies = ["kanister-py"]

[project.entry-points."kanister_py.functions"]
Bucket = "bucket_function.code:Bucket"

[tool.hatch.build.targets.wheel]
packages = ["bucket_function"]
""",
    "bucket_function/__init__.py": "",
    "bucket_function/code.py": """\
from kanister_py import CompositionFunction, Request, Response


class Bucket(CompositionFunction):
    name = "function-bucket"
    version = "v0.1.0"

    def run(self, request):
        return Response(Request(request))
""",
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return written(tmp_path / "project", PROJECT)


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def docker(tmp_path: Path, registry: RunningRegistry) -> dict[str, str]:
    """Be logged in as `docker login` does it; pip builds with what is installed here."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: a project cannot be built without a network")
    login = registry.login
    pair = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
    folder = written(
        tmp_path / "docker",
        {"config.json": json.dumps({"auths": {registry.address: {"auth": pair}}})},
    )
    return {"DOCKER_CONFIG": str(folder), "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}


@pytest.fixture
def base(registry: RunningRegistry, tmp_path: Path) -> PackageReference:
    """Push an image that says it has the Python of this machine."""
    folder = written(tmp_path / "base", {"etc/base": "here"})
    version = f"{sys.version_info.major}.{sys.version_info.minor}.9"
    image = build_image([files_layer(folder, "base")], environment={"PYTHON_VERSION": version})
    reference = registry.reference("python", "slim")
    OciPackages().push(reference, image, [registry.login])
    return reference


def names_in(image: Image, place: int) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(image.layers[place].data)) as archive:
        return archive.getnames()


def package_in(image: Image) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(image.layers[-1].data)) as archive:
        content = archive.extractfile("package.yaml")
        assert content is not None
        return content.read()


def pushed(done: Finished) -> PackageReference:
    assert done.code == 0, done.err
    return parse_package_reference(done.out.strip())


def test_a_project_becomes_a_package_that_its_registry_gives_back_and_that_runs(
    kanister: CommandLine,
    registry: RunningRegistry,
    base: PackageReference,
    docker: dict[str, str],
    project: Path,
    tmp_path: Path,
) -> None:
    words = ["function", "build", str(project), "--base", str(base), "--no-deps"]
    words += ["--label", "channel=alpha"]
    built = kanister(*words, cwd=tmp_path, env=docker)
    assert (built.code, built.out) == (0, "function-bucket.xpkg\n"), built.err
    file = tmp_path / "function-bucket.xpkg"
    again = kanister(
        *words, "--label", "channel=alpha", "--file", "again", cwd=tmp_path, env=docker
    )
    assert again.code == 0
    assert (tmp_path / "again").read_bytes() == file.read_bytes()

    wanted = registry.reference("acme/function-bucket", "v0.1.0")
    there = pushed(kanister("function", "push", str(file), str(wanted), env=docker))
    packages = OciPackages()
    assert packages.resolve(wanted, [registry.login]) == there.digest
    text = packages.read(there, there.digest, [registry.login])
    package = parse_function_package(text, "what was pushed")
    assert (package.name, package.labels) == ("function-bucket", {"channel": "alpha"})
    assert package.capabilities == ("composition",)

    image = packages.pull(there, [registry.login])
    assert len(image.layers) == 3
    assert names_in(image, 0) == ["base/etc/base"]
    config = json.loads(image.config.data)["config"]
    root = tmp_path / "root"
    with tarfile.open(fileobj=io.BytesIO(image.layers[1].data)) as archive:
        archive.extractall(root, filter="data")
    assert (root / "function" / "bucket_function" / "code.py").is_file()
    environment = dict(each.split("=", 1) for each in config["Env"])
    assert serves(config["Entrypoint"], root / environment["PYTHONPATH"].lstrip("/"))


def serves(entrypoint: list[str], path: Path) -> bool:
    """Start what an image starts, with the Python of this machine; say whether it serves."""
    assert entrypoint[0] == "python"
    process = subprocess.Popen(
        [sys.executable, *entrypoint[1:], "--insecure", "--port", "0"],
        env={**os.environ, "PYTHONPATH": str(path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("Serving bucket_function.code:Bucket"), line
        return True
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def test_what_a_project_says_about_itself_is_taken_with_its_inputs(
    kanister: CommandLine, project: Path, tmp_path: Path
) -> None:
    written(
        project,
        {
            "package/crossplane.yaml": (
                "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\n"
                "metadata:\n  name: theirs\n  labels: {channel: stable, team: a}\n"
                "spec:\n  capabilities: [composition, operation]\n"
            ),
            "package/input/bucket.yaml": (
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
                "metadata: {name: inputs.example.org}\n"
            ),
        },
    )
    done = kanister(
        *("function", "build", str(project), "--package-only", "--label", "channel=alpha"),
        cwd=tmp_path,
    )
    assert done.code == 0, done.err
    image = read_archive(tmp_path / done.out.strip())
    package = parse_function_package(package_in(image), "it")
    assert package.name == "theirs"
    assert package.labels == {"channel": "alpha", "team": "a"}
    assert has_capability(package.capabilities, "operation")
    assert b"inputs.example.org" in package_in(image)


def test_a_record_of_versions_goes_with_its_package_if_it_can_be_read(
    kanister: CommandLine, project: Path, tmp_path: Path
) -> None:
    function = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: theirs}\n"
    record = (
        "apiVersion: kanister-py.io/v1alpha1\nkind: FunctionVersions\n"
        "releases: [{version: 1.0.0}, {version: 1.1.0}, {version: 1.2.0}]\n"
        "functions:\n  theirs:\n    kind: Composition\n    versions:\n"
        "      v1.0.0: {since: 1.0.0, deprecatedIn: 1.0.0, removedIn: 1.2.0}\n"
    )
    written(project, {"package/crossplane.yaml": function, "package/versions.yaml": record})
    build = ("function", "build", str(project), "--package-only")
    done = kanister(*build, cwd=tmp_path)
    assert done.code == 0, done.err
    packed = package_in(read_archive(tmp_path / done.out.strip()))
    assert LIFECYCLE in parse_function_package(packed, "it").annotations
    written(
        project, {"package/versions.yaml": record.replace("removedIn: 1.2.0", "removedIn: 1.1.0")}
    )
    done = kanister(*build, cwd=tmp_path)
    assert done.code == 1
    assert "so 1.2.0 at the earliest" in done.err


def test_a_class_alone_is_packed_with_the_module_it_lies_in(
    kanister: CommandLine,
    base: PackageReference,
    docker: dict[str, str],
    project: Path,
    tmp_path: Path,
) -> None:
    done = kanister(
        *("function", "build", "bucket_function.code:Bucket", "--name", "function-bucket"),
        *("--base", str(base), "--no-deps", "--file", str(tmp_path / "made.xpkg")),
        cwd=project,
        env=docker,
    )
    assert done.code == 0, done.err
    image = read_archive(tmp_path / "made.xpkg")
    assert names_in(image, 1) == [
        "function/bucket_function/__init__.py",
        "function/bucket_function/code.py",
    ]


def test_a_password_may_come_on_stdin(
    kanister: CommandLine, registry: RunningRegistry, project: Path, tmp_path: Path
) -> None:
    file = tmp_path / "made.xpkg"
    kanister("function", "build", str(project), "--package-only", "--file", str(file))
    wanted = str(registry.reference("acme/by-password"))
    words = ["function", "push", str(file), wanted]
    nobody = {"DOCKER_CONFIG": str(tmp_path)}
    refused = kanister(*words, env=nobody)
    assert refused.code == 1
    assert "without a login" in refused.err
    wrong = kanister(*words, "--username", "ann", "--password-stdin", stdin="no", env=nobody)
    assert wrong.code == 1
    right = [*words, "--username", registry.login.username, "--password-stdin"]
    done = kanister(*right, stdin=f"{registry.login.password}\n", env=nobody)
    assert pushed(done).repository == "acme/by-password"


def test_a_program_that_keeps_logins_is_asked(
    kanister: CommandLine, registry: RunningRegistry, project: Path, tmp_path: Path
) -> None:
    answer = json.dumps({"Username": registry.login.username, "Secret": registry.login.password})
    folder = written(
        tmp_path / "docker",
        {
            "config.json": json.dumps({"credHelpers": {registry.address: "test"}}),
            "docker-credential-test": f"#!/bin/sh\nread server\necho '{answer}'\n",
        },
    )
    (folder / "docker-credential-test").chmod(0o755)
    file = tmp_path / "made.xpkg"
    kanister("function", "build", str(project), "--package-only", "--file", str(file))
    done = kanister(
        *("function", "push", str(file), str(registry.reference("acme/by-helper"))),
        env={"DOCKER_CONFIG": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"},
    )
    assert pushed(done).repository == "acme/by-helper"


def test_a_registry_with_a_certificate_of_its_own_is_trusted_by_its_authority(
    kanister: CommandLine, project: Path, tmp_path: Path
) -> None:
    file = tmp_path / "made.xpkg"
    kanister("function", "build", str(project), "--package-only", "--file", str(file))
    with running_registry(tmp_path / "secure", is_secure=True) as secure:
        port = secure.address.rpartition(":")[2]
        words = ["function", "push", str(file), f"0.0.0.0:{port}/acme/secure:v1"]
        words += ["--username", "ann", "--password-stdin"]
        refused = kanister(*words, stdin=secure.login.password)
        assert refused.code == 1
        assert "TLS" in refused.err
        done = kanister(*words, "--ca-file", str(secure.ca_file), stdin=secure.login.password)
        assert pushed(done).tag == ""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(["build", "."], 64, "--base", id="nothing to lay it on"),
        pytest.param(
            ["build", ".", "--base", "x.org/a", "--package-only"], 64, "--base", id="both"
        ),
        pytest.param(["build", "a:B", "--package-only"], 64, "--name", id="a class without a name"),
        pytest.param(["build", "nowhere", "--package-only"], 1, "nowhere", id="no such folder"),
        pytest.param(["build", ".", "--package-only"], 1, "pyproject.toml", id="no project"),
        pytest.param(
            ["build", "a:B", "--name", "x", "--package-only", "--label", "x"],
            64,
            "KEY=VALUE",
            id="no label",
        ),
        pytest.param(["push", "none.xpkg", "x.org/a:b"], 1, "none.xpkg", id="no such file"),
        pytest.param(["push", "none.xpkg", "a:b"], 1, "registry", id="no registry"),
    ],
)
def test_what_cannot_be_built_or_pushed_is_one_line(
    kanister: CommandLine, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    done = kanister("function", *words, cwd=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_project_that_pip_cannot_build_says_why(
    kanister: CommandLine,
    base: PackageReference,
    docker: dict[str, str],
    project: Path,
    tmp_path: Path,
) -> None:
    file = project / "pyproject.toml"
    file.write_text(file.read_text().replace('packages = ["bucket_function"]', "packages = 7"))
    done = kanister("function", "build", str(project), "--base", str(base), env=docker)
    assert done.code == 1
    assert "pip wheel" in done.err


def test_packages_made_elsewhere_are_pushed_as_well(
    kanister: CommandLine, registry: RunningRegistry, docker: dict[str, str], tmp_path: Path
) -> None:
    from kanister_py.adapters.packages_oci.images import write_archive

    text = b"apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: x}\n"
    write_archive(build_image([package_layer(text)]), tmp_path / "x.xpkg")
    wanted = str(registry.reference("acme/elsewhere", "v2"))
    there = pushed(kanister("function", "push", str(tmp_path / "x.xpkg"), wanted, env=docker))
    assert OciPackages().read(there, there.digest, [registry.login]) == text
