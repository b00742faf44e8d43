"""Functions over gRPC: the contract on real servers, and faults of connections."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.runner_grpc import MOST_CHANNELS, ClientSecurity, GrpcRunner
from kanister_py.adapters.runner_memory import MemoryRunner
from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse, Part
from kanister_py.core.errors import CertificatesUnreadable
from kanister_py.core.kube.certificates import KeyPair
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.executor.python_functions import PythonFunction
from kanister_py.grpc_api.certificates import ServerCertificates
from kanister_py.grpc_api.server import FunctionServer, ServerSettings
from kanister_py.ports.function_runner import (
    FunctionAnswerInvalid,
    FunctionAnswerTooLarge,
    FunctionCall,
    FunctionCallError,
    FunctionCallFailed,
    FunctionCertificateRefused,
    FunctionNotServed,
    FunctionOverloaded,
    FunctionRequestInvalid,
    FunctionTimedOut,
    FunctionUnavailable,
)
from kanister_py.proto.encoding import encode_struct
from kanister_py.proto.messages import METHODS, V1, V1BETA1
from tests.contracts.function_runner import (
    FUNCTIONS,
    PATIENCE_SECONDS,
    FunctionRunnerContract,
    Running,
    Start,
    hanging,
    request_with,
)
from tests.fake_clock import FakeClock
from tests.ports import free_port
from tests.wire_fields import field_bytes

INSECURE = ClientSecurity(is_insecure=True)
LIFE = timedelta(days=1)


def answering(name: str) -> Callable[[FunctionRequest], FunctionResponse]:
    """Serve a class of the contract."""
    runner = MemoryRunner(lambda _: PythonFunction(FUNCTIONS[name]))
    revision = FunctionRevision(name, "", 1)
    return lambda request: runner.run(FunctionCall("", revision, request))


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def serve(cleanup: ExitStack, name: str, **settings: Any) -> FunctionServer:
    server = FunctionServer(
        answering(name), ServerSettings("127.0.0.1:0", grace_seconds=0.1, **settings)
    )
    server.start()
    cleanup.callback(server.stop)
    return server


def connect(
    cleanup: ExitStack,
    port: int,
    security: ClientSecurity = INSECURE,
    host: str = "127.0.0.1",
    **more: Any,
) -> Running:
    runner = GrpcRunner(security, **{"timeout_seconds": PATIENCE_SECONDS, **more})
    cleanup.callback(runner.close)
    return Running(runner, revision_at(f"{host}:{port}"))


def revision_at(endpoint: str, name: str = "f-1") -> FunctionRevision:
    return FunctionRevision("function-f", name, 1, endpoint=endpoint)


@pytest.fixture
def start(cleanup: ExitStack) -> Start:
    def begin(name: str) -> Running:
        running = connect(cleanup, serve(cleanup, name).port)
        return running._replace(revision=running.revision._replace(function=name))

    return begin


class TestGrpcRunner(FunctionRunnerContract):
    pass


# A scripted server


@contextmanager
def raw_server(
    answer: Callable[[bytes, Any], bytes],
    packages: tuple[str, ...] = (V1, V1BETA1),
    compression: Any = None,
    workers: int = 4,
) -> Iterator[int]:
    options = [("grpc.max_send_message_length", -1)]
    pool = ThreadPoolExecutor(workers)
    server: Any = grpc.server(pool, options=options, compression=compression)
    for package in packages:
        service = METHODS[package].split("/")[1]
        handler = grpc.unary_unary_rpc_method_handler(answer)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {"RunFunction": handler}),)
        )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait()


def aborting(code: grpc.StatusCode, details: str) -> Callable[[bytes, Any], bytes]:
    def answer(_data: bytes, context: Any) -> bytes:
        context.abort(code, details)
        raise AssertionError

    return answer


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(grpc.StatusCode.UNAVAILABLE, FunctionUnavailable, id="not for the moment"),
        pytest.param(grpc.StatusCode.RESOURCE_EXHAUSTED, FunctionOverloaded, id="no room"),
        pytest.param(grpc.StatusCode.INTERNAL, FunctionCallFailed, id="a defect"),
        pytest.param(grpc.StatusCode.PERMISSION_DENIED, FunctionCallFailed, id="not for us"),
    ],
)
def test_grpc_status_becomes_an_error_with_step_and_revision(
    cleanup: ExitStack, code: grpc.StatusCode, kind: type[FunctionCallError]
) -> None:
    port = cleanup.enter_context(raw_server(aborting(code, "as it\nwas said")))
    with pytest.raises(kind, match="as it was said") as caught:
        connect(cleanup, port)(request_with())
    assert (caught.value.step, caught.value.function) == ("a-step", "function-f")
    assert caught.value.revision == "f-1"


def test_call_to_a_stopping_function_is_a_transient_error(
    cleanup: ExitStack,
) -> None:
    port = cleanup.enter_context(raw_server(aborting(grpc.StatusCode.CANCELLED, "")))
    with pytest.raises(FunctionUnavailable, match="it stopped during the call"):
        connect(cleanup, port)(request_with())


def test_invalid_response_message_is_an_error(cleanup: ExitStack) -> None:
    port = cleanup.enter_context(raw_server(lambda _data, _context: b"\x12\xff\xff\xff\x0fno"))
    with pytest.raises(FunctionAnswerInvalid, match="f-1: the response is invalid"):
        connect(cleanup, port)(request_with())


def test_invalid_nested_value_is_an_error(cleanup: ExitStack) -> None:
    # desired.resources["a"].resource["b"] is not valid UTF-8
    inner = b"\x0a\x08\x0a\x01b\x12\x03\x1a\x01\xff"
    resource = b"\x0a" + bytes([len(inner)]) + inner
    entry = b"\x0a\x01a\x12" + bytes([len(resource)]) + resource
    state = b"\x12" + bytes([len(entry)]) + entry
    answer = b"\x12" + bytes([len(state)]) + state
    port = cleanup.enter_context(raw_server(lambda _data, _context: answer))
    with pytest.raises(FunctionAnswerInvalid):
        connect(cleanup, port)(request_with())


def test_older_protocol_version_is_remembered(
    cleanup: ExitStack,
) -> None:
    requests: list[str] = []

    class Noting(grpc.ServerInterceptor):  # type: ignore[misc]  # grpcio has no types
        def intercept_service(self, continuation: Any, details: Any) -> Any:
            requests.append(details.method)
            return continuation(details)

    server: Any = grpc.server(ThreadPoolExecutor(2), interceptors=[Noting()])
    handler = grpc.unary_unary_rpc_method_handler(lambda _data, _context: b"")
    service = METHODS[V1BETA1].split("/")[1]
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"RunFunction": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    cleanup.callback(lambda: server.stop(0).wait())
    running = connect(cleanup, port)
    for _ in range(3):
        running(request_with())
    assert requests == [METHODS[V1], METHODS[V1BETA1], METHODS[V1BETA1], METHODS[V1BETA1]]


def test_server_without_the_service_is_named(cleanup: ExitStack) -> None:
    port = cleanup.enter_context(raw_server(lambda _data, _context: b"", ()))
    with pytest.raises(FunctionNotServed, match=rf"is served at 127\.0\.0\.1:{port}"):
        connect(cleanup, port)(request_with())


@pytest.mark.parametrize("is_listening", [False, True], ids=["closed", "silent"])
def test_failed_connection_has_its_own_timeout(cleanup: ExitStack, is_listening: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not is_listening:
            server.close()
        runner = GrpcRunner(INSECURE, timeout_seconds=60.0, connect_seconds=1.0)
        cleanup.callback(runner.close)
        revision = FunctionRevision("function-f", "f-1", 1, endpoint=f"127.0.0.1:{port}")
        began = time.monotonic()
        with pytest.raises(
            FunctionUnavailable, match=rf"cannot be reached at \S+:{port} within 1 s"
        ):
            runner.run(FunctionCall("a-step", revision, request_with()))
        assert time.monotonic() - began < 30


def test_command_waits_only_once_for_a_server(cleanup: ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    runner = GrpcRunner(INSECURE, connect_seconds=1.0, waits_once=True)
    cleanup.callback(runner.close)
    revision = FunctionRevision("function-f", "f-1", 1, endpoint=f"127.0.0.1:{port}")
    began = time.monotonic()
    for _ in range(40):
        with pytest.raises(FunctionUnavailable, match="within 1 s"):
            runner.run(FunctionCall("a-step", revision, request_with()))
    assert time.monotonic() - began < 30


def context_with(values: bytes) -> bytes:
    """Serialize a struct with one list of values."""
    return field_bytes(1, field_bytes(1, b"a") + field_bytes(2, field_bytes(6, values)))


def test_response_of_20_megabytes_is_too_large(cleanup: ExitStack) -> None:
    answer = b"\x22" + b"\x80\x80\x80\x0a" + bytes(20 << 20)
    port = cleanup.enter_context(raw_server(lambda _data, _context: answer))
    with pytest.raises(
        FunctionAnswerTooLarge, match=r"its response has 20 MiB, and 8 MiB are allowed"
    ) as caught:
        connect(cleanup, port)(request_with())
    assert "kanister-py.io/max-answer-size" in caught.value.message


@pytest.mark.parametrize(
    ("number", "values"),
    [
        pytest.param(
            4, context_with(b"\x0a\x02\x2a\x00" * 2_000_000), id="empty objects in a list"
        ),
        pytest.param(2, b"\x12\x05\x0a\x03abc" * 1_000_000, id="resources"),
        pytest.param(0, b"\x1a\x00" * 2_000_000, id="results"),
    ],
)
def test_number_of_values_is_limited(number: int, values: bytes, cleanup: ExitStack) -> None:
    answer = field_bytes(number, values) if number else values
    assert len(answer) < 8 << 20
    port = cleanup.enter_context(raw_server(lambda _data, _context: answer))
    with pytest.raises(FunctionAnswerTooLarge, match="more than the 1048576 values"):
        connect(cleanup, port)(request_with())


def test_response_with_many_ordinary_values(cleanup: ExitStack) -> None:
    context = {f"label-{number}": {"name": f"value {number}"} for number in range(150_000)}
    answer = field_bytes(4, encode_struct(context))
    assert len(answer) > 5 << 20
    port = cleanup.enter_context(raw_server(lambda _data, _context: answer))
    assert connect(cleanup, port)(request_with()).context.data == context


def test_compressed_response_is_limited_by_its_unpacked_size(cleanup: ExitStack) -> None:
    answer = b"\x22" + b"\x80\x80\x80\x80\x01" + bytes(256 << 20)
    packed = grpc.Compression.Gzip
    port = cleanup.enter_context(raw_server(lambda _data, _context: answer, compression=packed))
    with pytest.raises(FunctionAnswerTooLarge, match="8 MiB are allowed"):
        connect(cleanup, port)(request_with())


def test_limit_can_be_set_per_function(cleanup: ExitStack) -> None:
    server = serve(cleanup, "function-echo")
    running = connect(cleanup, server.port, limit_bytes=10_000)
    assert running(request_with()).tag == "a-tag"
    large = request_with(context=Part({"text": "x" * 20_000}))
    allowed = running._replace(revision=running.revision._replace(answer_limit_bytes=100_000))
    assert allowed(large).tag == "a-tag"
    with pytest.raises(FunctionAnswerTooLarge, match="10000 bytes are allowed"):
        running(large)


def test_too_large_request_is_invalid(cleanup: ExitStack) -> None:
    server = serve(cleanup, "function-echo")
    with pytest.raises(FunctionRequestInvalid, match=r"has 65 MiB, and the limit is 64 MiB"):
        connect(cleanup, server.port)(request_with(context=Part({"text": "x" * (65 << 20)})))


def test_unencodable_value_names_its_path(cleanup: ExitStack) -> None:
    observed = Part({"composite": {"resource": {"spec": {"when": [object()]}}}})
    running = connect(cleanup, 1)
    with pytest.raises(
        FunctionRequestInvalid, match=r"composite\.resource\.spec\.when\[0\]: object cannot be sent"
    ):
        running(request_with(observed=observed))


def test_revision_without_endpoint_is_an_error(cleanup: ExitStack) -> None:
    running = connect(cleanup, 1)
    with pytest.raises(FunctionNotServed, match="endpoint is empty"):
        running._replace(revision=revision_at(""))(request_with())


def test_unreachable_function_is_named(cleanup: ExitStack) -> None:
    # The port is reserved, and no process listens on it.
    listener = cleanup.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    # A slow machine gets more time until it detects the failure.
    for seconds in (0.5, 5.0, PATIENCE_SECONDS):
        with pytest.raises((FunctionUnavailable, FunctionTimedOut)) as caught:
            connect(cleanup, port)(request_with(), timeout_seconds=seconds)
        if isinstance(caught.value, FunctionUnavailable):
            break
    assert isinstance(caught.value, FunctionUnavailable)
    assert f"cannot be reached at 127.0.0.1:{port}" in caught.value.message


def test_call_waits_for_a_starting_function(cleanup: ExitStack) -> None:
    port = free_port()
    running = connect(cleanup, port)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(lambda: running(request_with()))
        server = FunctionServer(
            answering("function-echo"), ServerSettings(f"127.0.0.1:{port}", grace_seconds=0.1)
        )
        server.start()
        cleanup.callback(server.stop)
        assert answer.result(PATIENCE_SECONDS).tag == "a-tag"


def test_broken_connection_is_a_transient_error(
    cleanup: ExitStack,
) -> None:
    """The connection breaks after the request has arrived, so the call is not retried."""
    arrived = threading.Event()
    calls: list[int] = []
    server: Any = grpc.server(ThreadPoolExecutor(2))

    def answer(_data: bytes, context: Any) -> bytes:
        calls.append(1)
        arrived.set()
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait(PATIENCE_SECONDS)
        return b""

    handler = grpc.unary_unary_rpc_method_handler(answer)
    service = METHODS[V1].split("/")[1]
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"RunFunction": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    running = connect(cleanup, port)
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(lambda: running(request_with()))
        assert arrived.wait(PATIENCE_SECONDS)
        server.stop(0).wait()
        with pytest.raises((FunctionUnavailable, FunctionCallFailed)) as caught:
            pending.result(PATIENCE_SECONDS)
    assert caught.value.step == "a-step"
    assert calls == [1]


def test_calls_are_balanced_over_all_endpoints(cleanup: ExitStack) -> None:
    counts = [0, 0]

    def counting(index: int) -> Callable[[bytes, Any], bytes]:
        def answer(_data: bytes, _context: Any) -> bytes:
            counts[index] += 1
            return b""

        return answer

    ports = [cleanup.enter_context(raw_server(counting(index))) for index in range(2)]
    running = connect(cleanup, 1)
    endpoint = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    running = running._replace(revision=revision_at(endpoint))
    # The connections are established one after the other.
    until = time.monotonic() + PATIENCE_SECONDS
    while not all(counts) and time.monotonic() < until:
        running(request_with())
    counts[:] = 0, 0
    for _ in range(60):
        running(request_with())
    assert sum(counts) == 60
    assert min(counts) >= 20


class Visitors:
    """Calls of a server that wait until enough of them are in progress, and their connections."""

    def __init__(self) -> None:
        self.meeting = threading.Barrier(1)
        self.peers: list[str] = []

    def answer(self, _data: bytes, context: Any) -> bytes:
        self.peers.append(context.peer())
        self.meeting.wait(PATIENCE_SECONDS)
        return b""

    def calls_at_once(self, running: Running, count: int) -> list[str]:
        """Make concurrent calls, and return their connections."""
        self.meeting = threading.Barrier(count)
        self.peers = []
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda _: running(request_with()), range(count)))
        return self.peers


def test_concurrent_calls_use_several_connections(cleanup: ExitStack) -> None:
    """Different connections may reach different processes that share a port."""
    visitors = Visitors()
    port = cleanup.enter_context(raw_server(visitors.answer, workers=2 * MOST_CHANNELS))
    running = connect(cleanup, port)
    assert len(set(visitors.calls_at_once(running, 2))) == 2
    workers = visitors.calls_at_once(running, 2 * MOST_CHANNELS)
    assert sorted(workers) == sorted(2 * [*set(workers)])
    assert len(set(workers)) == MOST_CHANNELS
    later = {*visitors.calls_at_once(running, 1), *visitors.calls_at_once(running, 1)}
    assert len(later) == 2
    assert later < set(workers)


def test_sequential_calls_use_one_connection(cleanup: ExitStack) -> None:
    visitors = Visitors()
    running = connect(cleanup, cleanup.enter_context(raw_server(visitors.answer)))
    worker_sets = [visitors.calls_at_once(running, 1) for _ in range(5)]
    assert len({worker for (worker,) in worker_sets}) == 1


def test_connections_are_closed_with_their_revision(cleanup: ExitStack) -> None:
    visitors = Visitors()
    port = cleanup.enter_context(raw_server(visitors.answer, workers=MOST_CHANNELS))
    running = connect(cleanup, port)
    assert isinstance(running.runner, GrpcRunner)
    visitors.calls_at_once(running, MOST_CHANNELS)
    (connection,) = running.runner._connections.values()
    assert len(connection._channels) == MOST_CHANNELS
    running.runner.keep_only(())
    for channel in connection._channels:
        with pytest.raises(ValueError, match="closed channel"):
            channel.methods[V1](b"")


def test_calls_in_progress_end_when_the_endpoint_changes(cleanup: ExitStack) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def slowly(_data: bytes, _context: Any) -> bytes:
        arrived.set()
        go_on.wait(PATIENCE_SECONDS)
        return b"\x0a\x05\x0a\x03old"

    old = cleanup.enter_context(raw_server(slowly))
    new = cleanup.enter_context(raw_server(lambda _data, _context: b"\x0a\x05\x0a\x03new"))
    running = connect(cleanup, old)
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(lambda: running(request_with()))
        assert arrived.wait(PATIENCE_SECONDS)
        moved = running._replace(revision=revision_at(f"127.0.0.1:{new}"))
        assert moved(request_with()).tag == "new"
        assert isinstance(running.runner, GrpcRunner)
        running.runner.keep_only(())
        go_on.set()
        assert pending.result(PATIENCE_SECONDS).tag == "old"


def test_two_revisions_of_a_function_have_a_connection_each(cleanup: ExitStack) -> None:
    tags = {"f-1": b"\x0a\x03\x0a\x011", "f-2": b"\x0a\x03\x0a\x012"}
    runner = GrpcRunner(INSECURE)
    cleanup.callback(runner.close)
    channels = []
    for name, answer in tags.items():
        port = cleanup.enter_context(raw_server(lambda _data, _context, answer=answer: answer))  # type: ignore[misc]  # a lambda's default
        channels.append(Running(runner, revision_at(f"127.0.0.1:{port}", name))(request_with()).tag)
    assert channels == ["1", "2"]
    assert len(runner._connections) == 2


# Certificates


class Authority:
    """Signs certificates, and writes them to the files that functions and their callers read."""

    def __init__(self, clock: Any = None) -> None:
        self._certificates = X509Certificates(clock or SystemClock())
        self.pair = self._certificates.new_authority("test", LIFE)

    def folder(
        self, at: Path, *names: str, trusts: KeyPair | None = None, is_client: bool = False
    ) -> Path:
        at.mkdir(parents=True, exist_ok=True)
        pair = self._certificates.issue(self.pair, names, LIFE, is_client=is_client)
        (at / "tls.crt").write_text(pair.certificate)
        (at / "tls.key").write_text(pair.key)
        (at / "ca.crt").write_text((trusts or self.pair).certificate)
        return at


def secured(
    cleanup: ExitStack, server: Path, client: Path, host: str = "localhost", name: str = ""
) -> Running:
    served = serve(cleanup, "function-echo", certificates=ServerCertificates(server))
    return connect(cleanup, served.port, ClientSecurity(client, server_name=name), host)


def test_mutual_tls_with_one_authority(cleanup: ExitStack, tmp_path: Path) -> None:
    authority = Authority()
    server = authority.folder(tmp_path / "server", "localhost")
    client = authority.folder(tmp_path / "client", "caller", is_client=True)
    assert secured(cleanup, server, client)(request_with()).tag == "a-tag"


def test_expected_name_of_the_certificate_can_be_set(cleanup: ExitStack, tmp_path: Path) -> None:
    authority = Authority()
    server = authority.folder(tmp_path / "server", "function-f.crossplane-system")
    client = authority.folder(tmp_path / "client", "caller", is_client=True)
    running = secured(cleanup, server, client, name="function-f.crossplane-system")
    assert running(request_with()).tag == "a-tag"


def test_pod_addresses_with_the_name_of_their_certificate(
    cleanup: ExitStack, tmp_path: Path
) -> None:
    authority = Authority()
    server = authority.folder(tmp_path / "server", "function-f-1.system")
    client = authority.folder(tmp_path / "client", "caller", is_client=True)
    served = serve(cleanup, "function-echo", certificates=ServerCertificates(server))
    runner = GrpcRunner(ClientSecurity(client), timeout_seconds=PATIENCE_SECONDS)
    cleanup.callback(runner.close)
    named = revision_at(f"ipv4:127.0.0.1:{served.port}#function-f-1.system")
    other = revision_at(f"ipv4:127.0.0.1:{served.port}#function-f-2.system", "f-2")
    assert runner.run(FunctionCall("s", named, request_with())).tag == "a-tag"
    with pytest.raises(FunctionCertificateRefused):
        runner.run(FunctionCall("s", other, request_with()))


def wrong_host(tmp_path: Path) -> tuple[Path, Path]:
    authority = Authority()
    server = authority.folder(tmp_path / "server", "elsewhere.example.org")
    return server, authority.folder(tmp_path / "client", "caller", is_client=True)


def wrong_authority(tmp_path: Path) -> tuple[Path, Path]:
    theirs, ours = Authority(), Authority()
    server = theirs.folder(tmp_path / "server", "localhost", trusts=ours.pair)
    return server, ours.folder(tmp_path / "client", "caller", is_client=True)


def expired(tmp_path: Path) -> tuple[Path, Path]:
    ours = Authority()
    old = Authority(FakeClock())
    old.pair = ours.pair
    server = old.folder(tmp_path / "server", "localhost")
    return server, ours.folder(tmp_path / "client", "caller", is_client=True)


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        pytest.param(wrong_host, "not valid for 'localhost'", id="of another host"),
        pytest.param(wrong_authority, "unable to get local issuer|self.signed", id="another CA"),
        pytest.param(expired, "expired", id="expired"),
    ],
)
def test_invalid_certificate_fails_immediately_with_its_reason(
    cleanup: ExitStack,
    tmp_path: Path,
    folders: Callable[[Path], tuple[Path, Path]],
    message: str,
) -> None:
    server, client = folders(tmp_path)
    with pytest.raises(FunctionCertificateRefused, match=f"(?i)({message})") as caught:
        secured(cleanup, server, client)(request_with())
    assert (caught.value.step, caught.value.revision) == ("a-step", "f-1")


def test_client_of_another_authority_is_rejected(cleanup: ExitStack, tmp_path: Path) -> None:
    ours, theirs = Authority(), Authority()
    server = ours.folder(tmp_path / "server", "localhost")
    client = theirs.folder(tmp_path / "client", "caller", trusts=ours.pair, is_client=True)
    with pytest.raises(FunctionCertificateRefused, match="it rejects our certificate"):
        secured(cleanup, server, client)(request_with())


def test_server_without_tls_is_rejected(cleanup: ExitStack, tmp_path: Path) -> None:
    client = Authority().folder(tmp_path / "client", "caller", is_client=True)
    port = serve(cleanup, "function-echo").port
    running = connect(cleanup, port, ClientSecurity(client), "localhost")
    with pytest.raises(FunctionCertificateRefused, match="does not speak TLS"):
        running(request_with())


def test_plain_text_requires_the_insecure_option(cleanup: ExitStack) -> None:
    with pytest.raises(CertificatesUnreadable, match="or use insecure"):
        connect(cleanup, 1, ClientSecurity())(request_with())


def test_folder_without_ca_is_named(cleanup: ExitStack, tmp_path: Path) -> None:
    with pytest.raises(CertificatesUnreadable, match=r"ca\.crt"):
        connect(cleanup, 1, ClientSecurity(tmp_path))(request_with())


def test_certificates_are_renewed_on_both_sides_without_a_restart(
    cleanup: ExitStack, tmp_path: Path
) -> None:
    old, new = Authority(), Authority()
    server = old.folder(tmp_path / "server", "localhost")
    client = old.folder(tmp_path / "client", "caller", is_client=True)
    running = secured(cleanup, server, client)
    assert running(request_with()).tag == "a-tag"
    new.folder(tmp_path / "server", "localhost")
    new.folder(tmp_path / "client", "caller", is_client=True)
    assert running(request_with()).tag == "a-tag"


def test_tls_before_1_2_is_rejected(cleanup: ExitStack, tmp_path: Path) -> None:
    import ssl
    import warnings

    authority = Authority()
    folder = authority.folder(tmp_path / "server", "localhost")
    port = serve(cleanup, "function-echo", certificates=ServerCertificates(folder)).port
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        socket.create_connection(("localhost", port), PATIENCE_SECONDS) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        pass


def test_timeout_is_not_retried(cleanup: ExitStack) -> None:
    running = connect(cleanup, serve(cleanup, "function-hanging").port, timeout_seconds=0.3)
    message = r"did not respond in time at 127\.0\.0\.1"
    with hanging(), pytest.raises(FunctionTimedOut, match=message):
        running(request_with())
