"""HTTPRequest v0.1.0: one request to a service, and its response as outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from ssl import SSLCertVerificationError
from threading import Timer
from typing import Any, ClassVar, Final

from pydantic import Field, field_validator

from kanister_py.core.errors import KanisterError, TransientError, UsageError
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.durations import parse_seconds
from kanister_py.core.kube.jsonpath import InvalidJSONPath, parse_jsonpath
from kanister_py.functions.blueprint.http_request.exchange import Exchange, Security
from kanister_py.functions.blueprint.http_request.request import (
    Address,
    InvalidRequest,
    Request,
    Response,
    check_header,
)
from kanister_py.functions.blueprint.pods import Timeout
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import AnyOutputs, Args


class RequestFailed(TransientError, reason="RequestFailed"):
    """Error for a request without a complete response."""

    def __init__(self, request: str, why: str, *, is_begun: bool) -> None:
        super().__init__(f"{request}: {why}")
        self.request = request
        self.why = why
        self.is_begun = is_begun
        """Whether a part of the request was sent, so that the host may have acted on it."""


class ServiceNotReady(TransientError, reason="UnexpectedStatus"):
    """Error for an unexpected status that may be temporary."""

    def __init__(self, message: str, status: int, delay_seconds: float) -> None:
        super().__init__(message, delay_seconds)
        self.status = status


_METHOD: Final = re.compile(r"[A-Z]+")
_STATUS: Final = re.compile(r"[1-5](?:[0-9]{2}|xx)(?:-[1-5][0-9]{2})?")
_OUTPUT: Final = re.compile(r"[A-Za-z0-9_]+")
_STATUS_OUTPUT: Final = "statusCode"
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Headers that are also sent to other hosts after a redirect.
_HARMLESS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_MOST_REDIRECTS: Final = 10
_END_OF_PEM_HEADER: Final = "CERTIFICATE-----"
_FIRST_DELAY_SECONDS: Final = 1.0
_LONGEST_DELAY_SECONDS: Final = 30.0
_LONGEST_RETRY_AFTER_SECONDS: Final = 300.0
_SHOWN_OF_BODY: Final = 300


class HTTPRequestArgs(Args):
    """Arguments of HTTPRequest."""

    url: str = Field(description="The URL of the request: `https://…` or `http://…`.")
    method: str = Field(
        default="GET",
        description="The HTTP method; not case-sensitive.",
        json_schema_extra={"pattern": "[A-Za-z]+"},
    )
    headers: dict[str, str] = Field(default_factory=dict, description="The headers of the request.")
    body: str | dict[str, Any] | list[Any] | None = Field(
        default=None,
        description="The body of the request. Text is sent unchanged; a map or a list is sent "
        "as JSON, with the matching `Content-Type`.",
    )
    expected_status: list[int | str] = Field(
        default_factory=list,
        description="The status codes of a successful response, such as `200`, `2xx` or "
        "`200-204`; by default, `2xx`.",
        json_schema_extra={
            "items": {
                "anyOf": [
                    {"type": "integer", "minimum": 100, "maximum": 599},
                    {"type": "string", "pattern": _STATUS.pattern},
                ]
            }
        },
    )
    timeout: Timeout = Field(
        default="30s",
        description="Time limit of one attempt, from connecting to the end of the response.",
    )
    retries: int = Field(
        default=0,
        ge=0,
        le=100,
        description="The maximum number of retries after an attempt that could not connect, "
        "lost its connection, or received status 408, 425, 429, 500, 502, 503 or 504. The delay "
        "between attempts grows from 1 to 30 seconds, unless the response has a header "
        "`Retry-After`.",
    )
    outputs: dict[str, str] = Field(
        default_factory=dict,
        description="Names of outputs, with the JSONPath of their values in the response, such "
        "as `{.items[0].id}`. A response that is not JSON is a single string: `{@}`.",
        json_schema_extra={
            "propertyNames": {"pattern": f"(?!{_STATUS_OUTPUT}$){_OUTPUT.pattern}"},
            # Only the simplest paths; the validator below parses all others.
            "additionalProperties": {"type": "string", "pattern": r"\{(\.[A-Za-z_]+)+\}"},
        },
    )
    allowed_redirect_hosts: list[str] = Field(
        default_factory=list,
        description="Additional hosts to which redirects are followed. Of the request's "
        "headers they receive only `Accept`, `Accept-Language`, `Content-Type` and "
        "`User-Agent`.",
    )
    ca_certificate: str = Field(
        default="",
        description="PEM certificates of certificate authorities to trust in addition to "
        "the default ones.",
    )
    insecure_skip_tls_verify: bool = Field(
        default=False,
        description="Whether to skip the verification of the server's certificate. For tests only.",
    )
    use_environment_proxy: bool = Field(
        default=False,
        description="Whether to use the process's environment variables `HTTP_PROXY`, "
        "`HTTPS_PROXY` and `NO_PROXY`.",
    )

    @field_validator("method")
    @classmethod
    def _known_method(cls, method: str) -> str:
        if not _METHOD.fullmatch(method.upper()):
            raise ValueError("a method has letters only")
        return method.upper()

    @field_validator("expected_status")
    @classmethod
    def _readable_status(cls, several: list[int | str]) -> list[int | str]:
        for item in several:
            if not _STATUS.fullmatch(str(item)):
                raise ValueError("write a status as 200, 2xx or 200-204")
        return several

    @field_validator("outputs")
    @classmethod
    def _readable_outputs(cls, outputs: dict[str, str]) -> dict[str, str]:
        for name, path in outputs.items():
            if not _OUTPUT.fullmatch(name) or name == _STATUS_OUTPUT:
                raise ValueError(f"no output can be called {name}")
            try:
                parse_jsonpath(_in_braces(path))
            except InvalidJSONPath as error:
                raise ValueError(f"the JSONPath of {name} cannot be read: {error}") from error
        return {name: _in_braces(path) for name, path in outputs.items()}


class HTTPRequestOutputs(AnyOutputs):
    """Outputs of HTTPRequest: the status code, and the keys of `outputs`."""

    status_code: int = Field(description="The status code of the response.")


class HTTPRequest(Func):
    """Sends an HTTP request and returns parts of the response as outputs.

    The request is sent from the process that runs the phase: the controller's pod or your
    machine. An unexpected response fails the phase. If the status may be temporary, the error
    is transient, and a `retry` of the phase repeats it. Redirects are followed at most ten
    times, only to the same host and the hosts in `allowedRedirectHosts`, and never from https
    to http; a 303, and a 301 or 302 in response to a POST, change the method to GET.
    Responses are limited to 4 MiB.

    Outputs are formatted as kubectl prints them: maps and lists as JSON. Known secrets are
    masked in logs and errors, and URLs are shown without their query. After a restart, the
    state of the request is unknown, so the phase fails with the reason `Interrupted`.
    """

    name = "HTTPRequest"
    version: ClassVar = "v0.1.0"
    Args = HTTPRequestArgs
    Outputs = HTTPRequestOutputs
    on_restart = OnRestart.FAIL

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        return []

    @classmethod
    def refusals(cls, args: Mapping[str, Any]) -> Iterable[tuple[str, KanisterError]]:
        url, headers = args.get("url"), args.get("headers")
        try:
            if isinstance(url, str):
                Address.of(url)
        except InvalidRequest as error:
            yield "url", error
        authority = args.get("caCertificate")
        # Parsing it needs modules that are slow to import.
        if isinstance(authority, str) and authority and _END_OF_PEM_HEADER not in authority:
            problem = "caCertificate must contain certificates in PEM: -----BEGIN CERTIFICATE-----"
            yield "caCertificate", InvalidRequest(problem)
        for name, value in headers.items() if isinstance(headers, Mapping) else ():
            try:
                check_header(name, str(value))
            except InvalidRequest as error:
                yield "headers", error

    def exec(self, ctx: PhaseContext, params: Any, args: HTTPRequestArgs) -> Mapping[str, Any]:
        request = _request_of(args)
        for tries_left in reversed(range(args.retries + 1)):
            try:
                response = _send(ctx, args, request)
                break
            except TransientError as error:
                self._check_repeatable(request, error)
                if not tries_left:
                    raise
                done = args.retries - tries_left
                pause = error.delay_seconds or _pause_before(done)
                ctx.log(f"{error.message}; again in {pause:g} s")
                ctx.sleep(pause)
        return {_STATUS_OUTPUT: response.status, **_outputs_of(args, response)}

    def _check_repeatable(self, request: Request, error: TransientError) -> None:
        """Raise an error if the request must not be repeated."""


def _in_braces(path: str) -> str:
    return path if "{" in path else f"{{{path}}}"


def _pause_before(retry: int) -> float:
    return min(_FIRST_DELAY_SECONDS * 2.0**retry, _LONGEST_DELAY_SECONDS)


def _request_of(args: HTTPRequestArgs) -> Request:
    headers = dict(args.headers)
    if args.body is None or isinstance(args.body, str):
        body = None if args.body is None else args.body.encode("utf-8", "surrogateescape")
    else:
        body = json.dumps(args.body, ensure_ascii=False).encode()
        if "content-type" not in {name.lower() for name in headers}:
            headers["Content-Type"] = "application/json"
    return Request(args.method, Address.of(args.url), headers, body)


def _send(ctx: PhaseContext, args: HTTPRequestArgs, request: Request) -> Response:
    """Send a request, follow redirects, and return the expected response."""
    for _ in range(_MOST_REDIRECTS + 1):
        response = _exchange(ctx, args, request)
        ctx.log(
            f"{request.method} {request.address}: {response.status}, {len(response.body)} bytes"
        )
        if _is_expected(args.expected_status, response.status):
            return response
        location = response.headers.get("location", "")
        if response.status not in _REDIRECTS or not location:
            raise _unexpected(request, response)
        request = _redirected(args, request, response.status, location)
    raise InvalidRequest(f"There are too many redirects, the last one to {request.address}")


def _exchange(ctx: PhaseContext, args: HTTPRequestArgs, request: Request) -> Response:
    seconds = parse_seconds(args.timeout or "30s")
    security = Security(
        args.ca_certificate, args.insecure_skip_tls_verify, args.use_environment_proxy
    )
    exchange = Exchange(security, seconds, ctx.confinement)
    label = f"{request.method} {request.address}"
    timer = Timer(seconds, exchange.stop)
    timer.daemon = True
    timer.start()
    try:
        with ctx.on_cancel(exchange.stop), ctx.idle():
            return exchange.run(request)
    except SSLCertVerificationError as error:
        raise InvalidRequest(f"{label}: {error.verify_message}") from error
    except (OSError, HTTPException) as error:
        ctx.check_cancelled()
        if exchange.is_stopped or isinstance(error, TimeoutError):
            why = f"no response within {seconds:g} s"
        else:
            why = _why(error)
        raise RequestFailed(label, why, is_begun=exchange.is_begun) from error
    finally:
        timer.cancel()


def _why(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(reason).split())


def _is_expected(expected: list[int | str], status: int) -> bool:
    return any(_fits(str(pattern), status) for pattern in expected or ["2xx"])


def _fits(expected: str, status: int) -> bool:
    first, _, last = expected.partition("-")
    if "x" in first:
        return str(status)[0] == first[0]
    return int(first) <= status <= int(last or first)


def _unexpected(request: Request, response: Response) -> KanisterError:
    shown = " ".join(response.text[:_SHOWN_OF_BODY].split())
    message = f"{request.method} {request.address}: returned {response.status}"
    message += f": {shown}" if shown else ""
    if response.status in _PASSING:
        return ServiceNotReady(message, response.status, _retry_after(response))
    return UsageError(message, reason=ServiceNotReady.reason)


def _retry_after(response: Response) -> float:
    text = response.headers.get("retry-after", "").strip()
    return min(float(text), _LONGEST_RETRY_AFTER_SECONDS) if text.isdecimal() else 0.0


def _redirected(args: HTTPRequestArgs, request: Request, status: int, location: str) -> Request:
    """Return the request for a redirect, if it is allowed."""
    before, address = request.address, request.address.joined(location)
    headers = dict(request.headers)
    if before.scheme == "https" and address.scheme == "http":
        raise InvalidRequest(f"{before} sends the request from https to {address.origin}")
    if address.host != before.host:
        allowed = {host.lower() for host in args.allowed_redirect_hosts}
        if address.host.lower() not in allowed:
            raise InvalidRequest(
                f"{before} sends the request to another host, {address.host}; "
                "name it in allowedRedirectHosts if it may see it"
            )
    is_same = (address.host, address.port) == (before.host, before.port)
    is_upgraded = address.host == before.host and (before.port, address.port) == (80, 443)
    if is_same or is_upgraded:
        address = address._replace(credentials=address.credentials or before.credentials)
    else:
        headers = {name: text for name, text in headers.items() if name.lower() in _HARMLESS}
    if status == 303 or (status in {301, 302} and request.method == "POST"):
        method = request.method if request.method == "HEAD" else "GET"
        kept = {name: text for name, text in headers.items() if name.lower() != "content-type"}
        return Request(method, address, kept)
    return request._replace(address=address, headers=headers)


def _outputs_of(args: HTTPRequestArgs, response: Response) -> Mapping[str, str]:
    if not args.outputs:
        return {}
    try:
        answer = json.loads(response.body)
    except ValueError:
        answer = response.text
    outputs = {}
    for name, path in args.outputs.items():
        try:
            outputs[name] = parse_jsonpath(path).render(answer)
        except InvalidJSONPath as error:
            why = f"Output {name}: the response has nothing at {path}: {error.why}"
            raise UsageError(why, reason="OutputNotInResponse") from error
    return outputs
