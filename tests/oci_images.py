"""OCI images for tests, as Crossplane's CLI and tools for artifacts push them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urljoin

import urllib3

from kanister_py.adapters.packages_oci.registry import (
    LAYER_ANNOTATION,
    MANIFEST_TYPE,
    PACKAGE_FILE,
    PACKAGE_LAYER,
    digest_of,
)
from kanister_py.core.revisions.package import PackageReference
from kanister_py.ports.packages import RegistryLogin

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True, slots=True)
class Blob:
    """Content that a registry stores under its digest."""

    media_type: str
    data: bytes
    annotations: Mapping[str, str] = field(default_factory=dict)

    def descriptor(self) -> dict[str, Any]:
        return {
            "mediaType": self.media_type,
            "digest": digest_of(self.data),
            "size": len(self.data),
            "annotations": dict(self.annotations),
        }


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a tar archive of the given files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def files_layer(annotations: Mapping[str, str] | None = None, **files: bytes) -> Blob:
    """Return a layer of files; a double underscore in a name stands for a dot."""
    named = {name.replace("__", "."): data for name, data in files.items()}
    return Blob(LAYER_TYPE, gzip.compress(archive(named), mtime=0), annotations or {})


def package_layer(package_file: bytes) -> Blob:
    """Return the layer that holds `package.yaml`, marked as Crossplane's CLI marks it."""
    packed = gzip.compress(archive({PACKAGE_FILE: package_file}), mtime=0)
    return Blob(LAYER_TYPE, packed, {LAYER_ANNOTATION: PACKAGE_LAYER})


def push_image(
    reference: PackageReference,
    layers: list[Blob],
    login: RegistryLogin,
    *,
    config: Blob | None = None,
) -> str:
    """Push an image of these layers to a registry on this machine and return its digest."""
    config = config or Blob(CONFIG_TYPE, b'{"os": "linux", "architecture": "amd64"}')
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": config.descriptor(),
            "layers": [layer.descriptor() for layer in layers],
        }
    ).encode()
    root = f"http://{reference.registry}/v2/{reference.repository}/"
    authorization = urllib3.make_headers(basic_auth=f"{login.username}:{login.password}")
    with urllib3.PoolManager(headers=authorization) as pool:

        def send(method: str, url: str, body: bytes, content_type: str) -> urllib3.BaseHTTPResponse:
            headers = {**authorization, "Content-Type": content_type}
            response = pool.request(method, url, body=body, headers=headers)
            assert response.status < 300, response.data
            return response

        for blob in (*layers, config):
            upload = send("POST", f"{root}blobs/uploads/", b"", "application/octet-stream")
            target = urljoin(root, upload.headers["Location"])
            query = urlencode({"digest": digest_of(blob.data)})
            joint = "&" if "?" in target else "?"
            send("PUT", f"{target}{joint}{query}", blob.data, "application/octet-stream")
        send("PUT", f"{root}manifests/{reference.tag}", manifest, MANIFEST_TYPE)
    return digest_of(manifest)
