"""Actions in hand: versions, code, templates and secrets of a run's actions, found once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from threading import Lock
from typing import Any, Final

from kanister_py.core.actionsets.course import ChosenVersions, Course, choose_versions
from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.rules import ExecutionMode
from kanister_py.core.actionsets.status import ActionStatus, PhaseError, Place, State, Status
from kanister_py.core.blueprints.plan import Obstacle
from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.registry.choose import Asked, Choice, asked_version, choose_version
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.retries import RetryRule, insist
from kanister_py.core.versions.semver import Version
from kanister_py.executor.foresee import ActionRefused
from kanister_py.executor.launch_action import (
    ActionWork,
    Choices,
    Launch,
    SecretBook,
    launch_action,
    look_at_action,
)
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.run_phase import leave, phase_error_of
from kanister_py.ports.function import Func, OnRestart

LAUNCH_RETRY: Final = RetryRule(limit=6, backoff_seconds=1.0, max_backoff_seconds=30.0)
"""How often, and after which waits, what an action needs to start is read again."""

_MOST_REFUSED: Final = 50
"""How many refused actions are brought together: no status holds more problems."""


_MOST_CHOICES: Final = 1024


class FunctionSource:
    """Source of functions: the registry, and the loader of their code.

    As long as a process lives, the same is chosen and loaded for the same question: what
    went well is remembered.
    """

    def __init__(
        self,
        registry: Registry[FunctionEntry],
        load: Callable[[FunctionEntry], type[Func]],
        is_strict: bool = False,
    ) -> None:
        self.registry: Final = registry
        self.choose: Final = lru_cache(_MOST_CHOICES)(self._choose)
        self.choose_again: Final = lru_cache(_MOST_CHOICES)(self._choose_again)
        self._load = load
        self._is_strict = is_strict
        self._loaded: dict[tuple[str, Version], type[Func]] = {}

    def _choose(self, function: str, func_version: str, preferred: str) -> Choice[FunctionEntry]:
        """Choose a version of a function of blueprints, or say why there is none."""
        return choose_version(
            self.registry,
            function,
            asked_version(func_version, preferred),
            strict=self._is_strict,
            kind=FunctionKind.BLUEPRINT,
        )

    def _choose_again(self, function: str, version: str) -> Choice[FunctionEntry]:
        """Give a version that a run has chosen, or say that it is not there any more."""
        return choose_version(self.registry, function, Asked(version, "this run"), strict=True)

    def load(self, entry: FunctionEntry) -> type[Func]:
        """Give the code of a version."""
        key = (entry.function, entry.version)
        code = self._loaded.get(key)
        if code is None:
            code = self._loaded[key] = self._load(entry)
        return code


class Actions:
    """Working sets of this process for the actions of a run. All can be found again."""

    def __init__(
        self, course: Course, functions: FunctionSource, surroundings: Surroundings
    ) -> None:
        self._course = course
        self._functions = functions
        self._surroundings = surroundings
        self._chosen: dict[int, ChosenVersions] = {}
        self._work: dict[int, ActionWork] = {}
        self._secrets: dict[int, SecretBook] = {}
        self._looking = Lock()

    def choose_versions(self, index: int) -> ChosenVersions:
        """Choose the version of every function of an action: once in a run, in every host."""
        chosen = choose_versions(self._functions.choose, self._course.actions[index])
        self._chosen[index] = chosen
        return chosen

    def work_of(
        self,
        index: int,
        status: ActionStatus,
        now: Callable[[], datetime],
        rest: Callable[[KanisterError, float], bool],
    ) -> ActionWork:
        """Give what is held for an action, found anew if there is nothing.

        What may pass by itself is waited for, a few times, for as long as `rest` wants it.
        """
        work = self._work.get(index)
        if work is None:
            time = status.start_time or now()

            def find() -> ActionWork:
                return launch_action(self._launch_of(index, status, time), index)

            work = self._work[index] = insist(find, LAUNCH_RETRY, rest)
        return work

    def _launch_of(self, index: int, status: ActionStatus, time: datetime) -> Launch:
        return Launch(
            self._course.actions[index],
            self._choices_of(index, status),
            self._functions.load,
            self._surroundings,
            time,
            status,
            self._secrets.setdefault(index, SecretBook()),
        )

    def refusal(
        self,
        refused: Mapping[int, KanisterError],
        status: Status,
        now: datetime,
        is_wanted: Callable[[], bool],
    ) -> tuple[int, ActionRefused] | None:
        """Give what all actions that wait to start are refused for, and the first of them.

        `refused` are those that are known already.
        """
        found = dict(refused)
        is_sequential = self._course.rules.mode is ExecutionMode.SEQUENTIAL
        # What one thread has brought together, no other needs to.
        with self._looking:
            for index, action in enumerate(status.actions):
                if len(found) >= _MOST_REFUSED or not is_wanted():
                    break
                if index in found or action.start_time is not None or action.completion_time:
                    continue
                if index not in self._chosen and status.state is State.PENDING:
                    self.choose_versions(index)
                try:
                    launch = self._launch_of(index, action, now)
                    look_at_action(launch, is_later=is_sequential and index > 0)
                except TransientError:
                    continue
                except KanisterError as error:
                    found[index] = error
        if not found:
            return None
        every = {
            each.message: each
            for index in sorted(found)
            for each in self._obstacles_of(index, found)
        }
        return min(found), ActionRefused([*every.values()])

    def _obstacles_of(self, index: int, found: Mapping[int, KanisterError]) -> Iterator[Obstacle]:
        """Give what an action is refused for; where there are others, each with its name."""
        error = found[index]
        name = self._course.actions[index].spec.name
        own = error.obstacles if isinstance(error, ActionRefused) else ()
        for each in own or [Obstacle(None, (), error.message, error.reason)]:
            is_placed = bool(each.path) or len(self._course.actions) == 1
            yield each if is_placed else each._replace(message=f"{name}: {each.message}")

    def _choices_of(self, index: int, status: ActionStatus) -> Choices:
        chosen = self._chosen.get(index)
        if chosen is not None:
            return chosen.choices
        known = [each.func_version for each in status.every_phase()]
        every = self._course.actions[index].action.every_phase()
        return [
            self._functions.choose_again(phase.func, version)
            for (_, phase), version in zip(every, known, strict=True)
        ]

    def mask(self, data: Any) -> Any:
        """Give plain data without any secret that one of the actions has come to know."""
        for book in list(self._secrets.values()):
            data = book.masker.mask_data(data)
        return data

    def error_of(self, error: KanisterError) -> PhaseError:
        """Give the error of actions outside their phases, without their secrets."""
        secrets = {each for book in list(self._secrets.values()) for each in book.texts}
        return phase_error_of(error, masker=Masker(secrets))

    def leave(self, place: Place, output: Mapping[str, Any] | None) -> None:
        """Let later templates see what a phase gave."""
        work = self._work.get(place.action)
        if work is not None:
            leave(work.params, work.phases[place.phase], output)

    def is_untouchable(self, place: Place) -> bool:
        """Say whether no other process could take up a phase that is left now."""
        work = self._work.get(place.action)
        return work is None or work.phases[place.phase].function.on_restart is OnRestart.FAIL
