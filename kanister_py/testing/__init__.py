"""Tests of blueprints and functions without a cluster.

With kanister_py installed, pytest has the fixture `blueprint_stage`: a separate cluster in
memory for each test. A script defines what the commands of pods print and how they end:

    def test_the_dump_is_kept_under_the_name_of_its_database(blueprint_stage):
        blueprint_stage.given("objects.yaml")
        dumped = {"path": "shop/1.dump", "database": "app"}
        blueprint_stage.script("pg_dump", outputs=dumped)

        ran = blueprint_stage.run("blueprint.yaml", "backup", object="StatefulSet/shop/db")

        assert ran.is_complete, ran.error
        assert ran.outputs["dump"] == dumped
        assert ran.artifacts["dump"]["keyValue"]["path"] == "shop/1.dump"
        assert "--format=custom" in ran.command("pg_dump").text
        assert ran.pods == ()  # nothing is left behind

A command that no script matches fails with exit code 127 and a message. With
`blueprint_stage.use_processes()`, commands run as processes of this machine instead.
`ran.check_golden(file)` compares the record of a run with a file, which
`KANISTER_PY_GOLDEN=write pytest` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanister_py.testing.golden import check_golden
    from kanister_py.testing.scripts import Answer, Command
    from kanister_py.testing.stage import Ran, Stage

__all__ = ["Answer", "Command", "Ran", "Stage", "check_golden"]

_MODULES = {
    "Answer": "kanister_py.testing.scripts",
    "Command": "kanister_py.testing.scripts",
    "Ran": "kanister_py.testing.stage",
    "Stage": "kanister_py.testing.stage",
    "check_golden": "kanister_py.testing.golden",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
