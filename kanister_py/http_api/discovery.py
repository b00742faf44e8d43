"""Discovery over HTTP: the functions and versions there are, and what each is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

from kanister_py.core.actionsets.uses import NOT_USED, Uses
from kanister_py.core.errors import (
    FunctionNotRegistered,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
    InvalidVersion,
)
from kanister_py.core.registry.entries import Family, FunctionEntry, Registry
from kanister_py.core.registry.reference import function_summary, version_reference
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.executor.loading import load_function
from kanister_py.http_api.answers import Answer, Resource
from kanister_py.http_api.negotiation import JSON, YAML, Wishes, choose_media_type, split_suffix
from kanister_py.http_api.problems import problem_answer, problem_of

Revisions = Sequence[Mapping[str, Any]]
"""Revisions of functions that a cluster has, as data."""

_NOT_ACCEPTABLE = problem_answer(
    406,
    "NotAcceptable",
    f"This is given as {JSON} or {YAML}; change the Accept header, or leave it out",
    {"offered": [JSON, YAML]},
    {"vary": "Accept"},
)
_MOST_CHARACTERS_OF_A_NAME = 128


@dataclass(frozen=True, slots=True)
class Publication:
    """What an endpoint makes public.

    `left_out` names the plugins that could not be loaded: readers should know that
    something is missing, and not why.
    """

    registry: Registry[FunctionEntry]
    release: Version
    versions_yaml: str
    versions_schema: str
    left_out: tuple[str, ...] = ()


def version_url(function: str, version: Version) -> str:
    return f"/v1/functions/{quote(function, safe='')}/versions/{version}"


def page_url(function: str, version: Version) -> str:
    return f"/#{quote(function, safe='')}@{version}"


class Discovery:
    """All that can be asked about functions. Everything is worked out when this is made.

    That loads the code of every version that is served: a mismatch between the
    record and the code stops here, and not at the first request.
    """

    def __init__(
        self,
        publication: Publication,
        uses: Callable[[], Uses | None] | None = None,
        revisions: Callable[[], Revisions | None] | None = None,
    ) -> None:
        self._registry = publication.registry
        self._uses = uses or (lambda: None)
        self.revisions = revisions or (lambda: None)
        self._seen: dict[str, tuple[Uses | None, Revisions | None, Resource]] = {}
        self.summaries = [function_summary(family) for family in publication.registry]
        self.references: dict[tuple[str, str], dict[str, Any]] = {}
        self._functions = {
            each["name"]: Resource(f"/v1/functions/{quote(each['name'], safe='')}", each)
            for each in self.summaries
        }
        self._versions: dict[tuple[str, str], Resource | Answer] = {}
        for family in publication.registry:
            for entry in family:
                self._versions[(family.function, str(entry.version))] = self._version_of(entry)
        listing: dict[str, Any] = {"release": publication.release.bare, "functions": self.summaries}
        if publication.left_out:
            listing["leftOut"] = list(publication.left_out)
        self._list = Resource("/v1/functions", listing)
        # JSON is what most ask for: it is ready before the first of them.
        for resource in (self._list, *self._functions.values(), *self._versions.values()):
            if isinstance(resource, Resource):
                resource.representation(JSON)
        # The list as YAML takes long to write where there is much, and would keep others waiting.
        self._list.representation(YAML)

    def _version_of(self, entry: FunctionEntry) -> Resource | Answer:
        is_removed = entry.support_at() is Support.REMOVED
        reference = version_reference(entry, None if is_removed else load_function(entry))
        self.references[(entry.function, str(entry.version))] = reference
        if is_removed:
            return _gone(entry, reference)
        url = version_url(entry.function, entry.version)
        return Resource(url, reference, dict(_warning_headers(entry)))

    def functions(self, suffix: str | None, wishes: Wishes) -> Answer:
        """Answer for the list; a form that the address names wins over `Accept`."""
        return _given(self._as_seen(self._list), suffix, wishes)

    def function(self, text: str, wishes: Wishes) -> Answer:
        """Answer for one function with its versions."""
        name, form = split_suffix(text)
        resource = self._functions.get(name)
        if resource is None:
            found = installed_functions(self.revisions() or (), name)
            if not found:
                return self._unknown_function(name)
            resource = Resource(f"/v1/functions/{quote(name, safe='')}", found[0])
            return _given(resource, form, wishes)
        return _given(self._as_seen(resource), form, wishes)

    def version(self, name: str, text: str, wishes: Wishes) -> Answer:
        """Answer for one version, in whatever spelling it is asked for."""
        if name not in self._registry:
            return self._unknown_function(name)
        found, form = self._versions.get((name, text)), None
        if found is None:
            # A suffix asks for a form, unless a pre-release happens to be called so.
            found = self._spelt_otherwise(name, text)
            bare, named = split_suffix(text)
            if named is not None and not isinstance(found, Resource):
                form = named
                found = self._versions.get((name, bare)) or self._spelt_otherwise(name, bare)
        if isinstance(found, Resource):
            return _given(self._as_seen(found), form, wishes)
        return found

    def _as_seen(self, resource: Resource) -> Resource:
        """Add what a cluster has and uses, as far as that is known; made once for each count."""
        uses, revisions = self._uses(), self.revisions()
        if uses is None and revisions is None:
            return resource
        kept = self._seen.get(resource.url)
        if kept is None or kept[0] is not uses or kept[1] is not revisions:
            document: Mapping[str, Any] = resource.document
            if uses is not None:
                document = _with_uses(document, uses)
            if revisions is not None:
                document = _with_revisions(document, revisions)
            kept = uses, revisions, Resource(resource.url, dict(document), resource.headers)
            self._seen[resource.url] = kept
        return kept[2]

    def _spelt_otherwise(self, name: str, text: str) -> Resource | Answer:
        try:
            version = parse_version(text)
        except InvalidVersion as error:
            return problem_of(error, {"function": name, "version": error.text})
        found = self._versions.get((name, str(version)))
        return found if found is not None else self._unknown_version(name, version)

    def _unknown_function(self, name: str) -> Answer:
        shown = name[:_MOST_CHARACTERS_OF_A_NAME]
        try:
            self._registry.family(shown)
        except FunctionNotRegistered as error:
            return problem_of(error, {"function": shown, "near": list(error.near)})
        return problem_of(FunctionNotRegistered(name), {"function": name, "near": []})

    def _unknown_version(self, name: str, version: Version) -> Answer:
        family = self._registry.family(name)
        error = FunctionVersionNotFound(name, str(version), _account(family))
        facts = {
            "function": name,
            "version": str(version),
            "versions": [str(entry.version) for entry in family],
        }
        return problem_of(error, facts)


def _with_uses(document: Mapping[str, Any], uses: Uses) -> dict[str, Any]:
    """Copy a document, and say of each version in it by how much it is used."""
    if "functions" in document:
        functions = [_with_uses(each, uses) for each in document["functions"]]
        return {**document, "functions": functions}

    def counted(version: Mapping[str, Any]) -> dict[str, Any]:
        count = uses.get((document["name"], version["version"]), NOT_USED)
        return {**version, "inUseBy": count.as_dict()}

    if "versions" in document:
        return {**document, "versions": [counted(each) for each in document["versions"]]}
    return counted(document)


def installed_functions(revisions: Revisions, name: str = "") -> list[dict[str, Any]]:
    """Gather the revisions of each function that a cluster installs, or of one of them."""
    names = dict.fromkeys(str(each["of"]) for each in revisions)
    return [
        {
            "name": function,
            "revisions": [_published(each) for each in revisions if each["of"] == function],
        }
        for function in names
        if name in ("", function)
    ]


_KEPT_BACK = ("kind", "of", "endpoint", "healthy", "desiredState")


def _published(revision: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out where a revision answers: that is the cluster's own affair."""
    return {key: value for key, value in revision.items() if key not in _KEPT_BACK}


def _with_revisions(document: Mapping[str, Any], revisions: Revisions) -> Mapping[str, Any]:
    """Copy a document, and say which revisions of its functions a cluster has."""
    if "functions" in document:
        functions = [_with_revisions(each, revisions) for each in document["functions"]]
        names = {each["name"] for each in functions}
        others = [each for each in installed_functions(revisions) if each["name"] not in names]
        return {**document, "functions": functions, "installed": others}
    if "versions" not in document:
        return document
    found = installed_functions(revisions, document["name"])
    return {**document, "revisions": found[0]["revisions"]} if found else document


def _account(family: Family[FunctionEntry]) -> list[str]:
    lines = []
    for entry in reversed(family.candidates):
        what = "stable" if entry.is_stable else str(entry.support_at())
        lines.append(f"{entry.version} is {what}")
    return lines


def _given(resource: Resource, form: str | None, wishes: Wishes) -> Answer:
    media_type = form or choose_media_type(wishes.accept)
    if media_type is None:
        return _NOT_ACCEPTABLE
    return resource.representation(media_type).answer(wishes.if_none_match)


def _gone(entry: FunctionEntry, reference: Mapping[str, Any]) -> Answer:
    replacement = str(reference.get("replacement", ""))
    error = FunctionVersionRemoved(
        entry.function, str(entry.version), str(reference.get("removedIn", "")), replacement
    )
    kept = ("removedIn", "removedInDate", "replacement", "renamedArgs", "message")
    facts = {"function": entry.function, "version": str(entry.version)}
    facts |= {key: reference[key] for key in kept if key in reference}
    links = ", ".join(_links(entry))
    return problem_of(error, facts, {"link": links} if links else None)


def _warning_headers(entry: FunctionEntry) -> Iterable[tuple[str, str]]:
    """Warn, in the words of HTTP, of a version that is deprecated."""
    if entry.support_at() is not Support.DEPRECATED:
        return
    listing = entry.listing
    since = _date_of(entry, listing.deprecated_in)
    # The header wants a moment. Where nobody wrote down when the release came out, the
    # beginning of time says what is known: it lies in the past.
    yield "deprecation", f"@{int(since.timestamp())}" if since else "@0"
    until = _date_of(entry, listing.removed_in)
    if until is not None:
        yield "sunset", format_datetime(until, usegmt=True)
    yield "link", ", ".join(_links(entry))


def _links(entry: FunctionEntry) -> Iterable[str]:
    replacement = entry.listing.replacement
    if replacement is not None:
        yield f'<{version_url(entry.function, replacement)}>; rel="successor-version"'
    yield f'<{page_url(entry.function, entry.version)}>; rel="deprecation"; type="text/html"'


def _date_of(entry: FunctionEntry, release: Version | None) -> datetime | None:
    found = entry.source.release_on(release) if release is not None else None
    day: date | None = found.date if found is not None else None
    return datetime.combine(day, time(), UTC) if day is not None else None
