"""Bring a package of a function to its registry.

kanister-py function push function-bucket.xpkg registry.example.org/acme/function-bucket:v0.1.0
pass show registry | kanister-py function push FILE REF --username ann --password-stdin

Prints the package by its digest, as spec.package of a Function takes it. Who we are is
what docker's config.json says, if the command line says nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kanister_py.cli.function_build import add_login, logins
from kanister_py.cli.output import put, say
from kanister_py.core.revisions.package import InvalidPackageReference, parse_package_reference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="what build has made")
    parser.add_argument("reference", metavar="REF", help="registry/repository:tag")
    add_login(parser)


def run(args: argparse.Namespace) -> int:
    from kanister_py.wiring import package_tools

    tools = package_tools()
    reference = parse_package_reference(args.reference)
    if reference.digest:
        raise InvalidPackageReference(args.reference, "what is pushed is named by a tag")
    image = tools.images.read_archive(args.file)
    say(f"Pushing {args.file} to {reference}")
    packages = tools.packages(ca_file=args.ca_file)
    digest = packages.push(reference, image, logins(args, reference.registry))
    put(str(reference.pinned(digest)))
    return 0
