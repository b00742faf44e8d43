"""OCI images: made of layers, kept in a file."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from kanister_py.adapters.packages_oci.layers import Allowance, UnreadableLayer, all_files
from kanister_py.core.revisions.package import InvalidPackage
from kanister_py.files import write_whole

PACKAGE_FILE: Final = "package.yaml"
LAYER_ANNOTATION: Final = "io.crossplane.xpkg"
PACKAGE_LAYER: Final = "base"
PLATFORM: Final = ("linux", "amd64")
_MAX_ARCHIVE_BYTES: Final = 2 << 30
_PIECE_BYTES: Final = 1 << 20

MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE: Final = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE: Final = "application/vnd.oci.image.layer.v1.tar+gzip"


class Blob(NamedTuple):
    """Bytes that a registry keeps under their digest."""

    media_type: str
    data: bytes
    annotations: Mapping[str, str] = {}

    @property
    def digest(self) -> str:
        return digest_of(self.data)

    def descriptor(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": len(self.data),
        }
        if self.annotations:
            described["annotations"] = dict(self.annotations)
        return described


class Image(NamedTuple):
    """A package as a registry keeps it."""

    config: Blob
    layers: tuple[Blob, ...]

    def manifest(self) -> Blob:
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": self.config.descriptor(),
            "layers": [each.descriptor() for each in self.layers],
        }
        return Blob(MANIFEST_TYPE, json.dumps(manifest, sort_keys=True).encode())


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def package_layer(package_file: bytes) -> Blob:
    """Make the layer that tells what an image is."""
    return _layer([(PACKAGE_FILE, package_file, 0o644)], {LAYER_ANNOTATION: PACKAGE_LAYER})


def files_layer(folder: Path, prefix: str) -> Blob:
    """Make a layer of a folder, the same bytes for the same files."""
    found = [
        (f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes(), _mode_of(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return _layer(found, {})


def _mode_of(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) else 0o644


def _layer(files: Sequence[tuple[str, bytes, int]], annotations: Mapping[str, str]) -> Blob:
    packed = io.BytesIO()
    # Without times and owners, so that the same content has the same digest.
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data, mode in files:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
    return Blob(LAYER_TYPE, packed.getvalue(), annotations)


def build_image(
    layers: Sequence[Blob],
    *,
    base: Image | None = None,
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Image:
    """Lay layers on an image, or on nothing, and say how it is started."""
    below = json.loads(base.config.data) if base is not None else {}
    config = dict(below.get("config") or {})
    if command:
        config.update({"Entrypoint": list(command), "Cmd": None})
    if environment:
        known = dict(each.partition("=")[::2] for each in config.get("Env") or ())
        known.update(environment)
        config["Env"] = [f"{key}={value}" for key, value in known.items()]
    labels = dict(config.get("Labels") or {})
    # Archives keep no annotations of layers: there this label stands for them.
    labels.update(
        {
            f"{LAYER_ANNOTATION}:{each.digest}": PACKAGE_LAYER
            for each in layers
            if each.annotations.get(LAYER_ANNOTATION) == PACKAGE_LAYER
        }
    )
    config["Labels"] = labels
    diffs = list((below.get("rootfs") or {}).get("diff_ids") or ())
    diffs += [digest_of(gzip.decompress(each.data)) for each in layers]
    made = {
        "os": PLATFORM[0],
        "architecture": PLATFORM[1],
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": diffs},
    }
    blob = Blob(CONFIG_TYPE, json.dumps(made, sort_keys=True).encode())
    return Image(blob, (*(base.layers if base is not None else ()), *layers))


def write_archive(image: Image, path: Path) -> None:
    """Write an image as one file that container tools load."""
    names = [f"{each.digest.removeprefix('sha256:')}.tar.gz" for each in image.layers]
    listing = [{"Config": image.config.digest, "RepoTags": None, "Layers": names}]
    contents: dict[str, bytes] = {image.config.digest: image.config.data}
    contents.update(dict(zip(names, (each.data for each in image.layers), strict=True)))
    contents["manifest.json"] = json.dumps(listing).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    write_in_folder(path, packed.getvalue())


def read_archive(path: Path) -> Image:
    """Read what `write_archive` or a container tool wrote."""
    try:
        with path.open("rb") as stream:
            pieces = iter(partial(stream.read, _PIECE_BYTES), b"")
            files = dict(all_files(pieces, Allowance(_MAX_ARCHIVE_BYTES)))
        listing = json.loads(files["manifest.json"])[0]
        config = Blob(CONFIG_TYPE, files[listing["Config"]])
        labels = (json.loads(config.data).get("config") or {}).get("Labels") or {}
        layers = tuple(_layer_read(files[name], labels) for name in listing["Layers"])
    except (UnreadableLayer, LookupError, ValueError, TypeError, AttributeError) as error:
        raise InvalidPackage(str(path), f"it cannot be read: {error}") from error
    return Image(config, layers)


def _layer_read(data: bytes, labels: Mapping[str, str]) -> Blob:
    packed = data if data[:2] == b"\x1f\x8b" else gzip.compress(data, mtime=0)
    marked = labels.get(f"{LAYER_ANNOTATION}:{digest_of(packed)}")
    return Blob(LAYER_TYPE, packed, {LAYER_ANNOTATION: marked} if marked else {})


def write_in_folder(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever finds half of it, into a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data, is_shared=True)
