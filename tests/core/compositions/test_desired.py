"""Connection secrets of desired objects."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.desired import connection_secret_of


def writer(namespace: str = "", /, **reference: str) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": namespace} if namespace else {"name": "one"}
    return {"metadata": metadata, "spec": {"writeConnectionSecretToRef": reference}}


@pytest.mark.parametrize(
    ("obj", "place"),
    [
        pytest.param(writer(name="a", namespace="shop"), ("shop", "a"), id="of no namespace"),
        pytest.param(writer("shop", name="a"), ("shop", "a"), id="beside itself"),
        pytest.param(
            writer("shop", name="a", namespace="vault"), ("shop", "a"), id="never elsewhere"
        ),
        pytest.param(writer(name="a"), ("default", "a"), id="nothing said"),
        pytest.param(writer("shop"), None, id="no name"),
        pytest.param({"metadata": {}, "spec": {}}, None, id="none"),
    ],
)
def test_what_stands_in_a_namespace_reads_no_secret_of_another(
    obj: dict[str, Any], place: tuple[str, str] | None
) -> None:
    assert connection_secret_of(obj, "default") == place
