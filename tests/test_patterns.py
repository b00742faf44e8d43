from __future__ import annotations

import re

import pytest

from kanister_py.patterns import pattern_of


def test_a_pattern_answers_as_if_it_had_been_compiled() -> None:
    pattern = pattern_of("(?P<word>[a-z]+) +", re.IGNORECASE)
    found = pattern.match("Some more")
    assert found is not None
    assert found["word"] == "Some"
    assert pattern.fullmatch("Some more") is None
    assert pattern.sub("", "Some more") == "more"
    assert pattern.groupindex == {"word": 1}


def test_a_pattern_that_is_none_says_so_when_it_is_asked() -> None:
    pattern = pattern_of("(")
    with pytest.raises(re.error, match="unterminated"):
        pattern.match("(")
