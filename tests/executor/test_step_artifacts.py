"""Inputs in registries: read once, with a pause after failures of the registry."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from kanister_py.core.compositions.model import Step
from kanister_py.core.compositions.step_inputs import ArtifactRef, StepInputUnusable
from kanister_py.core.revisions.package import PackageReference
from kanister_py.executor.run_pipeline import PipelineStepUnavailable
from kanister_py.executor.step_artifacts import StepArtifacts
from kanister_py.ports.packages import RegistryLogin, RegistryUnavailable
from tests.executor.stage import Stage, passes
from tests.fake_clock import FakeClock


def ref(number: int = 0) -> ArtifactRef:
    return ArtifactRef(
        PackageReference("r.example.org", "x", digest=f"sha256:{number:064x}"), pull_secrets=("s",)
    )


class Files:
    """A registry that counts requests and may be unavailable."""

    def __init__(self, text: bytes = b"kind: A\n") -> None:
        self.text, self.requests, self.is_away = text, 0, False

    def resolve(self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()) -> str:
        raise NotImplementedError

    def read(
        self, reference: PackageReference, digest: str, logins: Sequence[RegistryLogin] = ()
    ) -> bytes:
        raise NotImplementedError

    def tags(
        self, reference: PackageReference, logins: Sequence[RegistryLogin] = ()
    ) -> Sequence[str]:
        raise NotImplementedError

    def read_file(
        self, reference: PackageReference, path: str, logins: Sequence[RegistryLogin] = ()
    ) -> bytes:
        self.requests += 1
        assert [login.username for login in logins] == ["s"]
        if self.is_away:
            raise RegistryUnavailable(reference.registry, "it is away")
        return self.text


def artifacts(files: Files, clock: FakeClock | None = None) -> StepArtifacts:
    def logins(ref: ArtifactRef) -> list[RegistryLogin]:
        return [
            RegistryLogin(ref.package.registry, pull_secret, "") for pull_secret in ref.pull_secrets
        ]

    return StepArtifacts(files, clock or FakeClock(), logins)


def test_an_input_is_read_once_for_all_its_readers() -> None:
    files = Files()
    inputs = artifacts(files)
    with ThreadPoolExecutor(8) as pool:
        contents = list(pool.map(lambda _: inputs.read(ref()), range(50)))
    assert contents == [{"kind": "A"}] * 50
    assert files.requests == 1


def test_an_unavailable_registry_is_asked_again_after_a_while() -> None:
    files, clock = Files(), FakeClock()
    inputs = artifacts(files, clock)
    files.is_away = True
    for _ in range(5):
        with pytest.raises(RegistryUnavailable):
            inputs.read(ref())
    assert files.requests == 1
    files.is_away = False
    clock.advance(11)
    assert inputs.read(ref()) == {"kind": "A"}


def test_only_the_most_recently_used_inputs_are_cached() -> None:
    files = Files()
    inputs = artifacts(files)
    for number in range(65):
        inputs.read(ref(number))
        inputs.read(ref())
    assert files.requests == 65
    inputs.read(ref(1))
    assert files.requests == 66


def test_an_invalid_input_is_reported_with_its_place() -> None:
    with pytest.raises(StepInputUnusable, match=r"r\.example\.org/x@sha256:0+ has no input"):
        artifacts(Files(b"- 1\n")).read(ref())


def test_a_step_gets_the_input_from_the_registry() -> None:
    files = Files(b"kind: Paint\n")
    stage = Stage({"a": passes}, artifacts=artifacts(files))
    assert stage.compose(Step("a", "a", input_ref=ref())).error is None
    (call,) = stage.runner.calls
    assert call.request.input == {"kind": "Paint"}


def test_a_step_fails_temporarily_while_the_registry_is_unavailable() -> None:
    files = Files()
    files.is_away = True
    stage = Stage({"a": passes}, artifacts=artifacts(files))
    error = stage.compose(Step("a", "a", input_ref=ref())).error
    assert isinstance(error, PipelineStepUnavailable)
    assert "Registry r.example.org does not respond: it is away" in error.message
