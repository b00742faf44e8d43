"""Inputs in registries: read once, and a registry that is away is spared."""

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
    """A registry that counts who asks, and may be away."""

    def __init__(self, text: bytes = b"kind: A\n") -> None:
        self.text, self.asked, self.is_away = text, 0, False

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
        self.asked += 1
        assert [each.username for each in logins] == ["s"]
        if self.is_away:
            raise RegistryUnavailable(reference.registry, "it is away")
        return self.text


def artifacts(files: Files, clock: FakeClock | None = None) -> StepArtifacts:
    def logins(asked: ArtifactRef) -> list[RegistryLogin]:
        return [RegistryLogin(asked.package.registry, each, "") for each in asked.pull_secrets]

    return StepArtifacts(files, clock or FakeClock(), logins)


def test_an_input_is_read_once_for_all_its_readers() -> None:
    files = Files()
    made = artifacts(files)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: made.read(ref()), range(50)))
    assert found == [{"kind": "A"}] * 50
    assert files.asked == 1


def test_a_registry_that_is_away_is_asked_again_after_a_while() -> None:
    files, clock = Files(), FakeClock()
    made = artifacts(files, clock)
    files.is_away = True
    for _ in range(5):
        with pytest.raises(RegistryUnavailable):
            made.read(ref())
    assert files.asked == 1
    files.is_away = False
    clock.advance(11)
    assert made.read(ref()) == {"kind": "A"}


def test_only_the_last_ones_used_are_kept() -> None:
    files = Files()
    made = artifacts(files)
    for number in range(65):
        made.read(ref(number))
        made.read(ref())
    assert files.asked == 65
    made.read(ref(1))
    assert files.asked == 66


def test_what_is_no_input_says_where_it_stands() -> None:
    with pytest.raises(StepInputUnusable, match=r"r\.example\.org/x@sha256:0+ has no input"):
        artifacts(Files(b"- 1\n")).read(ref())


def test_a_step_is_told_what_stands_in_the_registry() -> None:
    files = Files(b"kind: Paint\n")
    stage = Stage({"a": passes}, artifacts=artifacts(files))
    assert stage.compose(Step("a", "a", input_ref=ref())).error is None
    (call,) = stage.runner.calls
    assert call.request.input == {"kind": "Paint"}


def test_a_step_waits_for_a_registry_that_is_away() -> None:
    files = Files()
    files.is_away = True
    stage = Stage({"a": passes}, artifacts=artifacts(files))
    error = stage.compose(Step("a", "a", input_ref=ref())).error
    assert isinstance(error, PipelineStepUnavailable)
    assert "Registry r.example.org does not respond: it is away" in error.message
