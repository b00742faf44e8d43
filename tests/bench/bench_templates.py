"""Time to render the strings of blueprints, compared with Go.

Go collects the functions, parses and executes a string at every use, as Kanister does. "Cold" is
the first use of a string in a warm process, and "warm" every further use. The strings come from a
folder of blueprints (ours, or the one in KANISTER_PY_BENCH_BLUEPRINTS). The oracle has to be built
with `go build -o build/gotemplate .` in `e2e/oracles/gotemplate`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kanister_py.gotemplate import template as keeping
from kanister_py.gotemplate.errors import GoTemplateError
from kanister_py.gotemplate.sprig import BLUEPRINT_FUNCTIONS
from kanister_py.gotemplate.template import compile_template
from tests.bench.measure import Row
from tests.gotemplate.oracle_data import effects_at, value_of

TITLE = "Templates: every string of the blueprints, against Go"

_ROOT = Path(__file__).parents[2]
_ORACLE = _ROOT / "e2e" / "oracles" / "gotemplate" / "build" / "gotemplate"
_CHAIN = re.compile(r"(?:\.\w+)+")
_LOOK_UPS = re.compile(r"[^{]*(?:\{\{-? *(?:\.\w+)+ *-?\}\}[^{]*)+")
_ROUNDS = 7
_CALLS = 10


def rows() -> list[Row]:
    if not _ORACLE.exists():
        missing = _ORACLE.relative_to(_ROOT)
        return [Row("templates", "not measured", f"there is no {missing}", holds=False)]
    texts = sorted(set(_texts()))
    data = _data(texts)
    go = _go_seconds(texts, data)
    cold, warm, failed = _our_seconds(texts, data)
    plain = [at for at, text in enumerate(texts) if _LOOK_UPS.fullmatch(text)]
    slower = sum(cold) / sum(go)
    faster = sum(go) / sum(warm)
    rows = [
        Row("strings", str(len(texts)), f"{failed} of them end in an error"),
        Row("Go, a string", f"{_micro(go)} µs", ""),
        Row("cold, a string", f"{_micro(cold)} µs, {slower:.2f} x", "≤ 1.5 x Go", slower <= 1.5),
        Row("warm, a string", f"{_micro(warm)} µs, {faster:.1f} x", "≥ 6 x faster", faster >= 6),
    ]
    if plain:
        gain = sum(go[at] for at in plain) / sum(warm[at] for at in plain)
        rows.append(
            Row("warm, fields only", f"{len(plain)}, {gain:.1f} x", "≥ 10 x faster", gain >= 10)
        )
    literal = _best(lambda: compile_template("kando location push").execute(None))
    rows.append(Row("text without a template", f"{literal * 1e6:.2f} µs", ""))
    return rows


def _micro(seconds: list[float]) -> str:
    return f"{sum(seconds) / len(seconds) * 1e6:.1f}"


def _texts() -> Iterator[str]:
    folder = Path(os.environ.get("KANISTER_PY_BENCH_BLUEPRINTS", _ROOT / "blueprints"))
    for path in sorted(folder.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield from (text for text in _strings(document) if "{{" in text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _strings(key)
            yield from _strings(child)
    elif isinstance(value, list):
        for child in value:
            yield from _strings(child)


def _data(texts: list[str]) -> dict[str, Any]:
    """Return template parameters with all fields that the texts read."""
    workload = {"Name": "db", "Namespace": "ns", "Pods": ["db-0"], "Containers": [["main"]]}
    params: dict[str, Any] = {
        "StatefulSet": workload,
        "Deployment": workload,
        "DeploymentConfig": workload,
        "PVC": {"Name": "data", "Namespace": "ns"},
        "Namespace": {"Name": "ns", "Namespace": "ns"},
        "Time": "2024-02-29T13:04:05.123456789Z",
        "Options": {"kanisterImage": "image"},
        "Profile": {
            "Location": {"type": "s3Compliant", "bucket": "b", "prefix": "p", "region": "r"},
            "Credential": {
                "Type": "keyPair",
                "KeyPair": {"ID": "id", "Secret": "secret"},
                "Secret": {
                    "metadata": {"name": "aws"},
                    "data": {"aws_access_key_id": "aWQ=", "aws_secret_access_key": "a2V5"},
                },
            },
        },
        "Object": {
            "metadata": {
                "name": "db",
                "namespace": "ns",
                "labels": {"app": "db", "app.kubernetes.io/instance": "db"},
            },
            "data": {"postgres.instanceid": "db"},
            "spec": {
                "template": {
                    "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}
                }
            },
        },
        "ArtifactsIn": {},
        "Phases": {},
        "Secrets": {},
        "ConfigMaps": {},
    }
    for text in texts:
        for chain in _CHAIN.findall(text):
            _provide(params, chain[1:].split("."))
    return {"$params": params}


def _provide(params: dict[str, Any], names: list[str]) -> None:
    root, *path = names
    if root == "Options" and path:
        params[root][path[0]] = "o"
    elif root == "ArtifactsIn" and len(path) > 1:
        artifact = params[root].setdefault(path[0], {"keyValue": {}, "kopiaSnapshot": "k"})
        artifact["keyValue"][path[-1]] = "v"
    elif root in ("Secrets", "ConfigMaps") and path:
        _provide_object(params[root], path)
    elif root == "Phases" and len(path) > 2:
        phase = params[root].setdefault(path[0], {"Output": {}, "Secrets": {}, "ConfigMaps": {}})
        if path[1] == "Output":
            phase["Output"][path[2]] = "{}"
        elif path[1] in phase:
            _provide_object(phase[path[1]], path[2:])
    elif root == "Object" and len(path) > 1:
        inner = params[root]
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                return
        inner.setdefault(path[-1], "v")


def _provide_object(objects: dict[str, Any], path: list[str]) -> None:
    obj = objects.setdefault(path[0], {"metadata": {"name": "o", "namespace": "ns"}, "data": {}})
    if len(path) > 2 and path[1] == "Data":
        obj["data"][path[2]] = "c2VjcmV0"


def _go_seconds(texts: list[str], data: dict[str, Any]) -> list[float]:
    cases = [
        json.dumps({"id": str(at), "template": text, "data": data}) for at, text in enumerate(texts)
    ]
    rounds = [_go_round("\n".join(cases), len(texts)) for _ in range(_ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _go_round(cases: str, count: int) -> list[float]:
    done = subprocess.run(
        [_ORACLE, "bench", "-n", str(_CALLS)],
        input=cases,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line)["ns"] / 1e9 for line in done.stdout.splitlines()[:count]]


def _our_seconds(texts: list[str], data: dict[str, Any]) -> tuple[list[float], list[float], int]:
    """Return cold and warm seconds for every text, and the number of failures."""
    value = value_of(data)
    effects = effects_at("")
    cold, warm = [], []
    failed = 0

    for text in texts:

        def use(text: str = text) -> bool:
            try:
                compile_template(text, BLUEPRINT_FUNCTIONS).execute(value, effects)
            except GoTemplateError:
                return False
            return True

        failed += not use()
        cold.append(min(_first_use(use) for _ in range(_ROUNDS)))
        warm.append(_best(use))
    return cold, warm, failed


def _first_use(use: Any) -> float:
    keeping.forget()
    start = time.perf_counter()
    use()
    return time.perf_counter() - start


def _best(use: Any) -> float:
    seconds = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        for _ in range(_CALLS):
            use()
        seconds.append((time.perf_counter() - start) / _CALLS)
    return min(seconds)
