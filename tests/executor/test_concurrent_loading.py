"""Concurrent loading of functions by two threads."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Source
from kanister_py.core.versions.semver import Version
from kanister_py.executor.loading import load_function

CODE = """\
import gates_of_test
gates_of_test.began["{name}"].set()
assert gates_of_test.go_on["{name}"].wait(30)

class Found:
    name = "{name}"
    def run(self, request):
        return {{}}
"""


def test_standard_output_is_restored_in_any_order_of_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("first_of_test", "second_of_test")
    gates = ModuleType("gates_of_test")
    began = {name: threading.Event() for name in names}
    go_on = {name: threading.Event() for name in names}
    vars(gates).update(began=began, go_on=go_on)
    monkeypatch.setitem(sys.modules, "gates_of_test", gates)
    monkeypatch.syspath_prepend(str(tmp_path))
    threads = []
    before = sys.stdout
    for name in names:
        (tmp_path / f"{name}.py").write_text(CODE.format(name=name), encoding="utf-8")
        source = Source("test", Version(0, 0, 0))
        entry = FunctionEntry(
            name, Version(0, 0, 0), FunctionKind.COMPOSITION, source, f"{name}:Found"
        )
        threads.append(threading.Thread(target=load_function, args=(entry,)))
    threads[0].start()
    assert began[names[0]].wait(30)
    threads[1].start()
    # If both could load at the same time, the second would have redirected the output by now.
    began[names[1]].wait(0.3)
    go_on[names[0]].set()
    threads[0].join(180)
    go_on[names[1]].set()
    threads[1].join(180)
    for name in names:
        assert sys.modules.pop(name).Found.name == name
    assert sys.stdout is before
