"""Discovery over HTTP: functions, their versions and support levels."""

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
from kanister_py.http_api.negotiation import (
    JSON,
    YAML,
    RequestOptions,
    choose_media_type,
    split_suffix,
)
from kanister_py.http_api.problems import problem_answer, problem_of

Revisions = Sequence[Mapping[str, Any]]
"""Function revisions of a cluster, as data."""

_NOT_ACCEPTABLE = problem_answer(
    406,
    "NotAcceptable",
    f"The response is available as {JSON} or {YAML}; change or omit the Accept header",
    {"offered": [JSON, YAML]},
    {"vary": "Accept"},
)
_MOST_CHARACTERS_OF_A_NAME = 128


@dataclass(frozen=True, slots=True)
class Publication:
    """Content that an endpoint publishes.

    `left_out` contains the names of plugins that could not be loaded. The reasons are only logged.
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
    """Responses about functions, built by the constructor.

    The constructor loads the code of every supported version, so that a mismatch between
    versions.yaml and the code is found at start-up.
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
        self._cached: dict[str, tuple[Uses | None, Revisions | None, Resource]] = {}
        self.summaries = [function_summary(family) for family in publication.registry]
        self.references: dict[tuple[str, str], dict[str, Any]] = {}
        self._functions = {
            summary["name"]: Resource(f"/v1/functions/{quote(summary['name'], safe='')}", summary)
            for summary in self.summaries
        }
        self._versions: dict[tuple[str, str], Resource | Answer] = {}
        for family in publication.registry:
            for entry in family:
                self._versions[(family.function, str(entry.version))] = self._version_of(entry)
        listing: dict[str, Any] = {"release": publication.release.bare, "functions": self.summaries}
        if publication.left_out:
            listing["leftOut"] = list(publication.left_out)
        self._list = Resource("/v1/functions", listing)
        # Render JSON in advance, because most clients request it.
        for resource in (self._list, *self._functions.values(), *self._versions.values()):
            if isinstance(resource, Resource):
                resource.representation(JSON)
        # Render the list as YAML in advance: it can take long and would delay other requests.
        self._list.representation(YAML)

    def _version_of(self, entry: FunctionEntry) -> Resource | Answer:
        is_removed = entry.support_at() is Support.REMOVED
        reference = version_reference(entry, None if is_removed else load_function(entry))
        self.references[(entry.function, str(entry.version))] = reference
        if is_removed:
            return _removed_answer(entry, reference)
        url = version_url(entry.function, entry.version)
        return Resource(url, reference, dict(_warning_headers(entry)))

    def functions(self, suffix: str | None, options: RequestOptions) -> Answer:
        """Return the list of functions. A suffix of the path takes precedence over `Accept`."""
        return _negotiated(self._with_cluster_state(self._list), suffix, options)

    def function(self, text: str, options: RequestOptions) -> Answer:
        """Return one function with its versions."""
        name, form = split_suffix(text)
        resource = self._functions.get(name)
        if resource is None:
            installed = installed_functions(self.revisions() or (), name)
            if not installed:
                return self._unknown_function(name)
            resource = Resource(f"/v1/functions/{quote(name, safe='')}", installed[0])
            return _negotiated(resource, form, options)
        return _negotiated(self._with_cluster_state(resource), form, options)

    def version(self, name: str, text: str, options: RequestOptions) -> Answer:
        """Return one version. Other spellings such as v0.1 are accepted."""
        if name not in self._registry:
            return self._unknown_function(name)
        answer, form = self._versions.get((name, text)), None
        if answer is None:
            # A suffix selects the media type, unless it is part of a pre-release.
            answer = self._by_other_spelling(name, text)
            bare, named = split_suffix(text)
            if named is not None and not isinstance(answer, Resource):
                form = named
                answer = self._versions.get((name, bare)) or self._by_other_spelling(name, bare)
        if isinstance(answer, Resource):
            return _negotiated(self._with_cluster_state(answer), form, options)
        return answer

    def _with_cluster_state(self, resource: Resource) -> Resource:
        """Add uses and revisions in the cluster, if available. Cached until they change."""
        uses, revisions = self._uses(), self.revisions()
        if uses is None and revisions is None:
            return resource
        cached = self._cached.get(resource.url)
        if cached is None or cached[0] is not uses or cached[1] is not revisions:
            document: Mapping[str, Any] = resource.document
            if uses is not None:
                document = _with_uses(document, uses)
            if revisions is not None:
                document = _with_revisions(document, revisions)
            cached = uses, revisions, Resource(resource.url, dict(document), resource.headers)
            self._cached[resource.url] = cached
        return cached[2]

    def _by_other_spelling(self, name: str, text: str) -> Resource | Answer:
        try:
            version = parse_version(text)
        except InvalidVersion as error:
            return problem_of(error, {"function": name, "version": error.text})
        answer = self._versions.get((name, str(version)))
        return answer if answer is not None else self._unknown_version(name, version)

    def _unknown_function(self, name: str) -> Answer:
        shown = name[:_MOST_CHARACTERS_OF_A_NAME]
        try:
            self._registry.family(shown)
        except FunctionNotRegistered as error:
            return problem_of(error, {"function": shown, "near": list(error.near)})
        return problem_of(FunctionNotRegistered(name), {"function": name, "near": []})

    def _unknown_version(self, name: str, version: Version) -> Answer:
        family = self._registry.family(name)
        error = FunctionVersionNotFound(name, str(version), _version_summaries(family))
        facts = {
            "function": name,
            "version": str(version),
            "versions": [str(entry.version) for entry in family],
        }
        return problem_of(error, facts)


def _with_uses(document: Mapping[str, Any], uses: Uses) -> dict[str, Any]:
    """Return a copy of a document with the number of uses of each version."""
    if "functions" in document:
        functions = [_with_uses(function, uses) for function in document["functions"]]
        return {**document, "functions": functions}

    def counted(version: Mapping[str, Any]) -> dict[str, Any]:
        count = uses.get((document["name"], version["version"]), NOT_USED)
        return {**version, "inUseBy": count.as_dict()}

    if "versions" in document:
        return {**document, "versions": [counted(version) for version in document["versions"]]}
    return counted(document)


def installed_functions(revisions: Revisions, name: str = "") -> list[dict[str, Any]]:
    """Group the installed revisions by function. `name` selects one function."""
    names = dict.fromkeys(str(revision["of"]) for revision in revisions)
    return [
        {
            "name": function,
            "revisions": [
                _published(revision) for revision in revisions if revision["of"] == function
            ],
        }
        for function in names
        if name in ("", function)
    ]


_UNPUBLISHED = ("kind", "of", "endpoint", "healthy", "desiredState")


def _published(revision: Mapping[str, Any]) -> dict[str, Any]:
    """Remove internal fields of a revision, such as its address in the cluster."""
    return {key: value for key, value in revision.items() if key not in _UNPUBLISHED}


def _with_revisions(document: Mapping[str, Any], revisions: Revisions) -> Mapping[str, Any]:
    """Return a copy of a document with the installed revisions of its functions."""
    if "functions" in document:
        functions = [_with_revisions(function, revisions) for function in document["functions"]]
        names = {function["name"] for function in functions}
        installed = [
            function for function in installed_functions(revisions) if function["name"] not in names
        ]
        return {**document, "functions": functions, "installed": installed}
    if "versions" not in document:
        return document
    same_name = installed_functions(revisions, document["name"])
    return {**document, "revisions": same_name[0]["revisions"]} if same_name else document


def _version_summaries(family: Family[FunctionEntry]) -> list[str]:
    lines = []
    for entry in reversed(family.candidates):
        what = "stable" if entry.is_stable else str(entry.support_at())
        lines.append(f"{entry.version} is {what}")
    return lines


def _negotiated(resource: Resource, form: str | None, options: RequestOptions) -> Answer:
    media_type = form or choose_media_type(options.accept)
    if media_type is None:
        return _NOT_ACCEPTABLE
    return resource.representation(media_type).answer(options.if_none_match)


def _removed_answer(entry: FunctionEntry, reference: Mapping[str, Any]) -> Answer:
    replacement = str(reference.get("replacement", ""))
    error = FunctionVersionRemoved(
        entry.function, str(entry.version), str(reference.get("removedIn", "")), replacement
    )
    cached = ("removedIn", "removedInDate", "replacement", "renamedArgs", "message")
    facts = {"function": entry.function, "version": str(entry.version)}
    facts |= {key: reference[key] for key in cached if key in reference}
    links = ", ".join(_links(entry))
    return problem_of(error, facts, {"link": links} if links else None)


def _warning_headers(entry: FunctionEntry) -> Iterable[tuple[str, str]]:
    """Yield the HTTP headers for a deprecated version."""
    if entry.support_at() is not Support.DEPRECATED:
        return
    listing = entry.listing
    since = _date_of(entry, listing.deprecated_in)
    # The header requires a time. If the release has no date, use the epoch: a time in the past.
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
    release_entry = entry.source.release_on(release) if release is not None else None
    day: date | None = release_entry.date if release_entry is not None else None
    return datetime.combine(day, time(), UTC) if day is not None else None
