"""Call a composition function with requests, and compare its responses.

kanister-py functions test function-auto-ready request.json
kanister-py functions test acme.functions:Bucket tests/cases --junit report.xml
kanister-py functions test tests/cases/ --update -- ./bucket.sh
kanister-py functions test localhost:9443 request.json --insecure

With a request as JSON or YAML, the response is printed. With a folder, all cases below it are
run: a case is a folder with request.yaml, and with response.yaml, the complete response, or
assert.yaml, a list of checks:

  - {path: desired.resources.bucket.resource.spec.region, equals: eu}
  - {path: desired.resources.old, exists: false}
  - {path: "results[0].message", contains: quota}

--update writes the responses as the expected ones. Exits with 1 if a case fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any, TypeAlias

from kanister_py.cli.files import refusal
from kanister_py.cli.function_targets import target_of
from kanister_py.cli.junit import TestResult, junit_of
from kanister_py.cli.output import Tint, put, say, write_data
from kanister_py.cli.parser import CommandLineError, switch
from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.field_paths import parse_field_path
from kanister_py.core.yaml.documents import dump_yaml, parse_document
from kanister_py.core.yaml.go_yaml import dump_go_yaml
from kanister_py.executor.wire_messages import REQUEST, RESPONSE

_REQUEST, _RESPONSE, _ASSERT = "request", "response", "assert"
_SUFFIXES = (".yaml", ".yml", ".json")
_CHECKS = ("equals", "contains", "exists")

_Call: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="TARGET PATH",
        nargs="+",
        help="function (an installed one, module:Class, module:Class@v0.1.0 or host:port; instead, "
        "a program may come after --), and a request or a folder of cases",
    )
    parser.add_argument(
        "-o", "--output", choices=("json", "yaml"), default="json", help="default: %(default)s"
    )
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="write a JUnit report of the cases"
    )
    switch(parser, "--update", help="write responses to response.yaml")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="default: %(default)g"
    )
    switch(parser, "--debug", help="print the whole traceback of an exception in the function")
    switch(parser, "--insecure", help="call an address without TLS")
    parser.add_argument(
        "--tls-certs-dir",
        type=Path,
        metavar="DIR",
        help="folder with tls.crt, tls.key and ca.crt of a client",
    )


def run(args: argparse.Namespace) -> int:
    if args.debug:
        from kanister_py.controller.machine.logs import set_up_logging

        set_up_logging("text", sys.stderr, "debug")
    call, path = _caller(args)
    if path.is_dir():
        return _run_cases(call, path, args)
    if args.junit or args.update:
        raise CommandLineError("--junit and --update need a folder of cases")
    write_data(call(_read_request(path)), args.output)
    return 0


def _caller(args: argparse.Namespace) -> tuple[_Call, Path]:
    *names, last = args.words
    if len(names) > 1 or (not names and not args.command):
        raise CommandLineError(
            "Name a function and a path, such as function-auto-ready request.json"
        )
    target = target_of(names[0] if names else "", args.command)
    if target.is_remote and not args.insecure and args.tls_certs_dir is None:
        raise CommandLineError(
            f"To call {target.title}, use --tls-certs-dir, or --insecure for no TLS"
        )
    from kanister_py.ports.function_runner import FunctionCall
    from kanister_py.wiring import function_runner, read_functions

    runner = function_runner(
        read_functions().registry, None if args.insecure else args.tls_certs_dir
    )

    def call(request: Mapping[str, Any]) -> dict[str, Any]:
        message = FunctionRequest.from_data(request)
        return runner.run(FunctionCall("", target.revision, message, args.timeout)).as_data()

    return call, Path(last)


def _read_request(path: Path) -> dict[str, Any]:
    from kanister_py.proto.encoding import NotEncodable, check_message

    try:
        return check_message(REQUEST, _read(path))
    except NotEncodable as error:
        raise refusal(path, error.why, error.path, "InvalidRequest") from None


def _read(path: Path) -> Any:
    return parse_document(path.read_bytes(), str(path)).value


def _run_cases(call: _Call, folder: Path, args: argparse.Namespace) -> int:
    requests = folder.rglob(f"{_REQUEST}.*")
    cases = sorted({path.parent for path in requests if path.suffix in _SUFFIXES})
    if not cases:
        raise refusal(folder, "contains no cases, which are folders with request.yaml")
    test_results = []
    for case in cases:
        start = time.perf_counter()
        failures, note = _outcome(call, case, update=args.update)
        seconds = time.perf_counter() - start
        result = TestResult("", str(case.relative_to(folder)), seconds, failures)
        test_results.append(result)
        _show(result, note)
    failed = sum(bool(result.failures) for result in test_results)
    say(f"{len(test_results) - failed} of {len(test_results)} cases passed")
    if args.junit:
        args.junit.write_text(junit_of("composition function", test_results), encoding="utf-8")
    return 1 if failed else 0


def _file(case: Path, stem: str) -> Path | None:
    return next(
        (case / f"{stem}{suffix}" for suffix in _SUFFIXES if (case / f"{stem}{suffix}").is_file()),
        None,
    )


def _show(result: TestResult, note: str) -> None:
    mark = Tint("FAIL", "red") if result.failures else Tint("ok  ", "green")
    put([mark, f" {result.name}{f' ({note})' if note else ''}"])
    for line in result.failures:
        put(f"       {line}")


def _outcome(call: _Call, case: Path, *, update: bool) -> tuple[list[str], str]:
    """Run a case. Returns the lines that describe its failure, and a note about a written file."""
    request, expected, asserted = (_file(case, name) for name in (_REQUEST, _RESPONSE, _ASSERT))
    assert request is not None  # Cases are found by their request.
    try:
        response = call(_read_request(request))
        if asserted is not None:
            failures = list(_failed_checks(response, _read(asserted), str(asserted)))
            if failures:
                return failures, ""
        if update and (expected is not None or asserted is None):
            return [], _updated(expected or case / f"{_RESPONSE}.yaml", response)
        if expected is not None:
            return _difference(_expected(expected), response), ""
    except KanisterError as error:
        return error.message.splitlines(), ""
    if asserted is None:
        return [f"There is neither {_RESPONSE}.yaml nor {_ASSERT}.yaml; --update writes one"], ""
    return [], ""


def _updated(path: Path, response: Mapping[str, Any]) -> str:
    is_json = path.suffix == ".json"
    text = (
        f"{json.dumps(response, indent=2, ensure_ascii=False)}\n"
        if is_json
        else dump_yaml(response)
    )
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return ""
    path.write_text(text, encoding="utf-8")
    return f"{path.name} written"


def _expected(path: Path) -> dict[str, Any]:
    """Read a response, and normalize it: default values are left out."""
    from kanister_py.proto.encoding import NotEncodable, check_message

    try:
        return FunctionResponse.from_data(check_message(RESPONSE, _read(path))).as_data()
    except NotEncodable as error:
        raise refusal(path, error.why, error.path, "InvalidResponse") from None


def _difference(expected: Any, actual: Any) -> list[str]:
    if expected == actual:
        return []

    old, new = (dump_go_yaml(response).splitlines() for response in (expected, actual))
    return list(unified_diff(old, new, "expected", "found", n=2, lineterm=""))


def _failed_checks(response: Mapping[str, Any], checks: Any, file: str) -> Iterator[str]:
    if not isinstance(checks, list):
        raise refusal(file, "must be a list of checks")
    for index, check in enumerate(checks):
        kinds = [kind for kind in _CHECKS if isinstance(check, Mapping) and kind in check]
        if len(kinds) != 1 or len(check) != 2 or not isinstance(check.get("path"), str):
            problem = f"must have path, and one of {', '.join(_CHECKS)}; found {check!r}"
            raise refusal(file, problem, f"[{index}]")
        kind, path = kinds[0], check["path"]
        actual, expected = _value_at(path, response), check[kind]
        if kind == "exists":
            if (actual is not _MISSING) is not expected:
                yield f"{path}: {'exists' if actual is not _MISSING else 'does not exist'}"
        elif actual is _MISSING:
            yield f"{path}: does not exist"
        elif kind == "equals" and actual != expected:
            yield f"{path}: expected {_short(expected)}, found {_short(actual)}"
        elif kind == "contains" and not _contains(actual, expected):
            yield f"{path}: {_short(actual)} does not contain {_short(expected)}"


_MISSING = object()


def _value_at(path: str, response: Mapping[str, Any]) -> Any:
    actual: Any = response
    for step in parse_field_path(path).steps:
        if isinstance(actual, Mapping) and str(step) in actual:
            # The name of a resource may be a number.
            actual = actual[str(step)]
        elif isinstance(actual, list) and isinstance(step, int) and step < len(actual):
            actual = actual[step]
        else:
            return _MISSING
    return actual


def _contains(actual: Any, expected: Any) -> bool:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        return all(
            key in actual and _contains(actual[key], value) for key, value in expected.items()
        )
    if isinstance(actual, str | list):
        return expected in actual if isinstance(actual, list) else str(expected) in actual
    return bool(actual == expected)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
