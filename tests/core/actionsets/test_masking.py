"""Masking of secrets in texts, in all encoded forms."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.actionsets.masking import Masker


@pytest.mark.parametrize(
    ("secret", "text", "expected"),
    [
        pytest.param("hunter22", "login hunter22 ok", "login *** ok", id="in the middle"),
        pytest.param("short", "a short word", "a short word", id="too short to hide"),
        pytest.param("sixsix", "sixsix", "***", id="six characters are enough"),
        pytest.param("hunter22\n", "hunter22", "***", id="without its newline"),
        pytest.param("first-line\nsecond-line", "second-line", "***", id="a line of many"),
        pytest.param("hunter22", b64encode(b"hunter22").decode(), "***", id="as base64 has it"),
        pytest.param("hunter22", b64encode(b"hunter22\n").decode(), "***IK", id="with its newline"),
        pytest.param("hunter22", b64encode(b"me:hunter22").decode(), "bWU6***", id="a login"),
        pytest.param(
            "\xff\xfe\xff?>?>",
            urlsafe_b64encode(b"a\xc3\xbf\xc3\xbe\xc3\xbf?>?>").decode(),
            "Yc***4=",
            id="base64 of URLs",
        ),
        pytest.param("hunter22", "HUNTER22 Hunter22", "*** ***", id="in another case"),
        pytest.param('say "hi"\t22', json.dumps({"a": 'say "hi"\t22'}), '{"a": "***"}', id="JSON"),
        pytest.param("p\xe4ss/w\xf6rd", r'"p\u00e4ss/w\u00f6rd"', '"***"', id="JSON in ASCII"),
        pytest.param("a b/c&d=e", "?p=a%20b%2Fc%26d%3De&q=1", "?p=***&q=1", id="a URL"),
        pytest.param("a b/c&d=e", "?p=a+b%2fc%26d%3de", "?p=***", id="a form, in small letters"),
        pytest.param("hunter22", b"hunter22".hex().upper(), "***", id="as hexadecimal digits"),
    ],
)
def test_known_secret_is_masked(secret: str, text: str, expected: str) -> None:
    assert Masker([secret]).mask(text) == expected


def test_secret_that_begins_with_another_is_masked_completely() -> None:
    assert Masker(["hunter", "hunter22"]).mask("hunter22") == "***"


@given(
    st.text(min_size=6).filter(lambda entry: len(entry.strip()) >= 6),
    st.binary(max_size=9),
    st.binary(max_size=9),
)
def test_secret_is_masked_inside_longer_base64_text(
    secret: str, before: bytes, after: bytes
) -> None:
    raw = secret.strip().encode()
    shown = Masker([secret]).mask(b64encode(before + raw + after).decode())
    # The surrounding text remains, and one character at each edge that both share.
    assert len(shown) <= len(b64encode(before)) + len(b64encode(after)) + 4 + len("***")


@given(st.text(min_size=6).filter(lambda entry: len(entry.strip()) >= 6), st.text(), st.text())
def test_secret_is_masked_in_any_surrounding_text(secret: str, before: str, after: str) -> None:
    core = secret.strip()
    masked = Masker([secret]).mask(f"{before}\0{core}\0{after}")
    assert f"\0{core}\0" not in masked


def test_secrets_are_masked_everywhere_in_data() -> None:
    data = {"login": ["as hunter22", 7], "hunter22": {"a": None}}
    assert Masker(["hunter22"]).mask_data(data) == {"login": ["as ***", 7], "***": {"a": None}}
    assert Masker().mask_data(data) is data


def test_many_secrets_are_masked_like_few() -> None:
    secrets = [f"secret-{number:05}-Ä" for number in range(5000)]
    line = "x SECRET-00042-ä y secret-00001-Ä-secret-99999 \u0130secret-04999-Ä"
    few = Masker([secrets[42], secrets[1], secrets[4999]])
    assert Masker(secrets).mask(line) == few.mask(line)


def test_time_for_a_line_does_not_depend_on_the_number_of_secrets() -> None:
    """Searching for every secret took 26 ms for each log line with a Secret of 100,000 lines."""
    masker = Masker(["\n".join(f"line {number} of a secret" for number in range(100_000))])
    started = thread_time()
    for _ in range(200):
        masker.mask("a line of a log that says nothing secret, only that the backup goes on")
    assert thread_time() - started < 1
