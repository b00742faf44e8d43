"""An upgrade between any two versions of a function changes nothing silently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

import pytest

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.blueprints.upgrade import upgrade_sources
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionKind,
    RegistryBuilder,
    default_of,
)
from kanister_py.core.registry.reference import differences, version_reference
from kanister_py.core.yaml.documents import dump_yaml, parse_document
from kanister_py.core.yaml.weak import decode_args
from kanister_py.executor.loading import load_function
from kanister_py.wiring import read_functions

REGISTRY = read_functions().registry

EXAMPLES: Mapping[str, Any] = {
    "text": "x",
    "whole number": 1,
    "number": 1.5,
    "true or false": True,
    "map": {"a": "b"},
    "list": ["x"],
    "anything": "x",
}


def pairs() -> Iterator[Any]:
    for family in REGISTRY:
        if family.candidates[0].kind is FunctionKind.BLUEPRINT:
            with_code = [entry for entry in family if entry.target is not None]
            for old, new in permutations(with_code, 2):
                yield pytest.param(old, new, id=f"{family.function} {old.version} {new.version}")


def example_of(argument: Mapping[str, Any]) -> Any:
    kind = str(argument["type"])
    if argument.get("name") == "timeout":
        return "10s"
    if kind.startswith("one of "):
        return kind.removeprefix("one of ").split(", ")[0]
    if kind.startswith("list of "):
        return [example_of({"type": kind.removeprefix("list of ")})]
    return next(value for name, value in EXAMPLES.items() if kind.startswith(name))


def renamed(old: FunctionEntry, new: FunctionEntry) -> Mapping[str, str]:
    return old.listing.renamed_args if old.listing.replacement == new.version else {}


def effective(entry: FunctionEntry, args: Mapping[str, Any]) -> dict[str, Any]:
    model = decode_args(load_function(entry).Args, args, entry.function)
    return dict(model.model_dump(mode="json", by_alias=True))


@pytest.mark.parametrize(("old", "new"), list(pairs()))
def test_diff_shows_changed_defaults(old: FunctionEntry, new: FunctionEntry) -> None:
    before, after = (version_reference(entry, load_function(entry)) for entry in (old, new))
    names = renamed(old, new)
    now = {argument["name"]: argument for argument in after["arguments"]}
    changes = {
        difference["name"]
        for difference in differences(before, after, names)
        if difference["what"] in ("default-changed", "argument-required")
    }
    for argument in before["arguments"]:
        other = now.get(names.get(argument["name"], argument["name"]))
        if other is None or argument["required"]:
            continue
        if argument.get("default") != other.get("default"):
            assert other["name"] in changes


@pytest.mark.parametrize(("old", "new"), list(pairs()))
def test_upgrade_keeps_the_meaning(old: FunctionEntry, new: FunctionEntry) -> None:
    listing = old.listing._replace(
        deprecated_in=old.source.releases[0].version,
        removed_in=None,
        replacement=new.version,
        renamed_args=renamed(old, new),
    )
    entries = [old._replace(listing=listing, is_stable=False), new._replace(is_stable=True)]
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    builder.add(entries, default_of(entries))
    reference = version_reference(old, load_function(old))
    args = {
        argument["name"]: example_of(argument)
        for argument in reference["arguments"]
        if argument["required"]
    }
    phase = {"func": old.function, "name": "p", "funcVersion": str(old.version), "args": args}
    text = dump_yaml(
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Blueprint",
            "metadata": {"name": "b"},
            "actions": {"go": {"phases": [phase]}},
        }
    )
    context = Context(builder.build(), load=load_function)
    (result,) = upgrade_sources([Source("b.yaml", text)], context)
    (change,) = result.changes
    upgraded = parse_document(result.after).value["actions"]["go"]["phases"][0]
    assert upgraded["funcVersion"] == str(new.version)
    if any(finding.rule == "argument-missing" for finding in result.left):
        return  # without a default to keep, lint reports the missing argument
    was, now = effective(old, args), effective(new, upgraded.get("args") or {})
    for name, value in was.items():
        other = listing.renamed_args.get(name, name)
        if other in now and now[other] != value:
            # A default of null cannot be written, so it is reported.
            assert value is None
            assert any(other in note for note in change.notes)
