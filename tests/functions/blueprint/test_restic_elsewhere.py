"""Restic with the APIs of Google and Azure: real restic, redirected to local servers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kanister_py.core.kube.locations import Credential, Location, StoreKind
from kanister_py.functions.blueprint.copy_volume_data.v0_0_0 import CopyVolumeData
from kanister_py.functions.blueprint.copy_volume_data.v0_1_0 import CopyVolumeDataV010
from kanister_py.functions.blueprint.delete_data.v0_0_0 import DeleteData
from kanister_py.functions.blueprint.delete_data.v0_1_0 import DeleteDataV010
from kanister_py.functions.blueprint.location_delete.v0_1_0 import LocationDeleteV010
from kanister_py.functions.blueprint.restore_data.v0_0_0 import RestoreData
from kanister_py.functions.blueprint.restore_data.v0_1_0 import RestoreDataV010
from kanister_py.ports.function import Func
from tests.functions.blueprint.conftest import Harness
from tests.functions.blueprint.data import claim, facts_for, keys, mounted
from tests.redirected_hosts import RedirectedHost, redirected_host
from tests.stores import AZURE_ACCOUNT, AZURE_KEY, running_store

ACCOUNT = "kaccount"
VERSIONS: Mapping[str, tuple[type[Func], type[Func], type[Func]]] = {
    "v0.0.0": (CopyVolumeData, RestoreData, DeleteData),
    "v0.1.0": (CopyVolumeDataV010, RestoreDataV010, DeleteDataV010),
}


@pytest.fixture(params=[StoreKind.GCS, StoreKind.AZURE])
def place(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Location, RedirectedHost]]:
    """A store, and the settings with which restic finds it."""
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing is backed up")
    # Restic's default port for an emulator may be in use.
    folder = tmp_path_factory.mktemp("elsewhere")
    accounts = f"{AZURE_ACCOUNT}:{AZURE_KEY};{ACCOUNT}:{AZURE_KEY}"
    monkeypatch.setenv("AZURITE_ACCOUNTS", accounts)
    with running_store(request.param, folder / "store") as location:
        port = int(location.endpoint.split(":")[2].split("/")[0])
        is_google = request.param is StoreKind.GCS
        host = "storage.googleapis.com" if is_google else f"{ACCOUNT}.blob.core.windows.net"
        with redirected_host(host, port, folder / "led", rewrites_host=is_google) as way:
            if is_google:
                account = {**json.loads(location.credential.secret), "token_uri": way.token_url}
                credential = Credential("p", json.dumps(account))
                yield location._replace(credential=credential), way
            else:
                endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
                credential = Credential(ACCOUNT, AZURE_KEY)
                yield location._replace(endpoint=endpoint, credential=credential), way


def trusting(harness: Harness, way: RedirectedHost) -> dict[str, Any]:
    """Return the additional settings of pods for the redirection."""
    harness.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "trusted", "namespace": "default"},
            "data": {"ca.pem": way.authority},
        }
    )
    env = {"HTTPS_PROXY": way.proxy, "SSL_CERT_FILE": "/etc/trusted/ca.pem"}
    container = {
        "name": "container",
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "volumeMounts": [{"name": "trusted", "mountPath": "/etc/trusted"}],
    }
    volume = {"name": "trusted", "configMap": {"name": "trusted"}}
    return {"containers": [container], "volumes": [volume]}


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_volume_is_restored_from_google_and_azure(
    harness: Harness, place: tuple[Location, RedirectedHost], version: str
) -> None:
    location, way = place
    copy, restore, delete = VERSIONS[version]
    facts = facts_for(location, pod_override=trusting(harness, way))
    claim(harness, "data")
    mounted(harness, "mkdir /v/sub; echo one >/v/a; echo two >/v/sub/b")
    common = {"namespace": "default", "encryptionKey": "a-key-nobody-sees"}
    copy_args = {**common, "volume": "data", "dataArtifactPrefix": "volumes/data"}
    done = harness.call(copy, copy_args, facts=facts, uid="backup")
    mounted(harness, "rm -r /v/a /v/sub; echo new >/v/c")
    where = {**common, "backupArtifactPrefix": done["backupArtifactLocation"]}
    tagged = {"backupTag": done["backupTag"], "volumes": {"data": done["backupRoot"]}}
    harness.call(restore, {**where, **tagged, "image": "tools"}, facts=facts, uid="restore")
    assert mounted(harness, "cd /v; cat a sub/b c") == b"one\ntwo\nnew\n"
    forget = {**where, "backupID": done["backupID"], "reclaimSpace": True}
    harness.call(delete, forget, facts=facts, uid="delete")
    assert keys(location, "volumes/data/config") == ["volumes/data/config"]
    assert keys(location, "volumes/data/snapshots/") == []
    harness.call(LocationDeleteV010, {"artifact": "volumes"}, facts=facts)
    assert keys(location, "") == []
