"""Generator of the reference pages.

    python -m tests.docs.generate

`docs/functions.md` comes from `kanister-py functions describe --all -o markdown`, the other pages
from the tables named here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

import yaml

from kanister_py.cli.main import COMMANDS, PROGRAM, module_of
from kanister_py.cli.parser import Parser
from kanister_py.core.blueprints.lint.check import rules
from kanister_py.core.reasons.table import GROUPS
from kanister_py.core.templates.descriptions import DESCRIPTIONS
from kanister_py.core.templates.param_types import CONFIG_MAP, SECRET, TEMPLATE_PARAMS
from kanister_py.gotemplate.sprig import BLUEPRINT_FUNCTIONS
from kanister_py.gotemplate.types import GoType, Kind

REPOSITORY: Final = Path(__file__).parents[2]
DOCS: Final = REPOSITORY / "docs"
CHART: Final = REPOSITORY / "deploy" / "chart"


def _page(title: str, introduction: str, lines: Iterator[str]) -> str:
    return "\n".join([f"# {title}", "", introduction, "", *lines]).rstrip("\n") + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _table(*headings: str) -> list[str]:
    return [_row(*headings), _row(*("---" for _ in headings))]


# Troubleshooting


def troubleshooting_page() -> str:
    return _page(
        "Troubleshooting",
        "Errors, conditions and events have a reason in CamelCase, which stays the same across\n"
        "releases. This page lists the meaning of each reason and the fix.",
        _reason_sections(),
    )


def _reason_sections() -> Iterator[str]:
    for group in GROUPS:
        yield from (f"## {group.heading}", "", group.introduction, "")
        yield from _table("Reason", "Meaning", "Fix")
        for reason in sorted(group.reasons):
            yield _row(f"`{reason.name}`", reason.meaning, reason.fix)
        yield ""


# Commands


def command_page() -> str:
    return _page(
        "Commands",
        "Every command with its arguments, as `--help` shows them. Data goes to stdout,\n"
        "everything else to stderr. Exit codes: 0 success, 1 failure, 64 an invalid command line,\n"
        "130 cancelled; commands with further codes name them below.",
        _command_sections(),
    )


def parsers() -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of each command and verb, with all their flags."""
    for command in COMMANDS:
        parser = Parser(prog=f"{PROGRAM} {command}", environment={})
        module = module_of(command)
        parser.description = module.__doc__
        module.add_arguments(parser)
        yield from _with_verbs(parser)


def _with_verbs(parser: Parser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            # An alias leads to the same parser under a second name.
            for verb in {id(verb): verb for verb in action.choices.values()}.values():
                yield from _with_verbs(verb.load())


def _command_sections() -> Iterator[str]:
    for parser in parsers():
        depth = "#" * min(len(parser.prog.split()), 3)
        description = (parser.description or "").strip()
        yield from (f"{depth} {parser.prog}", "", "```text", description, "```", "")
        rows = [_flag_row(action) for action in parser._actions if _is_shown(action)]
        if rows:
            yield from (*_table("Argument", "Description"), *rows, "")


def _is_shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and action.dest not in ("help", "verb")


def _flag_row(action: argparse.Action) -> str:
    choices = "|".join(str(choice) for choice in action.choices or ())
    metavar = action.metavar if isinstance(action.metavar, str) else choices or action.dest.upper()
    if not action.option_strings:
        names = f"`{metavar if action.metavar else action.dest.upper()}`"
    else:
        value = "" if action.nargs == 0 else f" {metavar}"
        names = ", ".join(f"`{name}`" for name in action.option_strings[:-1])
        names = f"{names}{', ' if names else ''}`{action.option_strings[-1]}{value}`"
    words = " ".join((action.help or "").split()) % {"default": action.default, "prog": ""}
    return _row(names, words[:1].upper() + words[1:])


# Rules of lint


def lint_page() -> str:
    return _page(
        "Rules of lint",
        "The rules that `kanister-py lint` checks. A comment `# kanister-py: ignore=RULE` on\n"
        "the line or on the line above silences a rule; `--ignore RULE` does so for all files.",
        chain.from_iterable(
            (
                f"## {rule.id}",
                "",
                f"*{rule.severity.value}*: {rule.summary}",
                "",
                rule.explanation,
                "",
            )
            for rule in rules().values()
        ),
    )


# Values of templates


def template_page() -> str:
    return _page(
        "Template values and functions",
        "Go templates in blueprints read these values, as in Kanister. Types are Go's. `NAME` is\n"
        "any key of a map. Jinja2 templates read the same values without the leading dot.",
        chain(_value_rows(), _object_sections(), _function_list()),
    )


def value_types() -> Mapping[str, GoType]:
    """Return the type of every value below `.`, by its path."""
    return dict(_paths("", TEMPLATE_PARAMS))


def _paths(path: str, go_type: GoType) -> Iterator[tuple[str, GoType]]:
    if path:
        yield path, go_type
    target = go_type.elem if go_type.kind is Kind.POINTER and go_type.elem else go_type
    if target in (SECRET, CONFIG_MAP):
        return
    if target.kind is Kind.STRUCT:
        for field in target.fields.values():
            yield from _paths(f"{path}.{field.name}", field.type)
    elif target.elem and target.elem.kind in (Kind.MAP, Kind.POINTER, Kind.STRUCT):
        yield from _paths(f"{path}.NAME", target.elem)


def _value_rows() -> Iterator[str]:
    yield from ("## Values", "")
    yield from _table("Value", "Type", "Description")
    for path, go_type in value_types().items():
        if path in DESCRIPTIONS:
            yield _row(f"`{path}`", f"`{go_type}`", DESCRIPTIONS[path])
    yield ""


def _object_sections() -> Iterator[str]:
    for heading, go_type in (("Fields of a Secret", SECRET), ("Fields of a ConfigMap", CONFIG_MAP)):
        yield from (f"## {heading}", "")
        yield from _table("Field", "Type")
        for field in go_type.fields.values():
            inner = field.type.fields.values() if field.embedded else (field,)
            for part in inner:
                yield _row(f"`.{part.name}`", f"`{part.type}`")
        yield ""


def _function_list() -> Iterator[str]:
    names = " ".join(f"`{name}`" for name in sorted(BLUEPRINT_FUNCTIONS))
    yield from (
        "## Functions",
        "",
        "Go's built-in functions and sprig 2.22, as in Kanister. The documentation of",
        "sprig describes each.",
        "",
        names,
    )


# Values of the chart


def chart_page() -> str:
    return _page(
        "Values of the chart",
        "All values of `deploy/chart`, from `values.schema.json`, which Helm checks. Defaults are\n"
        "from `values.yaml`.",
        _chart_rows(),
    )


def _chart_rows() -> Iterator[str]:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    yield from _table("Value", "Type", "Default", "Description")
    for path, part in chart_values():
        default: Any = defaults
        for key in path:
            default = default.get(key) if isinstance(default, dict) else None
        shown = "" if default is None else f"`{json.dumps(default)}`"
        yield _row(f"`{'.'.join(path)}`", _type_of(part), shown, part["description"])


def chart_values() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value of the chart: its path and its schema."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    yield from _chart_values(schema, ())


def _chart_values(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, part in schema["properties"].items():
        if part.get("properties"):
            yield from _chart_values(part, (*path, key))
        else:
            yield (*path, key), part


def _type_of(part: Mapping[str, Any]) -> str:
    if "enum" in part:
        return " or ".join(
            "empty"
            if value == ""
            else f"`{value if isinstance(value, str) else json.dumps(value)}`"
            for value in part["enum"]
        )
    kinds = part.get("type", "any")
    kind = " or ".join(kinds) if isinstance(kinds, list) else kinds
    return f"list of {part['items'].get('type', 'any')}" if kind == "array" else kind


def function_page() -> str:
    command = [sys.executable, "-m", "kanister_py", "functions", "describe", "--all"]
    done = subprocess.run(
        [*command, "-o", "markdown"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return done.stdout


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "chart.md": chart_page,
    "commands.md": command_page,
    "functions.md": function_page,
    "lint-rules.md": lint_page,
    "templates.md": template_page,
    "troubleshooting.md": troubleshooting_page,
}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
