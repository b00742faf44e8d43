"""gRPC server in unusual situations: shutdown, invalid certificates, invalid calls."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import grpc
import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse, Part
from kanister_py.core.errors import (
    CertificatesUnreadable,
    TransientError,
    UsageError,
)
from kanister_py.grpc_api.certificates import ServerCertificates
from kanister_py.grpc_api.metrics import ServerMetrics
from kanister_py.grpc_api.server import FunctionServer, Served, ServerSettings
from kanister_py.ports.function_runner import FunctionFault
from kanister_py.proto.messages import METHODS, V1, V1BETA1
from tests.wire_fields import field_bytes

LIFE = timedelta(days=1)
PATIENCE_SECONDS = 180.0


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def serve(cleanup: ExitStack, function: Served, **settings: Any) -> tuple[FunctionServer, Any]:
    """Serve a function; return the server and a channel to it."""
    options = {"grace_seconds": PATIENCE_SECONDS, **settings}
    server = FunctionServer(function, ServerSettings("127.0.0.1:0", **options))
    server.start()
    cleanup.callback(server.stop)
    channel = cleanup.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.port}"))
    return server, channel


def echo(request: FunctionRequest) -> FunctionResponse:
    return FunctionResponse(request.desired, request.context, tag=request.tag)


def failing(error: BaseException) -> Served:
    def fail(_request: FunctionRequest) -> FunctionResponse:
        raise error

    return fail


@pytest.mark.parametrize("package", [V1, V1BETA1])
def test_both_protocol_versions_get_the_same_response(cleanup: ExitStack, package: str) -> None:
    _, channel = serve(cleanup, echo)
    data = b"\x0a\x03\x0a\x01t\x1a\x04\x12\x02\x0a\x00"
    answer = channel.unary_unary(METHODS[package])(data, timeout=PATIENCE_SECONDS)
    assert answer == b"\x0a\x03\x0a\x01t\x12\x04\x12\x02\x0a\x00\x22\x00"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(UsageError("Bad input"), "INVALID_ARGUMENT", id="the input is wrong"),
        pytest.param(TransientError("Not now"), "UNAVAILABLE", id="try again"),
        pytest.param(FunctionFault("", "f", "", "oops"), "INTERNAL", id="our defect"),
        pytest.param(KeyError("k"), "INTERNAL", id="anything else"),
        pytest.param(SystemExit("bye"), "INTERNAL", id="an exit"),
    ],
)
def test_errors_of_a_function_become_status_codes(
    cleanup: ExitStack, error: BaseException, code: str
) -> None:
    _, channel = serve(cleanup, failing(error))
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(METHODS[V1])(b"", timeout=PATIENCE_SECONDS)
    assert caught.value.code().name == code
    assert caught.value.details()


@pytest.mark.parametrize(
    "data", [b"\xff\xff", b"\x12\x7f", b"\x22\x02\x0a\x7f"], ids=["no tag", "cut", "cut inside"]
)
def test_an_invalid_request_is_refused(cleanup: ExitStack, data: bytes) -> None:
    _, channel = serve(cleanup, echo)
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(METHODS[V1])(data, timeout=PATIENCE_SECONDS)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "The request cannot be read" in caught.value.details()


def test_a_response_that_cannot_be_encoded_is_reported_with_its_path(cleanup: ExitStack) -> None:
    _, channel = serve(cleanup, lambda _: FunctionResponse(context=Part({"a": {"b": {1}}})))
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(METHODS[V1])(b"", timeout=PATIENCE_SECONDS)
    assert caught.value.details() == "The response cannot be sent: context.a.b: set cannot be sent"


def code_of_refusal(channel: Any) -> str:
    """Call until the server is stopping; return the code of the refusal."""
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    while True:
        try:
            check(b"", timeout=1.0)
        except grpc.RpcError as error:
            # gRPC may never answer a call that it accepted at the moment of the stop.
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                return str(error.code().name)


def test_a_stopping_server_finishes_active_calls_and_refuses_new_ones(
    cleanup: ExitStack,
) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def slowly(request: FunctionRequest) -> FunctionResponse:
        arrived.set()
        go_on.wait(PATIENCE_SECONDS)
        return echo(request)

    server, channel = serve(cleanup, slowly)
    call = channel.unary_unary(METHODS[V1])
    with ThreadPoolExecutor(2) as pool:
        pending = pool.submit(lambda: call(b"\x0a\x03\x0a\x01t", timeout=PATIENCE_SECONDS))
        assert arrived.wait(PATIENCE_SECONDS)
        stopping = pool.submit(server.stop)
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as late:
            # A call that arrives at the moment of the stop is cancelled.
            assert code_of_refusal(late) in ("UNAVAILABLE", "CANCELLED")
        go_on.set()
        assert pending.result(PATIENCE_SECONDS).startswith(b"\x0a\x03\x0a\x01t")
        stopping.result(PATIENCE_SECONDS)


def test_a_request_larger_than_the_limit_is_refused(cleanup: ExitStack) -> None:
    _, channel = serve(cleanup, echo, limit_bytes=1000)
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(METHODS[V1])(b"\x2a\x80\x10" + bytes(2048), timeout=PATIENCE_SECONDS)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_port_in_use_is_reported(cleanup: ExitStack) -> None:
    server, _ = serve(cleanup, echo)
    with pytest.raises(OSError, match=r"it is in use") as caught:
        FunctionServer(echo, ServerSettings(f"127.0.0.1:{server.port}"))
    assert caught.value.filename == f"127.0.0.1:{server.port}"


def test_calls_are_counted_by_status_code(cleanup: ExitStack) -> None:
    metrics = ServerMetrics()
    _, channel = serve(cleanup, failing(UsageError("No")), observe=metrics.observe)
    for _ in range(2):
        with pytest.raises(grpc.RpcError):
            channel.unary_unary(METHODS[V1BETA1])(b"", timeout=PATIENCE_SECONDS)
    labels = {
        "grpc_type": "unary",
        "grpc_service": "apiextensions.fn.proto.v1beta1.FunctionRunnerService",
        "grpc_method": "RunFunction",
    }
    read = metrics.registry.get_sample_value
    ended = {**labels, "grpc_code": "InvalidArgument"}
    assert read("grpc_server_handled_total", ended) == 2
    assert read("grpc_server_handling_seconds_count", labels) == 2


# Certificates


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certificates = X509Certificates(SystemClock())
    authority = certificates.new_authority("test", LIFE)
    pair = certificates.issue(authority, ["localhost"], LIFE)
    (tmp_path / "tls.crt").write_text(pair.certificate)
    (tmp_path / "tls.key").write_text(pair.key)
    (tmp_path / "ca.crt").write_text(authority.certificate)
    return tmp_path


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_a_missing_or_invalid_certificate_file_is_reported_at_the_start(
    folder: Path, name: str
) -> None:
    (folder / name).write_text("-----BEGIN NOTHING-----\n")
    with pytest.raises(CertificatesUnreadable):
        ServerCertificates(folder)
    (folder / name).unlink()
    with pytest.raises(CertificatesUnreadable, match=name):
        ServerCertificates(folder)


def test_a_key_of_another_certificate_is_refused_at_the_start(folder: Path) -> None:
    certificates = X509Certificates(SystemClock())
    other = certificates.new_authority("other", LIFE)
    (folder / "tls.key").write_text(other.key)
    with pytest.raises(CertificatesUnreadable, match=r"tls\.key is not the key of tls\.crt"):
        ServerCertificates(folder)


def test_an_incomplete_renewal_changes_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = ServerCertificates(folder)
    assert served._renewed() is None  # no change
    certificate = (folder / "tls.crt").read_text()
    (folder / "tls.crt").write_text(certificate[: len(certificate) // 2])
    assert served._renewed() is None
    assert "the ones before stay in use" in caplog.text
    (folder / "tls.crt").write_text(certificate + "\n")
    assert served._renewed() is not None


def test_a_debug_log_has_a_line_for_each_call(
    cleanup: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "kanister_py"):
        _, channel = serve(cleanup, echo)
        channel.unary_unary(METHODS[V1])(b"\x0a\x03\x0a\x01t", timeout=PATIENCE_SECONDS)
    assert re.search(r"Answered a call of v1 in \d+\.\d ms: OK", caplog.text)


def test_idle_reflection_streams_do_not_block_calls(cleanup: ExitStack) -> None:
    _, channel = serve(cleanup, echo, workers=1, grace_seconds=0.0)
    reflect = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    over = threading.Event()
    cleanup.callback(over.set)

    def idle() -> Iterator[bytes]:
        over.wait()
        yield from ()

    streams = [reflect(idle()) for _ in range(16)]
    cleanup.callback(lambda: [stream.cancel() for stream in streams])
    data = b"\x0a\x03\x0a\x01t"
    assert channel.unary_unary(METHODS[V1])(data, timeout=PATIENCE_SECONDS)
    assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=PATIENCE_SECONDS)


def test_blocked_calls_delay_neither_health_checks_nor_other_calls(cleanup: ExitStack) -> None:
    may_end = threading.Event()
    cleanup.callback(may_end.set)
    hanging: Queue[str] = Queue()

    def answer(request: FunctionRequest) -> FunctionResponse:
        if request.tag == "hang":
            hanging.put(request.tag)
            may_end.wait(PATIENCE_SECONDS)
        return echo(request)

    server, channel = serve(cleanup, answer, workers=3, grace_seconds=0.0)
    call = channel.unary_unary(METHODS[V1])
    health = channel.unary_unary("/grpc.health.v1.Health/Check")
    calls = [call.future(b"\x0a\x06\x0a\x04hang") for _ in range(2)]
    for _ in calls:
        hanging.get(timeout=PATIENCE_SECONDS)
    assert call(b"\x0a\x03\x0a\x01t", timeout=PATIENCE_SECONDS)
    calls += [call.future(b"\x0a\x06\x0a\x04hang") for _ in range(3)]
    hanging.get(timeout=PATIENCE_SECONDS)
    assert health(b"", timeout=PATIENCE_SECONDS) == b"\x08\x01"
    assert not server.stop()
    may_end.set()


def test_a_coroutine_function_runs_on_the_loop_while_other_calls_wait(cleanup: ExitStack) -> None:
    may_end = asyncio.Event()

    async def answer(request: FunctionRequest) -> FunctionResponse:
        if request.tag == "w":
            await may_end.wait()
        may_end.set()
        return echo(request)

    _, channel = serve(cleanup, answer, workers=1)
    call = channel.unary_unary(METHODS[V1])
    waiting = [call.future(b"\x0a\x03\x0a\x01w") for _ in range(20)]
    assert call(b"\x0a\x03\x0a\x01t", timeout=PATIENCE_SECONDS)
    for ended in waiting:
        assert ended.result(PATIENCE_SECONDS).startswith(b"\x0a\x03\x0a\x01w")


@pytest.mark.parametrize("error", [KeyError("k"), SystemExit("bye")])
def test_an_error_of_a_coroutine_function_fails_only_its_call(
    cleanup: ExitStack, error: BaseException
) -> None:
    async def answer(request: FunctionRequest) -> FunctionResponse:
        if request.tag:
            return echo(request)
        raise error

    _, channel = serve(cleanup, answer)
    call = channel.unary_unary(METHODS[V1])
    with pytest.raises(grpc.RpcError) as caught:
        call(b"", timeout=PATIENCE_SECONDS)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert call(b"\x0a\x03\x0a\x01t", timeout=PATIENCE_SECONDS)


def test_lists_nested_a_thousand_levels_deep_are_an_invalid_request(
    cleanup: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    def read_all(request: FunctionRequest) -> FunctionResponse:
        return FunctionResponse(context=Part(request.context.data))

    _, channel = serve(cleanup, read_all)
    value = b"\x20\x01"
    for _ in range(1000):
        value = field_bytes(6, field_bytes(1, value))
    context = field_bytes(1, field_bytes(1, b"k") + field_bytes(2, value))
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(METHODS[V1])(field_bytes(5, context), timeout=PATIENCE_SECONDS)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "levels deep" in caught.value.details()
    assert caplog.text == ""
