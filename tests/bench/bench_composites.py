"""Composite resources on a real API server, beside the bare client's same writes.

The Composition is what users write: patch-and-transform makes an object, auto-ready says when
it is there. So an XR is ready only once a second pass has seen what the first one made: with a
template that calls its object ready from the start, as here before, nobody saw how long that
second pass was in coming.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.bench.measure import Row

TITLE = "Composite resources on a real API server"

_LONE, _BATCH, _MANY = 50, 200, 1000
_PAUSE_SECONDS = 0.5
_THREADS = 16
_THINGS = "/apis/example.org/v1alpha1/namespaces/default/xthings"
_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_CLAIMS = "/apis/example.org/v1alpha1/namespaces/default/stores"
_CLAIMED = "/apis/example.org/v1alpha1/xstores"
_EVENTS = "/api/v1/events"
_PATIENCE_SECONDS = 300.0


def rows() -> list[Row]:
    from e2e.cluster.local import LocalCluster
    from e2e.cluster.programs import GoMissing, find_programs
    from e2e.cluster.standing import own_folder

    try:
        programs = find_programs("")
    except GoMissing as error:
        print(f"NOTHING IS MEASURED: {error}", file=sys.stderr)
        return []
    with own_folder() as folder, LocalCluster(programs, folder) as cluster, ExitStack() as stack:
        bench = _Bench(cluster, Path(folder), stack)
        bench.prepare()
        return list(bench.rows())


_STEPS: list[dict[str, Any]] = [
    {
        "step": "make",
        "functionRef": {"name": "function-patch-and-transform"},
        "input": {
            "apiVersion": "pt.fn.crossplane.io/v1beta1",
            "kind": "Resources",
            "resources": [
                {
                    "name": "map",
                    "base": {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"namespace": "default"},
                        "data": {"text": "x"},
                    },
                    "patches": [
                        {
                            "type": "FromCompositeFieldPath",
                            "fromFieldPath": "metadata.name",
                            "toFieldPath": "data.name",
                        }
                    ],
                }
            ],
        },
    },
    {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
]


class _Bench:
    """A cluster, a controller on it, and a watch that knows at once what is ready."""

    def __init__(self, cluster: Any, folder: Path, stack: ExitStack) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._folder = folder
        self._stack = stack
        self._changed = threading.Condition()
        self._ready: dict[str, float] = {}
        self._controller: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        from e2e.conftest import make_namespace
        from e2e.test_compositions import composition, definition
        from e2e.test_controller import until
        from kanister_py.executor.install_definitions import read_definitions

        for each in read_definitions():
            self._client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        make_namespace(self._client, "kanister-py")
        extensions = "/apis/apiextensions.crossplane.io"
        until(lambda: self._answers(f"{extensions}/v2/compositeresourcedefinitions"))
        self._client.post(f"{extensions}/v2/compositeresourcedefinitions", definition())
        self._client.post(f"{extensions}/v1/compositions", composition("bench", *_STEPS))
        self.start()
        until(lambda: self._answers(_THINGS))
        threading.Thread(target=self._listen, daemon=True).start()
        self._make(["warm"])
        self._until_ready(["warm"])

    def _answers(self, path: str) -> bool:
        from e2e.cluster.client import ApiFailed

        try:
            self._client.get(path)
        except ApiFailed:
            return False
        return True

    def start(self) -> None:
        with (self._folder / "controller.log").open("ab") as log:
            self._controller = subprocess.Popen(
                [
                    *(sys.executable, "-m", "kanister_py", "controller", "--no-http"),
                    *("--kubeconfig", str(self._cluster.kubeconfig), "--leader-elect"),
                    *("--namespace", "kanister-py", "--home", "kanister-py"),
                    *("--enable-compositions", "--enable-composition-revisions"),
                ],
                stderr=log,
            )
        self._stack.callback(self._controller.kill)

    def _stop(self) -> None:
        assert self._controller is not None
        self._controller.terminate()
        self._controller.wait(30)

    def _listen(self) -> None:
        while True:
            try:
                for event in self._client.watch(_THINGS, timeoutSeconds="3600"):
                    self._note(event["object"])
            except Exception:  # noqa: BLE001 - the cluster ends, or the server cut the watch
                time.sleep(0.2)

    def _note(self, thing: dict[str, Any]) -> None:
        if _is_ready(thing):
            with self._changed:
                self._ready.setdefault(thing["metadata"]["name"], time.monotonic())
                self._changed.notify_all()

    def _make(self, names: list[str], threads: int = 8) -> None:
        from e2e.test_compositions import thing

        def make(part: list[str]) -> None:
            for name in part:
                self._client.post(_THINGS, thing(name, "bench"))

        _side_by_side(threads, names, make)

    def _until_ready(self, names: list[str]) -> float:
        """Wait for all of them, and give the time at which the last one was ready."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: all(name in self._ready for name in names), _PATIENCE_SECONDS
            )
            if not done:
                raise RuntimeError((self._folder / "controller.log").read_text()[-2000:])
            return max(self._ready[name] for name in names)

    def rows(self) -> Iterator[Row]:
        yield from self._lone()
        yield from self._batch()
        yield from self._crowd()
        yield from self._claimed()

    def _lone(self) -> Iterator[Row]:
        taken = []
        for number in range(_LONE):
            time.sleep(_PAUSE_SECONDS)
            name = f"lone-{number}"
            began = time.monotonic()
            self._make([name], threads=1)
            taken.append((self._until_ready([name]) - began) * 1000)
        middle, longest = statistics.median(taken), max(taken)
        yield Row("a lone one from create to ready, p50", f"{middle:.0f} ms", "<= 60", middle <= 60)
        yield Row(f"the longest of {_LONE}", f"{longest:.0f} ms", "<= 150", longest <= 150)

    def _batch(self) -> Iterator[Row]:
        names = [f"batch-{number}" for number in range(_BATCH)]
        before = self._writes()
        with self._processor_seconds() as spent:
            began = time.monotonic()
            self._make(names)
            rate = _BATCH / (self._until_ready(names) - began)
        yield Row(f"{_BATCH} at once, ready a second", f"{rate:.1f}", ">= 45", rate >= 45)
        yield Row("our processor time for each", f"{spent() / _BATCH * 1000:.1f} ms", "")
        # What tells of it may follow what does it.
        time.sleep(5)
        each = (self._writes() - before) / _BATCH
        yield Row("writes for each, its creation counted", f"{each:.1f}", "<= 5.5", each <= 5.5)
        ratio = rate / self._bare_rate()
        name = "beside the same writes of the bare client"
        yield Row(name, f"{ratio:.2f}x", ">= 0.5x", ratio >= 0.5)

    def _writes(self) -> float:
        """Count what was written of our kinds, as the API server counts it."""
        wanted = re.compile(
            r'apiserver_request_total\{[^}]*resource="(?:xthings|configmaps|events)"'
            r'[^}]*verb="(?!WATCH|LIST|GET)[^}]*\} (\S+)'
        )
        return sum(map(float, wanted.findall(self._client.text("/metrics"))))

    def _bare_rate(self) -> float:
        """Make the writes of one resource as often, with nothing in between."""
        from e2e.test_compositions import thing

        def make(part: list[str]) -> None:
            for name in part:
                made = self._client.post(_THINGS, {**thing(name, "nobody")})
                self._client.patch(f"{_THINGS}/{name}", {"metadata": {"labels": {"a": "b"}}})
                self._client.post(
                    _CONFIG_MAPS,
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}},
                )
                conditions = {"status": {"crossplane": {"uid": made["metadata"]["uid"]}}}
                self._client.patch(f"{_THINGS}/{name}/status", conditions)

        names = [f"bare-{number}" for number in range(_BATCH)]
        began = time.monotonic()
        _side_by_side(_THREADS, names, make)
        rate = _BATCH / (time.monotonic() - began)
        for name in names:
            self._client.delete(f"{_THINGS}/{name}")
        return rate

    def _crowd(self) -> Iterator[Row]:
        names = [f"many-{number}" for number in range(_MANY)]
        self._make(names)
        self._until_ready(names)
        time.sleep(20)
        with self._processor_seconds() as spent:
            time.sleep(10)
        share = spent() / 10
        yield Row(f"{_MANY} at rest, of one core", f"{share:.1%}", "< 5%", share < 0.05)
        memory = self._memory_megabytes()
        yield Row(f"memory with {_MANY}", f"{memory:.0f} MB", "< 500 MB", memory < 500)
        before = self._versions()
        self._stop()
        self.start()
        time.sleep(20)
        changed = sum(
            1 for name, version in self._versions().items() if before.get(name) != version
        )
        yield Row("writes after a restart", str(changed), "0", changed == 0)

    def _claimed(self) -> Iterator[Row]:
        """Leave 1,000 claims and their resources alone for a minute, beside all that is there."""
        from e2e.test_compositions import claimed_stores
        from e2e.test_controller import until

        for path, each in claimed_stores(*_STEPS):
            self._client.post(path, each)
        until(lambda: self._answers(_CLAIMS))
        api_version = "example.org/v1alpha1"

        def make(part: list[str]) -> None:
            for name in part:
                claim = {"apiVersion": api_version, "kind": "Store", "metadata": {"name": name}}
                self._client.post(_CLAIMS, {**claim, "spec": {}})

        _side_by_side(8, [f"claim-{number}" for number in range(_MANY)], make)
        self._until_claims_rest()
        before = self._versions()
        with self._processor_seconds() as spent:
            time.sleep(60)
        after = self._versions()
        written = sum(before.get(name) != version for name, version in after.items())
        share = spent() / 60
        what = f"{_MANY} resources of as many claims, in a minute at rest"
        yield Row(f"{what}: writes", str(written), "0", written == 0)
        yield Row(f"{what}: of one core", f"{share:.2%}", "<= 1%", share <= 0.01)

    def _until_claims_rest(self) -> None:
        """Wait until every claim is ready, and nobody has written anything for ten seconds."""
        end = time.monotonic() + _PATIENCE_SECONDS
        before: dict[str, str] = {}
        while time.monotonic() < end:
            time.sleep(10)
            now = self._versions()
            if now == before and all(map(_is_ready, self._client.get(_CLAIMS)["items"])):
                return
            before = now
        raise RuntimeError((self._folder / "controller.log").read_text()[-2000:])

    def _versions(self) -> dict[str, str]:
        paths = [_THINGS, _CONFIG_MAPS]
        if self._answers(_CLAIMS):
            paths += [_CLAIMS, _CLAIMED, _EVENTS]
        items = [each for path in paths for each in self._client.get(path)["items"]]
        return {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in items}

    @contextmanager
    def _processor_seconds(self) -> Iterator[Callable[[], float]]:
        began = self._spent()
        ended: list[float] = []
        yield lambda: ended[0] - began
        ended.append(self._spent())

    def _spent(self) -> float:
        assert self._controller is not None
        fields = Path(f"/proc/{self._controller.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _memory_megabytes(self) -> float:
        assert self._controller is not None
        status = Path(f"/proc/{self._controller.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _is_ready(obj: dict[str, Any]) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _side_by_side(threads: int, names: list[str], act: Callable[[list[str]], None]) -> None:
    started = [
        threading.Thread(target=act, args=(names[index::threads],)) for index in range(threads)
    ]
    for each in started:
        each.start()
    for each in started:
        each.join()


__all__ = ["TITLE", "rows"]
