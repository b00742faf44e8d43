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
    """Give everything that the template shows."""
    functions = [
        _function(family, summary, references)
        for family, summary in zip(publication.registry, summaries, strict=True)
    ]
    found = Counter(
        version["status"] for function in functions for version in function["all_versions"]
    )
    return {
        "release": publication.release.bare,
        "left_out": publication.left_out,
        "functions": functions,
        "statuses": [(status, found[status]) for status in _STATUSES if found[status]],
        "version_count": found.total(),
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
    leading = next(each for each in versions if each["version"] == shown)
    description = leading.get("description", "")
    return {
        **summary,
        "description": description,
        "all_versions": versions,
        "current": [each for each in versions if each["status"] not in _GONE],
        "gone": [each for each in versions if each["status"] in _GONE],
        "statuses": sorted({each["status"] for each in versions}, key=_STATUSES.index),
        "words": " ".join(_words(family.function, description, versions)).casefold(),
    }


def _words(name: str, description: str, versions: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Collect what a search should find a function by, each word once."""
    found = {name: None, **dict.fromkeys(description.split())}
    for version in versions:
        found |= dict.fromkeys((version["version"], *version.get("message", "").split()))
        for part in ("arguments", "outputs"):
            found |= dict.fromkeys(each["name"] for each in version.get(part, ()))
    return found


def _version(entry: FunctionEntry, reference: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **reference,
        "anchor": f"{entry.function}@{entry.version}",
        "days": {
            key: _day(reference.get(f"{key}Date")) for key in ("since", "deprecatedIn", "removedIn")
        },
        "description": reference.get("description", ""),
        "note": _sentence(reference.get("message", "")),
        "arguments": [_field(each) for each in reference.get("arguments", ())],
        "outputs": reference.get("outputs", []),
        "has_code": "arguments" in reference,
        "track": list(_track(entry)),
        "usage": _usage(entry, reference) if entry.support_at() is not Support.REMOVED else "",
    }


def _field(argument: Mapping[str, Any]) -> dict[str, Any]:
    default = argument.get("default")
    # An empty text or list says as little as none at all.
    shown = (
        dump_yaml(default).removesuffix("...\n").strip()
        if default not in (None, "", [], {})
        else ""
    )
    return {**argument, "default": shown}


def _sentence(text: str) -> str:
    """Let a remark stand beside other sentences."""
    end = "" if text.endswith((".", "!", "?")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}" if text else ""


def _day(text: str | None) -> str:
    if not text:
        return ""
    day = date.fromisoformat(text)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


# Not strftime: that would speak the language of the machine the page was made on.
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _track(entry: FunctionEntry) -> Iterable[tuple[str, int, bool]]:
    """Draw a version's life over the releases: a state, for how many, and whether that is now."""
    releases = _near_now(entry.source)
    now = _release_now(releases, entry.source.release)
    states = [(str(support_of(entry.listing, each.version)), each is now) for each in releases]
    for (state, is_now), run in groupby(states):
        yield state, len(list(run)), is_now


def _near_now(source: Source) -> Sequence[Release]:
    """Keep the releases around the installed one, if there are more than can be drawn."""
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
    """Find the listed release that is in force: the installed one may be a later patch of it."""
    past = [each for each in releases if each.version <= release]
    return past[-1] if past else None


def _usage(entry: FunctionEntry, reference: Mapping[str, Any]) -> str:
    """Write how a blueprint or a composition asks for this version, with what it must give."""
    required = {
        each["name"]: _placeholder(each["type"])
        for each in reference.get("arguments", ())
        if each["required"]
    }
    if entry.kind is FunctionKind.COMPOSITION:
        step: dict[str, Any] = {
            "step": entry.function,
            "functionRef": {"name": entry.function, "version": str(entry.version)},
        }
        known = {each["name"]: each.get("default") for each in reference.get("arguments", ())}
        if known.get("apiVersion") and known.get("kind"):
            step["input"] = {key: known[key] for key in ("apiVersion", "kind")}
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
    """Say for each package what begins and ends with which of its releases."""
    by_source: dict[str, list[FunctionEntry]] = {}
    for family in publication.registry:
        for entry in family:
            if entry.source.releases:
                by_source.setdefault(entry.source.name, []).append(entry)
    for name in sorted(by_source):
        entries = by_source[name]
        source = entries[0].source
        # A package may count the releases of each function of its own.
        releases = {
            each.version: each
            for each in sorted(
                (each for entry in entries for each in entry.source.releases),
                key=lambda each: each.version,
            )
        }
        ordered = list(releases.values())
        now = _release_now(ordered, source.release)
        shown = [_release(each, entries, now) for each in ordered]
        yield {
            "source": name,
            "release": source.release.bare,
            "coming": [each for each in shown if each["is_coming"]],
            "now": [each for each in shown if each["is_now"]],
            "past": [each for each in reversed(shown) if not (each["is_coming"] or each["is_now"])],
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
    events.sort(key=lambda each: (order.index(each["what"]), each["function"], each["version"]))
    return {
        "version": release.version.bare,
        "day": _day(release.date.isoformat() if release.date else None),
        "is_now": release is now,
        "is_coming": now is None or release.version > now.version,
        "groups": [
            {"what": what, "events": list(group)}
            for what, group in groupby(events, key=lambda each: each["what"])
        ],
    }
