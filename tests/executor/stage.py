"""Test environment for pipelines: functions as plain Python callables, and a list of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kanister_py.core.compositions.desired import Composed
from kanister_py.core.compositions.messages import Data, FunctionResponse
from kanister_py.core.compositions.model import Composition, Step, parse_composition
from kanister_py.core.compositions.naming import uid_of_rendered
from kanister_py.core.compositions.pipeline import Observed
from kanister_py.core.registry.entries import FunctionRevision, Registry, RegistryBuilder
from kanister_py.core.yaml.documents import Document
from kanister_py.executor.manifest_source import ManifestSource
from kanister_py.executor.run_pipeline import Engine, compose
from kanister_py.ports.function_runner import FunctionCall
from tests.fake_clock import FakeClock

Answer = Callable[[Data], Mapping[str, Any]]


class FunctionsByName:
    """Runner with a Python callable for each function, which records the calls."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.calls: list[FunctionCall] = []

    def run(self, call: FunctionCall) -> FunctionResponse:
        self.calls.append(call)
        return FunctionResponse.from_data(
            self.answers[call.revision.function](call.request.as_data())
        )

    def close(self) -> None:
        pass


def revisions(*names: str) -> Registry[FunctionRevision]:
    builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
    for name in names:
        builder.add([FunctionRevision(name, f"{name}-1", 1, is_healthy=True, endpoint="test:")])
    return builder.build()


def xr(**more: Any) -> Data:
    message: Data = {
        "apiVersion": "example.org/v1",
        "kind": "XApp",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {"region": "eu"},
    }
    message |= more
    message["metadata"].setdefault("uid", uid_of_rendered(message))
    return message


def config_map(**metadata: Any) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


def adds(name: str, obj: Data, **more: Any) -> Answer:
    """Build a function that desires one more resource."""

    def answer(request: Data) -> Data:
        desired = request["desired"].get("resources", {})
        return {
            "desired": {"resources": {**desired, name: {"resource": obj, **more}}},
            "context": request["context"],
        }

    return answer


def passes(request: Data, **more: Any) -> Data:
    """Return the previous desired state unchanged."""
    return {"desired": request["desired"], "context": request["context"], **more}


class Stage:
    """Pipeline engine with functions given by name."""

    def __init__(
        self, functions: Mapping[str, Answer], objects: Sequence[Data] = (), **more: Any
    ) -> None:
        self.clock = FakeClock(jumps=True)
        self.runner = FunctionsByName(functions)
        self.source = ManifestSource(objects, secrets=more.pop("secrets", ()))
        self.engine = Engine(
            more.pop("runner", self.runner),
            more.pop("revisions", revisions(*functions)),
            self.source,
            self.clock,
            **more,
        )

    def compose(self, *steps: Step, observed: Observed | None = None, **more: Any) -> Composed:
        composition = Composition("apps", "example.org/v1", "XApp", steps)
        return compose(composition, observed or Observed(xr()), self.engine, **more)

    def steps(self, *names: str) -> tuple[Step, ...]:
        return tuple(Step(name, name) for name in names)


def composition_of(pipeline: list[Data], **spec: Any) -> Composition:
    value = {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "apps"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
            "pipeline": pipeline,
            **spec,
        },
    }
    return parse_composition(Document.of(value, "composition.yaml"))
