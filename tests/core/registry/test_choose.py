from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.errors import (
    FunctionNotRegistered,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
    InvalidVersion,
    KanisterError,
)
from kanister_py.core.kube.selectors import LabelSelector, Requirement
from kanister_py.core.registry.choose import (
    FunctionRevisionNotFound,
    RevisionRequest,
    choose_revision,
    choose_version,
    requested_version,
)
from kanister_py.core.registry.entries import (
    DesiredState,
    FunctionEntry,
    FunctionKind,
    FunctionRevision,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.versions.deprecation import Listing, Support
from kanister_py.core.versions.semver import Version
from kanister_py.core.versions.semver import parse_version as parse

OURS = Source("kanister-py", parse("0.4.0"))

LISTINGS = {
    "v0.0.0": Listing(),
    "v0.1.0": Listing(
        deprecated_in=parse("0.1.0"), removed_in=parse("0.3.0"), replacement=parse("0.3.0")
    ),
    "v0.2.0": Listing(
        deprecated_in=parse("0.3.0"),
        removed_in=parse("0.5.0"),
        replacement=parse("0.3.0"),
        message="it waits for ever",
    ),
    "v0.3.0": Listing(),
    "v0.4.0": Listing(),
    "v0.5.0-rc.1": Listing(),
    "v0.6.0": Listing(since=parse("0.9.0")),
}


def entries(
    listings: dict[str, Listing], stable: str | None, function: str = "KubeTask"
) -> list[FunctionEntry]:
    return [
        FunctionEntry(
            function, parse(text), FunctionKind.BLUEPRINT, OURS, object, listing, text == stable
        )
        for text, listing in listings.items()
    ]


def registry(*families: Sequence[FunctionEntry]) -> Registry[FunctionEntry]:
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    for family in families:
        builder.add(family, default_of(family))
    return builder.build()


FULL = registry(entries(LISTINGS, "v0.3.0"))


@pytest.mark.parametrize(
    ("requested", "expected", "reasons"),
    [
        pytest.param(None, "v0.3.0", [], id="nothing asked: the stable version"),
        pytest.param("", "v0.3.0", [], id="empty text is nothing asked"),
        pytest.param("v0.4.0", "v0.4.0", [], id="a served version: it"),
        pytest.param("0.4.0", "v0.4.0", [], id="a served version, without the v"),
        pytest.param("v0.5.0-rc.1", "v0.5.0-rc.1", [], id="a pre-release, because it is named"),
        pytest.param(
            "v0.2.0", "v0.2.0", ["FunctionVersionDeprecated"], id="a deprecated one: it, and a word"
        ),
        pytest.param("~0.3", "v0.3.0", [], id="a range with the stable version: the stable one"),
        pytest.param(">=0.2.0", "v0.3.0", [], id="the stable one, though higher ones are inside"),
        pytest.param(">0.3.0", "v0.4.0", [], id="a range past it: the highest not deprecated"),
        pytest.param(
            "<0.3.0 >0.0.0",
            "v0.2.0",
            ["FunctionVersionDeprecated"],
            id="a range with deprecated ones only: the highest",
        ),
        pytest.param("<0.3.0", "v0.0.0", [], id="one not deprecated comes before a higher one"),
        pytest.param("=0.5.0-rc.1", "v0.5.0-rc.1", [], id="a range that names a pre-release"),
        pytest.param(
            "v9.9.9", "v0.0.0", ["FunctionVersionFallback"], id="an unknown version: v0.0.0"
        ),
        pytest.param(
            "v0.6.0", "v0.0.0", ["FunctionVersionFallback"], id="a planned version is unknown yet"
        ),
    ],
)
def test_version_is_chosen(requested: str | None, expected: str, reasons: list[str]) -> None:
    choice = choose_version(FULL, "KubeTask", requested)
    assert str(choice.chosen.version) == expected
    assert [notice.reason for notice in choice.notices] == reasons


@pytest.mark.parametrize(
    ("requested", "error", "expected"),
    [
        pytest.param(
            "v0.1.0",
            FunctionVersionRemoved,
            "KubeTask v0.1.0 was removed in release 0.3.0; set funcVersion to v0.3.0, "
            "as `kanister-py upgrade` does",
            id="a removed version halts the run",
        ),
        pytest.param(
            ">0.4.0",
            FunctionVersionNotFound,
            "KubeTask has no version that matches the range >0.4.0: v0.6.0 is planned; "
            "v0.5.0-rc.1 is a pre-release, which a range must name; v0.4.0 does not match; "
            "v0.3.0 does not match; v0.2.0 does not match; v0.1.0 does not match; "
            "v0.0.0 does not match",
            id="a range with nothing inside never falls back",
        ),
        pytest.param(
            "=0.1.0", FunctionVersionNotFound, "v0.1.0 was removed", id="a range of removed ones"
        ),
        pytest.param("latest", InvalidVersion, "'latest' is not a version", id="no version"),
        pytest.param("v1", InvalidVersion, "write v1.0.0 or the range ~1", id="half a version"),
        pytest.param("~x", InvalidVersion, "not a range", id="no range"),
    ],
)
def test_request_is_refused(requested: str, error: type[KanisterError], expected: str) -> None:
    with pytest.raises(error) as refused:
        choose_version(FULL, "KubeTask", requested)
    assert expected in refused.value.message


def test_unknown_function_is_refused_with_similar_names() -> None:
    with pytest.raises(FunctionNotRegistered) as refused:
        choose_version(FULL, "KubeTsk")
    assert refused.value.near == ("KubeTask",)


def test_strict_mode_has_no_fallback_to_v0_0_0() -> None:
    with pytest.raises(FunctionVersionNotFound):
        choose_version(FULL, "KubeTask", "v9.9.9", strict=True)


def test_no_fallback_if_v0_0_0_is_removed_or_missing() -> None:
    gone = Listing(deprecated_in=parse("0.1.0"), removed_in=parse("0.3.0"))
    without = registry(entries({"v0.1.0": Listing()}, "v0.1.0"))
    removed = registry(entries({"v0.0.0": gone, "v0.1.0": Listing()}, "v0.1.0"))
    for entry in (without, removed):
        with pytest.raises(FunctionVersionNotFound):
            choose_version(entry, "KubeTask", "v9.9.9")


def test_fallback_to_a_deprecated_v0_0_0_has_two_notices() -> None:
    old = Listing(deprecated_in=parse("0.3.0"), removed_in=parse("0.5.0"))
    candidates = registry(entries({"v0.0.0": old, "v0.1.0": Listing()}, "v0.1.0"))
    choice = choose_version(candidates, "KubeTask", "v9.9.9")
    assert [notice.reason for notice in choice.notices] == [
        "FunctionVersionFallback",
        "FunctionVersionDeprecated",
    ]


def test_without_a_stable_version_a_phase_gets_v0_0_0() -> None:
    candidates = registry(entries({"v0.0.0": Listing(), "v0.1.0": Listing()}, None))
    choice = choose_version(candidates, "KubeTask")
    assert (str(choice.chosen.version), choice.why) == ("v0.0.0", "the default version")


def test_without_a_stable_version_and_v0_0_0_a_version_is_required() -> None:
    candidates = registry(entries({"v0.1.0": Listing()}, None))
    with pytest.raises(FunctionVersionNotFound, match=r"v0\.1\.0 is supported"):
        choose_version(candidates, "KubeTask")


def test_planned_stable_version_is_refused_with_its_release() -> None:
    candidates = registry(entries({"v0.2.0": Listing(since=parse("1.0.0"))}, "v0.2.0"))
    expected = r"v0\.2\.0 is available since 1\.0\.0, and the release is 0\.4\.0$"
    with pytest.raises(FunctionVersionNotFound, match=expected):
        choose_version(candidates, "KubeTask")


def test_deprecated_version_has_a_notice_with_removal_and_replacement() -> None:
    (notice,) = choose_version(FULL, "KubeTask", "v0.2.0").notices
    assert notice.message == (
        "KubeTask v0.2.0 is deprecated since release 0.3.0 and refused from release 0.5.0 on; "
        "use v0.3.0: it waits for ever"
    )
    assert notice.facts == {"deprecatedIn": "0.3.0", "removedIn": "0.5.0", "replacement": "v0.3.0"}


def test_choice_depends_on_the_given_release() -> None:
    with pytest.raises(FunctionVersionRemoved):
        choose_version(FULL, "KubeTask", "v0.2.0", at={"kanister-py": parse("0.5.0")})
    before = choose_version(FULL, "KubeTask", "v0.1.0", at={"kanister-py": parse("0.2.0")})
    assert str(before.chosen.version) == "v0.1.0"


@pytest.mark.parametrize(
    ("func_version", "preferred", "expected"),
    [
        pytest.param("v0.4.0", "v0.0.0", ("v0.4.0", "funcVersion"), id="the phase comes first"),
        pytest.param(None, "v0.0.0", ("v0.0.0", "preferredVersion"), id="then the action"),
        pytest.param("", "", ("", ""), id="empty texts are as good as none"),
    ],
)
def test_func_version_wins_over_preferred_version(
    func_version: str | None, preferred: str | None, expected: tuple[str, str]
) -> None:
    requested = requested_version(func_version, preferred)
    assert (requested.text, requested.by) == expected


RELEASES = st.sampled_from([None, *(Version(0, minor, 0) for minor in range(1, 7))])


@st.composite
def families(draw: st.DrawFn) -> tuple[list[FunctionEntry], str]:
    """Strategy for any list of versions and any request."""
    numbers = draw(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, unique=True)
    )
    texts = [f"v0.{minor}.{patch}" for minor, patch in numbers]
    listings = {
        text: Listing(deprecated_in=draw(RELEASES), removed_in=draw(RELEASES)) for text in texts
    }
    stable = draw(st.sampled_from([None, *texts]))
    candidates = entries(listings, stable)
    requested = draw(
        st.sampled_from(["", "v0.0.0", "0.1.1", "v0.1.2", "~0.1", ">=0.0.0", "<0.1.0", "!=0.1.1"])
    )
    return draw(st.permutations(candidates)), requested


def answer(candidates: Sequence[FunctionEntry], requested: str) -> tuple[str, str, tuple[str, ...]]:
    try:
        choice = choose_version(registry(candidates), "KubeTask", requested)
    except KanisterError as error:
        return error.reason, error.message, ()
    return "", str(choice.chosen.version), tuple(notice.reason for notice in choice.notices)


class TestChoosing:
    """The choice depends only on the registry and the request."""

    @given(families())
    def test_removed_version_is_never_chosen(self, drawn: tuple[list[FunctionEntry], str]) -> None:
        candidates, requested = drawn
        reason, version, _ = answer(candidates, requested)
        if not reason:
            chosen = next(entry for entry in candidates if str(entry.version) == version)
            assert chosen.support_at() is not Support.REMOVED

    @given(families())
    def test_order_of_registration_does_not_matter(
        self, drawn: tuple[list[FunctionEntry], str]
    ) -> None:
        candidates, requested = drawn
        assert answer(candidates, requested) == answer(list(reversed(candidates)), requested)

    @given(families())
    def test_choice_is_deterministic(self, drawn: tuple[list[FunctionEntry], str]) -> None:
        candidates, requested = drawn
        assert answer(candidates, requested) == answer(candidates, requested)

    @given(families())
    def test_both_spellings_of_a_version_give_the_same_choice(
        self, drawn: tuple[list[FunctionEntry], str]
    ) -> None:
        candidates, _ = drawn
        for entry in candidates:
            with_v, without = str(entry.version), entry.version.bare
            assert answer(candidates, with_v) == answer(candidates, without)

    @given(families())
    def test_deprecated_version_always_has_a_notice(
        self, drawn: tuple[list[FunctionEntry], str]
    ) -> None:
        candidates, requested = drawn
        reason, version, notices = answer(candidates, requested)
        if not reason:
            chosen = next(entry for entry in candidates if str(entry.version) == version)
            is_deprecated = chosen.support_at() is Support.DEPRECATED
            assert ("FunctionVersionDeprecated" in notices) is is_deprecated


# Revisions


def revision(number: int, **facts: object) -> FunctionRevision:
    candidates: dict[str, object] = {
        "function": "function-go-templating",
        "name": f"function-go-templating-{number:07x}",
        "number": number,
        "is_healthy": True,
        "endpoint": f"dns:///revision-{number}:9443",
        "digest": f"sha256:{number:064x}",
        **facts,
    }
    return FunctionRevision(**candidates)  # type: ignore[arg-type]  # the facts of a row, as they come


def revisions(*candidates: FunctionRevision) -> Registry[FunctionRevision]:
    builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
    builder.add(candidates)
    return builder.build()


ALPHA = {"release-channel": "alpha"}
SOME = revisions(
    revision(1, version=parse("0.8.0")),
    revision(2, version=parse("0.9.0"), labels=ALPHA),
    revision(3, version=parse("0.9.1"), labels=ALPHA, desired_state=DesiredState.INACTIVE),
    revision(4, is_healthy=False),
    revision(5, endpoint=""),
)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(RevisionRequest(), 2, id="none named: the highest that is routable"),
        pytest.param(RevisionRequest(labels=ALPHA), 2, id="by labels"),
        pytest.param(RevisionRequest(name="function-go-templating-0000001"), 1, id="by name"),
        pytest.param(
            RevisionRequest(name="function-go-templating-0000001", labels=ALPHA),
            1,
            id="by name and labels: the name wins",
        ),
        pytest.param(RevisionRequest(version="0.8.0"), 1, id="by version"),
        pytest.param(RevisionRequest(version="~0.8"), 1, id="by a range of versions"),
        pytest.param(RevisionRequest(labels={}), 2, id="empty labels allow every revision"),
        pytest.param(
            RevisionRequest(selector=LabelSelector((Requirement("release-channel", "!exists"),))),
            1,
            id="by an expression on labels",
        ),
    ],
)
def test_step_gets_the_highest_routable_revision_that_it_allows(
    request_: RevisionRequest, expected: int
) -> None:
    assert choose_revision(SOME, "function-go-templating", request_).chosen.number == expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(
            RevisionRequest(name="function-go-templating-0000003"),
            "function-go-templating-0000003 (revision 3) is inactive",
            id="the named one is inactive",
        ),
        pytest.param(
            RevisionRequest(name="function-other-0000001"),
            "function-other-0000001 is not a revision of function-go-templating",
            id="the named one belongs to another function",
        ),
        pytest.param(
            RevisionRequest(labels={"release-channel": "beta"}),
            "function-go-templating-0000002 (revision 2) has release-channel=alpha",
            id="no revision has the labels",
        ),
        pytest.param(
            RevisionRequest(version="v1.0.0"),
            "function-go-templating-0000004 (revision 4) has no version",
            id="no revision has the version, and nothing falls back",
        ),
    ],
)
def test_error_explains_why_every_revision_is_not_suitable(
    request_: RevisionRequest, expected: str
) -> None:
    with pytest.raises(FunctionRevisionNotFound) as refused:
        choose_revision(SOME, "function-go-templating", request_)
    assert expected in refused.value.passed_over
    assert len(refused.value.passed_over) >= 5


def test_choice_explains_every_rejected_revision() -> None:
    choice = choose_revision(SOME, "function-go-templating")
    assert [str(entry) for entry in choice.passed_over] == [
        "function-go-templating-0000005 (revision 5) has no endpoint yet",
        "function-go-templating-0000004 (revision 4) is not healthy",
        "function-go-templating-0000003 (revision 3) is inactive",
        (
            "function-go-templating-0000001 (revision 1) ranks below "
            "function-go-templating-0000002 (revision 2)"
        ),
    ]


@given(st.permutations(range(1, 6)), st.sets(st.integers(1, 5)))
def test_highest_routable_revision_is_chosen_in_any_order(
    numbers: list[int], healthy: set[int]
) -> None:
    candidates = revisions(*[revision(number, is_healthy=number in healthy) for number in numbers])
    if healthy:
        assert choose_revision(candidates, "function-go-templating").chosen.number == max(healthy)
    else:
        with pytest.raises(FunctionRevisionNotFound):
            choose_revision(candidates, "function-go-templating")
