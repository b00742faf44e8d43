from __future__ import annotations

from typing import Any

import pytest

from kanister_py.functions.composition.environment_configs.v0_1_0 import EnvironmentConfigs
from kanister_py.functions.composition.environment_configs.v0_2_0 import EnvironmentConfigsV020

KEY = "apiextensions.crossplane.io/environment"


@pytest.mark.parametrize(
    "sources",
    [pytest.param({}, id="left out"), pytest.param({"environmentConfigs": []}, id="empty")],
)
def test_default_data_is_merged_without_configs(
    sources: dict[str, Any],
) -> None:
    request = {
        "input": {"spec": {"defaultData": {"region": "eu", "tier": 1}, **sources}},
        "context": {KEY: {"region": "us"}},
    }
    before = EnvironmentConfigs().run(request)["context"][KEY]
    assert before == {"region": "us"}
    answer = EnvironmentConfigsV020().run(request)
    environment = answer["context"][KEY]
    assert (environment["region"], environment["tier"]) == ("us", 1)
    assert environment["kind"] == "Environment"
    assert "results" not in answer
