"""Composite resources on a real API server, compared with the same writes of a plain client.

The Composition is a usual one: patch-and-transform creates an object, and auto-ready marks it as
ready. An XR is ready only after a second run of the pipeline has seen the object, so the figures
include the time until that run.
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

from tests.bench.bench_controller import request_row, requests_of, requests_through
from tests.bench.measure import Row, growth_row

TITLE = "Composite resources on a real API server"

_SINGLE, _BATCH, _MANY, _MOST = 50, 200, 1000, 5000
_COUNTED, _MOST_REQUESTS = 10, 7
_IDLE_SECONDS = 30
_TICK_SECONDS = 0.01
_PAUSE_SECONDS = 0.5
_THREADS = 16
_THINGS = "/apis/example.org/v1alpha1/namespaces/default/xthings"
_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_CLAIMS = "/apis/example.org/v1alpha1/namespaces/default/stores"
_CLAIMED = "/apis/example.org/v1alpha1/xstores"
_EVENTS = "/api/v1/events"
_PATIENCE_SECONDS = 600.0
_FUNCTIONS = ("function-patch-and-transform", "function-auto-ready")
_COMPOSITIONS = "/apis/apiextensions.crossplane.io/v1/compositions"
_SERVING = re.compile(rb"Serving .*:(\d+) ")


def rows() -> Iterator[Row]:
    from e2e.cluster.local import LocalCluster
    from e2e.cluster.programs import find_programs
    from e2e.cluster.standing import own_folder

    programs = find_programs()
    with own_folder() as folder, LocalCluster(programs, folder) as cluster, ExitStack() as stack:
        bench = _Bench(cluster, Path(folder), stack)
        bench.prepare()
        yield from bench.rows()


def _steps(text: str = "x", prefix: str = "") -> list[dict[str, Any]]:
    """Return steps that create one object with a text, and mark it as ready once it exists."""
    names = (f"{prefix}{function}" for function in _FUNCTIONS)
    make, ready = ({"step": name, "functionRef": {"name": name}} for name in names)
    base = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default"},
        "data": {"text": text},
    }
    patch = {
        "type": "FromCompositeFieldPath",
        "fromFieldPath": "metadata.name",
        "toFieldPath": "data.name",
    }
    resources = {
        "apiVersion": "pt.fn.crossplane.io/v1beta1",
        "kind": "Resources",
        "resources": [{"name": "map", "base": base, "patches": [patch]}],
    }
    return [{**make, "input": resources}, ready]


class _Bench:
    """A cluster, a controller, and a watch that records when resources become ready."""

    def __init__(self, cluster: Any, folder: Path, stack: ExitStack) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._folder = folder
        self._stack = stack
        self._changed = threading.Condition()
        self._ready: dict[str, float] = {}
        self._controller: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        from e2e.composite_objects import composition, definition
        from e2e.conftest import make_namespace
        from e2e.controllers import until
        from kanister_py.executor.install_definitions import read_definitions

        for crd in read_definitions():
            self._client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        make_namespace(self._client, "kanister-py")
        extensions = "/apis/apiextensions.crossplane.io"
        until(lambda: self._answers(f"{extensions}/v2/compositeresourcedefinitions"))
        self._client.post(f"{extensions}/v2/compositeresourcedefinitions", definition())
        self._client.post(_COMPOSITIONS, composition("bench", *_steps()))
        self._client.post(_COMPOSITIONS, composition("served", *_steps(prefix="served-")))
        for function in _FUNCTIONS:
            self._serve(function)
        self.start()
        until(lambda: self._answers(_THINGS))
        threading.Thread(target=self._listen, daemon=True).start()
        for uses in ("bench", "served"):
            self._make([f"{uses}-warm"], uses)
            self._until_ready([f"{uses}-warm"])

    def _serve(self, function: str) -> None:
        """Serve a function over gRPC, under another name than the one in process."""
        words = ("function", "serve", function, "--insecure", "--port", "0", "--processes", "1")
        process = subprocess.Popen(
            [sys.executable, "-m", "kanister_py", *words],
            stderr=subprocess.PIPE,
            env={**os.environ, "NO_COLOR": "1"},
        )
        self._stack.callback(process.kill)
        assert process.stderr is not None
        port = int(next(filter(None, map(_SERVING.search, process.stderr)))[1])
        name = f"served-{function}"
        path = "/apis/pkg.crossplane.io/v1/functionrevisions"
        revision = {
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": "FunctionRevision",
            "metadata": {"name": name, "labels": {"pkg.crossplane.io/package": name}},
            "spec": {"desiredState": "Active", "image": name, "revision": 1},
        }
        self._client.post(path, revision)
        well = {"type": "RuntimeHealthy", "status": "True", "reason": "Serves"}
        well["lastTransitionTime"] = "2026-01-01T10:00:00Z"
        status = {"endpoint": f"ipv4:127.0.0.1:{port}", "conditions": [well]}
        self._client.patch(f"{path}/{name}/status", {"status": status})

    def _answers(self, path: str) -> bool:
        from e2e.cluster.client import ApiFailed

        try:
            self._client.get(path)
        except ApiFailed:
            return False
        return True

    def start(self, kubeconfig: Path | None = None) -> None:
        with (self._folder / "controller.log").open("ab") as log:
            self._controller = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "kanister_py",
                    "controller",
                    "--no-http",
                    "--kubeconfig",
                    str(kubeconfig or self._cluster.kubeconfig),
                    "--leader-elect",
                    "--insecure-functions",
                    "--namespace",
                    "kanister-py",
                    "--home",
                    "kanister-py",
                    "--enable-compositions",
                    "--enable-composition-revisions",
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
            except Exception:  # noqa: BLE001 - the cluster stops, or the server closes the watch
                time.sleep(0.2)

    def _note(self, thing: dict[str, Any]) -> None:
        if _is_ready(thing):
            with self._changed:
                self._ready.setdefault(thing["metadata"]["name"], time.monotonic())
                self._changed.notify_all()

    def _make(self, names: list[str], uses: str = "bench", threads: int = 8) -> None:
        from e2e.composite_objects import thing

        def make(part: list[str]) -> None:
            for name in part:
                self._client.post(_THINGS, thing(name, uses))

        _side_by_side(threads, names, make)

    def _until_ready(self, names: list[str]) -> float:
        """Wait for all of them; return the time at which the last one was ready."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: all(name in self._ready for name in names), _PATIENCE_SECONDS
            )
            if not done:
                raise RuntimeError((self._folder / "controller.log").read_text()[-2000:])
            return max(self._ready[name] for name in names)

    def rows(self) -> Iterator[Row]:
        yield from self._single("bench", "in process")
        yield from self._single("served", "over gRPC")
        milliseconds = []
        for number in range(_SINGLE):
            began = time.monotonic()
            self._write([f"bare-single-{number}"])
            milliseconds.append((time.monotonic() - began) * 1000)
            self._client.delete(f"{_THINGS}/bare-single-{number}")
        name = "a single one, the same writes of a plain client"
        yield Row(name, f"{statistics.median(milliseconds):.0f} ms", "for reading")
        yield from self._batch()
        yield from self._crowds()
        yield from self._claimed()
        yield from self._requests()

    def _single(self, uses: str, how: str) -> Iterator[Row]:
        milliseconds = []
        for number in range(_SINGLE):
            time.sleep(_PAUSE_SECONDS)
            name = f"{uses}-single-{number}"
            began = time.monotonic()
            self._make([name], uses, threads=1)
            milliseconds.append((self._until_ready([name]) - began) * 1000)
        middle, longest = statistics.median(milliseconds), max(milliseconds)
        name = f"a single one {how}, from create to ready"
        yield Row(f"{name}, p50", f"{middle:.0f} ms", "<= 60", middle <= 60)
        yield Row(f"{name}, maximum of {_SINGLE}", f"{longest:.0f} ms", "<= 150", longest <= 150)

    def _requests(self) -> Iterator[Row]:
        """Count the requests of the controller for single resources, through a proxy."""
        from e2e.faults.proxy import FaultProxy

        self._stop()
        with FaultProxy(self._cluster) as proxy:
            self.start(proxy.kubeconfig)
            self._one_by_one("counted-warm", 1)
            proxy.reset()
            self._one_by_one("counted", _COUNTED)
            counted = requests_through(proxy)
            self._stop()
        yield request_row("a single one", counted, _COUNTED, _MOST_REQUESTS)

    def _one_by_one(self, name: str, many: int) -> None:
        for number in range(many):
            self._make([f"{name}-{number}"], threads=1)
            self._until_ready([f"{name}-{number}"])
            # Events are posted later.
            time.sleep(_PAUSE_SECONDS * 4)

    def _batch(self) -> Iterator[Row]:
        names = [f"batch-{number}" for number in range(_BATCH)]
        before = requests_of(self._cluster)
        with self._processor_seconds() as spent:
            began = time.monotonic()
            self._make(names)
            rate = _BATCH / (self._until_ready(names) - began)
        yield Row(f"{_BATCH} at once, ready a second", f"{rate:.1f}", ">= 45", rate >= 45)
        yield Row(
            "processor time of the controller for one", f"{spent() / _BATCH * 1000:.1f} ms", ""
        )
        # Events may be posted later.
        time.sleep(5)
        requests = (requests_of(self._cluster) - before) / _BATCH
        name = "requests for one, with its creation"
        yield Row(name, f"{requests:.1f}", "<= 5.5", requests <= 5.5)
        bare = self._bare_rate()
        name = f"relative to the same writes of a plain client, {bare:.1f} a second"
        yield Row(name, f"{rate / bare:.2f}x", ">= 0.5x", rate / bare >= 0.5)

    def _write(self, names: list[str]) -> None:
        """Perform the writes of composite resources with a plain client."""
        from e2e.composite_objects import thing

        for name in names:
            created = self._client.post(_THINGS, {**thing(name, "nobody")})
            self._client.patch(f"{_THINGS}/{name}", {"metadata": {"labels": {"a": "b"}}})
            self._client.post(
                _CONFIG_MAPS,
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}},
            )
            conditions = {"status": {"crossplane": {"uid": created["metadata"]["uid"]}}}
            self._client.patch(f"{_THINGS}/{name}/status", conditions)

    def _bare_rate(self) -> float:
        names = [f"bare-{number}" for number in range(_BATCH)]
        began = time.monotonic()
        _side_by_side(_THREADS, names, self._write)
        rate = _BATCH / (time.monotonic() - began)
        for name in names:
            self._client.delete(f"{_THINGS}/{name}")
        return rate

    def _crowds(self) -> Iterator[Row]:
        created, idle, change = [], [], []
        create_seconds = 0.0
        for many in (_MANY, _MOST):
            with self._processor_seconds() as spent:
                self._make_up_to(many)
            create_seconds += spent()
            created.append((float(many), create_seconds))
            time.sleep(20)
            with self._processor_seconds() as spent:
                time.sleep(_IDLE_SECONDS)
            idle.append((float(many), max(spent(), _TICK_SECONDS)))
            share = spent() / _IDLE_SECONDS
            yield Row(
                f"{many:,} idle resources, share of a core", f"{share:.1%}", "< 5%", share < 0.05
            )
            with self._processor_seconds() as spent:
                self._change_all(many)
            change.append((float(many), spent()))
            if many == _MANY:
                yield from self._memory_and_restart()
        yield growth_row("new resources", created, "ms each")
        yield growth_row("resources whose Composition changes", change, "ms each")
        yield growth_row(f"idle resources for {_IDLE_SECONDS} s", idle, "ms")

    def _make_up_to(self, many: int) -> None:
        """Create resources until `many` use the same Composition."""
        existing = sum(not name.startswith("served") for name in self._ready)
        names = [f"many-{number}" for number in range(existing, many)]
        self._make(names)
        self._until_ready(names)

    def _change_all(self, many: int) -> None:
        """Change the Composition, and wait until all its users are updated."""
        from e2e.composite_objects import composition

        text, path = f"changed with {many}", f"{_COMPOSITIONS}/bench"
        version = self._client.get(_CONFIG_MAPS, limit="1")["metadata"]["resourceVersion"]
        spec = composition("bench", *_steps(text))["spec"]
        self._client.put(path, {**self._client.get(path), "spec": spec})
        changed = set[str]()
        for event in self._client.watch(
            _CONFIG_MAPS, resourceVersion=version, timeoutSeconds=f"{_PATIENCE_SECONDS:.0f}"
        ):
            if (event["object"].get("data") or {}).get("text") == text:
                changed.add(event["object"]["metadata"]["name"])
            if len(changed) >= many:
                return
        raise RuntimeError(f"{len(changed)} of {many} are updated")

    def _memory_and_restart(self) -> Iterator[Row]:
        memory = self._memory_megabytes()
        yield Row(f"memory with {_MANY:,}", f"{memory:.0f} MB", "< 500 MB", memory < 500)
        # Changed resources may still write their status.
        time.sleep(5)
        before = self._versions()
        self._stop()
        self.start()
        time.sleep(20)
        changed = sum(
            1 for name, version in self._versions().items() if before.get(name) != version
        )
        yield Row("writes after a restart", str(changed), "0", changed == 0)

    def _claimed(self) -> Iterator[Row]:
        """Measure 1,000 idle claims with their resources for a minute."""
        from e2e.composite_objects import claimed_stores
        from e2e.controllers import until

        for path, obj in claimed_stores(*_steps()):
            self._client.post(path, obj)
        until(lambda: self._answers(_CLAIMS))
        api_version = "example.org/v1alpha1"

        def make(part: list[str]) -> None:
            for name in part:
                claim = {"apiVersion": api_version, "kind": "Store", "metadata": {"name": name}}
                self._client.post(_CLAIMS, {**claim, "spec": {}})

        _side_by_side(8, [f"claim-{number}" for number in range(_MANY)], make)
        self._until_claims_are_idle()
        before = self._versions()
        with self._processor_seconds() as spent:
            time.sleep(60)
        after = self._versions()
        written = sum(before.get(name) != version for name, version in after.items())
        share = spent() / 60
        name = f"{_MANY} resources of as many claims, in an idle minute"
        yield Row(f"{name}: writes", str(written), "0", written == 0)
        yield Row(f"{name}: share of a core", f"{share:.2%}", "<= 1%", share <= 0.01)

    def _until_claims_are_idle(self) -> None:
        """Wait until every claim is ready, and nothing has been written for ten seconds."""
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
        items = [obj for path in paths for obj in self._client.get(path)["items"]]
        return {obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"] for obj in items}

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
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _side_by_side(threads: int, names: list[str], act: Callable[[list[str]], None]) -> None:
    started = [
        threading.Thread(target=act, args=(names[index::threads],)) for index in range(threads)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


__all__ = ["TITLE", "rows"]
