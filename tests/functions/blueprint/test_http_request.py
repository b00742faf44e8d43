"""Requests to real servers on this machine."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.errors import KanisterError, RunCancelled, TransientError, UsageError
from kanister_py.core.yaml.weak import InvalidArgs
from kanister_py.functions.blueprint.http_request.request import InvalidRequest
from kanister_py.functions.blueprint.http_request.v0_1_0 import (
    HTTPRequest,
    RequestFailed,
    ServiceNotReady,
)
from kanister_py.functions.blueprint.http_request.v0_2_0 import HTTPRequestV020
from tests.fake_clock import FakeClock
from tests.functions.blueprint.api_calls import Api
from tests.raising import refused_as

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Responds as the test of the path defines, and records the requests."""

    protocol_version = "HTTP/1.1"
    server: Server

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.server.asked.append((self.command, self.path, dict(self.headers.items()), body))
        self.server.answers.get(self.path.partition("?")[0], not_found)(self)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_CONNECT = _answer  # noqa: N815 - names of the library

    def log_message(self, *args: Any) -> None:
        """Print nothing."""

    def say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: dict[str, Answer] = {}
        self.arrived = threading.Event()
        self.released = threading.Event()

    def url(self, path: str, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.server_port}{path}"

    def handle_error(self, *args: Any) -> None:
        """Ignore clients that close the connection."""


def not_found(handler: Handler) -> None:
    handler.say(404, b"nothing here")


def says(status: int, body: bytes = b"", **headers: str) -> Answer:
    return lambda handler: handler.say(status, body, **headers)


def says_in_turn(*answers: Answer) -> Answer:
    left = iter(answers)

    def answer(handler: Handler) -> None:
        next(left)(handler)

    return answer


def as_json(value: object) -> Answer:
    return says(200, json.dumps(value).encode(), Content_Type="application/json")


def hangs_up(handler: Handler) -> None:
    handler.close_connection = True


def silent(handler: Handler) -> None:
    """Send nothing until the test is over."""
    handler.server.arrived.set()
    handler.server.released.wait(180)


def dripping(handler: Handler) -> None:
    """Send single bytes without end."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.server.arrived.set()
    while not handler.server.released.wait(0.02):
        handler.wfile.write(b".")
        handler.wfile.flush()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def api() -> Api:
    return Api(clock=FakeClock(jumps=True))


def failure(api: Api, **args: Any) -> KanisterError:
    with pytest.raises(KanisterError) as caught:
        api.call(HTTPRequest, args)
    return caught.value


# Requests


def test_get_request_outputs_the_status(api: Api, server: Server) -> None:
    server.answers["/ok"] = says(204)
    assert api.call(HTTPRequest, {"url": server.url("/ok?token=abc")}) == {"statusCode": 204}
    [(method, path, headers, body)] = server.asked
    assert (method, path, body) == ("GET", "/ok?token=abc", b"")
    assert headers["host"] == f"127.0.0.1:{server.server_port}"
    assert headers["user-agent"] == "kanister-py"
    assert api.log == [f"GET {server.url('/ok')}: 204, 0 bytes"], "a query is nobody's business"


def test_map_body_is_sent_as_json_and_text_unchanged(api: Api, server: Server) -> None:
    server.answers["/hook"] = says(200)
    hook = {"url": server.url("/hook"), "method": "post"}
    api.call(HTTPRequest, {**hook, "body": {"name": "Grüße", "n": [1]}})
    api.call(
        HTTPRequest, {**hook, "method": "PUT", "body": "a=1", "headers": {"X-Token": "{{ 1 }}"}}
    )
    first, second = server.asked
    assert (first[0], first[2]["content-type"]) == ("POST", "application/json")
    assert json.loads(first[3]) == {"name": "Grüße", "n": [1]}
    assert (second[0], second[2]["x-token"], second[3]) == ("PUT", "1", b"a=1")
    assert "content-type" not in second[2]


def test_user_in_the_url_is_sent_as_a_header(api: Api, server: Server) -> None:
    server.answers["/ok"] = says(200)
    url = server.url("/ok").replace("//", "//me:p%40ss@")
    api.call(HTTPRequest, {"url": url})
    assert server.asked[0][2]["authorization"] == "Basic bWU6cEBzcw=="
    assert "p%40ss" not in str(api.log)


# Responses


def test_outputs_are_selected_by_jsonpath(api: Api, server: Server) -> None:
    server.answers["/jobs"] = as_json({"items": [{"id": 7, "tags": {"a": "b"}}, {"id": 8}]})
    outputs = {"first": "{.items[0].id}", "all": ".items[*].id", "tags": "{.items[0].tags}"}
    answer = api.call(HTTPRequest, {"url": server.url("/jobs"), "outputs": outputs})
    assert answer == {"statusCode": 200, "first": "7", "all": "7 8", "tags": '{"a":"b"}'}


def test_response_that_is_not_json_is_a_text(api: Api, server: Server) -> None:
    server.answers["/text"] = says(
        200, "Grüße".encode("latin-1"), Content_Type="text/plain; charset=latin-1"
    )
    answer = api.call(HTTPRequest, {"url": server.url("/text"), "outputs": {"text": "{@}"}})
    assert answer["text"] == "Grüße"


def test_missing_output_value_fails_the_phase(api: Api, server: Server) -> None:
    server.answers["/jobs"] = as_json({"a": 1})
    error = failure(api, url=server.url("/jobs"), outputs={"id": "{.job.id}"})
    assert (type(error), error.reason) == (UsageError, "OutputNotInResponse")
    assert error.message.startswith("Output id: ")


@pytest.mark.parametrize(
    ("expected", "status", "is_fine"),
    [
        pytest.param([], 299, True, id="anything in the two hundreds"),
        pytest.param([], 304, False, id="nothing else, unless said"),
        pytest.param([404], 404, True, id="a number"),
        pytest.param(["404"], 404, True, id="its digits"),
        pytest.param(404, 404, True, id="a number that is no list"),
        pytest.param(["4xx"], 418, True, id="a hundred"),
        pytest.param(["200-203", 500], 500, True, id="several"),
        pytest.param(["200-203"], 204, False, id="past the end"),
        pytest.param([302], 302, True, id="a redirect that is wanted as it is"),
    ],
)
def test_status_must_be_expected(
    api: Api, server: Server, expected: Any, status: int, is_fine: bool
) -> None:
    server.answers["/s"] = says(status, Location="http://elsewhere.test/")
    args = {"url": server.url("/s"), "expectedStatus": expected}
    if is_fine:
        assert api.call(HTTPRequest, args) == {"statusCode": status}
    else:
        assert failure(api, **args).reason in {"UnexpectedStatus", "InvalidRequest"}


def test_unexpected_response_is_quoted_in_the_error(api: Api, server: Server) -> None:
    server.answers["/s"] = says(403, b"you may\nnot" + b"x" * 1000)
    error = failure(api, url=server.url("/s?key=1"))
    assert (type(error), error.reason) == (UsageError, "UnexpectedStatus")
    assert error.message.startswith(f"GET {server.url('/s')}: returned 403: you may notxxx")
    assert len(error.message) < 400


def test_endless_response_is_rejected(api: Api, server: Server) -> None:
    server.answers["/big"] = says(200, b"x" * (4 * 1024 * 1024 + 1))
    with refused_as("ResponseTooLarge"):
        api.call(HTTPRequest, {"url": server.url("/big")})


def test_truncated_response_is_an_error(api: Api, server: Server) -> None:
    def breaks_off(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.close_connection = True

    server.answers["/half"] = breaks_off
    assert isinstance(failure(api, url=server.url("/half")), RequestFailed)


# Retries


def test_unavailable_service_is_retried(api: Api, server: Server) -> None:
    server.answers["/s"] = says_in_turn(
        says(503),
        says(429, Retry_After="17"),
        lambda handler: handler.connection.close(),
        says(200),
    )
    assert api.call(HTTPRequest, {"url": server.url("/s"), "retries": 3})["statusCode"] == 200
    pauses = [line.rpartition("; again in ")[2] for line in api.log if "again" in line]
    assert pauses == ["1 s", "17 s", "4 s"]


def test_error_after_the_last_retry_is_transient(api: Api, server: Server) -> None:
    server.answers["/s"] = says(503, b"later", Retry_After="5")
    error = failure(api, url=server.url("/s"), retries=2)
    assert isinstance(error, ServiceNotReady)
    assert isinstance(error, TransientError)
    assert (error.delay_seconds, len(server.asked)) == (5.0, 3)


def test_permanent_error_is_not_retried(api: Api, server: Server) -> None:
    failure(api, url=server.url("/none"), retries=5)
    assert len(server.asked) == 1


def test_refused_connection_is_a_transient_error(api: Api) -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        port = occupied.getsockname()[1]
        error = failure(api, url=f"http://127.0.0.1:{port}/")
    assert isinstance(error, RequestFailed)
    assert error.why == "Connection refused"


# v0.2.0


@pytest.mark.parametrize(
    "answer", [pytest.param(hangs_up, id="broken off"), pytest.param(says(502), id="502")]
)
def test_post_is_not_retried_after_it_was_sent(api: Api, server: Server, answer: Answer) -> None:
    server.answers["/jobs"] = answer
    with refused_as("RequestInDoubt", match="may have been carried out") as refused:
        api.call(HTTPRequestV020, {"url": server.url("/jobs"), "method": "POST", "retries": 3})
    assert len(server.asked) == 1
    assert not isinstance(refused.value, TransientError), "the phase's own retry must not repeat it"


@pytest.mark.parametrize(
    ("args", "first"),
    [
        pytest.param({"method": "POST"}, says(503), id="a post that was turned away"),
        pytest.param({"method": "PUT"}, hangs_up, id="a put, which may come twice"),
        pytest.param(
            {"method": "POST", "headers": {"idempotency-key": "1"}}, hangs_up, id="a post with key"
        ),
    ],
)
def test_idempotent_request_is_retried(
    api: Api, server: Server, args: dict[str, Any], first: Answer
) -> None:
    server.answers["/jobs"] = says_in_turn(first, says(200))
    called = api.call(HTTPRequestV020, {"url": server.url("/jobs"), "retries": 1, **args})
    assert called["statusCode"] == 200


def test_post_is_retried_if_it_was_not_sent(api: Api) -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{occupied.getsockname()[1]}/"
        with pytest.raises(RequestFailed):
            api.call(HTTPRequestV020, {"url": url, "method": "POST", "retries": 1})
    assert any("; again in 1 s" in line for line in api.log)


# Time limits


@pytest.mark.parametrize("answer", [silent, dripping])
def test_attempt_ends_after_its_timeout(api: Api, server: Server, answer: Answer) -> None:
    server.answers["/slow"] = answer
    error = failure(api, url=server.url("/slow"), timeout="200ms")
    assert isinstance(error, RequestFailed)
    assert error.why == "no response within 0.2 s"


@pytest.mark.parametrize("answer", [silent, dripping])
def test_request_can_be_cancelled(api: Api, server: Server, answer: Answer) -> None:
    server.answers["/slow"] = answer
    called = api.start(HTTPRequest, {"url": server.url("/slow"), "retries": 5})
    assert server.arrived.wait(180)
    called.cancel()
    with pytest.raises(RunCancelled):
        called.result()
    assert len(server.asked) == 1


# Redirects


def test_redirect_on_the_same_host_keeps_headers(api: Api, server: Server) -> None:
    server.answers["/old"] = says(307, Location="/new?x=1")
    server.answers["/new"] = says(200)
    args = {"url": server.url("/old"), "method": "POST", "body": "b", "headers": {"X-Key": "k"}}
    api.call(HTTPRequest, args)
    assert server.asked[1][:2] == ("POST", "/new?x=1")
    assert (server.asked[1][2]["x-key"], server.asked[1][3]) == ("k", b"b")


@pytest.mark.parametrize("status", [301, 302, 303])
def test_redirect_after_post_uses_get(api: Api, server: Server, status: int) -> None:
    server.answers["/old"] = says(status, Location="/new")
    server.answers["/new"] = says(200)
    api.call(HTTPRequest, {"url": server.url("/old"), "method": "POST", "body": {"a": 1}})
    method, _, headers, body = server.asked[1]
    assert (method, body) == ("GET", b"")
    assert "content-type" not in headers


def test_redirect_to_another_host_must_be_allowed_and_drops_secrets(
    api: Api, server: Server
) -> None:
    server.answers["/old"] = says(302, Location=server.url("/new", "localhost"))
    server.answers["/new"] = says(200)
    args = {
        "url": server.url("/old").replace("//", "//me:secret@"),
        "headers": {"Authorization": "Bearer x", "X-Key": "k", "Accept": "text/plain"},
    }
    error = failure(api, **args)
    assert isinstance(error, InvalidRequest)
    assert "another host, localhost; name it in allowedRedirectHosts" in error.message
    assert len(server.asked) == 1
    api.call(HTTPRequest, {**args, "allowedRedirectHosts": ["localhost"]})
    headers = server.asked[-1][2]
    assert headers["accept"] == "text/plain"
    assert not {"authorization", "x-key"} & set(headers)


def test_number_of_redirects_is_limited(api: Api, server: Server) -> None:
    server.answers["/round"] = says(302, Location="/round")
    assert "too many redirects" in failure(api, url=server.url("/round")).message
    assert len(server.asked) == 11


# TLS


@pytest.fixture
def secure(server: Server, tmp_path: Path) -> tuple[Server, str]:
    """Serve TLS with a certificate that is not trusted, and return the certificate as well."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    clock = Api().clock.now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(clock - timedelta(days=365))
        .not_valid_after(clock + timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    both = tmp_path / "both.pem"
    both.write_bytes(
        pem
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server, pem.decode()


def test_untrusted_certificate_is_rejected(api: Api, secure: tuple[Server, str]) -> None:
    server, authority = secure
    server.answers["/ok"] = says(200)
    url = server.url("/ok", "localhost", "https")
    error = failure(api, url=url, retries=3)
    assert isinstance(error, InvalidRequest)
    assert "certificate" in error.message
    assert api.call(HTTPRequest, {"url": url, "caCertificate": authority})["statusCode"] == 200
    assert api.call(HTTPRequest, {"url": url, "insecureSkipTlsVerify": True})["statusCode"] == 200
    wrong = failure(api, url=url.replace("localhost", "127.0.0.1"), caCertificate=authority)
    assert isinstance(wrong, InvalidRequest)
    assert isinstance(failure(api, url=url, caCertificate="no"), InvalidRequest)


def test_redirect_from_https_to_http_is_rejected(api: Api, secure: tuple[Server, str]) -> None:
    server, authority = secure
    server.answers["/old"] = says(302, Location=server.url("/new", "localhost", "http"))
    url = server.url("/old", "localhost", "https")
    assert "from https to http" in failure(api, url=url, caCertificate=authority).message


@pytest.mark.parametrize("answer", [silent, dripping])
def test_request_over_tls_can_be_cancelled(
    api: Api, secure: tuple[Server, str], answer: Answer
) -> None:
    server, authority = secure
    server.answers["/slow"] = answer
    url = server.url("/slow", "localhost", "https")
    called = api.start(HTTPRequest, {"url": url, "caCertificate": authority})
    assert server.arrived.wait(180)
    called.cancel()
    with pytest.raises(RunCancelled):
        called.result()


def test_environment_proxy_is_used_only_on_request(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url("", "127.0.0.1").replace("//", "//me:pass@"))
    monkeypatch.delenv("no_proxy", raising=False)
    server.answers["http://nowhere.test/ok"] = says(200)
    args = {"url": "http://nowhere.test/ok", "useEnvironmentProxy": True}
    assert api.call(HTTPRequest, args) == {"statusCode": 200}
    _, path, headers, _ = server.asked[0]
    assert (path, headers["host"]) == ("http://nowhere.test/ok", "nowhere.test")
    assert headers["proxy-authorization"] == "Basic bWU6cGFzcw=="
    server.answers["/ok"] = says(200)
    api.call(HTTPRequest, {"url": server.url("/ok")})
    assert server.asked[1][1] == "/ok"


def test_failing_proxy_is_named(api: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", server.url(""))
    monkeypatch.delenv("no_proxy", raising=False)
    error = failure(api, url="https://nowhere.test/ok", useEnvironmentProxy=True)
    assert isinstance(error, RequestFailed)
    assert error.why == "the proxy returned 404"
    assert server.asked[0][:2] == ("CONNECT", "nowhere.test:443")


# Rejections


def test_secrets_are_masked_in_the_log(api: Api, server: Server) -> None:
    server.answers["/hush-hush"] = says(200)
    api.call(HTTPRequest, {"url": server.url("/hush-hush")}, secrets=("hush-hush",))
    assert "hush-hush" not in str(api.log)
    assert "200" in str(api.log)


@pytest.mark.parametrize(
    ("args", "error", "refusal"),
    [
        pytest.param({}, InvalidArgs, "Required arg missing: url", id="no url"),
        pytest.param({"url": "ftp://x/"}, InvalidRequest, "URL wants http or https", id="ftp"),
        pytest.param({"url": "http:///x"}, InvalidRequest, "and a host", id="no host"),
        pytest.param({"url": "http://x:99999/"}, InvalidRequest, "cannot be read", id="a port"),
        pytest.param({"method": "GET /"}, InvalidArgs, "letters only", id="a method"),
        pytest.param({"timeout": "soon"}, InvalidArgs, "invalid duration", id="a timeout"),
        pytest.param({"retries": -1}, InvalidArgs, "greater than or equal to 0", id="retries"),
        pytest.param({"expectedStatus": ["ok"]}, InvalidArgs, "write a status as", id="a status"),
        pytest.param({"outputs": {"a": "{.b"}}, InvalidArgs, "JSONPath of a", id="a JSONPath"),
        pytest.param(
            {"outputs": {"statusCode": "{.b}"}}, InvalidArgs, "can be called", id="a name taken"
        ),
    ],
)
def test_invalid_request_is_rejected(
    api: Api, args: dict[str, Any], error: type[Exception], refusal: str
) -> None:
    request_args = {"url": "http://127.0.0.1/", **args} if args else {}
    with pytest.raises(error) as caught:
        api.call(HTTPRequest, request_args)
    assert refusal in str(caught.value)


@pytest.mark.parametrize(
    ("args", "refused"),
    [
        pytest.param({"url": "ftp://x/"}, ["url"], id="ftp"),
        pytest.param({"url": "http:///x"}, ["url"], id="no host"),
        pytest.param({"headers": {"X A:": "b"}}, ["headers"], id="no name of a header"),
        pytest.param({"headers": {"X-A": "b\r\nX-Evil: c"}}, ["headers"], id="two headers"),
        pytest.param({"caCertificate": "ca.pem"}, ["caCertificate"], id="a file name"),
        pytest.param({"headers": {"X-A": "b"}, "url": "http://x"}, [], id="nothing wrong"),
        pytest.param({}, [], id="nothing known yet"),
    ],
)
def test_known_arguments_are_checked_before_the_run(
    args: dict[str, Any], refused: list[str]
) -> None:
    assert [name for name, _ in HTTPRequest.refusals(args)] == refused


def test_header_with_line_break_is_rejected(api: Api, server: Server) -> None:
    error = failure(api, url=server.url("/ok"), headers={"X-A": "b\r\nX-Evil: c"})
    assert isinstance(error, InvalidRequest)
    assert not server.asked
