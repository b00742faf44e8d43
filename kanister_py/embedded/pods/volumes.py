"""Volumes of pods as files and folders of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import TransientError, UsageError
from kanister_py.embedded.pods.environment import (
    data_of,
    field_of,
)
from kanister_py.embedded.pods.launcher import Mount
from kanister_py.ports.pods import PodSources


class VolumeUnavailable(TransientError, reason="FailedMount"):
    """A volume of a pod does not exist (yet)."""


_DEFAULT_MODE: Final = 0o644
_DEFAULT_TOKEN_SECONDS: Final = 3600
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


class Volume(NamedTuple):
    """Volume of a pod, and its path on this machine."""

    path: Path
    read_only: bool = False


class Claims:
    """Folders with the data of PersistentVolumeClaims.

    A claim has the same folder in every run. A claim that is created again starts empty.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path_of(self, claim: Mapping[str, Any]) -> Path:
        """Return the folder of a claim."""
        metadata = claim["metadata"]
        name = _UNSAFE.sub("_", f"{metadata['name']}-{str(metadata.get('uid', ''))[:8]}")
        return self._folder / _UNSAFE.sub("_", metadata["namespace"]) / name

    def names_with_data(self) -> list[str]:
        """Return the claims whose folders contain data, as `namespace/name`."""
        return sorted(
            {
                f"{path.parent.name}/{path.name.rpartition('-')[0]}"
                for path in self._folder.glob("*/*")
                if any(path.iterdir())
            }
        )

    def open(self, claim: Mapping[str, Any]) -> Path:
        """Return the folder of a claim, created if necessary."""
        path = self.path_of(claim)
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        return path


class Volumes:
    """Volumes of a pod in the folder of the pod."""

    def __init__(self, folder: Path, claims: Claims, sources: PodSources) -> None:
        self._folder = folder
        self._claims = claims
        self._sources = sources

    def prepare(self, pod: Mapping[str, Any]) -> dict[str, Volume]:
        """Create the volumes of a pod. Raises `VolumeUnavailable` for missing objects."""
        prepared: dict[str, Volume] = {}
        for volume in pod["spec"].get("volumes") or ():
            prepared[volume["name"]] = self._prepare_one(pod, volume)
        return prepared

    def _prepare_one(self, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> Volume:
        name = volume["name"]
        namespace = pod["metadata"]["namespace"]
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            return self._claim(namespace, claim["claimName"], bool(claim.get("readOnly")))
        folder = self._folder / _UNSAFE.sub("_", name)
        if "emptyDir" in volume:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)
            return Volume(folder)
        files = self._files(pod, volume)
        _write_files(folder, files)
        return Volume(folder, read_only=True)

    def _files(
        self, pod: Mapping[str, Any], volume: Mapping[str, Any]
    ) -> dict[str, tuple[bytes, int]]:
        for kind in ("configMap", "secret", "downwardAPI"):
            if (source := volume.get(kind)) is not None:
                mode = int(source.get("defaultMode") or _DEFAULT_MODE)
                return dict(self._source_files(pod, kind, source, mode))
        if (projected := volume.get("projected")) is not None:
            mode = int(projected.get("defaultMode") or _DEFAULT_MODE)
            files: dict[str, tuple[bytes, int]] = {}
            for entry in projected.get("sources") or ():
                for kind, source in entry.items():
                    files |= dict(self._source_files(pod, kind, source, mode))
            return files
        kinds = ", ".join(sorted(set(volume) - {"name"})) or "nothing"
        raise UsageError(
            f"Volume {volume['name']} is of kind {kinds}; pods as processes have emptyDir, "
            "persistentVolumeClaim, configMap, secret, projected and downwardAPI",
            reason="VolumeNotSupported",
        )

    def _source_files(
        self, pod: Mapping[str, Any], kind: str, source: Mapping[str, Any], mode: int
    ) -> Iterator[tuple[str, tuple[bytes, int]]]:
        namespace = pod["metadata"]["namespace"]
        if kind == "downwardAPI":
            for item in source.get("items") or ():
                if "fieldRef" not in item:
                    raise UsageError(
                        "resourceFieldRef is not supported by pods as processes",
                        reason="VolumeNotSupported",
                    )
                text = field_of(pod, item["fieldRef"]["fieldPath"])
                yield item["path"], (text.encode(), int(item.get("mode") or mode))
            return
        if kind == "serviceAccountToken":
            token = self._sources.service_account_token(
                namespace,
                pod["spec"].get("serviceAccountName") or "default",
                source.get("audience") or "",
                int(source.get("expirationSeconds") or _DEFAULT_TOKEN_SECONDS),
            )
            if token is not None:
                yield source["path"], (token.encode(), mode)
            return
        name = source.get("secretName") or source.get("name") or ""
        find = self._sources.config_map if kind == "configMap" else self._sources.secret
        obj = find(namespace, name)
        is_optional = bool(source.get("optional"))
        if obj is None:
            if is_optional:
                return
            raise VolumeUnavailable(f'{kind.lower()} "{name}" not found')
        data = data_of(obj)
        items = source.get("items") or [{"key": key, "path": key} for key in sorted(data)]
        for item in items:
            if item["key"] in data:
                yield item["path"], (data[item["key"]], int(item.get("mode") or mode))
            elif not is_optional:
                raise VolumeUnavailable(
                    f"{kind.lower()} references non-existent key: {item['key']}"
                )

    def _claim(self, namespace: str, name: str, read_only: bool) -> Volume:
        claim = self._sources.claim(namespace, name)
        if claim is None:
            raise VolumeUnavailable(f'persistentvolumeclaim "{name}" not found')
        return Volume(self._claims.open(claim), read_only)


def mounts_of(container: Mapping[str, Any], volumes: Mapping[str, Volume]) -> list[Mount]:
    """Return the mounts of a container."""
    mounts = []
    for volume_mount in container.get("volumeMounts") or ():
        volume = volumes.get(volume_mount["name"])
        if volume is None:
            raise VolumeUnavailable(f"volume {volume_mount['name']} is not defined in the pod")
        sub_path = volume_mount.get("subPath") or ""
        source = _sub_path(volume, sub_path) if sub_path else volume.path
        mounts.append(
            Mount(
                str(source),
                volume_mount["mountPath"],
                read_only=volume.read_only or bool(volume_mount.get("readOnly")),
            )
        )
    return mounts


def _sub_path(volume: Volume, sub_path: str) -> Path:
    base = volume.path.resolve()
    path = (base / sub_path).resolve()
    # Links inside of the volume must not lead out of it.
    if sub_path.startswith("/") or not path.is_relative_to(base):
        raise VolumeUnavailable(f"subPath {sub_path} leads out of its volume")
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(0o777)
    return path


def _write_files(folder: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (data, mode) in files.items():
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise VolumeUnavailable(f"path {name} leads out of its volume")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(data)
        path.chmod(mode)
