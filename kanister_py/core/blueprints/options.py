"""Declared options of actions: their models, and the check of given options.

An action without declarations accepts every option. Values of options are text, as in Kanister;
`type` only restricts the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, Protocol

from pydantic import BeforeValidator, Field, model_validator

from kanister_py.core.errors import InvalidDocument, UsageError, did_you_mean
from kanister_py.core.models import ApiModel, Choice, Items, read_partly, refusal
from kanister_py.core.yaml.documents import Path, dump_yaml, kind_of, nearest, parse_document

OPTIONS_ANNOTATION: Final = "kanister-py.io/options"
"""Annotation of a Blueprint with the options of its actions, as YAML or JSON.

API servers with Kanister's CRDs remove the field `options` of an action, but keep annotations.
"""


class OptionType(StrEnum):
    """Type of the text of an option."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"


_PATTERNS: Final = {
    OptionType.STRING: re.compile(r".*", re.DOTALL),
    OptionType.INTEGER: re.compile(r"[+-]?[0-9]+"),
    OptionType.NUMBER: re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"),
    OptionType.BOOLEAN: re.compile(r"true|false"),
}
_EXPECTATIONS: Final = {
    OptionType.STRING: "text",
    OptionType.INTEGER: "an integer",
    OptionType.NUMBER: "a number",
    OptionType.BOOLEAN: "true or false",
}


class Option(ApiModel):
    """Declaration of an option of an action."""

    type: Choice[OptionType] = Field(
        OptionType.STRING, description="Type of the value. Templates get it as text."
    )
    enum: Items[str] = Field((), description="Values that the option may have; any if empty.")
    default: str | None = Field(
        None, description="Value, as text, that templates get if the option is not given."
    )
    required: bool = Field(False, description="Whether the option must be given.")
    description: str = Field("", description="Meaning of the option, for its users.")

    @model_validator(mode="after")
    def _check_values(self) -> Option:
        for index, value in enumerate(self.enum):
            if not self._has_type(value):
                raise refusal(
                    f"Must be {_EXPECTATIONS[self.type]}, found {value!r}", ("enum", index)
                )
        if self.default is not None:
            if self.required:
                raise refusal("Must be left out, because the option is required", ("default",))
            why = self.why_refused(self.default)
            if why:
                raise refusal(f"Must {why.removeprefix('must ')}", ("default",))
        return self

    def _has_type(self, text: str) -> bool:
        return _PATTERNS[self.type].fullmatch(text) is not None

    def why_refused(self, text: str) -> str:
        """Explain why the option cannot have this value; empty if it can."""
        if not self._has_type(text):
            return f"must be {_EXPECTATIONS[self.type]}, found {text!r}"
        if self.enum and text not in self.enum:
            hint = did_you_mean(nearest(text, self.enum))
            return f"must be one of {', '.join(self.enum)}, found {text!r}{hint}"
        return ""

    @property
    def summary(self) -> str:
        """One line for users: values, default and description."""
        facts = [f"one of {', '.join(self.enum)}" if self.enum else str(self.type)]
        if self.required:
            facts.append("required")
        if self.default is not None:
            facts.append(f"default: {self.default!r}")
        about = f": {self.description}" if self.description else ""
        return f"{'; '.join(facts)}{about}"


def _refuse_nulls(options: Any) -> Any:
    # API servers do not store a null, so that the option would be undeclared.
    for name, option in options.items() if isinstance(options, dict) else ():
        if option is None:
            raise refusal("Must be a map, such as {}, found null", (name,))
    return options


Options = Annotated[dict[str, Option], BeforeValidator(_refuse_nulls)]
"""Declared options by name."""


class HasOptions(Protocol):
    """Action with declared options."""

    @property
    def options(self) -> Mapping[str, Option]: ...


def defaults_of(action: HasOptions) -> dict[str, str]:
    """Return the defaults of the options that have one."""
    return {
        name: option.default
        for name, option in action.options.items()
        if option.default is not None
    }


def options_with_defaults(
    action: HasOptions, values: Mapping[str, str] | None
) -> Mapping[str, str] | None:
    """Return the options that templates of an action get."""
    defaults = defaults_of(action)
    return {**defaults, **(values or {})} if defaults else values


def declared_options(action: HasOptions, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the options of an earlier run that a follow-up action accepts."""
    return {
        name: text
        for name, text in inherited.items()
        if name in action.options or not action.options
    }


# Checks


class OptionProblem(NamedTuple):
    """Problem with an option. `is_missing` is set if the option is required and not given."""

    option: str
    message: str
    is_missing: bool = False


def option_problems(
    actions: Mapping[str, HasOptions], name: str, values: Mapping[str, str] | None
) -> Iterator[OptionProblem]:
    """Check the options for the action `name` of a Blueprint against its declarations.

    An ActionSet that is created from another one inherits the options of its action. Options that
    another action of the Blueprint declares are therefore accepted.
    """
    declared, values = actions[name].options, values or {}
    if not declared:
        return
    inherited = {option for action in actions.values() for option in action.options}
    for option, text in values.items():
        if option in declared:
            why = declared[option].why_refused(text)
            if why:
                yield OptionProblem(option, f"Option {option} of action {name} {why}")
        elif option not in inherited:
            hint = did_you_mean(nearest(option, [*declared]))
            hint = hint or f"; its options are {', '.join(declared)}"
            yield OptionProblem(option, f"Action {name} has no option {option}{hint}")
    for option, declaration in declared.items():
        if declaration.required and option not in values:
            about = f" ({declaration.description})" if declaration.description else ""
            message = f"Action {name} requires the option {option}{about}, but it is not given"
            yield OptionProblem(option, message, is_missing=True)


class OptionsInvalid(UsageError, reason="OptionInvalid"):
    """Options that contradict the declarations of an action."""


def check_options(
    actions: Mapping[str, HasOptions], name: str, values: Mapping[str, str] | None
) -> None:
    """Raise OptionsInvalid with all problems of the options for an action."""
    problems = list(option_problems(actions, name, values))
    if problems:
        raise OptionsInvalid("; ".join(problem.message for problem in problems))


def open_options(
    action: HasOptions, values: Mapping[str, str] | None
) -> dict[tuple[str, ...], str]:
    """Map the required options that are not given to the reason why their values are unknown."""
    return {
        ("Options", name): f'there is no "{name}" in .Options; it is required'
        for name, option in action.options.items()
        if option.required and name not in (values or {})
    }


def unused_options(values: Mapping[str, str] | None, reads: Collection[Path]) -> tuple[str, ...]:
    """Return the options that no template reads, usually because they are misspelt.

    `reads` are the names of the values that the templates of the action read.
    """
    if not values or ("Options",) in reads:
        return ()
    read_options = _options_in(reads)
    return tuple(option for option in values if option not in read_options)


def unused_option_messages(
    actions: Mapping[str, HasOptions],
    name: str,
    values: Mapping[str, str] | None,
    reads: Collection[Path],
) -> Iterator[tuple[str, str]]:
    """Yield the options that no template reads, each with a message.

    Options that `option_problems` reports are left out.
    """
    wrong = {problem.option for problem in option_problems(actions, name, values)}
    for option in unused_options(values, reads):
        if option not in wrong:
            known_names = sorted({*_options_in(reads), *actions[name].options} - {option})
            hint = did_you_mean(nearest(option, known_names))
            yield option, f"Option {option} is set, but action {name} does not use it{hint}"


def _options_in(reads: Iterable[Path]) -> set[str]:
    return {str(names[1]) for names in reads if names[0] == "Options" and names[1:]}


# The annotation


class _Declarations(ApiModel):
    options: Options = Field(default_factory=dict)


def read_annotation(text: str, actions: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Read the annotation with the options of actions; also return the problems found."""
    try:
        data = parse_document(text).value
    except InvalidDocument as error:
        return {}, [problem.message for problem in error.problems]
    if not isinstance(data, dict):
        return {}, [f"Must be a map of actions, found {kind_of(data)}"]
    declared: dict[str, Any] = {}
    problems: list[str] = []
    for name, options in data.items():
        if name not in actions:
            problems.append(f"There is no action {name}{did_you_mean(nearest(name, [*actions]))}")
            continue
        partial = read_partly(_Declarations, parse_document(dump_yaml({"options": options})))
        declared[name] = partial.value.options
        for path, problem in partial.problems.items():
            place = ".".join(map(str, (name, *path[1:])))
            problems.append(f"{place}: {problem.message}")
        for unknown in partial.unknown_keys:
            place = ".".join(map(str, (name, *unknown.path[1:-1])))
            problems.append(f"{place}: Unknown key {unknown.path[-1]!r}{unknown.suggestion}")
    return declared, problems
