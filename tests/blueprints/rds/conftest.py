"""A simulated RDS for tests of functions: moto's server.

Its instances are only records: they are available immediately, and accept no connections. For
dumps, a real PostgreSQL replaces the temporary instance. Without the extra `aws`, these tests are
not collected; `.ci/aws` installs it and runs them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.ports import free_port

collect_ignore_glob = [] if find_spec("boto3") and find_spec("moto") else ["test_*.py"]
if not os.environ.get("KANISTER_PY_RECORDED") and not os.environ.get("KANISTER_PY_PUBLISHED"):
    collect_ignore_glob.append("test_published.py")


@pytest.fixture
def rds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Client of an empty RDS."""
    import boto3
    from botocore.exceptions import EndpointConnectionError

    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={key: value for key, value in os.environ.items() if not key.startswith("AWS_")},
    )
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_RDS", url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    client = boto3.client(
        "rds", region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s"
    )
    for _ in range(600):
        try:
            client.describe_db_instances()
            break
        except EndpointConnectionError:
            time.sleep(0.05)
    yield client
    client.close()
    server.kill()
    server.wait()
