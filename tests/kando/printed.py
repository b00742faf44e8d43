"""Output of kando's commands."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kanister_py.core.kube.locations import Location, StoreKind
from tests.stores import running_store


def printed(location: Location) -> str:
    """Return a profile as the template `toJson .Profile` prints it."""
    profile = {
        "Location": {
            "type": str(location.kind),
            "bucket": location.bucket,
            "endpoint": location.endpoint,
            "prefix": location.prefix,
            "region": location.region,
        },
        "Credential": {
            "Type": "keyPair",
            "KeyPair": {"ID": location.credential.id, "Secret": location.credential.secret},
            "Secret": None,
            "KopiaServerSecret": None,
        },
        "SkipSSLVerify": location.skip_tls_verify,
    }
    return json.dumps(profile)


@pytest.fixture(scope="module", params=[StoreKind.S3, StoreKind.GCS, StoreKind.AZURE])
def location(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Location]:
    with running_store(request.param, tmp_path_factory.mktemp("store")) as store:
        yield store._replace(prefix="team/a")
