from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.blueprints.upgrade import Upgraded, upgrade_sources
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.executor.loading import PluginBroken
from kanister_py.ports.models import Args, Outputs

HEAD = "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {name: b}\nactions:\n"
ACTION_SET = """\
apiVersion: cr.kanister.io/v1alpha1
kind: ActionSet
metadata: {{name: s}}
spec:
  actions:
  - {{name: go, blueprint: b, preferredVersion: {version}}}
"""

SCHEDULE = """\
apiVersion: kanister-py.io/v1alpha1
kind: Schedule
metadata: {{name: nightly}}
spec:
  schedule: "0 2 * * *"
  template:
    spec:
      actions:
      - {{name: go, blueprint: b, preferredVersion: {version}}}
"""


class Receipt(Outputs):
    id: str


class Notify:
    Args = Args
    Outputs = Receipt


def upgrade(context: Context, *texts: str) -> list[Upgraded]:
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts)]
    return upgrade_sources(sources, context)


BLOCK = f"""\
# Before everything
{HEAD}  go:   # the action
    phases:
    - func:   Notify
      funcVersion:  v0.1.0   # pinned
      name: p
      args:
        whom: 'me'
        text: "whom"
    - {{func: Notify, funcVersion: "0.2.0", name: q, args: {{to: you, text: to}}}}
    - func: Linger   # by default
      name: r
    - func: Notify
      name: s
      funcVersion: >-
        v0.2.0
    deferPhase: {{func: Linger}}
---
# Not ours
kind: ConfigMap
data: {{funcVersion: v0.1.0, x: "\\u00e9"}}
"""
UPGRADED = (
    BLOCK.replace("funcVersion:  v0.1.0  ", "funcVersion:  v0.3.0  ")
    .replace("        whom: 'me'", "        recipient: 'me'")
    .replace('"0.2.0"', '"0.3.0"')
    .replace("{to: you, text: to}", "{recipient: you, text: to}")
    .replace("- func: Linger ", "- funcVersion: v0.1.0\n      func: Linger ")
    .replace("        v0.2.0", "        v0.3.0")
    .replace("{func: Linger}", "{funcVersion: v0.1.0, func: Linger}")
)


class TestAnUpgrade:
    def test_changes_only_versions_and_argument_names(self, context: Context) -> None:
        (result,) = upgrade(context, BLOCK)
        assert result.after == UPGRADED
        assert result.left == ()
        assert [(change.line, change.before, change.after) for change in result.changes] == [
            (9, "v0.1.0", "v0.3.0"),
            (14, "0.2.0", "0.3.0"),
            (15, "", "v0.1.0"),
            (19, "v0.2.0", "v0.3.0"),
            (21, "", "v0.1.0"),
        ]
        assert dict(result.changes[0].renamed_args) == {"whom": "recipient"}

    def test_fixes_all_findings_of_lint(self, context: Context) -> None:
        (result,) = upgrade(context, BLOCK)
        report = lint_sources([Source("b.yaml", result.after)], context)
        assert [finding for finding in report.findings if finding.rule.startswith("version")] == []

    def test_is_idempotent(self, context: Context) -> None:
        (first,) = upgrade(context, BLOCK)
        (second,) = upgrade(context, first.after)
        assert second.after == first.after
        assert (second.changes, second.left) == ((), ())

    def test_keeps_windows_line_ends_and_ignores_the_byte_order_mark(
        self, context: Context
    ) -> None:
        (result,) = upgrade(context, "\ufeff" + BLOCK.replace("\n", "\r\n"))
        assert result.after == UPGRADED.replace("\n", "\r\n")

    def test_changes_an_anchor_if_all_its_aliases_change(self, context: Context) -> None:
        text = (
            f"{HEAD}  go:\n    phases:\n"
            "    - {func: Notify, name: p, funcVersion: &v v0.2.0}\n"
            "    - {func: Notify, name: q, funcVersion: *v}\n"
        )
        (result,) = upgrade(context, text)
        assert result.after == text.replace("&v v0.2.0", "&v v0.3.0")
        assert (len(result.changes), result.left) == (2, ())

    def test_does_not_change_a_merged_map(self, context: Context) -> None:
        text = (
            "x: &notify {func: Notify, funcVersion: v0.1.0}\n"
            f"{HEAD}  go:\n    phases:\n"
            "    - {<<: *notify, name: p}\n    - {<<: *notify, name: q}\n"
        )
        (result,) = upgrade(context, text)
        assert result.after == text  # x is not a phase, but would change as well
        assert len(result.left) == 2


class TestUnsafeChange:
    @pytest.mark.parametrize(
        ("phase", "message"),
        [
            pytest.param(
                "func: Bury, funcVersion: v0.1.0", "no version replaces it", id="no replacement"
            ),
            pytest.param("func: Notify, funcVersion: ^0.2", "deprecated", id="a range"),
            pytest.param("func: Greet, funcVersion: v7.0.0", "has no v7.0.0", id="unknown version"),
            pytest.param("func: Notify, funcVersion: new", "not a version", id="invalid version"),
            pytest.param("func: Nothing", "has not been registered", id="no function"),
            pytest.param(
                "func: Notify, funcVersion: v0.2.0, args: {to: a, recipient: b}",
                "recipient is already given",
                id="an argument under both names",
            ),
            pytest.param(
                'func: Notify, funcVersion: "v0\\x2e2.0"', "cannot be replaced", id="escapes"
            ),
        ],
    )
    def test_is_reported_and_not_made(self, context: Context, phase: str, message: str) -> None:
        text = f"{HEAD}  go:\n    phases:\n    - {{{phase}, name: p}}\n"
        (result,) = upgrade(context, text)
        assert (result.after, result.changes) == (text, ())
        (left,) = result.left
        assert message in left.message
        assert left.line == 7

    def test_does_not_prevent_other_changes(self, context: Context) -> None:
        text = (
            f"{HEAD}  go:\n    phases:\n"
            '    - {func: Notify, name: p, funcVersion: "v0\\x2e2.0"}\n'
            "    - {func: Notify, name: q, funcVersion: v0.2.0}\n"
        )
        (result,) = upgrade(context, text)
        assert result.after == text.replace("funcVersion: v0.2.0", "funcVersion: v0.3.0")
        assert [finding.phase for finding in result.left] == ["p"]

    def test_in_an_unreadable_file_is_reported(self, context: Context) -> None:
        broken, fine = upgrade(context, "a: [", BLOCK)
        assert [finding.rule for finding in broken.left] == ["file-unreadable"]
        assert broken.after == broken.before
        assert fine.after == UPGRADED

    def test_that_breaks_other_phases_is_reported(self, context: Context) -> None:
        def load(entry: FunctionEntry) -> type[Any]:
            if (entry.function, str(entry.version)) == ("Notify", "v0.3.0"):
                return Notify
            raise PluginBroken("acme", "not installed")

        with_code = context._replace(load=load)
        text = (
            f"{HEAD}  go:\n    phases:\n    - {{func: Notify, name: p, funcVersion: v0.1.0}}\n"
            "    - {func: Greet, name: q, args: {x: '{{ .Phases.p.Output.receipt }}'}}\n"
            "    - {func: Greet, name: r, args: {x: '{{ .Phases.nobody.Output.receipt }}'}}\n"
        )
        (result,) = upgrade(with_code, text)
        assert result.after == text.replace("v0.1.0", "v0.3.0")
        assert [finding.phase for finding in result.left] == ["q"]


def test_file_without_our_objects_is_unchanged(context: Context) -> None:
    (result,) = upgrade_sources([Source("v.yaml", b"kind: Pod\n")], context)
    assert (result.before, result.after, result.left) == ("kind: Pod\n", "kind: Pod\n", ())


class TestPreferredVersion:
    def test_moves_if_all_its_phases_move_to_the_same_version(self, context: Context) -> None:
        blueprint = (
            f"{HEAD}  go:\n    phases:\n    - {{func: Notify, name: p}}\n"
            "    - {func: Shout, name: q}\n    - {func: Greet, name: r}\n"
            "    - {func: Notify, name: s, funcVersion: v0.3.0}\n"
        )
        before = ACTION_SET.format(version="'v0.2.0'")
        actions, phases = upgrade(context, before, blueprint)
        assert actions.after == ACTION_SET.format(version="'v0.3.0'")
        schedules, _ = upgrade(context, SCHEDULE.format(version="v0.2.0"), blueprint)
        assert schedules.after == SCHEDULE.format(version="v0.3.0")
        assert phases.after == blueprint
        assert actions.changes[0].function == "Notify, Shout"
        assert actions.left == ()

    @pytest.mark.parametrize(
        ("version", "phases", "message"),
        [
            pytest.param(
                "v0.1.0",
                "{func: Notify, name: p}, {func: Bury, name: q}",
                "Bury v0.1.0 would change too",
                id="another function has no replacement",
            ),
            pytest.param(
                "v0.0.0",
                "{func: Linger, name: p}, {func: Greet, name: q}",
                "Greet v0.0.0 would change too",
                id="another function supports it",
            ),
            pytest.param(
                "v0.2.0",
                "{func: Notify, name: p, args: {to: x}}",
                "Notify renames to in that version",
                id="an argument has another name",
            ),
            pytest.param(
                "v0.0.0",
                "{func: Linger, name: p}, {func: Bury, name: q}",
                "would change too",
                id="another one would get a deprecated version",
            ),
        ],
    )
    def test_stays_if_its_phases_need_different_versions(
        self, context: Context, version: str, phases: str, message: str
    ) -> None:
        before = ACTION_SET.format(version=version)
        blueprint = f"{HEAD}  go:\n    phases: [{phases}]\n"
        actions, _ = upgrade(context, before, blueprint)
        assert actions.after == before
        assert message in actions.left[0].message

    def test_stays_without_its_blueprint(self, context: Context) -> None:
        before = ACTION_SET.format(version="v0.1.0")
        (result,) = upgrade(context, before)
        assert (result.after, result.changes, result.left) == (before, (), ())
