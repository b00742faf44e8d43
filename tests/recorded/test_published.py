"""Published blueprints that move data run unmodified: backup, destroy, restore, verify, delete."""

from __future__ import annotations

from kanister_py.core.kube.locations import Location
from kanister_py.ports.cluster import Cluster
from kanister_py.wiring import object_stores
from tests.recorded.published import act, cluster, location

__all__ = ["cluster", "location"]


def in_app(cluster: Cluster, script: str) -> bytes:
    """Run a script in the container of the application."""
    from kanister_py.core.kube.resources import PODS

    (pod,) = cluster.list(PODS, namespace="default").items
    name = pod["metadata"]["name"]
    with cluster.exec(name, ["sh", "-c", script], namespace="default") as session:
        output = b"".join(chunk.data for chunk in session)
        assert session.exit_code == 0, output
    return output


def test_time_log_is_restored(cluster: Cluster, location: Location) -> None:
    in_app(cluster, "until [ -s /var/log/time.log ]; do sleep 0.1; done; echo kept >/var/log/mark")
    artifacts = act(cluster, "backup")
    assert artifacts["timeLog"]["keyValue"]["path"] == "kbucket/time-log"
    in_app(cluster, "echo lost >/var/log/mark")
    act(cluster, "restore", artifacts)
    assert in_app(cluster, "cat /var/log/mark") == b"kept\n"
    act(cluster, "delete", artifacts)
    assert list(object_stores().open(location).list("")) == []
