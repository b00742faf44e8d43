"""Endpoints: addresses of revisions of functions, for each way of calling one.

dns:///function-auto-ready.crossplane-system:9443   gRPC, as every other address
ipv4:10.0.0.1:9443,10.0.0.2:9443#function-a.system  gRPC to pods with that server name
builtin:function-auto-ready@v0.1.0                  a built-in function, in this process
python:acme.functions:Bucket                        a class, in this process
exec:./bucket --fast                                a program that reads stdin
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

BUILTIN, PYTHON, EXEC, GRPC = "builtin", "python", "exec", "grpc"


def builtin_endpoint(function: str, version: str = "") -> str:
    return f"{BUILTIN}:{function}@{version}" if version else f"{BUILTIN}:{function}"


def python_endpoint(target: str) -> str:
    return f"{PYTHON}:{target}"


def exec_endpoint(command: Sequence[str]) -> str:
    return f"{EXEC}:{shlex.join(command)}"


def scheme_of(endpoint: str) -> str:
    """Return the scheme of an endpoint, which selects its runner."""
    scheme = endpoint.partition(":")[0]
    return scheme if scheme in (BUILTIN, PYTHON, EXEC) else GRPC


def target_of(endpoint: str) -> str:
    """Return an endpoint without its scheme. gRPC endpoints are returned unchanged."""
    return endpoint if scheme_of(endpoint) == GRPC else endpoint.partition(":")[2]


def command_of(endpoint: str) -> list[str]:
    """Split the command line of an endpoint. Raises ValueError if a quote is not closed."""
    return shlex.split(target_of(endpoint))
