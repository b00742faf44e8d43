"""Suites of expectations of renderings, for people and as JUnit for a CI."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kanister_py.cli.junit import Tested, junit_of
from kanister_py.cli.output import Tint, say
from kanister_py.core.compositions.dry_run import OutputSections, documents_of
from kanister_py.core.compositions.expectations import (
    Case,
    failures,
    golden_failures,
    parse_suite,
)
from kanister_py.core.compositions.masking import masked_secrets
from kanister_py.core.errors import KanisterError
from kanister_py.core.yaml.documents import dump_yaml

if TYPE_CHECKING:
    from kanister_py.cli.render_inputs import Inputs
    from kanister_py.cli.render_run import Renderer
    from kanister_py.core.compositions.dry_run import Rendered
    from kanister_py.core.compositions.messages import Data

# Where a case names files, and under which flag the command line takes the same.
_PATHS = {
    "observed": "observed_resources",
    "required": "required",
    "schemas": "required_schemas",
    "credentials": "function_credentials",
    "functions": "functions",
    "xrd": "xrd",
}
_SEVERAL = ("observed", "required")


def run_suites(args: argparse.Namespace) -> int:
    from kanister_py.cli.render_inputs import documents_at
    from kanister_py.cli.render_run import Renderer

    verdicts: list[Tested] = []
    with Renderer() as renderer:
        for path in args.suites:
            for document in documents_at(path):
                suite = parse_suite(document)
                folder = Path(path).parent if Path(path).is_file() else Path(path)
                for case in suite.cases:
                    began = time.perf_counter()
                    found = tuple(_failures(case, folder, args, renderer))
                    seconds = time.perf_counter() - began
                    verdicts.append(Tested(suite.name, case.name, seconds, found))
                    _say(verdicts[-1])
    failed = sum(1 for each in verdicts if each.failures)
    say(f"{len(verdicts) - failed} passed, {failed} failed")
    if args.junit is not None:
        args.junit.write_text(junit_of("kanister-py render", verdicts), encoding="utf-8")
    return 1 if failed else 0


def _say(verdict: Tested) -> None:
    mark = Tint("✗", "red") if verdict.failures else Tint("✓", "green")
    say([mark, f" {verdict.suite}: {verdict.name}  ({verdict.seconds * 1000:.0f} ms)"])
    for each in verdict.failures:
        say(f"    {each}")


def _failures(case: Case, folder: Path, args: argparse.Namespace, renderer: Renderer) -> list[str]:
    try:
        inputs = _inputs(case, folder, args)
        results = renderer.render(inputs).results
    except KanisterError as error:
        wanted = case.expect.get("error")
        if wanted is not None and str(wanted) in error.message:
            return []
        return [
            f"error: expected {'none' if wanted is None else repr(wanted)}, found {error.message!r}"
        ]
    found = [each for result in results for each in failures(case.expect, result)]
    if "golden" in case.expect and not found:
        found += _golden(folder / str(case.expect["golden"]), results, is_new=args.update)
    return found


def _golden(path: Path, results: list[Rendered], *, is_new: bool) -> list[str]:
    from kanister_py.cli.render_inputs import documents_at

    made: list[Data] = []
    for result in results:
        made += masked_secrets(documents_of(result, OutputSections(results=True, context=True)))
    if is_new:
        path.write_text("".join(f"---\n{dump_yaml(each)}" for each in made), encoding="utf-8")
        return []
    if not path.exists():
        return [f"golden: there is no {path}; --update writes it"]
    return list(golden_failures([each.value for each in documents_at(str(path))], made))


def _inputs(case: Case, folder: Path, args: argparse.Namespace) -> Inputs:
    """Read what a case names, as the command line would; objects may stand in it themselves."""
    from kanister_py.cli.render_inputs import read_inputs

    given = argparse.Namespace(**vars(args))
    for key, flag in _PATHS.items():
        value = case.inputs.get(key)
        if value is None:
            continue
        paths = [
            str(folder / str(each)) for each in (value if isinstance(value, list) else [value])
        ]
        setattr(given, flag, paths if key in _SEVERAL else paths[0])
    inline = {}
    for key in ("xr", "composition"):
        value = case.inputs[key]
        if isinstance(value, Mapping):
            inline[key] = dict(value)
        else:
            setattr(given, key, str(folder / str(value)))
    inputs = read_inputs(given, inline)
    context = case.inputs.get("context")
    return inputs._replace(context=dict(context)) if isinstance(context, Mapping) else inputs
