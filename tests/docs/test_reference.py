"""The reference pages agree with the code, and the tables behind them are complete."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from kanister_py.core.reasons.table import GROUPS
from kanister_py.core.templates.descriptions import DESCRIPTIONS
from tests.conftest import REPOSITORY
from tests.docs.generate import DOCS, PAGES, chart_values, parsers, value_types

REASONS = {reason.name: reason for group in GROUPS for reason in group.reasons}


@pytest.mark.parametrize("name", PAGES)
def test_reference_page_is_up_to_date(name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    assert page == PAGES[name](), "python -m tests.docs.generate writes it"


def test_every_template_value_has_a_description() -> None:
    assert DESCRIPTIONS.keys() == value_types().keys()


def test_every_chart_value_has_a_description() -> None:
    missing = [".".join(path) for path, part in chart_values() if not part.get("description")]
    assert missing == []


# Reasons


@cache
def _modules() -> Mapping[Path, ast.Module]:
    folder = REPOSITORY / "kanister_py"
    return {
        file: ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(folder.rglob("*.py"))
        if not file.is_relative_to(folder / "core" / "reasons")
    }


def _text_of(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_every_reason_of_an_error_is_in_the_table() -> None:
    used = {
        _text_of(keyword.value)
        for module in _modules().values()
        for node in ast.walk(module)
        if isinstance(node, ast.Call | ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg == "reason"
    }
    assert sorted(used - REASONS.keys() - {""}) == []


# Strings of the controller that look like reasons.
_NOT_REASONS = {"ActionSet", "RuntimeActive", "RuntimeHealthy", "ValidPipeline"}


def test_every_reason_of_a_condition_or_event_is_in_the_table() -> None:
    camel_case = re.compile(r"([A-Z][a-z]+){2,}")
    kinds = {
        _text_of(node.value)
        for module in _modules().values()
        for node in module.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value
    }
    used = {
        _text_of(argument)
        for file, module in _modules().items()
        if file.is_relative_to(REPOSITORY / "kanister_py" / "controller")
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        for argument in node.args
        if camel_case.fullmatch(_text_of(argument))
    }
    assert sorted(used - REASONS.keys() - kinds - _NOT_REASONS) == []


def test_every_reason_in_a_variable_of_the_controller_is_in_the_table() -> None:
    used = {
        _text_of(node)
        for file, module in _modules().items()
        if file.is_relative_to(REPOSITORY / "kanister_py" / "controller")
        for assignment in ast.walk(module)
        if isinstance(assignment, ast.Assign)
        and any(isinstance(name, ast.Name) and name.id == "reason" for name in assignment.targets)
        for node in (
            (assignment.value.body, assignment.value.orelse)
            if isinstance(assignment.value, ast.IfExp)
            else (assignment.value,)
        )
        if _text_of(node).isalpha()
    }
    assert sorted(used - REASONS.keys()) == []


def test_every_reason_in_the_table_is_used() -> None:
    used = {
        node.value
        for module in _modules().values()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant)
    }
    assert sorted(REASONS.keys() - used) == []


def test_reasons_are_listed_once() -> None:
    names = [reason.name for group in GROUPS for reason in group.reasons]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_commands_in_fixes_exist() -> None:
    parsers_by_name = {parser.prog: parser for parser in parsers()}
    unknown = []
    for reason in REASONS.values():
        for command in re.findall(r"`(kanister-py [^`]*)`", reason.fix):
            words = shlex.split(command)
            prog = (
                " ".join(words[:3])
                if " ".join(words[:3]) in parsers_by_name
                else " ".join(words[:2])
            )
            flags = {word.partition("=")[0] for word in words if word.startswith("-")}
            if prog not in parsers_by_name or not flags <= _flags_of(parsers_by_name[prog]):
                unknown.append(f"{reason.name}: {command}")
    assert unknown == []


def test_flags_in_fixes_exist() -> None:
    known_flags = set().union(*(_flags_of(parser) for parser in parsers()))
    named = {
        flag
        for reason in REASONS.values()
        for span in re.findall(r"`([^`]*)`", reason.fix)
        for flag in re.findall(r"(?<!\S)--[a-z-]+", span)
    }
    assert sorted(named - known_flags) == []


def _flags_of(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions for name in action.option_strings}
