"""Fixtures for all tests: the sample plugin, installed with pip, and the command line."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import invalidate_caches
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.forked_commands import ForkedCommands

REPOSITORY = Path(__file__).parent.parent
PATIENCE_SECONDS = 180.0
_HAVE_VERBS = {"crds", "function", "functions", "internal", "profile", "revisions", "schema"}
# Variables that only affect the start of Python and its libraries.
_START_READS = {"PYTHONPATH", "PYTHONWARNINGS", "LANG", "LC_ALL", "TZ", "COVERAGE_PROCESS_START"}

# Other processes may slow the machine down, so slowness is not an error.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Every run tries the same examples; `.ci/run --all` tries other ones.
settings.register_profile("same", settings.get_profile("patient"), derandomize=True)
settings.load_profile("same")


def pytest_configure() -> None:
    """Create the folder for files of tests, and enable Ctrl-C for processes of tests."""
    (REPOSITORY / "build").mkdir(exist_ok=True)
    # Share compiled modules among the thousands of processes that tests start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Shells let background processes and their children ignore SIGINT.
        signal.signal(signal.SIGINT, signal.default_int_handler)


_FIRST = ("tests/gate/test_gate.py", "::test_what_fails_for_good_is_told_once")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run the whole suite in several processes, file by file, without long tests.

    Long tests are distributed one by one. Tests that are named on the command line run in this
    process.
    """
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    options = config.option
    options.markexpr = options.markexpr or "not long"
    has_numprocesses = (
        hasattr(config, "workerinput") or getattr(options, "numprocesses", 0) is not None
    )
    if not has_numprocesses and not options.usepdb and not options.collectonly:
        # One more process than processors, because some of them wait.
        options.numprocesses = min(4, (os.cpu_count() or 1) + 1)
        options.dist = "loadfile" if options.markexpr == "not long" else "worksteal"
        options.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with long tests, so that no process runs alone at the end."""
    items.sort(key=lambda item: not any(entry in item.nodeid for entry in _FIRST))


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.option.markexpr == "not long":
        terminalreporter.write_line("Tests that take long were left out: `pytest -m long`")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if a gate was skipped although every gate must run."""
    if not os.environ.get("KANISTER_PY_EVERY_GATE"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if reporter is not None and skipped:
        reporter.write_line(f"KANISTER_PY_EVERY_GATE: {len(skipped)} were skipped", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the skipped tests with their reasons on the last line."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if reporter is not None and skipped:
        reporter.write_line(summary_of_skipped([report.longrepr[2] for report in skipped]))


def summary_of_skipped(reasons: Sequence[str]) -> str:
    counts = Counter(reason.removeprefix("Skipped: ").partition("\n")[0] for reason in reasons)
    causes = "; ".join(f"{count}: {why}" for why, count in sorted(counts.items()))
    return f"Skipped {len(reasons)} tests, {causes}"


@pytest.fixture(autouse=True)
def _log_of_a_command() -> Iterator[None]:
    """Remove log handlers of a command that ran in this process."""
    yield
    root, ours = logging.getLogger(), logging.getLogger("kanister_py")
    for handler in [*root.handlers]:
        if type(handler).__module__.startswith("kanister_py"):
            root.removeHandler(handler)
            ours.setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def plugin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sample plugin, built and installed with pip."""
    target = tmp_path_factory.mktemp("plugins")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-cache-dir",
            "--no-deps",
            "--no-build-isolation",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
            "--target",
            str(target),
            str(REPOSITORY / "tests/plugin_sample"),
        ],
        check=True,
    )
    return target


@pytest.fixture
def with_plugin(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the sample plugin in this process."""
    from kanister_py.wiring import read_functions

    monkeypatch.syspath_prepend(str(plugin_folder))
    invalidate_caches()
    read_functions.cache_clear()
    yield plugin_folder
    read_functions.cache_clear()
    for name in [module for module in sys.modules if module.startswith("acme_functions")]:
        del sys.modules[name]


@dataclass(frozen=True)
class Finished:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class CommandLine:
    """Runner of `kanister-py` in a separate process, with the sample plugin installed.

    The first run of every command starts a new interpreter; later runs are forked.
    """

    def __init__(self, plugin_folder: Path) -> None:
        self._plugins = plugin_folder
        self._forked: ForkedCommands | None = None
        self._begun: set[tuple[str, ...]] = set()

    def __call__(
        self,
        *words: str,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> Finished:
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("KANISTER_PY_")
        }
        environment |= {"PYTHONPATH": str(self._plugins), "NO_COLOR": "1"}
        input_bytes = stdin.encode() if isinstance(stdin, str) else stdin
        command = words[:2] if words[0] in _HAVE_VERBS else words[:1]
        if command in self._begun and not prefix and not _START_READS & {*(env or {})}:
            self._forked = self._forked or ForkedCommands(environment)
            environment |= env or {}
            ended = self._forked.run(words, input_bytes, environment, cwd, PATIENCE_SECONDS)
            return Finished(ended[0], ended[1].decode(), ended[2].decode())
        self._begun.add(command)
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "kanister_py", *words],
            input=input_bytes,
            capture_output=True,
            env={**environment, **(env or {})},
            cwd=cwd,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    def close(self) -> None:
        if self._forked is not None:
            self._forked.close()


@pytest.fixture(scope="session")
def kanister(plugin_folder: Path) -> Iterator[CommandLine]:
    command = CommandLine(plugin_folder)
    yield command
    command.close()
