"""Templates from strangers: reading and rendering them is bounded in time and memory."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time

import pytest

from kanister_py.core.blueprints.reads import hands_on_profile
from kanister_py.core.templates.engines import Engine, choose_engine, fault_in
from kanister_py.core.templates.errors import TemplateParseError
from kanister_py.gotemplate.template import compile_template

_SIZES = (4_096, 16_384, 65_536, 262_144)
# Every character costs at most this long; quadratic code takes minutes for the largest size.
_SECONDS_A_CHARACTER = 2e-5

TEXTS = {
    "open braces": "{{",
    "open expressions": "{{ ",
    "open comments": "{{/*",
    "open comments of Jinja2": "{#",
    "open statements": "{% ",
    "open raw blocks": "{% raw %}{% ",
    "trims": "{{- ",
    "escaped quotes": '{{ "' + '\\"',
    "apostrophes": "{{ '\\'",
    "back quotes": "{{ `",
    "names of parameters": "{{ Options",
    "filters": "{{ | a",
    "conditions": "{{ if .Profile",
    "blanks": "{{ " + " " * 64,
    "fields": "{{ .a",
    "fields of fields": ".a",
}


def _choose(text: str) -> None:
    choose_engine({}, [text])


def _read_go(text: str) -> None:
    fault_in(text, Engine.GO)


def _read_jinja(text: str) -> None:
    fault_in(text, Engine.JINJA2)


def _look_for_profile(text: str) -> None:
    hands_on_profile(f"{{{{ toJson .Profile }}}}{text}", ())


@pytest.mark.parametrize("read", [_choose, _read_go, _read_jinja, _look_for_profile])
@pytest.mark.parametrize("piece", TEXTS.values(), ids=TEXTS)
def test_reading_a_text_takes_time_in_proportion_to_its_length(
    piece: str, read: Callable[[str], None]
) -> None:
    for size in _SIZES:
        started = thread_time()
        read(piece * (size // len(piece)))
        assert thread_time() - started < 0.1 + size * _SECONDS_A_CHARACTER


def test_a_template_beyond_all_use_is_refused_unread() -> None:
    with pytest.raises(TemplateParseError, match="characters"):
        compile_template("{{ 1 }}" * 200_000)
