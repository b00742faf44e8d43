"""Contents of the image of a Python function: its project, with all that it needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import UsageError

PLATFORMS: Final = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
_ENTRY_POINTS: Final = "kanister_py.functions"

Report = Callable[[str], None]


class Project(NamedTuple):
    """A project as its `pyproject.toml` describes it, and the class that is served."""

    folder: Path
    name: str
    version: str
    target: str


def read_project(folder: Path, target: str = "") -> Project:
    """Read which function a project brings; of several, the caller names one."""
    path = folder / "pyproject.toml"
    try:
        parsed: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise _not_built(folder, "it has no pyproject.toml") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _not_built(path, str(error)) from error
    project = parsed.get("project") or {}
    points = (project.get("entry-points") or {}).get(_ENTRY_POINTS) or {}
    if not target:
        found = sorted(set(points.values()))
        if len(found) != 1:
            there = f"it has {', '.join(found)}" if found else "it has none"
            why = f"it must have one entry point of {_ENTRY_POINTS}, and {there}; name a --class"
            raise _not_built(folder, why)
        target = str(found[0])
    name = str(project.get("name") or folder.resolve().name)
    return Project(folder, name, str(project.get("version") or ""), target)


class Pip:
    """The program pip, which knows where packages come from; its settings count, as ever."""

    def __init__(self, report: Report, *, python_version: str, find_links: Sequence[str]) -> None:
        self._report = report
        self._python_version = python_version
        self._find_links = tuple(find_links)

    def install_project(self, folder: Path, target: Path, *, with_dependencies: bool) -> None:
        """Put a project into a folder, for Linux on amd64, with what it depends on."""
        with TemporaryDirectory(prefix="kanister-py-") as made:
            wheels = Path(made)
            self._build(folder, wheels)
            ours = list(wheels.glob("*.whl"))
            if with_dependencies:
                self._build_own(wheels)
            self._install([str(each) for each in ours], target, wheels, with_dependencies)

    def install_named(self, requirements: Sequence[str], target: Path) -> None:
        """Put packages by their names into a folder, with what they depend on."""
        with TemporaryDirectory(prefix="kanister-py-") as made:
            wheels = Path(made)
            self._build_own(wheels)
            self._install(requirements, target, wheels, True)

    def _build(self, folder: Path, wheels: Path) -> None:
        self._report(f"Building {folder}")
        self._run("wheel", "--no-deps", "--wheel-dir", str(wheels), str(folder.resolve()))

    def _build_own(self, wheels: Path) -> None:
        """Offer what runs here as the package of us, if that is no release that pip can find."""
        source = Path(__file__).parents[3]
        if (source / "pyproject.toml").is_file() and (source / "versions.yaml").is_file():
            self._build(source, wheels)

    def _install(
        self, wanted: Sequence[str], target: Path, wheels: Path, with_dependencies: bool
    ) -> None:
        self._report(f"Installing for Python {self._python_version} on linux/amd64")
        words = ["install", "--target", str(target), "--only-binary=:all:", "--no-compile"]
        words += ["--implementation", "cp", "--python-version", self._python_version]
        for platform in PLATFORMS:
            words += ["--platform", platform]
        for place in (str(wheels), *self._find_links):
            words += ["--find-links", place]
        if not with_dependencies:
            words.append("--no-deps")
        self._run(*words, *wanted)
        # Scripts name the Python of this machine, and these files where a wheel lay on it.
        shutil.rmtree(target / "bin", ignore_errors=True)
        for name in ("direct_url.json", "RECORD"):
            for path in target.glob(f"*.dist-info/{name}"):
                path.unlink()

    def _run(self, verb: str, *words: str) -> None:
        command = [sys.executable, "-m", "pip", verb, "--quiet", "--disable-pip-version-check"]
        try:
            done = subprocess.run(  # noqa: S603 # pip of this very Python, without a shell
                [*command, *words], capture_output=True, text=True, check=False, errors="replace"
            )
        except OSError as error:
            raise _not_built("pip", error.strerror or str(error)) from error
        if done.returncode:
            lines = [each.strip() for each in done.stderr.splitlines() if each.strip()]
            errors = [each for each in lines if each.startswith("ERROR")] or lines[-1:]
            raise _not_built(f"pip {verb}", " ".join(errors) or f"it ended {done.returncode}")


def copy_module(target: str, into: Path) -> None:
    """Copy the package, or the file, in which a `module:Class` lies."""
    top = target.partition(":")[0].partition(".")[0]
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    spec = find_spec(top)
    if spec is None or spec.origin is None:
        raise _not_built(target, f"there is no module {top} here")
    origin = Path(spec.origin)
    if spec.submodule_search_locations:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(origin.parent, into / top, ignore=ignored)
    else:
        shutil.copy2(origin, into / origin.name)


def described_by(folder: Path) -> bytes | None:
    """Give what a project itself says about its package, with the kinds of its inputs."""
    for path in (folder / "package" / "crossplane.yaml", folder / "package" / "package.yaml"):
        if path.is_file():
            beside = sorted(
                each for each in path.parent.rglob("*.y*ml") if each != path and _is_part(each)
            )
            texts = [each.read_text("utf-8").strip("\n") for each in (path, *beside)]
            return "\n---\n".join(texts).encode() + b"\n"
    for path in (folder / "package.yaml", folder / "crossplane.yaml"):
        if path.is_file():
            return path.read_bytes()
    return None


def _is_part(path: Path) -> bool:
    return path.suffix in (".yaml", ".yml") and "examples" not in path.parts


def _not_built(what: object, why: str) -> UsageError:
    return UsageError(f"No package can be made of {what}: {why}", reason="FunctionNotBuilt")
