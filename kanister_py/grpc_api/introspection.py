"""Health checks and reflection of a gRPC server.

Implemented here because grpcio's own packages require the newest protobuf, and only
support protobuf's default pool.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc

from kanister_py.proto.decoding import decode_message
from kanister_py.proto.encoding import encode_message
from kanister_py.proto.errors import NotDecodable
from kanister_py.proto.messages import pool

HEALTH = "grpc.health.v1.Health"
REFLECTIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
_NOT_FOUND = 5
_IDLE_SECONDS = 10.0


class Introspection:
    """Health checks and reflection of the services that a server offers."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = (*services, HEALTH, *REFLECTIONS)
        self.is_serving = True

    def handlers(self) -> list[Any]:
        check = {"Check": grpc.unary_unary_rpc_method_handler(self._check)}
        return [
            grpc.method_handlers_generic_handler(HEALTH, check),
            *map(self._reflection, REFLECTIONS),
        ]

    def _reflection(self, service: str) -> Any:
        reflection = _Reflection(service.rpartition(".")[0], self._services)
        info = grpc.stream_stream_rpc_method_handler(reflection.answer)
        return grpc.method_handlers_generic_handler(service, {"ServerReflectionInfo": info})

    async def _check(self, data: bytes, context: Any) -> bytes:
        request = await _read("grpc.health.v1.HealthCheckRequest", data, context)
        service = request.get("service", "")
        if service and service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "This service is not served here")
        status = "SERVING" if self.is_serving else "NOT_SERVING"
        return encode_message("grpc.health.v1.HealthCheckResponse", {"status": status})


async def _read(name: str, data: bytes, context: Any) -> dict[str, Any]:
    try:
        return decode_message(name, data)
    except NotDecodable as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise


class _Reflection:
    """Reflection in one of its packages; a stream without requests for a while is closed."""

    def __init__(self, package: str, services: Sequence[str]) -> None:
        self._request = f"{package}.ServerReflectionRequest"
        self._response = f"{package}.ServerReflectionResponse"
        self._services = services

    async def answer(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(_IDLE_SECONDS):
                    data = await anext(requests, None)
            except TimeoutError:
                await context.abort(grpc.StatusCode.CANCELLED, "No request came for a while")
            if data is None:
                return
            request = await _read(self._request, data, context)
            answer = {"validHost": request.get("host", ""), "originalRequest": request}
            yield encode_message(self._response, {**answer, **self._found(request)})

    def _found(self, request: dict[str, Any]) -> dict[str, Any]:
        if "listServices" in request:
            return {
                "listServicesResponse": {
                    "service": [{"name": service} for service in self._services]
                }
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
        return {"errorResponse": {"errorCode": _NOT_FOUND, "errorMessage": "unknown symbol"}}


def _files(file: Any) -> dict[str, Any]:
    """Return a file and all its dependencies."""
    files: dict[str, str] = {}

    def take(file_: Any) -> None:
        files[file_.name] = b64encode(file_.serialized_pb).decode()
        for inside in file_.dependencies:
            if inside.name not in files:
                take(inside)

    take(file)
    return {"fileDescriptorResponse": {"fileDescriptorProto": list(files.values())}}
