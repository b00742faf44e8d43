"""Endpoints: addresses of revisions of functions, for each way of calling one.

dns:///function-auto-ready.crossplane-system:9443   gRPC; so is every other address
ipv4:10.0.0.1:9443,10.0.0.2:9443#function-a.system  gRPC to pods, whose certificate bears a name
builtin:function-auto-ready@v0.1.0                  the registry, in this process
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
    """Say which runner an endpoint is for."""
    scheme = endpoint.partition(":")[0]
    return scheme if scheme in (BUILTIN, PYTHON, EXEC) else GRPC


def target_of(endpoint: str) -> str:
    """Give what an endpoint names without its scheme; of gRPC, the whole is the name."""
    return endpoint if scheme_of(endpoint) == GRPC else endpoint.partition(":")[2]


def command_of(endpoint: str) -> list[str]:
    """Give the words of the program behind an endpoint; ValueError if a quote stays open."""
    return shlex.split(target_of(endpoint))
