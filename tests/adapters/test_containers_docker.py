"""Functions in containers, with a program in docker's place that writes down what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanister_py.adapters.containers_docker import DockerContainers, FunctionRuntimeUnavailable

PREFIX = "render.crossplane.io/runtime-docker-"

ENGINE = """\
#!/bin/sh
echo "$@" >> {log}
case "$1" in
  version) echo 27.0 ;;
  run) case "$*" in *broken*) echo "no such image" >&2; exit 125 ;; *) echo c0ffee ;; esac ;;
  inspect) case "$*" in *kept*) echo true ;; *) exit 1 ;; esac ;;
  port) echo 127.0.0.1:32768 ;;
esac
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def docker(tmp_path: Path, log: Path) -> DockerContainers:
    program = tmp_path / "docker"
    program.write_text(ENGINE.format(log=log), encoding="utf-8")
    program.chmod(0o755)
    return DockerContainers(str(program))


def told(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()


def test_a_function_runs_on_a_port_of_this_machine_and_is_removed(
    docker: DockerContainers, log: Path
) -> None:
    assert docker.start("f", "example.org/f:v1", {}) == "127.0.0.1:32768"
    docker.close()
    assert told(log) == [
        "version --format {{.Server.Version}}",
        "run --detach --pull=missing --publish=127.0.0.1::9443/tcp example.org/f:v1 --insecure",
        "port c0ffee 9443/tcp",
        "rm --force c0ffee",
    ]


def test_annotations_say_how_it_runs_and_how_it_ends(docker: DockerContainers, log: Path) -> None:
    annotations = {
        f"{PREFIX}cleanup": "Stop",
        f"{PREFIX}name": "mine",
        f"{PREFIX}env": "A=1,B=2",
        f"{PREFIX}pull-policy": "Always",
        f"{PREFIX}publish-address": "0.0.0.0",
        f"{PREFIX}network": "lab",
        f"{PREFIX}target": "host:1",
    }
    assert docker.start("f", "f:v1", annotations) == "host:1"
    docker.close()
    assert told(log)[2] == (
        "run --detach --pull=always --publish=0.0.0.0::9443/tcp --name=mine --network=lab "
        "--env=A=1 --env=B=2 f:v1 --insecure"
    )
    assert told(log)[-1] == "stop c0ffee"


def test_a_container_of_this_name_that_runs_is_used_and_left_alone(
    docker: DockerContainers, log: Path
) -> None:
    assert docker.start("f", "f:v1", {f"{PREFIX}name": "kept"}) == "127.0.0.1:32768"
    docker.close()
    assert [each.split()[0] for each in told(log)] == ["version", "inspect", "port"]


@pytest.mark.parametrize(
    ("image", "annotations", "why"),
    [
        pytest.param("broken", {}, "docker cannot run broken: no such image", id="image"),
        pytest.param("f", {f"{PREFIX}cleanup": "Burn"}, "not one of Remove", id="cleanup"),
        pytest.param("f", {f"{PREFIX}pull-policy": "x"}, "not one of IfNotPresent", id="pull"),
    ],
)
def test_what_cannot_be_run_is_told(
    docker: DockerContainers, image: str, annotations: dict[str, str], why: str
) -> None:
    with pytest.raises(FunctionRuntimeUnavailable, match=why) as refused:
        docker.start("f", image, annotations)
    assert refused.value.function == "f"


def test_an_engine_that_does_not_answer_is_told_with_the_ways_out(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho 'no daemon' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(FunctionRuntimeUnavailable, match="docker says: no daemon") as refused:
        DockerContainers(str(program)).start("f", "f", {})
    assert "runtime-development-target" in refused.value.message
