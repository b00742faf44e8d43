"""Functions have access to the passed effects only."""

from __future__ import annotations

import pytest

from kanister_py.gotemplate.effects import NO_EFFECTS
from kanister_py.gotemplate.errors import GoTemplateError
from kanister_py.gotemplate.sprig import BLUEPRINT_FUNCTIONS, GO_TEMPLATING_FUNCTIONS
from kanister_py.gotemplate.template import compile_template
from tests.gotemplate.oracle_data import effects_at
from tests.gotemplate.oracle_record import render

NOW = "2024-05-06T07:08:09Z"


def _blueprint(template: str) -> str:
    return render(template, "map", BLUEPRINT_FUNCTIONS, now=NOW)


@pytest.mark.parametrize(
    ("template", "want"),
    [
        ('{{ env "HOME" }}', "no access to environment variables"),
        ('{{ expandenv "$HOME" }}', "no access to environment variables"),
        ('{{ getHostByName "localhost" }}', "no access to the network"),
    ],
)
def test_functions_that_reveal_the_host_fail_in_blueprints(template: str, want: str) -> None:
    with pytest.raises(GoTemplateError, match=want):
        _blueprint(template)


@pytest.mark.parametrize("name", ["env", "expandenv"])
def test_compositions_have_no_functions_for_the_environment(name: str) -> None:
    with pytest.raises(GoTemplateError, match=f'function "{name}" not defined'):
        render(f'{{{{ {name} "HOME" }}}}', "map", GO_TEMPLATING_FUNCTIONS)


@pytest.mark.parametrize("template", ["{{ now }}", "{{ uuidv4 }}", '{{ date "2006" "x" }}'])
def test_time_and_randomness_fail_without_effects(template: str) -> None:
    with pytest.raises(GoTemplateError, match="templates have no"):
        compile_template(template, BLUEPRINT_FUNCTIONS).execute(None, NO_EFFECTS)


def test_equal_random_bytes_give_equal_values() -> None:
    template = '{{ uuidv4 }} {{ randAlphaNum 20 }} {{ shuffle "abcdef" }} {{ encryptAES "k" "v" }}'
    assert _blueprint(template) == _blueprint(template)


def test_passwords_use_all_characters_of_their_alphabet() -> None:
    compiled = compile_template("{{ randNumeric 2000 }}", BLUEPRINT_FUNCTIONS)
    assert set(compiled.execute(None, effects_at(NOW))) == set("0123456789")


def test_a_shuffled_text_keeps_its_letters() -> None:
    assert sorted(_blueprint('{{ shuffle "abcdé" }}')) == sorted("abcdé")
