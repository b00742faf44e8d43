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

from tests.bench.bench_controller import request_row, requests_of, requests_through
from tests.bench.measure import Row, growth_row

TITLE = "Composite resources on a real API server"

_LONE, _BATCH, _MANY, _MOST = 50, 200, 1000, 5000
_COUNTED, _MOST_REQUESTS = 10, 7
_REST_SECONDS = 30
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
    """Make one object that says something, and call it ready once it is there."""
    names = (f"{prefix}{each}" for each in _FUNCTIONS)
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
    made = {
        "apiVersion": "pt.fn.crossplane.io/v1beta1",
        "kind": "Resources",
        "resources": [{"name": "map", "base": base, "patches": [patch]}],
    }
    return [{**make, "input": made}, ready]


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
        """Serve a function over gRPC, and call it by another name than the one in process."""
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
            except Exception:  # noqa: BLE001 - the cluster ends, or the server cut the watch
                time.sleep(0.2)

    def _note(self, thing: dict[str, Any]) -> None:
        if _is_ready(thing):
            with self._changed:
                self._ready.setdefault(thing["metadata"]["name"], time.monotonic())
                self._changed.notify_all()

    def _make(self, names: list[str], uses: str = "bench", threads: int = 8) -> None:
        from e2e.test_compositions import thing

        def make(part: list[str]) -> None:
            for name in part:
                self._client.post(_THINGS, thing(name, uses))

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
        yield from self._lone("bench", "in process")
        yield from self._lone("served", "over gRPC")
        taken = []
        for number in range(_LONE):
            began = time.monotonic()
            self._write([f"bare-lone-{number}"])
            taken.append((time.monotonic() - began) * 1000)
            self._client.delete(f"{_THINGS}/bare-lone-{number}")
        name = "a lone one, the bare client's same writes"
        yield Row(name, f"{statistics.median(taken):.0f} ms", "for reading")
        yield from self._batch()
        yield from self._crowds()
        yield from self._claimed()
        yield from self._requests()

    def _lone(self, uses: str, how: str) -> Iterator[Row]:
        taken = []
        for number in range(_LONE):
            time.sleep(_PAUSE_SECONDS)
            name = f"{uses}-lone-{number}"
            began = time.monotonic()
            self._make([name], uses, threads=1)
            taken.append((self._until_ready([name]) - began) * 1000)
        middle, longest = statistics.median(taken), max(taken)
        what = f"a lone one {how} from create to ready"
        yield Row(f"{what}, p50", f"{middle:.0f} ms", "<= 60", middle <= 60)
        yield Row(f"{what}, of {_LONE} the longest", f"{longest:.0f} ms", "<= 150", longest <= 150)

    def _requests(self) -> Iterator[Row]:
        """Count what lone ones cost, through a proxy: nothing that is another's is among it."""
        from e2e.faults.proxy import FaultProxy

        self._stop()
        with FaultProxy(self._cluster) as proxy:
            self.start(proxy.kubeconfig)
            self._one_by_one("counted-warm", 1)
            proxy.reset()
            self._one_by_one("counted", _COUNTED)
            counted = requests_through(proxy)
            self._stop()
        yield request_row("a lone one", counted, _COUNTED, _MOST_REQUESTS)

    def _one_by_one(self, name: str, many: int) -> None:
        for number in range(many):
            self._make([f"{name}-{number}"], threads=1)
            self._until_ready([f"{name}-{number}"])
            # What tells of it follows what does it.
            time.sleep(_PAUSE_SECONDS * 4)

    def _batch(self) -> Iterator[Row]:
        names = [f"batch-{number}" for number in range(_BATCH)]
        before = requests_of(self._cluster)
        with self._processor_seconds() as spent:
            began = time.monotonic()
            self._make(names)
            rate = _BATCH / (self._until_ready(names) - began)
        yield Row(f"{_BATCH} at once, ready a second", f"{rate:.1f}", ">= 45", rate >= 45)
        yield Row("our processor time for each", f"{spent() / _BATCH * 1000:.1f} ms", "")
        # What tells of it may follow what does it.
        time.sleep(5)
        each = (requests_of(self._cluster) - before) / _BATCH
        name = "requests for each, its creation counted"
        yield Row(name, f"{each:.1f}", "<= 5.5", each <= 5.5)
        bare = self._bare_rate()
        name = f"beside the same writes of the bare client, {bare:.1f} a second"
        yield Row(name, f"{rate / bare:.2f}x", ">= 0.5x", rate / bare >= 0.5)

    def _write(self, names: list[str]) -> None:
        """Make the writes of composite resources, with nothing in between."""
        from e2e.test_compositions import thing

        for name in names:
            made = self._client.post(_THINGS, {**thing(name, "nobody")})
            self._client.patch(f"{_THINGS}/{name}", {"metadata": {"labels": {"a": "b"}}})
            self._client.post(
                _CONFIG_MAPS,
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}},
            )
            conditions = {"status": {"crossplane": {"uid": made["metadata"]["uid"]}}}
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
        come, rest, change = [], [], []
        made = 0.0
        for many in (_MANY, _MOST):
            with self._processor_seconds() as spent:
                self._make_up_to(many)
            made += spent()
            come.append((float(many), made))
            time.sleep(20)
            with self._processor_seconds() as spent:
                time.sleep(_REST_SECONDS)
            rest.append((float(many), max(spent(), _TICK_SECONDS)))
            share = spent() / _REST_SECONDS
            yield Row(
                f"{many:,} resources at rest, of one core", f"{share:.1%}", "< 5%", share < 0.05
            )
            with self._processor_seconds() as spent:
                self._change_all(many)
            change.append((float(many), spent()))
            if many == _MANY:
                yield from self._memory_and_restart()
        yield growth_row("resources that come", come, "ms each")
        yield growth_row("resources whose Composition changes", change, "ms each")
        yield growth_row(f"resources at rest for {_REST_SECONDS} s", rest, "ms")

    def _make_up_to(self, many: int) -> None:
        """Have so many that follow one Composition, those counted that are there."""
        there = sum(not each.startswith("served") for each in self._ready)
        names = [f"many-{number}" for number in range(there, many)]
        self._make(names)
        self._until_ready(names)

    def _change_all(self, many: int) -> None:
        """Change the Composition, and wait until all that follow it have what it says now."""
        from e2e.test_compositions import composition

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
        raise RuntimeError(f"{len(changed)} of {many} have what their Composition says")

    def _memory_and_restart(self) -> Iterator[Row]:
        memory = self._memory_megabytes()
        yield Row(f"memory with {_MANY:,}", f"{memory:.0f} MB", "< 500 MB", memory < 500)
        # Those that have changed may be about to say so.
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
        """Leave 1,000 claims and their resources alone for a minute, beside all that is there."""
        from e2e.test_compositions import claimed_stores
        from e2e.test_controller import until

        for path, each in claimed_stores(*_steps()):
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
