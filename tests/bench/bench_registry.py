"""Cost of choosing a function version, with few and with many functions."""

from __future__ import annotations

import time

from kanister_py.core.registry.choose import RevisionRequest, choose_revision, choose_version
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    FunctionRevision,
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
    for kind, request in (("a version", "v0.5.0"), ("a range", "~0.5"), ("the default", "")):
        costs = [
            best_seconds(lambda r=registry, a=request: choose_version(r, "Function7", a)) * 1e6  # type: ignore[misc]  # a lambda's defaults have no types
            for registry in (few, many)
        ]
        measured.append(
            Row(
                f"choosing by {kind}, 10 / 1,000 functions",
                f"{costs[0]:.1f} / {costs[1]:.1f} µs",
                "<= 20 µs",
                max(costs) <= 20,
            )
        )
    return [*measured, *_revision_rows()]


def _revision_rows() -> list[Row]:
    """Choose among 1,000 revisions of supported, deprecated and removed versions."""
    lives = (
        Listing(),
        Listing(deprecated_in=Version(0, 3, 0)),
        Listing(deprecated_in=Version(0, 1, 0), removed_in=Version(0, 3, 0)),
    )
    builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
    builder.add(
        [
            FunctionRevision(
                "function-a",
                f"function-a-{number}",
                number,
                {"channel": str(number // 10)},
                is_healthy=True,
                endpoint="dns:///a:9443",
                version=Version(0, number, 0),
                listing=lives[number % 3],
                source=OURS,
            )
            for number in range(1000)
        ]
    )
    registry = builder.build()
    rows = []
    for kind, request in (
        ("nothing", RevisionRequest()),
        ("the lowest by name", RevisionRequest("function-a-3")),
        ("labels of low ones", RevisionRequest(labels={"channel": "1"})),
        ("a range of low ones", RevisionRequest(version="<0.20")),
    ):
        cost = best_seconds(lambda r=request: choose_revision(registry, "function-a", r)) * 1e6  # type: ignore[misc]  # a lambda's defaults have no types
        rows.append(
            Row(f"choosing a revision of 1,000 by {kind}", f"{cost:.1f} µs", "<= 20 µs", cost <= 20)
        )

    def choose_uncached() -> None:
        registry.family("function-a").choices.clear()
        choose_revision(registry, "function-a", RevisionRequest(version="<0.20"))

    first = best_seconds(choose_uncached, calls=50) * 1e6
    rows.append(Row("the last of these, uncached", f"{first:.0f} µs", "once a registry"))
    return rows
