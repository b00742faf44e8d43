"""Upgrade of files: everything in them asks for versions that will last, and means the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from json import dumps
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pydantic.alias_generators import to_camel

from kanister_py.core.blueprints.lint import arguments, versions
from kanister_py.core.blueprints.lint.action_sets import Preference, preferences_of
from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Severity, Spot, in_order
from kanister_py.core.blueprints.lint.pipelines import Ask, asks_of, packages_of
from kanister_py.core.blueprints.lint.reading import (
    UNREADABLE,
    Contents,
    Source,
    read_sources,
    text_of,
)
from kanister_py.core.blueprints.model import LocatedBlueprint, Phase
from kanister_py.core.blueprints.replacements import Replacement, replacement_of
from kanister_py.core.blueprints.splicing import Edit, NewKey, NewName, NewValue, spliced
from kanister_py.core.errors import KanisterError
from kanister_py.core.registry.choose import Asked, choose_version
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.registry.reference import differences, version_reference
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import is_range, parse_version
from kanister_py.core.yaml.documents import Path


class Change(NamedTuple):
    """One phase, or one preference of an ActionSet, that moves to another version.

    `kept_defaults` are the arguments that are written with the default they had, which
    is another one now. `notes` say what is different there without being wrong.
    """

    file: str
    line: int
    path: str
    action: str
    phase: str
    function: str
    before: str
    after: str
    renamed_args: Mapping[str, str]
    kept_defaults: Mapping[str, Any] = MappingProxyType({})
    notes: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.action}.{self.phase}" if self.phase else self.action

    @property
    def notes_of_kept(self) -> list[str]:
        """Say which arguments were written to keep what they meant."""
        return [
            f"{name} stays {dumps(value)}, which was its default; --no-keep-meaning leaves it out"
            for name, value in self.kept_defaults.items()
        ]

    def as_dict(self) -> dict[str, object]:
        data = {to_camel(key): value for key, value in self._asdict().items()}
        return data | {
            "renamedArgs": dict(self.renamed_args),
            "keptDefaults": dict(self.kept_defaults),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        renamed = "".join(f", {old} becomes {new}" for old, new in self.renamed_args.items())
        before = self.before or "no version"
        return (
            f"{self.file}:{self.line}: {self.where}: "
            f"{self.function} {before} -> {self.after}{renamed}"
        )


class Upgraded(NamedTuple):
    """A file before and after, what changed in it, and what is left for its author."""

    file: str
    before: str
    after: str
    changes: tuple[Change, ...]
    left: tuple[Finding, ...]


class _Wish(NamedTuple):
    """A change that should be made, where, and with which edits."""

    spot: Spot
    change: Change
    edits: Sequence[Edit]


class _Plan(NamedTuple):
    """Changes that a file should get, and findings about those that it cannot get."""

    context: Context
    keeps_meaning: bool
    wishes: list[_Wish]
    left: list[Finding]


def upgrade_sources(
    sources: Sequence[Source], context: Context, *, keep_meaning: bool = True
) -> list[Upgraded]:
    """Rewrite what asks for deprecated or removed versions; no other byte changes.

    An argument that is left out, and whose default changes, is written with the old
    default to `keep_meaning`. What is left is what lint still has to say about versions
    afterwards, and the errors that the new versions bring or have kept.
    """
    contents, blueprints = read_sources(sources)
    pipelines = [found for each in contents.values() for found in each.pipelines]
    packages = packages_of(pipelines, context.registry)
    results = []
    for source in sources:
        read = contents[source.file]
        if not read.documents:
            is_unreadable = any(each.rule == UNREADABLE.id for each in read.findings)
            text = "" if is_unreadable else text_of(source)
            results.append(Upgraded(source.file, text, text, (), tuple(read.findings)))
            continue
        plan = _Plan(context, keep_meaning, [], [])
        for located in read.blueprints:
            _plan_blueprint(located, plan)
        for found in (*read.action_sets, *read.templates):
            for preference in preferences_of(found, blueprints):
                _plan_preference(preference, plan)
        for found in read.pipelines:
            for ask in asks_of(found, packages, context.registry):
                _plan_ask(ask, plan)
        results.append(_upgraded(source, read, plan))
    return _with_leftovers(results, context)


def _upgraded(source: Source, contents: Contents, plan: _Plan) -> Upgraded:
    text = text_of(source)
    after, made, failed = _carry_out(text, contents, plan.wishes)
    unread = [each for each in contents.findings if each.severity is Severity.ERROR]
    left = [*unread, *plan.left, *(_left(each.spot, each.change, _UNSAFE) for each in failed)]
    return Upgraded(source.file, text, after, tuple(each.change for each in made), tuple(left))


_UNSAFE: Final = (
    "written so that other places would change with it, or in a way that cannot be spliced"
)


def _carry_out(
    text: str, contents: Contents, wishes: Sequence[_Wish]
) -> tuple[str, list[_Wish], list[_Wish]]:
    """Make all changes at once; where that is not safe, as many as are safe one after another."""

    def attempt(wishes: Iterable[_Wish]) -> str | None:
        edits = [(each.spot.found.document, edit) for each in wishes for edit in each.edits]
        return spliced(text, contents.documents, edits)

    result = attempt(wishes)
    if result is not None:
        return result, list(wishes), []
    made: list[_Wish] = []
    failed: list[_Wish] = []
    best = text
    for wish in wishes:
        trial = attempt([*made, wish])
        if trial is None:
            failed.append(wish)
        else:
            made.append(wish)
            best = trial
    return best, made, failed


def _plan_blueprint(located: LocatedBlueprint, plan: _Plan) -> None:
    for name, action in located.blueprint.actions.items():
        for path, phase in action.every_phase():
            where = ("actions", name, *path)
            is_read = located.is_read(*where, "funcVersion") and located.is_read(*where, "args")
            if phase.func and is_read:
                spot = Spot(located.found, where, name, phase.name, phase.func)
                _plan_phase(spot, phase, plan)


class _Move(NamedTuple):
    """A place that asks for a version which ends, and what replaces that."""

    entry: FunctionEntry
    replacement: Replacement
    change: Change


def _move_of(
    where: Spot, asked: Asked, before: str, given: Collection[str], plan: _Plan
) -> _Move | None:
    """Find what a place moves to, if it does; `given` are the arguments that stand there."""
    context = plan.context
    entry = _ending_entry(where.function, asked, context)
    if entry is None or is_range(asked.text):
        return None
    replacement = replacement_of(context.registry.family(where.function), entry, context.at)
    if replacement is None:
        return None
    renamed = {old: new for old, new in replacement.renamed_args.items() if old in given}
    change = _change(where, before, _spelled(replacement, before), renamed)
    clashes = [new for new in renamed.values() if new in given and new not in renamed]
    if clashes:
        why = f"{', '.join(clashes)} is given already, under its new name"
        plan.left.append(_left(where, change, why))
        return None
    return _Move(entry, replacement, change)


def _plan_ask(ask: Ask, plan: _Plan) -> None:
    """Plan what a Composition or a Function asks for: a version, and the fields of an input."""
    spot = ask.spot
    asked = Asked("" if ask.version == "latest" else ask.version)
    move = _move_of(spot, asked, ask.version, ask.input, plan)
    if move is None:
        return
    path, after = (*spot.found.path, *spot.path), move.change.after
    edits: list[Edit] = []
    if ask.is_own and not ask.text:
        edits.append(NewKey(path, "version", after))
    elif ask.is_own:
        head, colon, tail = ask.text.rpartition(ask.version)
        edits.append(NewValue(path, ask.text, f"{head}{after}{tail}" if colon else after))
    step = (*spot.found.path, *spot.path[:3])
    edits += _renames(move, (*step, "input"))
    if edits:
        plan.wishes.append(_Wish(spot, move.change, edits))


def _renames(move: _Move, base: Path) -> list[Edit]:
    return [NewName((*base, old), new) for old, new in move.change.renamed_args.items()]


def _plan_phase(spot: Spot, phase: Phase, plan: _Plan) -> None:
    where = spot.at("funcVersion" if phase.func_version else "func")
    before = phase.func_version
    move = _move_of(where, Asked(before), before, phase.args, plan)
    if move is None:
        return
    entry, replacement, change = move
    base = (*spot.found.path, *spot.path)
    edits: list[Edit] = [
        NewValue((*base, "funcVersion"), before, change.after)
        if before
        else NewKey((*base, "func"), "funcVersion", change.after)
    ]
    edits += _renames(move, (*base, "args"))
    given = {change.renamed_args.get(each, each) for each in phase.args}
    changed = _changed_defaults(entry, replacement, given, plan.context)
    if plan.keeps_meaning:
        kept = {each.name: each.before for each in changed if each.before is not None}
        changed = [each for each in changed if each.before is None]
        edits += _written(kept, phase, base)
        change = change._replace(kept_defaults=kept)
    notes = [each.message for each in changed]
    if entry.target is None and plan.context.load is not None:
        notes.append(f"The defaults that {entry.version} had are not known any more")
    plan.wishes.append(_Wish(where, change._replace(notes=tuple(notes)), edits))


def _written(kept: Mapping[str, Any], phase: Phase, base: Path) -> Iterator[Edit]:
    """Write arguments beside those that are there; without any, beside the function."""
    first = next(iter(phase.args), None)
    if first is None:
        if kept:
            yield NewKey((*base, "func"), "args", dict(kept))
        return
    for name, value in kept.items():
        yield NewKey((*base, "args", first), name, value)


class _ChangedDefault(NamedTuple):
    """An argument that is left out and means something else in the new version.

    `before` is what it was, None where that cannot be written.
    """

    name: str
    before: Any
    message: str


def _changed_defaults(
    before: FunctionEntry, after: Replacement, given: Collection[str], context: Context
) -> list[_ChangedDefault]:
    old, new = context.code(before), context.code(after.entry)
    if old is None or new is None:
        return []
    reference = version_reference(before, old)
    changes = differences(reference, version_reference(after.entry, new), after.renamed_args)
    defaults = {
        after.renamed_args.get(each["name"], each["name"]): each.get("default")
        for each in reference["arguments"]
    }
    return [
        _ChangedDefault(each["name"], defaults.get(each["name"]), each["message"])
        for each in changes
        if each["what"] == "default-changed" and each["name"] not in given
    ]


def _ending_entry(function: str, asked: Asked, context: Context) -> FunctionEntry | None:
    """Find the version that a phase gets today if it is deprecated or removed."""
    if function not in context.registry:
        return None
    family = context.registry.family(function)
    try:
        if asked.text and not is_range(asked.text):
            # Not by choosing: a removed version is never chosen.
            entry = family.by_identity.get(parse_version(asked.text))
        else:
            entry = choose_version(context.registry, function, asked, at=context.at).chosen
    except KanisterError:
        return None
    if entry is None:
        return None
    support = entry.support_at(context.at.get(entry.source.name))
    return entry if support in (Support.DEPRECATED, Support.REMOVED) else None


def _spelled(replacement: Replacement, before: str) -> str:
    """Write a version as its user does: without a leading v where there was none."""
    version = replacement.entry.version
    return version.bare if before and not before.startswith("v") else str(version)


def _change(where: Spot, before: str, after: str, renamed: Mapping[str, str]) -> Change:
    probe = where.finding(versions.DEPRECATED, "")
    its = (where.action, where.phase, where.function)
    return Change(probe.file, probe.line, probe.path, *its, before, after, renamed)


def _left(where: Spot, change: Change, why: str) -> Finding:
    return where.finding(
        versions.DEPRECATED,
        f"{change.function} {change.before} -> {change.after} is left to you: {why}",
        version=change.before,
        replacement=change.after,
    )


def _plan_preference(preference: Preference, plan: _Plan) -> None:
    spot, context = preference.spot, plan.context
    if is_range(preference.version):
        return
    reached = list(_reached(preference, context))
    ending = [each for each in reached if each.replacement is not None]
    if not ending:
        return
    first = ending[0].replacement
    assert first is not None  # by the choice of `ending`
    after = _spelled(first, preference.version)
    functions = ", ".join(dict.fromkeys(each.function for each in ending))
    where = spot._replace(function=functions)
    change = _change(where, preference.version, after, {})
    keeps = plan.keeps_meaning
    reasons = (each.why_not(first, context, keep_meaning=keeps) for each in reached)
    why = next(filter(None, reasons), "")
    if why:
        plan.left.append(_left(where, change, why))
        return
    path = (*spot.found.path, *spot.path)
    edit = NewValue(path, preference.version, after)
    notes = [note for each in reached for note in each.notes(context)]
    change = change._replace(notes=tuple(dict.fromkeys(notes)))
    plan.wishes.append(_Wish(where, change, [edit]))


class _Reached(NamedTuple):
    """A phase that a preferred version reaches, and what it gets by it.

    `entry` is None where the function has no such version, and falls back.
    """

    spot: Spot
    called: Phase
    entry: FunctionEntry | None
    replacement: Replacement | None

    @property
    def function(self) -> str:
        return self.called.func

    def notes(self, context: Context) -> Iterator[str]:
        """Say what is different in the version that this phase moves to."""
        if self.entry is not None and self.replacement is not None:
            given = self.called.args
            for each in _changed_defaults(self.entry, self.replacement, given, context):
                yield f"{self.function}: {each.message}"

    def why_not(self, wanted: Replacement, context: Context, *, keep_meaning: bool) -> str:
        """Say why this phase could not take the version that another one moves to."""
        version = wanted.entry.version
        if self.entry is None:
            known = version in context.registry.family(self.function).by_identity
            return f"{self.function} falls back now, and would get {version}" if known else ""
        if self.replacement is None:
            return f"{self.function} {self.entry.version} would change too"
        if self.replacement.entry.version != version:
            return f"{self.function} moves to {self.replacement.entry.version}, not to {version}"
        renamed = [old for old in self.replacement.renamed_args if old in self.called.args]
        if renamed:
            return (
                f"{self.function} knows {', '.join(renamed)} under another name then; "
                "name the version in the Blueprint"
            )
        changed = [*self.notes(context)]
        if changed and keep_meaning:
            return f"{'; '.join(changed)}; name the version in the Blueprint"
        wrong = arguments.check_arguments(self.spot, self.called, self.replacement.entry, context)
        problems = "; ".join(each.message for each in wrong)
        refuses = f"{self.function} {version} would refuse {self.called.name}"
        return f"{refuses}: {problems}" if problems else ""


def _reached(preference: Preference, context: Context) -> Iterator[_Reached]:
    asked = Asked(preference.version, "preferredVersion")
    for _path, phase in preference.action.every_phase() if preference.action else ():
        if phase.func_version or phase.func not in context.registry:
            continue
        family = context.registry.family(phase.func)
        try:
            entry = family.by_identity.get(parse_version(asked.text))
        except KanisterError:
            return
        ending = _ending_entry(phase.func, asked, context)
        found = replacement_of(family, ending, context.at) if ending else None
        yield _Reached(preference.spot, phase, entry, found)


def _with_leftovers(results: Sequence[Upgraded], context: Context) -> list[Upgraded]:
    """Add what lint still finds of versions and of what changed, each place once."""
    report = lint_sources([Source(each.file, each.after) for each in results], context)
    changed = [Source(each.file, each.before) for each in results if each.changes]
    known = Counter(map(_kind_of, lint_sources(changed, context).findings if changed else ()))
    now = Counter(map(_kind_of, report.findings))

    def is_of_changes(finding: Finding, changes: Sequence[Change]) -> bool:
        """Say whether an error came with the new versions, or is about their arguments."""
        if finding.severity is not Severity.ERROR or not changes:
            return False
        phases = tuple(f"{each.path.rpartition('.')[0]}." for each in changes)
        is_argument = finding.rule in _OF_ARGUMENTS and finding.path.startswith(phases)
        return is_argument or now[_kind_of(finding)] > known[_kind_of(finding)]

    whole = []
    for result in results:
        reported = {each.path for each in result.left}
        left = [
            each
            for each in report.findings
            if each.severity is not Severity.INFO
            and each.file == result.file
            and each.path not in reported
            and (each.rule in _OF_VERSIONS or is_of_changes(each, result.changes))
        ]
        whole.append(result._replace(left=tuple(in_order([*result.left, *left], [result.file]))))
    return whole


def _kind_of(finding: Finding) -> tuple[str, ...]:
    """Tell findings apart without their lines and paths, which an upgrade moves."""
    return finding.file, finding.rule, finding.action, finding.phase


_OF_VERSIONS = {rule.id for rule in versions.RULES}
_OF_ARGUMENTS = {rule.id for rule in arguments.OF_ARGUMENTS}
