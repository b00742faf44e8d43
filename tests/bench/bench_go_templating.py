"""Time of one call of function-go-templating in process, with a compiled template.

The original, called over gRPC, renders 100 resources 133 times a second on one core: 7.5 ms.
"""

from __future__ import annotations

from typing import Any

from kanister_py.core.yaml.documents import parse_documents
from kanister_py.functions.composition.go_templating.v0_1_0 import GoTemplating
from kanister_py.functions.composition.templating.manifests import read_manifests
from tests.bench.measure import Row, best_seconds

TITLE = "function-go-templating: one call in process"

_COUNT = 100
_TEMPLATE = """\
{{- range $i := until 100 }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: cm-{{ $i }}
  annotations:
    {{ setResourceNameAnnotation (printf "r%d" $i) }}
data:
  region: {{ $.observed.composite.resource.spec.region }}
  size: {{ $.observed.composite.resource.spec.size | quote }}
{{- end }}
"""


def _request(template: str, observed: int) -> dict[str, Any]:
    xr = {
        "apiVersion": "example.org/v1",
        "kind": "XBucket",
        "metadata": {"name": "x"},
        "spec": {"region": "eu", "size": 20},
    }
    seen = {
        f"r{at}": {
            "resource": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"cm-{at}", "labels": {"a": "b"}, "generation": 1},
                "data": {"region": "eu", "size": "20"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        }
        for at in range(observed)
    }
    return {
        "meta": {"tag": "t"},
        "observed": {"composite": {"resource": xr}, "resources": seen},
        "desired": {},
        "input": {"source": "Inline", "inline": {"template": template}},
    }


def rows() -> list[Row]:
    many = _milliseconds(_request(_TEMPLATE, 0))
    again = _milliseconds(_request(_TEMPLATE, _COUNT))
    one = _milliseconds(_request(_TEMPLATE.replace("until 100", "until 1"), 0))
    text = "".join(
        f"---\nkind: ConfigMap\nmetadata:\n  name: cm-{at}\ndata:\n  region: eu\n"
        for at in range(_COUNT)
    )
    short = best_seconds(lambda: read_manifests(text), rounds=5, calls=5)
    full = best_seconds(lambda: parse_documents(text), rounds=5, calls=5)
    return [
        Row("100 resources", f"{many:.1f} ms", "≤ 8 ms", many <= 8),
        Row("100 resources, all observed", f"{again:.1f} ms", ""),
        Row("1 resource", f"{one:.2f} ms", ""),
        Row(
            "plain manifests",
            f"{full / short:.1f} x as fast as YAML in full",
            "≥ 3 x",
            full >= 3 * short,
        ),
    ]


def _milliseconds(request: dict[str, Any]) -> float:
    GoTemplating().run(request)
    # Every round is one call, and the fastest counts.
    return best_seconds(lambda: GoTemplating().run(request), rounds=40, calls=1) * 1000
