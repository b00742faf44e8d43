from __future__ import annotations

from typing import Any

import pytest

from kanister_py.functions.composition.patch_and_transform.v0_1_0 import PatchAndTransform
from kanister_py.functions.composition.patch_and_transform.v0_2_0 import PatchAndTransformV020

BASE = {"apiVersion": "v1", "kind": "ConfigMap"}
SEEN = {**BASE, "data": {"replicas": 3.0, "share": 0.5}}
SPEC = {"size": 20.0, "large": 1e6, "ratio": 0.5, "names": ["a", "b"], "word": "x", "most": 2.0**62}


def answered(
    function: type[PatchAndTransform], *patches: dict[str, Any], **resource: Any
) -> dict[str, Any]:
    """Run the function on numbers as they arrive over gRPC, where all are doubles."""
    composite = {"apiVersion": "example.org/v1", "kind": "XBucket", "spec": SPEC}
    return dict(
        function().run(
            {
                "observed": {
                    "composite": {"resource": composite},
                    "resources": {"r": {"resource": SEEN}},
                },
                "input": {
                    "resources": [{"name": "r", "base": BASE, "patches": [*patches], **resource}]
                },
            }
        )
    )


def patched(function: type[PatchAndTransform], path: str, *transforms: dict[str, Any]) -> Any:
    patch = {
        "type": "FromCompositeFieldPath",
        "fromFieldPath": path,
        "toFieldPath": "data.x",
        "transforms": list(transforms),
    }
    answer = answered(function, patch)
    if "results" in answer:
        return answer["results"][0]["message"]
    return answer["desired"]["resources"]["r"]["resource"]["data"]["x"]


def text(kind: str, **config: Any) -> dict[str, Any]:
    return {"type": "string", "string": {"type": kind, **config}}


def join(separator: str) -> dict[str, Any]:
    return text("Join", join={"separator": separator})


@pytest.mark.parametrize(
    ("path", "transform", "before", "now"),
    [
        pytest.param(
            "spec.size", text("Format", fmt="%d Gi"), "%!d(float64=20) Gi", "20 Gi", id="a format"
        ),
        pytest.param("spec.large", text("Format", fmt="%v"), "1e+06", "1000000", id="a million"),
        pytest.param("spec.ratio", text("Format", fmt="%v"), "0.5", "0.5", id="a fraction"),
        pytest.param("spec.names", join(", "), "a, b,", "a, b", id="a long separator"),
        pytest.param("spec.names", join("-"), "a-b", "a-b", id="a short one"),
        pytest.param("spec.names", join("é"), None, "aéb", id="one of several bytes"),
        pytest.param(
            "spec.most",
            {"type": "math", "math": {"type": "Multiply", "multiply": 4}},
            2**64,
            2**64,
            id="a product beyond 64 bits",
        ),
    ],
)
def test_numbers_and_joins_of_v0_2_0(
    path: str, transform: dict[str, Any], before: Any, now: Any
) -> None:
    if before is not None:
        assert patched(PatchAndTransform, path, transform) == before
    assert patched(PatchAndTransformV020, path, transform) == now


@pytest.mark.parametrize(
    ("path", "transform", "now"),
    [
        pytest.param("spec.size", {"type": "math", "math": {"multiply": 2}}, 40, id="math"),
        pytest.param("spec.word", {"type": "string", "string": {"fmt": "%s!"}}, "x!", id="string"),
        pytest.param(
            "spec.word",
            {"type": "match", "match": {"patterns": [{"literal": "x", "result": 3}]}},
            3,
            id="match",
        ),
    ],
)
def test_missing_types_have_the_published_defaults(
    path: str, transform: dict[str, Any], now: Any
) -> None:
    assert "type" in patched(PatchAndTransform, path, transform)
    assert patched(PatchAndTransformV020, path, transform) == now


def test_numbers_in_maps_and_combinations_are_integers() -> None:
    mapped = {"type": "map", "map": {"x": 3.0}}
    assert patched(PatchAndTransformV020, "spec.word", mapped, text("Format", fmt="%d")) == "3"
    combined = {
        "type": "CombineFromComposite",
        "toFieldPath": "data.x",
        "combine": {
            "strategy": "string",
            "variables": [{"fromFieldPath": "spec.size"}],
            "string": {"fmt": "%d"},
        },
    }
    answer = answered(PatchAndTransformV020, combined)
    assert answer["desired"]["resources"]["r"]["resource"]["data"] == {"x": "20"}


@pytest.mark.parametrize(
    ("path", "wanted", "is_ready"),
    [
        pytest.param("data.replicas", 3, True, id="the number"),
        pytest.param("data.replicas", 4, False, id="another one"),
        pytest.param("data.share", 0, None, id="no whole number"),
    ],
)
def test_observed_integer_matches(path: str, wanted: int, is_ready: bool | None) -> None:
    check = {"type": "MatchInteger", "fieldPath": path, "matchInteger": wanted}
    before = answered(PatchAndTransform, readinessChecks=[check])
    assert "not a (int64) number" in before["results"][0]["message"]
    now = answered(PatchAndTransformV020, readinessChecks=[check])
    assert ("results" in now) is (is_ready is None)
    assert now["desired"]["resources"]["r"].get("ready", "") == ("READY_TRUE" if is_ready else "")


def test_versions_do_not_share_plans_of_one_input() -> None:
    for _ in range(2):
        assert patched(PatchAndTransform, "spec.names", join("; ")) == "a; b;"
        assert patched(PatchAndTransformV020, "spec.names", join("; ")) == "a; b"
