"""What does a choice cost, and does it cost more where there are more functions?"""

from __future__ import annotations

import time

from kanister_py.core.registry.choose import choose_version
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.versions.deprecation import Listing
from kanister_py.core.versions.semver import Version
from tests.bench.measure import Row, best_seconds

TITLE = "Registry"
OURS = Source("kanister-py", Version(0, 4, 0))


def registry_with(functions: int, versions: int = 10) -> Registry[FunctionEntry]:
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    for number in range(functions):
        entries = [
            FunctionEntry(
                f"Function{number}",
                Version(0, minor, 0),
                FunctionKind.BLUEPRINT,
                OURS,
                "module:Class",
                Listing(since=Version(0, 1, 0)),
                is_stable=minor == versions - 1,
            )
            for minor in range(versions)
        ]
        builder.add(entries, default_of(entries))
    return builder.build()


def rows() -> list[Row]:
    few = registry_with(10)
    start = time.perf_counter()
    many = registry_with(1000)
    build = time.perf_counter() - start
    measured = [Row("building 10,000 entries", f"{build:.2f} s", "< 1 s", build < 1)]
    for what, asked in (("a version", "v0.5.0"), ("a range", "~0.5"), ("the default", "")):
        costs = [
            best_seconds(lambda r=known, a=asked: choose_version(r, "Function7", a)) * 1e6  # type: ignore[misc]  # a lambda's defaults have no types
            for known in (few, many)
        ]
        measured.append(
            Row(
                f"choosing by {what}, 10 / 1,000 functions",
                f"{costs[0]:.1f} / {costs[1]:.1f} µs",
                "<= 20 µs each",
                max(costs) <= 20,
            )
        )
    return measured
