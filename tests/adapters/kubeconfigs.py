"""Kubeconfigs for tests of the Kubernetes adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def kubeconfig(folder: Path, url: str, user: Mapping[str, Any] | None = None) -> Path:
    path = folder / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user or {"token": "s3cr3t"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "shop", "context": {"cluster": "c", "user": "u", "namespace": "shop"}},
        ],
    }
    path.write_text(json.dumps(config))
    return path
