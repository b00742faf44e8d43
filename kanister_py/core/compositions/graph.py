"""Graph of a pipeline, as Mermaid, DOT or data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kanister_py.core.blueprints.graph import dot_text, mermaid_text
from kanister_py.core.compositions.model import Composition, Step


class PipelineGraph:
    """A composition as a chain of steps from its XR to its resources."""

    def __init__(self, composition: Composition) -> None:
        self._composition = composition

    def as_dict(self) -> dict[str, Any]:
        steps = [
            {
                "step": step.name,
                "function": step.function,
                "asks": _request_of(step),
                "when": step.when,
            }
            for step in self._composition.steps
        ]
        return {
            "title": self._composition.name,
            "composite": {
                "apiVersion": self._composition.api_version,
                "kind": self._composition.kind,
            },
            "steps": [{key: value for key, value in step.items() if value} for step in steps],
        }

    def mermaid(self) -> Iterator[str]:
        yield "---"
        yield f'title: "{mermaid_text(self._composition.name)}"'
        yield "---"
        yield "flowchart LR"
        yield f'  xr(["{mermaid_text(self._composition.kind)}"])'
        before = "xr"
        for index, step in enumerate(self._composition.steps):
            lines = [f"<b>{mermaid_text(step.name)}</b>", *map(mermaid_text, _label_of(step))]
            yield f'  s{index}["{"<br>".join(lines)}"]'
            label = f'|"{mermaid_text(step.when)}"|' if step.when else ""
            yield f"  {before} -->{label} s{index}"
            before = f"s{index}"
        yield '  out(["composed resources"])'
        yield f"  {before} --> out"

    def dot(self) -> Iterator[str]:
        yield f'digraph "{dot_text(self._composition.name)}" {{'
        yield "  rankdir=LR"
        yield f'  xr [shape=oval, label="{dot_text(self._composition.kind)}"]'
        before = "xr"
        for index, step in enumerate(self._composition.steps):
            label = "\\n".join(dot_text(text) for text in (step.name, *_label_of(step)))
            yield f'  s{index} [shape=box, label="{label}"]'
            when = f' [label="{dot_text(step.when)}"]' if step.when else ""
            yield f"  {before} -> s{index}{when}"
            before = f"s{index}"
        yield '  out [shape=oval, label="composed resources"]'
        yield f"  {before} -> out"
        yield "}"


def _request_of(step: Step) -> str:
    return str(step.revision) if any(step.revision) else ""


def _label_of(step: Step) -> list[str]:
    request = _request_of(step)
    return [step.function, *([request] if request else [])]
