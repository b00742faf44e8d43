"""Built-in functions respond as the originals did."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.kube.copies import copy_json
from kanister_py.ports.composition_function import CompositionFunction

FUNCTIONS = Path(os.environ["KANISTER_PY_RECORDED"]) / "functions"
CLASSES = {
    "auto-ready": "AutoReady",
    "environment-configs": "EnvironmentConfigs",
    "extra-resources": "ExtraResources",
    "go-templating": "GoTemplating",
    "patch-and-transform": "PatchAndTransform",
}
# Messages of Go decoders; only their presence and place are compared.
DECODER_WORDS = re.compile(
    r"(?:json: |invalid character |unexpected end of JSON input"
    r"|error unmarshaling JSON: |error converting YAML to JSON: ).*",
    re.DOTALL,
)


def _function(name: str) -> type[CompositionFunction]:
    module = f"kanister_py.functions.composition.{name.replace('-', '_')}.v0_1_0"
    function: type[CompositionFunction] = getattr(import_module(module), CLASSES[name])
    return function


def _cases() -> Iterator[Any]:
    for name in CLASSES:
        function = _function(name)
        for line in (FUNCTIONS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            yield pytest.param(function, case, id=f"{name} {case['name']}")


def _comparable(response: Mapping[str, Any]) -> dict[str, Any]:
    results = [
        {**result, "message": DECODER_WORDS.sub("…", result.get("message", ""))}
        for result in response.get("results", ())
    ]
    return {**response, "results": results}


@pytest.mark.parametrize(("function", "case"), list(_cases()))
def test_function_responds_as_the_original(
    function: type[CompositionFunction], case: Mapping[str, Any]
) -> None:
    request = copy_json(case["request"])
    returned = function().run(request)
    response = asyncio.run(_waited(returned)) if inspect.isawaitable(returned) else returned

    assert _comparable(response) == _comparable(case["response"])
    assert request == case["request"]


async def _waited(awaitable: Any) -> Any:
    return await awaitable
