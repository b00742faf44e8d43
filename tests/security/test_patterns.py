"""Regular expressions take linear time on any text.

The test finds every pattern that kanister_py uses with `re`: those at the top of modules, and
literal ones in calls such as `re.match("…", text)`. It attacks them with long texts made of
pieces of the patterns themselves. `BOUNDED` lists the patterns that may backtrack, with the
bound on their text that keeps this harmless. A pattern that has to backtrack on text
without a bound belongs to google-re2 or to a parser.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import pytest

import kanister_py
from kanister_py.adapters.object_store_errors import refusal_of
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.locations import Location, StoreKind
from kanister_py.functions.blueprint.restic import read_complaint, read_stats_log

SMALL, LARGE = 1 << 10, 8 << 10
# Eight times the text takes eight times as long, or 64 times if a pattern is quadratic.
MOST_GROWTH = 24
# A linear pattern passes over 1 KiB in a tenth of this.
SUSPICIOUS_SECONDS = 0.0002
METHODS: Final = ("search", "match", "fullmatch", "findall", "finditer", "sub", "split")

BOUNDED: Final = {
    "functions.composition.patch_and_transform.transforms._TEXT": "1,000 characters",
}
"""Patterns that may backtrack, and the bound on their text."""

SIZES = (4 << 10, 32 << 10, 256 << 10, 1 << 20)
MOST_COST_RATIO = 6
"""How much more a byte of the largest text may cost than a byte of a smaller one."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Pattern of a module, and the methods by which the module applies it."""

    name: str
    pattern: re.Pattern[str]
    methods: tuple[str, ...]


def _modules() -> Iterator[ModuleType]:
    for package in pkgutil.walk_packages(kanister_py.__path__, "kanister_py."):
        if not package.name.endswith("__main__"):
            yield importlib.import_module(package.name)


def _methods_called(tree: ast.Module, name: str) -> tuple[str, ...]:
    called = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }
    return tuple(method for method in METHODS if method in called)


def subjects() -> list[Subject]:
    by_name: dict[str, Subject] = {}
    for module in _modules():
        tree = None
        for name, value in vars(module).items():
            if not isinstance(value, re.Pattern) or not isinstance(value.pattern, str):
                continue
            tree = tree or ast.parse(inspect.getsource(module))
            if methods := _methods_called(tree, name):
                label = f"{module.__name__.removeprefix('kanister_py.')}.{name}"
                by_name[label] = Subject(label, value, methods)
        for subject in _inline(module):
            by_name[subject.name] = subject
    return [by_name[label] for label in sorted(by_name)]


def _inline(module: ModuleType) -> Iterator[Subject]:
    """Yield the patterns of calls such as `re.match("…", text)`."""
    source = inspect.getsource(module)
    if "re." not in source:
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str(pattern)), *_],
            ) if method in METHODS:
                label = f"{module.__name__.removeprefix('kanister_py.')}:{node.lineno}"
                yield Subject(label, re.compile(pattern), (method,))


def _units(pattern: str) -> tuple[list[str], list[str]]:
    """Return texts that are repeated to attack a pattern, and the literals of the pattern."""
    common = [" ", "a", "0", "\n", "\t", "a ", "0.", "a.", "a-", ", ", "\\", "''", '""', "é", "(a)"]
    literal = re.sub(r"\\[a-zA-Z]|\[[^\]]*\]|\(\?[:P=!<]*|[()*+?|^$]", "\x00", pattern)
    own = [part.replace("\\", "") for part in literal.split("\x00") if part.strip("\\")]
    return list(dict.fromkeys([*common, *own, *sorted(set(re.sub(r"\w", "", "".join(own))))])), own


def _texts(pattern: str) -> Iterator[tuple[str, str, str]]:
    units, own = _units(pattern)
    starts = [literal for literal in own if len(literal) > 1]
    for unit in units:
        for prefix in ("", *starts, *(f"{start}a" for start in starts)):
            yield prefix, unit, "\x00"


def _apply(subject: Subject, method: str) -> Callable[[str], object]:
    if method == "sub":
        return lambda text: subject.pattern.sub("", text)
    if method == "finditer":
        return lambda text: sum(1 for _ in subject.pattern.finditer(text))
    applied: Callable[[str], object] = getattr(subject.pattern, method)
    return applied


def _seconds(call: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    call(text)
    return time.process_time() - began


def _worst(subject: Subject) -> str:
    """Return the attack under which a pattern is not linear, or an empty text."""
    for method in subject.methods:
        call = _apply(subject, method)
        for prefix, unit, suffix in _texts(subject.pattern.pattern):
            attack = prefix + unit * (SMALL // len(unit)) + suffix
            if _seconds(call, attack) < SUSPICIOUS_SECONDS:
                continue
            small = min(_seconds(call, attack) for _ in range(3))
            attack = prefix + unit * (LARGE // len(unit)) + suffix
            large = min(_seconds(call, attack) for _ in range(3))
            if large > MOST_GROWTH * max(small, SUSPICIOUS_SECONDS / 2):
                return f"{method}({prefix!r} + {unit!r}*n + {suffix!r}): {small:.4f}s, {large:.4f}s"
    return ""


def test_no_pattern_backtracks_on_unbounded_text() -> None:
    everything = subjects()
    assert BOUNDED.keys() <= {subject.name for subject in everything}
    growth = {
        subject.name: _worst(subject) for subject in everything if subject.name not in BOUNDED
    }
    assert {name: attack for name, attack in growth.items() if attack} == {}


def test_the_attack_finds_a_backtracking_pattern() -> None:
    for pattern in (r"\s+end", r"\w+ is missing", r"\{\{(.*?)\}\}"):
        subject = Subject("planted", re.compile(pattern, re.DOTALL), ("finditer", "search"))
        assert _worst(subject), pattern


# Functions that parse untrusted text


def _refusal(text: str) -> object:
    return refusal_of("", Location(StoreKind.S3, "bucket"), f"status code: 500: {text}", "key")


def _complaint(text: str) -> object:
    return read_complaint([text, f"Load(<data/1>) returned error, retrying after 1s: {text}"])


def _statistics(text: str) -> object:
    with suppress(UsageError):
        return read_stats_log(f"Total File Count: 1\nTotal Size: {text}")
    return None


@pytest.mark.parametrize("unit", ["<Code>", "<Message>", " ", "\n", "a(", ")", "a ", "\t0"])
@pytest.mark.parametrize(
    "read",
    [
        pytest.param(_refusal, id="error of an object store"),
        pytest.param(_complaint, id="standard error of restic"),
        pytest.param(_statistics, id="statistics of restic"),
    ],
)
def test_untrusted_text_is_parsed_in_linear_time(read: Callable[[str], object], unit: str) -> None:
    costs = [
        min(_seconds(read, unit * (size // len(unit))) for _ in range(2)) / size for size in SIZES
    ]
    # The smallest text includes the constant cost; a quadratic parser takes 32 times as long.
    assert costs[-1] <= MOST_COST_RATIO * costs[1] + 1e-8, costs
