"""Fixtures of every folder: the sample plugin, installed as a user would install it."""

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
# What Python and its libraries look at while they start, and never again.
_START_READS = {"PYTHONPATH", "PYTHONWARNINGS", "LANG", "LC_ALL", "TZ", "COVERAGE_PROCESS_START"}

# What is wrong is found whatever else the machine does: being slow is not wrong.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Every run tries the same examples; `.ci/run --all` looks for others.
settings.register_profile("same", settings.get_profile("patient"), derandomize=True)
settings.load_profile("same")


def pytest_configure() -> None:
    """Make the folder that holds everything tests leave, and let Ctrl-C reach what they start."""
    (REPOSITORY / "build").mkdir(exist_ok=True)
    # A thousand processes are started: what one has compiled, the next need not.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs in its background deaf to it, and all that this starts as well.
        signal.signal(signal.SIGINT, signal.default_int_handler)


_FIRST = ("tests/gate/test_gate.py", "::test_what_fails_for_good_is_told_once")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Have processes share the whole suite, file by file, without what takes long.

    What takes long is shared test by test. Tests that are named run in this process.
    """
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    options = config.option
    options.markexpr = options.markexpr or "not long"
    is_asked = hasattr(config, "workerinput") or getattr(options, "numprocesses", 0) is not None
    if not is_asked and not options.usepdb and not options.collectonly:
        # One more than there are processors: some of them wait.
        options.numprocesses = min(4, (os.cpu_count() or 1) + 1)
        options.dist = "loadfile" if options.markexpr == "not long" else "worksteal"
        options.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long: at the end, one process would wait for the other."""
    items.sort(key=lambda item: not any(entry in item.nodeid for entry in _FIRST))


def pytest_collection_finish() -> None:
    """Look for garbage in what tests make, not in thousands of tests again and again."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.option.markexpr == "not long":
        terminalreporter.write_line("Tests that take long were left out: `pytest -m long`")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where every gate must run and one was skipped: a skipped gate is not a passed one."""
    if not os.environ.get("KANISTER_PY_EVERY_GATE"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if reporter is not None and skipped:
        reporter.write_line(f"KANISTER_PY_EVERY_GATE: {len(skipped)} were skipped", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say in the very last line what was skipped, and for lack of what."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if reporter is not None and skipped:
        reporter.write_line(skipped_for_lack_of_what([entry.longrepr[2] for entry in skipped]))


def skipped_for_lack_of_what(reasons: Sequence[str]) -> str:
    counts = Counter(reason.removeprefix("Skipped: ").partition("\n")[0] for reason in reasons)
    causes = "; ".join(f"{count}: {why}" for why, count in sorted(counts.items()))
    return f"Skipped {len(reasons)} tests, {causes}"


@pytest.fixture(autouse=True)
def _log_of_a_command() -> Iterator[None]:
    """Leave no log of a command that ran in this process to the tests behind."""
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
    """The sample plugin, built and installed into a folder of its own."""
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
    """Have the sample plugin installed, in this process."""
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
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


class CommandLine:
    """Runs `kanister-py` in a process of its own, with the sample plugin installed.

    The first of each command starts anew and reads all its code; the others are forked.
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
        given = stdin.encode() if isinstance(stdin, str) else stdin
        command = words[:2] if words[0] in _HAVE_VERBS else words[:1]
        if command in self._begun and not prefix and not _START_READS & {*(env or {})}:
            self._forked = self._forked or ForkedCommands(environment)
            environment |= env or {}
            ended = self._forked.run(words, given, environment, cwd, PATIENCE_SECONDS)
            return Finished(ended[0], ended[1].decode(), ended[2].decode())
        self._begun.add(command)
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "kanister_py", *words],
            input=given,
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
