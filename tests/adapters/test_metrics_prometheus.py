"""Prometheus metrics of function calls."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from kanister_py.adapters.metrics_prometheus import PrometheusFunctionMetrics
from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.compositions.model import Step
from kanister_py.executor.response_cache import ResponseCache
from kanister_py.ports.function_runner import FunctionCall, FunctionUnavailable
from tests.executor.stage import FunctionsByName, Stage, passes


class Flaky(FunctionsByName):
    def run(self, call: FunctionCall) -> FunctionResponse:
        if not self.calls:
            self.calls.append(call)
            raise FunctionUnavailable(call.step, call.revision.function, call.revision.name, "gone")
        return super().run(call)


def test_calls_are_counted_with_crossplanes_metric_names() -> None:
    registry = CollectorRegistry()
    metrics = PrometheusFunctionMetrics(registry)
    warns = [{"severity": "SEVERITY_WARNING", "message": "careful"}]
    runner = Flaky({"a": lambda request: passes(request, results=warns)})
    stage = Stage({"a": passes}, runner=runner, metrics=metrics)
    cache = ResponseCache(stage.clock, metrics=metrics)
    stage.engine = stage.engine._replace(cache=cache)
    for _ in range(2):
        assert stage.compose(Step("a", "a", ttl_seconds=60)).error is None
    labels = {
        "function_name": "a",
        "function_package": "",
        "grpc_target": "test:",
        "grpc_method": "/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction",
        "revision": "a-1",
    }

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(name, {**labels, **more})

    prefix = "function_run_function"
    assert value(f"{prefix}_request_total") == 2
    for code, worst in (("Unavailable", "Normal"), ("OK", "Warning")):
        answered = {"grpc_code": code, "result_severity": worst}
        assert value(f"{prefix}_response_total", **answered) == 1
        assert value(f"{prefix}_seconds_count", **answered) == 1
    for what, count in (("hits", 1), ("misses", 1), ("writes", 1)):
        name = f"{prefix}_response_cache_{what}_total"
        assert registry.get_sample_value(name, {"function_name": "a"}) == count
    assert b"function_run_function_response_cache_bytes_written_total" in generate_latest(registry)
