"""Contents of the page of functions, as data for its template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import Any

from kanister_py.core.registry.entries import Family, FunctionEntry, FunctionKind, Source
from kanister_py.core.versions.deprecation import Release, Support, support_of
from kanister_py.core.versions.semver import Version
from kanister_py.core.yaml.documents import dump_yaml
from kanister_py.http_api.discovery import Publication

_MOST_RELEASES_OF_A_TRACK = 12
_GONE = frozenset({"removed"})
_STATUSES = ("stable", "served", "deprecated", "removed", "planned")


def content_of(
    publication: Publication,
    summaries: Sequence[Mapping[str, Any]],
    references: Mapping[tuple[str, str], Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the variables of the template."""
    functions = [
        _function(family, summary, references)
        for family, summary in zip(publication.registry, summaries, strict=True)
    ]
    counts = Counter(
        version["status"] for function in functions for version in function["all_versions"]
    )
    return {
        "release": publication.release.bare,
        "left_out": publication.left_out,
        "functions": functions,
        "statuses": [(status, counts[status]) for status in _STATUSES if counts[status]],
        "version_count": counts.total(),
        "timelines": list(_timelines(publication)),
    }


def _function(
    family: Family[FunctionEntry],
    summary: Mapping[str, Any],
    references: Mapping[tuple[str, str], Mapping[str, Any]],
) -> dict[str, Any]:
    versions = [
        _version(entry, references[(family.function, str(entry.version))]) for entry in family
    ]
    shown = summary["defaultVersion"] or summary["versions"][0]["version"]
    leading = next(version for version in versions if version["version"] == shown)
    description = leading.get("description", "")
    return {
        **summary,
        "description": description,
        "all_versions": versions,
        "current": [version for version in versions if version["status"] not in _GONE],
        "gone": [version for version in versions if version["status"] in _GONE],
        "statuses": sorted({version["status"] for version in versions}, key=_STATUSES.index),
        "words": " ".join(_words(family.function, description, versions)).casefold(),
    }


def _words(name: str, description: str, versions: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Collect the unique search terms of a function."""
    fields = {name: None, **dict.fromkeys(description.split())}
    for version in versions:
        fields |= dict.fromkeys((version["version"], *version.get("message", "").split()))
        for part in ("arguments", "outputs"):
            fields |= dict.fromkeys(entry["name"] for entry in version.get(part, ()))
    return fields


def _version(entry: FunctionEntry, reference: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **reference,
        "anchor": f"{entry.function}@{entry.version}",
        "days": {
            key: _day(reference.get(f"{key}Date")) for key in ("since", "deprecatedIn", "removedIn")
        },
        "description": reference.get("description", ""),
        "note": _sentence(reference.get("message", "")),
        "arguments": [_field(argument) for argument in reference.get("arguments", ())],
        "outputs": reference.get("outputs", []),
        "has_code": "arguments" in reference,
        "track": list(_track(entry)),
        "usage": _usage(entry, reference) if entry.support_at() is not Support.REMOVED else "",
    }


def _field(argument: Mapping[str, Any]) -> dict[str, Any]:
    default = argument.get("default")
    # Empty defaults are not shown.
    shown = (
        dump_yaml(default).removesuffix("...\n").strip()
        if default not in (None, "", [], {})
        else ""
    )
    return {**argument, "default": shown}


def _sentence(text: str) -> str:
    """Capitalize a text and end it with a period."""
    end = "" if text.endswith((".", "!", "?")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}" if text else ""


def _day(text: str | None) -> str:
    if not text:
        return ""
    day = date.fromisoformat(text)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


# strftime would use the locale of the server.
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _track(entry: FunctionEntry) -> Iterable[tuple[str, int, bool]]:
    """Yield the states of a version over the releases: state, number of releases, is_now."""
    releases = _near_now(entry.source)
    now = _release_now(releases, entry.source.release)
    states = [
        (str(support_of(entry.listing, release.version)), release is now) for release in releases
    ]
    for (state, is_now), run in groupby(states):
        yield state, len(list(run)), is_now


def _near_now(source: Source) -> Sequence[Release]:
    """Return the releases around the installed one, if there are too many to show."""
    releases = source.releases
    if len(releases) <= _MOST_RELEASES_OF_A_TRACK:
        return releases
    now = _release_now(releases, source.release)
    index = releases.index(now) if now is not None else 0
    start = min(
        max(index - _MOST_RELEASES_OF_A_TRACK * 2 // 3, 0),
        len(releases) - _MOST_RELEASES_OF_A_TRACK,
    )
    return releases[start : start + _MOST_RELEASES_OF_A_TRACK]


def _release_now(releases: Sequence[Release], release: Version) -> Release | None:
    """Return the newest listed release that is not newer than the installed one."""
    past = [entry for entry in releases if entry.version <= release]
    return past[-1] if past else None


def _usage(entry: FunctionEntry, reference: Mapping[str, Any]) -> str:
    """Render the YAML that uses this version, with its required arguments."""
    required = {
        argument["name"]: _placeholder(argument["type"])
        for argument in reference.get("arguments", ())
        if argument["required"]
    }
    if entry.kind is FunctionKind.COMPOSITION:
        step: dict[str, Any] = {
            "step": entry.function,
            "functionRef": {"name": entry.function, "version": str(entry.version)},
        }
        defaults = {
            argument["name"]: argument.get("default") for argument in reference.get("arguments", ())
        }
        if defaults.get("apiVersion") and defaults.get("kind"):
            step["input"] = {key: defaults[key] for key in ("apiVersion", "kind")}
    else:
        step = {"func": entry.function, "name": "my-phase", "funcVersion": str(entry.version)}
        if required:
            step["args"] = required
    return dump_yaml([step]).rstrip()


def _placeholder(kind: str) -> Any:
    if kind.startswith("list"):
        return []
    if kind.startswith("map"):
        return {}
    if kind.startswith("one of "):
        return kind.removeprefix("one of ").partition(",")[0]
    return {"whole number": 0, "number": 0, "true or false": False}.get(kind, "…")


# The timeline


def _timelines(publication: Publication) -> Iterable[dict[str, Any]]:
    """Yield the timeline of each package: versions added, deprecated and removed by release."""
    by_source: dict[str, list[FunctionEntry]] = {}
    for family in publication.registry:
        for entry in family:
            if entry.source.releases:
                by_source.setdefault(entry.source.name, []).append(entry)
    for name in sorted(by_source):
        entries = by_source[name]
        source = entries[0].source
        # Functions of one package may have different releases.
        releases = {
            release.version: release
            for release in sorted(
                (release for entry in entries for release in entry.source.releases),
                key=lambda release: release.version,
            )
        }
        ordered = list(releases.values())
        now = _release_now(ordered, source.release)
        shown = [_release(release, entries, now) for release in ordered]
        yield {
            "source": name,
            "release": source.release.bare,
            "coming": [release for release in shown if release["is_coming"]],
            "now": [release for release in shown if release["is_now"]],
            "past": [
                release
                for release in reversed(shown)
                if not (release["is_coming"] or release["is_now"])
            ],
        }


def _release(
    release: Release, entries: Iterable[FunctionEntry], now: Release | None
) -> dict[str, Any]:
    events = []
    for entry in entries:
        listing = entry.listing
        for when, what in (
            (listing.removed_in, "removed"),
            (listing.deprecated_in, "deprecated"),
            (listing.since, "new"),
        ):
            if when == release.version:
                events.append(
                    {
                        "what": what,
                        "function": entry.function,
                        "version": str(entry.version),
                        "anchor": f"{entry.function}@{entry.version}",
                        "replacement": str(listing.replacement or ""),
                    }
                )
    order = ("removed", "deprecated", "new")
    events.sort(key=lambda event: (order.index(event["what"]), event["function"], event["version"]))
    return {
        "version": release.version.bare,
        "day": _day(release.date.isoformat() if release.date else None),
        "is_now": release is now,
        "is_coming": now is None or release.version > now.version,
        "groups": [
            {"what": what, "events": list(group)}
            for what, group in groupby(events, key=lambda event: event["what"])
        ],
    }
