"""Call a composition function with requests, and say whether it answers as it should.

kanister-py function test function-auto-ready request.json
kanister-py function test acme.functions:Bucket tests/cases --junit report.xml
kanister-py function test tests/cases/ --update -- ./bucket.sh
kanister-py function test localhost:9443 request.json --insecure

A file is a request, as JSON or YAML: the response is printed. A folder holds cases, each a
folder with request.yaml, and response.yaml (the whole answer) or assert.yaml, a list:

  - {path: desired.resources.bucket.resource.spec.region, equals: eu}
  - {path: desired.resources.old, exists: false}
  - {path: "results[0].message", contains: quota}

--update writes down what is answered as what is expected. Ends with 1 if a case fails.
"""

from __future__ import annotations

import argparse
import json
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
        help="what is tested (a function of the registry, module:Class, or host:port; "
        "a program comes after -- instead), and a request or a folder of cases",
    )
    parser.add_argument(
        "-o", "--output", choices=("json", "yaml"), default="json", help="default: %(default)s"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a report of the cases")
    switch(parser, "--update", help="write what is answered into response.yaml")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="default: %(default)g"
    )
    switch(parser, "--insecure", help="call an address in the clear")
    parser.add_argument(
        "--tls-certs-dir", type=Path, metavar="DIR", help="tls.crt, tls.key and ca.crt of a caller"
    )


def run(args: argparse.Namespace) -> int:
    call, path = _caller(args)
    if path.is_dir():
        return _run_cases(call, path, args)
    if args.junit or args.update:
        raise CommandLineError("--junit and --update are for a folder of cases")
    write_data(call(_read_request(path)), args.output)
    return 0


def _caller(args: argparse.Namespace) -> tuple[_Call, Path]:
    *names, last = args.words
    if len(names) > 1 or (not names and not args.command):
        raise CommandLineError(
            "Give a function and a path, such as function-auto-ready request.json"
        )
    target = target_of(names[0] if names else "", args.command)
    if target.is_remote and not args.insecure and args.tls_certs_dir is None:
        raise CommandLineError(
            f"Say how {target.title} is called: "
            "with --tls-certs-dir, or in the clear with --insecure"
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
        raise refusal(folder, "there are no cases below it: CASE/request.yaml")
    tested = []
    for case in cases:
        began = time.perf_counter()
        complaints, note = _outcome(call, case, update=args.update)
        seconds = time.perf_counter() - began
        tested.append(TestResult("", str(case.relative_to(folder)), seconds, complaints))
        _show(tested[-1], note)
    failed = sum(bool(case.failures) for case in tested)
    say(f"{len(tested) - failed} of {len(tested)} cases are as they should be")
    if args.junit:
        args.junit.write_text(junit_of("composition function", tested), encoding="utf-8")
    return 1 if failed else 0


def _file(case: Path, stem: str) -> Path | None:
    return next(
        (case / f"{stem}{suffix}" for suffix in _SUFFIXES if (case / f"{stem}{suffix}").is_file()),
        None,
    )


def _show(tested: TestResult, note: str) -> None:
    mark = Tint("FAIL", "red") if tested.failures else Tint("ok  ", "green")
    put([mark, f" {tested.name}{f' ({note})' if note else ''}"])
    for line in tested.failures:
        put(f"       {line}")


def _outcome(call: _Call, case: Path, *, update: bool) -> tuple[list[str], str]:
    """Say what is wrong with the answer to a case, line by line, and what was done about it."""
    request, expected, asserted = (_file(case, name) for name in (_REQUEST, _RESPONSE, _ASSERT))
    assert request is not None  # that is how the case was found
    try:
        answer = call(_read_request(request))
        if asserted is not None:
            complaints = list(_complaints(answer, _read(asserted), str(asserted)))
            if complaints:
                return complaints, ""
        if update and (expected is not None or asserted is None):
            return [], _updated(expected or case / f"{_RESPONSE}.yaml", answer)
        if expected is not None:
            return _difference(_expected(expected), answer), ""
    except KanisterError as error:
        return error.message.splitlines(), ""
    if asserted is None:
        return [f"There is neither {_RESPONSE}.yaml nor {_ASSERT}.yaml; --update writes one"], ""
    return [], ""


def _updated(path: Path, answer: Mapping[str, Any]) -> str:
    is_json = path.suffix == ".json"
    text = f"{json.dumps(answer, indent=2, ensure_ascii=False)}\n" if is_json else dump_yaml(answer)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return ""
    path.write_text(text, encoding="utf-8")
    return f"{path.name} written"


def _expected(path: Path) -> dict[str, Any]:
    """Read a response and bring it into the form in which ours are: defaults are left out."""
    from kanister_py.proto.encoding import NotEncodable, check_message

    try:
        return FunctionResponse.from_data(check_message(RESPONSE, _read(path))).as_data()
    except NotEncodable as error:
        raise refusal(path, error.why, error.path, "InvalidResponse") from None


def _difference(expected: Any, found: Any) -> list[str]:
    if expected == found:
        return []

    want, have = (dump_go_yaml(response).splitlines() for response in (expected, found))
    return list(unified_diff(want, have, "expected", "found", n=2, lineterm=""))


def _complaints(answer: Mapping[str, Any], checks: Any, file: str) -> Iterator[str]:
    if not isinstance(checks, list):
        raise refusal(file, "must be a list of checks")
    for index, check in enumerate(checks):
        kinds = [kind for kind in _CHECKS if isinstance(check, Mapping) and kind in check]
        if len(kinds) != 1 or len(check) != 2 or not isinstance(check.get("path"), str):
            why = f"must have path, and one of {', '.join(_CHECKS)}; found {check!r}"
            raise refusal(file, why, f"[{index}]")
        kind, path = kinds[0], check["path"]
        actual, expected = _found_at(path, answer), check[kind]
        if kind == "exists":
            if (actual is not _MISSING) is not expected:
                yield f"{path}: is {'there' if actual is not _MISSING else 'not there'}"
        elif actual is _MISSING:
            yield f"{path}: is not there"
        elif kind == "equals" and actual != expected:
            yield f"{path}: expected {_short(expected)}, found {_short(actual)}"
        elif kind == "contains" and not _contains(actual, expected):
            yield f"{path}: {_short(actual)} does not contain {_short(expected)}"


_MISSING = object()


def _found_at(path: str, answer: Mapping[str, Any]) -> Any:
    actual: Any = answer
    for step in parse_field_path(path).steps:
        if isinstance(actual, Mapping) and str(step) in actual:
            # A resource may have a number for its name.
            actual = actual[str(step)]
        elif isinstance(actual, list) and isinstance(step, int) and step < len(actual):
            actual = actual[step]
        else:
            return _MISSING
    return actual


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return all(key in found and _contains(found[key], value) for key, value in wanted.items())
    if isinstance(found, str | list):
        return wanted in found if isinstance(found, list) else str(wanted) in found
    return bool(found == wanted)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
