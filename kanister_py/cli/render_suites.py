"""Test suites of renderings: cases with expected resources, with a JUnit report for CI."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kanister_py.cli.junit import TestResult, junit_of
from kanister_py.cli.output import Tint, say
from kanister_py.cli.render_inputs import Inputs, documents_at, read_inputs
from kanister_py.cli.render_run import Renderer
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
    from kanister_py.core.compositions.dry_run import Rendered
    from kanister_py.core.compositions.messages import Data

# Fields of a case that name files, and the flags with the same meaning.
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
    """Run the suites of `--assert`; return 1 if a case fails."""
    test_results: list[TestResult] = []
    with Renderer() as renderer:
        for path in args.suites:
            for document in documents_at(path):
                suite = parse_suite(document)
                folder = Path(path).parent if Path(path).is_file() else Path(path)
                for case in suite.cases:
                    start = time.perf_counter()
                    failed_checks = tuple(_failures(case, folder, args, renderer))
                    seconds = time.perf_counter() - start
                    result = TestResult(suite.name, case.name, seconds, failed_checks)
                    test_results.append(result)
                    _say(result)
    failed = sum(1 for result in test_results if result.failures)
    say(f"{len(test_results) - failed} passed, {failed} failed")
    if args.junit is not None:
        args.junit.write_text(junit_of("kanister-py render", test_results), encoding="utf-8")
    return 1 if failed else 0


def _say(result: TestResult) -> None:
    mark = Tint("✗", "red") if result.failures else Tint("✓", "green")
    say([mark, f" {result.suite}: {result.name}  ({result.seconds * 1000:.0f} ms)"])
    for failure in result.failures:
        say(f"    {failure}")


def _failures(case: Case, folder: Path, args: argparse.Namespace, renderer: Renderer) -> list[str]:
    try:
        inputs = _inputs(case, folder, args)
        results = renderer.render(inputs).results
    except KanisterError as error:
        expected_error = case.expect.get("error")
        if expected_error is not None and str(expected_error) in error.message:
            return []
        expected = "none" if expected_error is None else repr(expected_error)
        return [f"error: expected {expected}, found {error.message!r}"]
    failed_checks = [failure for result in results for failure in failures(case.expect, result)]
    if "golden" in case.expect and not failed_checks:
        failed_checks += _golden(folder / str(case.expect["golden"]), results, is_new=args.update)
    return failed_checks


def _golden(path: Path, results: list[Rendered], *, is_new: bool) -> list[str]:
    documents: list[Data] = []
    for result in results:
        documents += masked_secrets(
            documents_of(result, OutputSections(results=True, context=True))
        )
    if is_new:
        path.write_text(
            "".join(f"---\n{dump_yaml(document)}" for document in documents), encoding="utf-8"
        )
        return []
    if not path.exists():
        return [f"golden: {path} does not exist; --update writes it"]
    return list(
        golden_failures([document.value for document in documents_at(str(path))], documents)
    )


def _inputs(case: Case, folder: Path, args: argparse.Namespace) -> Inputs:
    """Read the inputs of a case: files, as flags name them, or inline objects."""
    case_args = argparse.Namespace(**vars(args))
    for key, flag in _PATHS.items():
        value = case.inputs.get(key)
        if value is None:
            continue
        paths = [
            str(folder / str(name)) for name in (value if isinstance(value, list) else [value])
        ]
        setattr(case_args, flag, paths if key in _SEVERAL else paths[0])
    inline = {}
    for key in ("xr", "composition"):
        value = case.inputs[key]
        if isinstance(value, Mapping):
            inline[key] = dict(value)
        else:
            setattr(case_args, key, str(folder / str(value)))
    inputs = read_inputs(case_args, inline)
    context = case.inputs.get("context")
    return inputs._replace(context=dict(context)) if isinstance(context, Mapping) else inputs
