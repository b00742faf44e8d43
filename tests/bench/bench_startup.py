"""How long until a command answers, as multiples of starting Python at all?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.measure import Row, median_seconds

_BLUEPRINTS = Path(__file__).parents[2] / "blueprints"
_HELLO = _BLUEPRINTS / "hello" / "blueprint.yaml"
_RENDERED = Path(__file__).parents[1] / "docs" / "files"
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"

TITLE = "Cold start, median of 20"

BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: hello}
actions:
  hello:
    phases:
      - func: KubeTask
        name: greet
        args:
          namespace: "{{ .Namespace.Name }}"
          image: busybox
          command: [sh, -c, "echo hello"]
"""


def rows() -> list[Row]:
    script = Path(sys.executable).parent / "kanister-py"

    # As after an installation: what is imported has been compiled.
    environment = {key: each for key, each in os.environ.items() if key != _NO_BYTECODE}

    def once(*command: str) -> None:
        subprocess.run(command, capture_output=True, check=True, env=environment)

    def cost(*command: str) -> float:
        once(*command)
        return median_seconds(lambda: once(*command), 20)

    with tempfile.TemporaryDirectory(dir=_build()) as folder:
        blueprint = Path(folder) / "blueprint.yaml"
        blueprint.write_text(BLUEPRINT)
        floor = cost(sys.executable, "-I", "-c", "pass")
        measured = [Row("python -I -c pass", f"{floor * 1000:.0f} ms", "the floor")]
        for words, most in (
            (["--version"], 6),
            (["--help"], 2.5),
            (["functions", "list"], 8),
            (["lint", str(blueprint)], 10),
            (["lint", str(_BLUEPRINTS)], 18),
            (["render", str(_RENDERED / "xr.yaml"), str(_RENDERED / "composition.yaml")], 6),
            (["run", str(_HELLO), "hello", "--pods", "processes"], 17),
        ):
            ratio = cost(str(script), *words) / floor
            shown = words[:2] if words[0] == "functions" else words[:1]
            name = f"kanister-py {' '.join(shown)}"
            if str(_BLUEPRINTS) in words:
                name += " blueprints/"
            measured.append(Row(name, f"{ratio:.1f}x", f"<= {most}x", ratio <= most))
    return measured


def _build() -> Path:
    build = Path(__file__).parent.parent.parent / "build"
    build.mkdir(exist_ok=True)
    return build
