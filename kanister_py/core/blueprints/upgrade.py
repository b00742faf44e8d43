"""Upgrade of files: replace deprecated and removed versions without changing the meaning."""

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
from kanister_py.core.blueprints.lint.pipelines import (
    VersionRequest,
    packages_of,
    version_requests_of,
)
from kanister_py.core.blueprints.lint.reading import (
    UNREADABLE,
    Contents,
    Source,
    read_sources,
    text_of,
)
from kanister_py.core.blueprints.model import LocatedBlueprint, Phase
from kanister_py.core.blueprints.replacements import Replacement, replacement_of
from kanister_py.core.blueprints.splicing import Edit, NewKey, NewName, NewValue, apply_edits
from kanister_py.core.errors import KanisterError
from kanister_py.core.registry.choose import RequestedVersion, choose_version
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.registry.reference import differences, version_reference
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import is_range, parse_version
from kanister_py.core.yaml.documents import Path


class Change(NamedTuple):
    """Move of one phase, or of one preferredVersion of an ActionSet, to another version.

    `kept_defaults` are arguments that are written out with their old default because the default
    changes. `notes` describe other differences, which are not errors.
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
    def kept_default_notes(self) -> list[str]:
        """Explain which arguments were written out to keep their meaning."""
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
    """File before and after the upgrade, its changes, and findings that need the author."""

    file: str
    before: str
    after: str
    changes: tuple[Change, ...]
    left: tuple[Finding, ...]


class _PlannedChange(NamedTuple):
    """Change that should be made, with its place and edits."""

    spot: Spot
    change: Change
    edits: Sequence[Edit]


class _Plan(NamedTuple):
    """Planned changes of a file, and findings about changes that cannot be made."""

    context: Context
    keeps_meaning: bool
    changes: list[_PlannedChange]
    left: list[Finding]


def upgrade_sources(
    sources: Sequence[Source], context: Context, *, keep_meaning: bool = True
) -> list[Upgraded]:
    """Replace deprecated and removed versions; no other byte changes.

    With `keep_meaning`, an omitted argument whose default changes is written out with the old
    default. `left` holds the remaining lint findings about versions, and errors about the arguments
    of the new versions.
    """
    contents, blueprints = read_sources(sources)
    pipelines = [composed for file in contents.values() for composed in file.pipelines]
    packages = packages_of(pipelines, context.registry)
    results = []
    for source in sources:
        read = contents[source.file]
        if not read.documents:
            is_unreadable = any(finding.rule == UNREADABLE.id for finding in read.findings)
            text = "" if is_unreadable else text_of(source)
            results.append(Upgraded(source.file, text, text, (), tuple(read.findings)))
            continue
        plan = _Plan(context, keep_meaning, [], [])
        for located in read.blueprints:
            _plan_blueprint(located, plan)
        for action_set in (*read.action_sets, *read.templates):
            for preference in preferences_of(action_set, blueprints):
                _plan_preference(preference, plan)
        for pipeline in read.pipelines:
            for ask in version_requests_of(pipeline, packages, context.registry):
                _plan_ask(ask, plan)
        results.append(_upgraded(source, read, plan))
    return _with_leftovers(results, context)


def _upgraded(source: Source, contents: Contents, plan: _Plan) -> Upgraded:
    text = text_of(source)
    after, applied, failed = _apply_changes(text, contents, plan.changes)
    unread = [finding for finding in contents.findings if finding.severity is Severity.ERROR]
    left = [*unread, *plan.left]
    left += [_left(planned.spot, planned.change, _UNSAFE) for planned in failed]
    return Upgraded(
        source.file, text, after, tuple(planned.change for planned in applied), tuple(left)
    )


_UNSAFE: Final = "the value cannot be replaced without changing other places of the file"


def _apply_changes(
    text: str, contents: Contents, changes: Sequence[_PlannedChange]
) -> tuple[str, list[_PlannedChange], list[_PlannedChange]]:
    """Apply all changes at once or, if that is not safe, as many as possible one by one."""

    def attempt(changes: Iterable[_PlannedChange]) -> str | None:
        edits = [
            (planned.spot.manifest.document, edit) for planned in changes for edit in planned.edits
        ]
        return apply_edits(text, contents.documents, edits)

    result = attempt(changes)
    if result is not None:
        return result, list(changes), []
    applied: list[_PlannedChange] = []
    failed: list[_PlannedChange] = []
    best = text
    for planned in changes:
        trial = attempt([*applied, planned])
        if trial is None:
            failed.append(planned)
        else:
            applied.append(planned)
            best = trial
    return best, applied, failed


def _plan_blueprint(located: LocatedBlueprint, plan: _Plan) -> None:
    for name, action in located.blueprint.actions.items():
        for path, phase in action.every_phase():
            where = ("actions", name, *path)
            is_read = located.is_read(*where, "funcVersion") and located.is_read(*where, "args")
            if phase.func and is_read:
                spot = Spot(located.manifest, where, name, phase.name, phase.func)
                _plan_phase(spot, phase, plan)


class _Move(NamedTuple):
    """Request for a version that is deprecated or removed, with its replacement."""

    entry: FunctionEntry
    replacement: Replacement
    change: Change


def _move_of(
    where: Spot, requested: RequestedVersion, before: str, given: Collection[str], plan: _Plan
) -> _Move | None:
    """Find the move for a requested version, or None. `given` are the names of the arguments."""
    context = plan.context
    entry = _deprecated_entry(where.function, requested, context)
    if entry is None or is_range(requested.text):
        return None
    replacement = replacement_of(context.registry.family(where.function), entry, context.at)
    if replacement is None:
        return None
    renamed = {old: new for old, new in replacement.renamed_args.items() if old in given}
    change = _change(where, before, _format_version(replacement, before), renamed)
    clashes = [new for new in renamed.values() if new in given and new not in renamed]
    if clashes:
        why = f"{', '.join(clashes)} is already given under its new name"
        plan.left.append(_left(where, change, why))
        return None
    return _Move(entry, replacement, change)


def _plan_ask(ask: VersionRequest, plan: _Plan) -> None:
    """Plan the change of a version and of input fields in a Composition or a Function."""
    spot = ask.spot
    requested = RequestedVersion("" if ask.version == "latest" else ask.version)
    move = _move_of(spot, requested, ask.version, ask.input, plan)
    if move is None:
        return
    path, after = (*spot.manifest.path, *spot.path), move.change.after
    edits: list[Edit] = []
    if ask.is_own and not ask.text:
        edits.append(NewKey(path, "version", after))
    elif ask.is_own:
        head, colon, tail = ask.text.rpartition(ask.version)
        edits.append(NewValue(path, ask.text, f"{head}{after}{tail}" if colon else after))
    step = (*spot.manifest.path, *spot.path[:3])
    edits += _rename_edits(move, (*step, "input"))
    if edits:
        plan.changes.append(_PlannedChange(spot, move.change, edits))


def _rename_edits(move: _Move, base: Path) -> list[Edit]:
    return [NewName((*base, old), new) for old, new in move.change.renamed_args.items()]


def _plan_phase(spot: Spot, phase: Phase, plan: _Plan) -> None:
    where = spot.at("funcVersion" if phase.func_version else "func")
    before = phase.func_version
    move = _move_of(where, RequestedVersion(before), before, phase.args, plan)
    if move is None:
        return
    entry, replacement, change = move
    base = (*spot.manifest.path, *spot.path)
    edits: list[Edit] = [
        NewValue((*base, "funcVersion"), before, change.after)
        if before
        else NewKey((*base, "func"), "funcVersion", change.after)
    ]
    edits += _rename_edits(move, (*base, "args"))
    argument_names = {change.renamed_args.get(name, name) for name in phase.args}
    changed = _changed_defaults(entry, replacement, argument_names, plan.context)
    if plan.keeps_meaning:
        kept = {default.name: default.before for default in changed if default.before is not None}
        changed = [default for default in changed if default.before is None]
        edits += _insert_arguments(kept, phase, base)
        change = change._replace(kept_defaults=kept)
    notes = [default.message for default in changed]
    if entry.target is None and plan.context.load is not None:
        notes.append(f"The defaults that {entry.version} had are unknown")
    plan.changes.append(_PlannedChange(where, change._replace(notes=tuple(notes)), edits))


def _insert_arguments(kept: Mapping[str, Any], phase: Phase, base: Path) -> Iterator[Edit]:
    """Insert arguments before the first argument, or an `args` key before the function."""
    first = next(iter(phase.args), None)
    if first is None:
        if kept:
            yield NewKey((*base, "func"), "args", dict(kept))
        return
    for name, value in kept.items():
        yield NewKey((*base, "args", first), name, value)


class _ChangedDefault(NamedTuple):
    """Omitted argument whose default differs in the new version.

    `before` is the old default, or None if it cannot be written out.
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
        after.renamed_args.get(argument["name"], argument["name"]): argument.get("default")
        for argument in reference["arguments"]
    }
    return [
        _ChangedDefault(change["name"], defaults.get(change["name"]), change["message"])
        for change in changes
        if change["what"] == "default-changed" and change["name"] not in given
    ]


def _deprecated_entry(
    function: str, requested: RequestedVersion, context: Context
) -> FunctionEntry | None:
    """Find the version that a phase gets today, if that version is deprecated or removed."""
    if function not in context.registry:
        return None
    family = context.registry.family(function)
    try:
        if requested.text and not is_range(requested.text):
            # `choose_version` never returns a removed version, so look the version up.
            entry = family.by_identity.get(parse_version(requested.text))
        else:
            entry = choose_version(context.registry, function, requested, at=context.at).chosen
    except KanisterError:
        return None
    if entry is None:
        return None
    support = entry.support_at(context.at.get(entry.source.name))
    return entry if support in (Support.DEPRECATED, Support.REMOVED) else None


def _format_version(replacement: Replacement, before: str) -> str:
    """Format a version like the one it replaces: without a leading v if that had none."""
    version = replacement.entry.version
    return version.bare if before and not before.startswith("v") else str(version)


def _change(spot: Spot, before: str, after: str, renamed: Mapping[str, str]) -> Change:
    finding = spot.finding(versions.DEPRECATED, "")
    names = (spot.action, spot.phase, spot.function)
    return Change(finding.file, finding.line, finding.path, *names, before, after, renamed)


def _left(where: Spot, change: Change, why: str) -> Finding:
    return where.finding(
        versions.DEPRECATED,
        f"{change.function} {change.before} -> {change.after} was not changed: {why}",
        version=change.before,
        replacement=change.after,
    )


def _plan_preference(preference: Preference, plan: _Plan) -> None:
    spot, context = preference.spot, plan.context
    if is_range(preference.version):
        return
    affected = list(_affected_phases(preference, context))
    moved = [phase for phase in affected if phase.replacement is not None]
    if not moved:
        return
    first = moved[0].replacement
    assert first is not None  # checked in `moved`
    after = _format_version(first, preference.version)
    functions = ", ".join(dict.fromkeys(phase.function for phase in moved))
    where = spot._replace(function=functions)
    change = _change(where, preference.version, after, {})
    keeps = plan.keeps_meaning
    reasons = (phase.why_not(first, context, keep_meaning=keeps) for phase in affected)
    why = next(filter(None, reasons), "")
    if why:
        plan.left.append(_left(where, change, why))
        return
    path = (*spot.manifest.path, *spot.path)
    edit = NewValue(path, preference.version, after)
    notes = [note for phase in affected for note in phase.notes(context)]
    change = change._replace(notes=tuple(dict.fromkeys(notes)))
    plan.changes.append(_PlannedChange(where, change, [edit]))


class _AffectedPhase(NamedTuple):
    """Phase that a preferredVersion applies to, and its version.

    `entry` is None if the function has no such version and falls back.
    """

    spot: Spot
    phase: Phase
    entry: FunctionEntry | None
    replacement: Replacement | None

    @property
    def function(self) -> str:
        return self.phase.func

    def notes(self, context: Context) -> Iterator[str]:
        """Yield the differences of the version that this phase moves to."""
        if self.entry is not None and self.replacement is not None:
            argument_names = self.phase.args
            for default in _changed_defaults(self.entry, self.replacement, argument_names, context):
                yield f"{self.function}: {default.message}"

    def why_not(self, target: Replacement, context: Context, *, keep_meaning: bool) -> str:
        """Explain why this phase cannot take the version that another phase moves to."""
        version = target.entry.version
        if self.entry is None:
            exists = version in context.registry.family(self.function).by_identity
            return f"{self.function} falls back today and would get {version}" if exists else ""
        if self.replacement is None:
            return f"{self.function} {self.entry.version} would change too"
        if self.replacement.entry.version != version:
            return f"{self.function} moves to {self.replacement.entry.version}, not to {version}"
        renamed = [old for old in self.replacement.renamed_args if old in self.phase.args]
        if renamed:
            return (
                f"{self.function} renames {', '.join(renamed)} in that version; "
                "name the version in the Blueprint"
            )
        changed = [*self.notes(context)]
        if changed and keep_meaning:
            return f"{'; '.join(changed)}; name the version in the Blueprint"
        wrong = arguments.check_arguments(self.spot, self.phase, self.replacement.entry, context)
        problems = "; ".join(finding.message for finding in wrong)
        refuses = f"{self.function} {version} would refuse {self.phase.name}"
        return f"{refuses}: {problems}" if problems else ""


def _affected_phases(preference: Preference, context: Context) -> Iterator[_AffectedPhase]:
    requested = RequestedVersion(preference.version, "preferredVersion")
    for _path, phase in preference.action.every_phase() if preference.action else ():
        if phase.func_version or phase.func not in context.registry:
            continue
        family = context.registry.family(phase.func)
        try:
            entry = family.by_identity.get(parse_version(requested.text))
        except KanisterError:
            return
        moved = _deprecated_entry(phase.func, requested, context)
        replacement = replacement_of(family, moved, context.at) if moved else None
        yield _AffectedPhase(preference.spot, phase, entry, replacement)


def _with_leftovers(results: Sequence[Upgraded], context: Context) -> list[Upgraded]:
    """Add the lint findings about versions and about changed arguments that remain."""
    report = lint_sources([Source(result.file, result.after) for result in results], context)
    changed = [Source(result.file, result.before) for result in results if result.changes]
    previous_findings = lint_sources(changed, context).findings if changed else ()
    previous = Counter(map(_kind_of, previous_findings))
    current = Counter(map(_kind_of, report.findings))

    def is_of_changes(finding: Finding, changes: Sequence[Change]) -> bool:
        """Return whether an error is new, or concerns the arguments of changed phases."""
        if finding.severity is not Severity.ERROR or not changes:
            return False
        phases = tuple(f"{change.path.rpartition('.')[0]}." for change in changes)
        is_argument = finding.rule in _OF_ARGUMENTS and finding.path.startswith(phases)
        return is_argument or current[_kind_of(finding)] > previous[_kind_of(finding)]

    completed = []
    for result in results:
        reported = {finding.path for finding in result.left}
        left = [
            finding
            for finding in report.findings
            if finding.severity is not Severity.INFO
            and finding.file == result.file
            and finding.path not in reported
            and (finding.rule in _OF_VERSIONS or is_of_changes(finding, result.changes))
        ]
        completed.append(
            result._replace(left=tuple(in_order([*result.left, *left], [result.file])))
        )
    return completed


def _kind_of(finding: Finding) -> tuple[str, ...]:
    """Return a key of a finding without line and path, which an upgrade changes."""
    return finding.file, finding.rule, finding.action, finding.phase


_OF_VERSIONS = {rule.id for rule in versions.RULES}
_OF_ARGUMENTS = {rule.id for rule in arguments.OF_ARGUMENTS}
