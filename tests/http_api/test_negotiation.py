"""Content negotiation: media types, and `304 Not Modified`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.http_api.negotiation import JSON, YAML, choose_media_type, is_unchanged


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        pytest.param(None, JSON, id="no wish"),
        pytest.param(b"", JSON, id="an empty wish"),
        pytest.param(b"*/*", JSON, id="anything, as curl asks"),
        pytest.param(b"application/*", JSON, id="any application"),
        pytest.param(b"application/yaml", YAML, id="yaml"),
        pytest.param(b"text/yaml", YAML, id="yaml by an old name"),
        pytest.param(b"application/x-yaml", YAML, id="yaml by another old name"),
        pytest.param(b"APPLICATION/YAML", YAML, id="capitals do not count"),
        pytest.param(b"application/json;q=0.5, application/yaml", YAML, id="yaml rather"),
        pytest.param(b"application/yaml;q=0.5, application/json", JSON, id="json rather"),
        pytest.param(b"application/yaml;q=0.5, */*;q=0.1", YAML, id="yaml before all others"),
        pytest.param(b"*/*, application/json;q=0", YAML, id="anything but json"),
        pytest.param(b"*/*, application/yaml;q=0", JSON, id="anything but yaml"),
        pytest.param(b"application/*;q=0.2, application/yaml;q=0.1", JSON, id="the nearer range"),
        pytest.param(b"text/html,application/xml;q=0.9,*/*;q=0.8", JSON, id="a web browser"),
        pytest.param(b"text/html", None, id="a page only"),
        pytest.param(b"application/json;q=0", None, id="no json, and nothing else"),
        pytest.param(b"*/*;q=0", None, id="nothing at all"),
        pytest.param(b"application/yaml;q=2", None, id="a quality that is none"),
        pytest.param(b"application/yaml; charset=utf-8; q=1.0", YAML, id="with parameters"),
        pytest.param(b"nonsense", None, id="nonsense"),
    ],
)
def test_a_client_gets_the_media_type_it_prefers(accept: bytes | None, want: str | None) -> None:
    assert choose_media_type(accept) == want


@given(st.binary(max_size=3000))
def test_any_accept_header_can_be_parsed(accept: bytes) -> None:
    assert choose_media_type(accept) in (JSON, YAML, None)


@pytest.mark.parametrize(
    ("if_none_match", "want"),
    [
        pytest.param(b'"abc"', True, id="the same"),
        pytest.param(b'W/"abc"', True, id="the same, compared weakly"),
        pytest.param(b'"x", W/"y" ,"abc"', True, id="one of several"),
        pytest.param(b"*", True, id="whatever there is"),
        pytest.param(b" * ", True, id="whatever there is, with spaces"),
        pytest.param(b'"x"', False, id="another"),
        pytest.param(b'"xabc"', False, id="one that ends alike"),
        pytest.param(b"abc", False, id="without its quotes"),
        pytest.param(b"", False, id="nothing"),
        pytest.param(b'"*"', False, id="a tag that is a star"),
    ],
)
def test_304_is_only_sent_for_a_matching_etag(if_none_match: bytes, want: bool) -> None:
    assert is_unchanged(if_none_match, b'"abc"') is want
