"""The webhook stays available although every pod can post to its port."""

from __future__ import annotations

import json
from threading import Barrier, Thread
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.loading import load_function
from kanister_py.http_api.admission import BOUNDS, Validator
from kanister_py.limited_calls import Bounds, CallStopped
from kanister_py.wiring import read_functions

# Longer than by default, because the machine may be busy.
_PATIENT = BOUNDS._replace(wall_seconds=60)


def validator_with(bounds: Bounds) -> Validator:
    context = Context(read_functions().registry, load=load_function)
    cluster = MemoryCluster(clock=SystemClock())
    return Validator(cluster, context, lambda: "controller", bounds=bounds)


def review_of(*texts: str, phases: int = 1) -> bytes:
    phase = {"func": "KubeTask", "args": {"image": "i", "namespace": "n", "command": [*texts]}}
    blueprint: dict[str, Any] = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "b"},
        "actions": {"a": {"phases": [{"name": f"p{number}", **phase} for number in range(phases)]}},
    }
    request = {"uid": "1", "kind": {"kind": "Blueprint"}, "object": blueprint}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


@pytest.mark.parametrize(
    "review",
    [
        pytest.param(review_of("{{ .Options.x }} is a line of a script\n" * 25_000), id="a script"),
        pytest.param(review_of(*["{{ .Options.x | quote }}"] * 40_000), id="many texts"),
        pytest.param(review_of("echo {{ .Options.x }}", phases=9_000), id="many phases"),
        pytest.param(review_of("{{ " * 300_000), id="braces without end"),
    ],
)
def test_a_review_of_1_mb_is_validated_in_time(review: bytes) -> None:
    answer = validator_with(_PATIENT).validate(review)
    assert answer is not None
    assert answer["response"]["uid"] == "1"


def test_a_review_that_takes_too_long_is_stopped() -> None:
    validator = validator_with(_PATIENT._replace(cpu_seconds=1))
    with pytest.raises(CallStopped) as stopped:
        validator.validate(review_of("{% if a %}{{ b | upper }}{% endif %}\n" * 25_000))
    assert stopped.value.limit == "time"
    assert validator.validate(review_of("echo")) is not None


def test_reviews_are_refused_if_the_queue_is_full() -> None:
    validator = validator_with(_PATIENT._replace(waiting=0))
    begun, refused = Barrier(3), []

    def ask() -> None:
        begun.wait()
        try:
            validator.validate(review_of("{{ .Options.x }} is a line of a script\n" * 25_000))
        except CallStopped as stopped:
            refused.append(stopped.limit)

    threads = [Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["time", "time"]
