"""Health and reflection of a gRPC server.

Written here instead of taken from grpcio's own packages: those want the newest
protobuf, and look only into the pool that all packages share.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from threading import BoundedSemaphore, Timer
from typing import Any

import grpc

from kanister_py.proto.decoding import NotDecodable, decode_message
from kanister_py.proto.encoding import encode_message
from kanister_py.proto.messages import pool

HEALTH = "grpc.health.v1.Health"
REFLECTIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
_NOT_FOUND = 5
# Each of them keeps a thread that functions could use.
_MOST_STREAMS = 4
_IDLE_SECONDS = 10.0


class Introspection:
    """Health checks and reflection of the services that a server offers.

    Health is asked for, never watched: a watch would keep a thread for as long as
    it lasts.
    """

    def __init__(self, services: Sequence[str], workers: int) -> None:
        self._services = (*services, HEALTH, *REFLECTIONS)
        self._streams = BoundedSemaphore(max(1, min(_MOST_STREAMS, workers // 2)))
        self.is_serving = True

    def handlers(self) -> list[Any]:
        check = {"Check": grpc.unary_unary_rpc_method_handler(self._check)}
        return [
            grpc.method_handlers_generic_handler(HEALTH, check),
            *map(self._reflection, REFLECTIONS),
        ]

    def _reflection(self, service: str) -> Any:
        made = _Reflection(service.rpartition(".")[0], self._services, self._streams)
        info = grpc.stream_stream_rpc_method_handler(made.answer)
        return grpc.method_handlers_generic_handler(service, {"ServerReflectionInfo": info})

    def _check(self, data: bytes, context: Any) -> bytes:
        request = _read("grpc.health.v1.HealthCheckRequest", data, context)
        service = request.get("service", "")
        if service and service not in self._services:
            context.abort(grpc.StatusCode.NOT_FOUND, "This service is not served here")
        status = "SERVING" if self.is_serving else "NOT_SERVING"
        return encode_message("grpc.health.v1.HealthCheckResponse", {"status": status})


def _read(name: str, data: bytes, context: Any) -> dict[str, Any]:
    try:
        return decode_message(name, data)
    except NotDecodable as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise


class _Reflection:
    """Reflection in one of its packages; a client that asks nothing for a while is cut off."""

    def __init__(self, package: str, services: Sequence[str], streams: BoundedSemaphore) -> None:
        self._streams = streams
        self._request = f"{package}.ServerReflectionRequest"
        self._response = f"{package}.ServerReflectionResponse"
        self._services = services

    def answer(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        if not self._streams.acquire(blocking=False):
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many ask for reflection; try again"
            )
        try:
            for data in _while_they_come(requests, context):
                yield self._answer(data, context)
        finally:
            self._streams.release()

    def _answer(self, data: bytes, context: Any) -> bytes:
        request = _read(self._request, data, context)
        answer = {"validHost": request.get("host", ""), "originalRequest": request}
        return encode_message(self._response, {**answer, **self._found(request)})

    def _found(self, request: dict[str, Any]) -> dict[str, Any]:
        if "listServices" in request:
            return {
                "listServicesResponse": {"service": [{"name": each} for each in self._services]}
            }
        try:
            if "fileByFilename" in request:
                return _files(pool().FindFileByName(request["fileByFilename"]))
            if "fileContainingSymbol" in request:
                return _files(pool().FindFileContainingSymbol(request["fileContainingSymbol"]))
            if "allExtensionNumbersOfType" in request:
                name = request["allExtensionNumbersOfType"]
                pool().FindMessageTypeByName(name)
                return {"allExtensionNumbersResponse": {"baseTypeName": name}}
        except KeyError:
            pass
        return {"errorResponse": {"errorCode": _NOT_FOUND, "errorMessage": "It is not known here"}}


def _while_they_come(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    """Give requests, and end the call of a client that sends none for too long."""
    while True:
        patience = Timer(_IDLE_SECONDS, context.cancel)
        patience.daemon = True
        patience.start()
        try:
            data = next(requests, None)
        finally:
            patience.cancel()
        if data is None:
            return
        yield data


def _files(file: Any) -> dict[str, Any]:
    """Give a file and all that it imports."""
    found: dict[str, str] = {}

    def take(each: Any) -> None:
        found[each.name] = b64encode(each.serialized_pb).decode()
        for inside in each.dependencies:
            if inside.name not in found:
                take(inside)

    take(file)
    return {"fileDescriptorResponse": {"fileDescriptorProto": list(found.values())}}
