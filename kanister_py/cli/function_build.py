"""Make a package of a composition function in Python, as Crossplane installs them.

kanister-py function build . --base registry.example.org/python:3.13-slim
kanister-py function build . --base registry.example.org/kanister-py:0.2.0 --no-deps
kanister-py function build acme.functions:Bucket --package-only --name function-bucket

A project is a folder with a pyproject.toml. It is built and installed with pip, with all
that it depends on, and laid on the image that --base names. What it says about itself in
package/crossplane.yaml, or in package.yaml, goes into the package; without that it is
written for you. The file is pushed with kanister-py function push.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.output import put, say, say_warning
from kanister_py.cli.parser import CommandLineError, pair, repeated, switch
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.revisions.lifecycles import LIFECYCLE, read_lifecycle
from kanister_py.core.revisions.package import (
    META_GROUP,
    parse_function_package,
    parse_package_reference,
)
from kanister_py.core.yaml.documents import dump_yaml, parse_documents

if TYPE_CHECKING:
    from kanister_py.wiring import Image, Project

_PREFIX: Final = "function"
_PYTHON: Final = re.compile(r"3\.\d{1,2}\Z")
_CLASS: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")
_DEFAULT_PYTHON: Final = "3.13"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FOLDER|MODULE:CLASS", help="a project, or a class")
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="where to; default: NAME.xpkg in this folder"
    )
    parser.add_argument(
        "--base", default="", metavar="IMAGE", help="what it is laid on: an image with Python"
    )
    switch(
        parser,
        "--package-only",
        "--no-runtime",
        help="only what the package says, for a function that runs somewhere else",
    )
    parser.add_argument("--class", dest="served", default="", metavar="MODULE:CLASS")
    parser.add_argument("--name", default="", help="what the package is called")
    repeated(parser, "--label", type=pair, metavar="KEY=VALUE", help="may be given again")
    repeated(parser, "--capability", help="may be given again; default: composition")
    parser.add_argument(
        "--python-version",
        type=_python_release,
        metavar="3.N",
        help=f"what it runs on; default: what the base says, else {_DEFAULT_PYTHON}",
    )
    switch(parser, "--no-deps", help="install no dependencies: the base has them")
    repeated(parser, "--find-links", metavar="DIR", help="where pip looks, too")
    add_login(parser)


def _python_release(text: str) -> str:
    if _PYTHON.match(text):
        return text
    raise argparse.ArgumentTypeError(f"must be such as {_DEFAULT_PYTHON}, found {text!r}")


def add_login(parser: argparse.ArgumentParser) -> None:
    """Take the login to a registry; without it, docker's own file says so."""
    who = parser.add_argument_group("which registry")
    who.add_argument("--username", default="", help="default: what docker's config.json says")
    switch(who, "--password-stdin", help="read the password there")
    who.add_argument(
        "--ca-file", type=Path, metavar="FILE", help="trust certificates of this authority, too"
    )


def logins(args: argparse.Namespace, registry: str) -> list[Any]:
    """Find the login for one registry: what the user says, else what docker knows."""
    from kanister_py.ports.packages import RegistryLogin
    from kanister_py.wiring import package_tools

    if bool(args.username) != args.password_stdin:
        raise CommandLineError("--username and --password-stdin go together")
    if args.username:
        return [RegistryLogin(registry, args.username, sys.stdin.read().rstrip("\r\n"))]
    found = package_tools().login_for(registry)
    return [found] if found is not None else []


def run(args: argparse.Namespace) -> int:
    if bool(args.base) == args.package_only:
        raise CommandLineError(
            "Name the image that it runs on with --base, or make a "
            "package without one with --package-only"
        )
    from kanister_py.wiring import package_tools

    images = package_tools().images
    project, target, name = _meant(args)
    described = _described(project, name, args)
    if args.package_only:
        image = images.build_image([images.package_layer(described)])
    else:
        image = _with_runtime(args, project, target, described)
    file: Path = args.file or Path(f"{name}.xpkg")
    images.write_archive(image, file)
    size = sum(len(each.data) for each in image.layers)
    say(f"{image.manifest().digest}, {size / (1 << 20):.1f} MiB")
    put(str(file))
    return 0


def _meant(args: argparse.Namespace) -> tuple[Project | None, str, str]:
    """Find the project, the class and the package's name that are meant."""
    from kanister_py.cli.function_targets import invalid_target
    from kanister_py.wiring import package_tools

    folder = Path(args.source)
    if folder.is_dir():
        project = package_tools().contents.read_project(folder, args.served)
        if not _CLASS.match(project.target):
            raise invalid_target(project.target, "it is no module:Class")
        return project, project.target, args.name or project.name
    if not _CLASS.match(args.source):
        raise invalid_target(args.source, "it is neither a folder nor a module:Class")
    if not args.name:
        raise CommandLineError("A class needs a --name as well")
    return None, args.source, args.name


def _described(project: Project | None, name: str, args: argparse.Namespace) -> bytes:
    from kanister_py.wiring import package_tools

    labels = dict(args.label)
    text = package_tools().contents.described_by(project.folder) if project is not None else None
    where = f"The package of {name}"
    if text is None:
        documents: list[Any] = [
            {
                "apiVersion": f"{META_GROUP}/v1",
                "kind": "Function",
                "metadata": {"name": name, **({"labels": labels} if labels else {})},
                "spec": {"capabilities": args.capability or ["composition"]},
            }
        ]
    else:
        documents = [each.value for each in parse_documents(text, where)]
        for each in documents:
            if str(each.get("apiVersion", "")).startswith(f"{META_GROUP}/"):
                _overlay(each, args.name, labels, args.capability)
    described = "---\n".join(dump_yaml(each) for each in documents).encode()
    record = parse_function_package(described, where).annotations.get(LIFECYCLE)
    if record:
        read_lifecycle(record)
    return described


def _overlay(
    document: dict[str, Any], name: str, labels: dict[str, str], capable: list[str]
) -> None:
    """Let what the command line says win over the project's own file."""
    metadata = document.setdefault("metadata", {})
    if name:
        metadata["name"] = name
    if labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    if capable:
        document["spec"] = {**spec_of(document), "capabilities": list(capable)}


def _with_runtime(
    args: argparse.Namespace, project: Project | None, target: str, described: bytes
) -> Image:
    from tempfile import TemporaryDirectory

    from kanister_py.wiring import package_tools

    tools = package_tools()
    reference = parse_package_reference(args.base)
    say(f"Pulling {reference}")
    packages = tools.packages(ca_file=args.ca_file)
    base = packages.pull(reference, logins(args, reference.registry))
    python = _python_version(args.python_version, base)
    pip = tools.contents.Pip(say, python_version=python, find_links=args.find_links)
    with TemporaryDirectory(prefix="kanister-py-") as made:
        into = Path(made)
        if project is not None:
            pip.install_project(project.folder, into, with_dependencies=not args.no_deps)
        else:
            tools.contents.copy_module(target, into)
            if not args.no_deps:
                pip.install_named(["kanister-py"], into)
        layer = tools.images.files_layer(into, _PREFIX)
    image: Image = tools.images.build_image(
        [layer, tools.images.package_layer(described)],
        base=base,
        command=["python", "-m", "kanister_py", "function", "serve", target],
        environment={"PYTHONPATH": f"/{_PREFIX}", "PYTHONUNBUFFERED": "1"},
    )
    return image


def _python_version(asked: str, base: Image) -> str:
    """Say for which Python packages are installed; images of Python say theirs."""
    config = json.loads(base.config.data).get("config") or {}
    variables = dict(str(each).partition("=")[::2] for each in config.get("Env") or ())
    found = ".".join(str(variables.get("PYTHON_VERSION", "")).split(".")[:2])
    if asked and found and asked != found:
        say_warning(f"the base has Python {found}, and packages are installed for {asked}")
    return asked or found or _DEFAULT_PYTHON
