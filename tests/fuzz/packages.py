"""Mutated layers and packages: they are read or rejected with the expected error."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from collections.abc import Iterator
from contextlib import suppress

from kanister_py.adapters.packages_oci.layers import Allowance, UnreadableLayer, find_file
from kanister_py.core.errors import UsageError
from kanister_py.core.revisions.package import (
    parse_function_package,
    parse_package_reference,
)
from tests.fuzz.mutations import mutated, mutated_text

_PACKAGE = """apiVersion: meta.pkg.crossplane.io/v1
kind: Function
metadata:
  name: function-x
  annotations: {kanister-py.io/lifecycle: '{"releases": []}'}
spec:
  capabilities: [composition]
  crossplane: {version: ">=v1.0.0"}
  dependsOn:
  - {function: example.org/f, version: ">=v1"}
"""
_WORDS = (
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "\n---\n",
    "null",
    "9" * 50,
    "'",
    '"',
    "\n",
    "kind: X",
    "é",
)
_REFERENCES = ("example.org/team/function-x:v1.2.3", f"localhost:5000/x@sha256:{'a' * 64}")
_MOST_BYTES = 1 << 20


def _layers() -> Iterator[bytes]:
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
            for name in ("package.yaml", "a" * 120 + "/é", "link"):
                member = tarfile.TarInfo(name)
                member.size = len(_PACKAGE)
                archive.addfile(member, io.BytesIO(_PACKAGE.encode()))
        yield packed.getvalue().rstrip(b"\0") + bytes(1024)


_LAYERS = tuple(_layers())


def oci_layer(choose: random.Random) -> bool:
    """Search for a file in an archive that is mutated before or after compression."""
    layer, how = choose.choice(_LAYERS), choose.randrange(3)
    if how == 0:
        layer = mutated(gzip.compress(layer, mtime=0), choose)
    elif how == 1:
        layer = gzip.compress(mutated(layer, choose), mtime=0)
    else:
        layer = mutated(layer, choose)
    step = choose.choice((1, 7, 512, 1 << 16))
    pieces = [layer[at : at + step] for at in range(0, len(layer), step)]
    try:
        content = find_file(iter(pieces), "package.yaml", Allowance(_MOST_BYTES), _MOST_BYTES)
    except UnreadableLayer:
        return False
    return content is not None


def oci_package(choose: random.Random) -> bool:
    """Read a mutated package with a mutated reference."""
    with suppress(UsageError):
        parse_package_reference(mutated_text(choose.choice(_REFERENCES), ("@", ":", "/"), choose))
    try:
        parse_function_package(mutated_text(_PACKAGE, _WORDS, choose), "package.yaml")
    except UsageError:
        return False
    return True
