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
        pytest.param(writer(name="a", namespace="shop"), ("shop", "a"), id="cluster-scoped"),
        pytest.param(writer("shop", name="a"), ("shop", "a"), id="in its own namespace"),
        pytest.param(
            writer("shop", name="a", namespace="vault"),
            ("shop", "a"),
            id="reference to another namespace",
        ),
        pytest.param(writer(name="a"), ("default", "a"), id="no namespace in the reference"),
        pytest.param(writer("shop"), None, id="no name"),
        pytest.param({"metadata": {}, "spec": {}}, None, id="no reference"),
    ],
)
def test_namespaced_object_uses_a_secret_in_its_own_namespace(
    obj: dict[str, Any], place: tuple[str, str] | None
) -> None:
    assert connection_secret_of(obj, "default") == place
