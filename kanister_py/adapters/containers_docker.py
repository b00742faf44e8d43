"""Runs functions that are nothing but an image, where an engine of Docker answers."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from typing import NamedTuple

from kanister_py.core.errors import UsageError


class FunctionRuntimeUnavailable(UsageError):
    """A function is to run in a way that this machine does not offer."""

    reason = "FunctionRuntimeUnavailable"

    def __init__(self, function: str, why: str) -> None:
        super().__init__(
            f"Function {function} cannot be run: {why}; annotate it with "
            "render.crossplane.io/runtime: Development and a "
            "render.crossplane.io/runtime-development-target, with Process and a "
            "kanister-py.io/runtime-command, with Python and a kanister-py.io/runtime-entry-point "
            "(module:Class), or use a function that is built in"
        )
        self.function = function
        self.why = why


_PREFIX = "render.crossplane.io/runtime-docker-"
_PORT = "9443/tcp"
_WAIT_SECONDS = 30.0
_ANSWER_SECONDS = 10.0
_CLEANUPS = ("Remove", "Stop", "Orphan")
_PULL_POLICIES = {"IfNotPresent": "missing", "Always": "always", "Never": "never"}


class _Started(NamedTuple):
    container: str
    cleanup: str


class DockerContainers:
    """Starts containers, says where each answers, and ends them as their annotations say."""

    def __init__(self, program: str = "docker") -> None:
        self._program = program
        self._started: list[_Started] = []
        self._why_not: str | None = None

    def start(self, function: str, image: str, annotations: Mapping[str, str]) -> str:
        """Start the container of a function, or find the one of its name; give its address."""
        self._check_engine(function)
        given = {
            key.removeprefix(_PREFIX): text
            for key, text in annotations.items()
            if key.startswith(_PREFIX)
        }
        cleanup = given.get("cleanup", "Remove")
        policy = given.get("pull-policy", "IfNotPresent")
        for found, known, key in (
            (cleanup, _CLEANUPS, "cleanup"),
            (policy, _PULL_POLICIES, "pull-policy"),
        ):
            if found not in known:
                wanted = ", ".join(known)
                raise FunctionRuntimeUnavailable(
                    function, f"its annotation {_PREFIX}{key} is {found}, not one of {wanted}"
                )
        container = self._running(given.get("name", ""))
        if not container:
            container = self._run(function, image, given, _PULL_POLICIES[policy])
            self._started.append(_Started(container, cleanup))
        return given.get("target") or self._address_of(function, container)

    def _check_engine(self, function: str) -> None:
        if self._why_not is None:
            self._why_not = self._why_no_engine()
        if self._why_not:
            raise FunctionRuntimeUnavailable(function, self._why_not)

    def _why_no_engine(self) -> str:
        if shutil.which(self._program) is None:
            return "it needs a container, and there is no docker on the PATH"
        try:
            done = self._call("version", "--format", "{{.Server.Version}}", seconds=_ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            return "it needs a container, and the engine of docker does not answer"
        if done.returncode:
            return f"it needs a container, and docker says: {_last_line(done.stderr)}"
        return ""

    def _call(self, *words: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - the program is docker, the words are ours
            [self._program, *words], capture_output=True, text=True, check=False, timeout=seconds
        )

    def _running(self, name: str) -> str:
        """Give the container of this name if it runs already: whoever named it wants it reused."""
        if not name:
            return ""
        done = self._call("inspect", "--format", "{{.State.Running}}", name)
        return name if done.returncode == 0 and done.stdout.strip() == "true" else ""

    def _run(self, function: str, image: str, given: Mapping[str, str], pull: str) -> str:
        host = given.get("publish-address", "127.0.0.1")
        words = ["run", "--detach", f"--pull={pull}", f"--publish={host}::{_PORT}"]
        if given.get("name"):
            words.append(f"--name={given['name']}")
        if given.get("network"):
            words.append(f"--network={given['network']}")
        words += [f"--env={each}" for each in given.get("env", "").split(",") if each]
        done = self._call(*words, image, "--insecure")
        if done.returncode:
            said = _last_line(done.stderr)
            raise FunctionRuntimeUnavailable(function, f"docker cannot run {image}: {said}")
        return done.stdout.strip()

    def _address_of(self, function: str, container: str) -> str:
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            done = self._call("port", container, _PORT)
            address = done.stdout.partition("\n")[0].strip()
            if done.returncode == 0 and address:
                return address
            if time.monotonic() > deadline:
                said = _last_line(done.stderr)
                raise FunctionRuntimeUnavailable(function, f"its container has no port: {said}")
            time.sleep(0.1)

    def close(self) -> None:
        for container, cleanup in self._started:
            if cleanup == "Remove":
                self._call("rm", "--force", container)
            elif cleanup == "Stop":
                self._call("stop", container)
        self._started.clear()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "nothing"
