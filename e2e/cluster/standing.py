"""A test cluster for one session, with a node and a folder of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.local import LocalCluster
from e2e.cluster.network import pod_network
from e2e.cluster.programs import Programs
from e2e.node.node import E2ENode
from kanister_py.embedded.pods.node_setup import sweep


@contextlib.contextmanager
def standing_cluster(
    programs: Programs, *, folder: Path | None = None, has_node: bool = True
) -> Iterator[LocalCluster]:
    """Start a cluster, stop it at the end and remove its folder. A given folder is kept."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(own_folder())
        cluster = stack.enter_context(LocalCluster(programs, folder.absolute()))
        if has_node:
            stack.enter_context(E2ENode(cluster, pod_network=pod_network()))
        yield cluster


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """Create a folder for one cluster, and remove the folders of killed clusters."""
    clusters = Path(tempfile.gettempdir()) / f"kanister-py-e2e-{os.getuid()}"
    clusters.mkdir(mode=0o700, exist_ok=True)
    sweep(clusters)
    folder = clusters / uuid.uuid4().hex[:12]
    folder.mkdir(mode=0o700)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
