"""Flags of the controller for compositions, and the part that they configure."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanister_py.cli.parser import (
    CommandLineError,
    namespace,
    seconds_from,
    size,
    switch,
    whole_number,
)

if TYPE_CHECKING:
    from kanister_py.controller.machine.part import PartMaker
    from kanister_py.wiring import Functions


def add_composition_arguments(group: Any) -> None:
    """Add the flags for compositions."""
    switch(
        group,
        "--enable-compositions",
        help="reconcile composite resources, instead of Crossplane",
    )
    switch(
        group,
        "--enable-composition-revisions",
        help="create a revision for each change of a Composition, which resources pin or follow; "
        "without this flag, they use the Composition itself",
    )
    switch(
        group,
        "--enable-function-revisions",
        help="install the packages of Functions and run each active revision; without this flag, "
        "only built-in functions and functions with an endpoint are called",
    )
    switch(
        group,
        "--replace-crossplane",
        help="run although Crossplane is installed; scale Crossplane to 0 first",
    )
    switch(
        group,
        "--disable-extra-resources",
        help="give functions only the resources that they compose",
    )
    switch(
        group,
        "--restrict-extra-resources",
        help="give functions of a namespaced composite resource only resources of its namespace",
    )
    group.add_argument(
        "--keep-composition-revisions",
        type=whole_number(0, 999_999),
        default=0,
        metavar="N",
        help="keep the newest N revisions of a Composition and all used ones; 0 keeps all",
    )
    group.add_argument(
        "--poll-interval",
        type=seconds_from("0s"),
        default="0s",
        metavar="DURATION",
        help="also reconcile all composite resources at this interval; 0s: only after changes",
    )
    group.add_argument(
        "--compose-workers",
        type=whole_number(1, 9_999),
        default=32,
        metavar="N",
        help="composite resources to reconcile at a time; one kind gets at most three eighths of "
        "them, and one function a quarter; default: %(default)s",
    )
    group.add_argument(
        "--max-answer-size",
        type=size,
        default="8Mi",
        metavar="SIZE",
        help="largest response of a function, unless the annotation "
        "kanister-py.io/max-answer-size of its Function sets another; default: %(default)s",
    )
    group.add_argument(
        "--package-runtime",
        choices=("Deployment", "InProcess", "External"),
        default="Deployment",
        help="runtime of Functions without the annotation kanister-py.io/runtime",
    )
    group.add_argument(
        "--functions-namespace",
        type=namespace,
        metavar="NAMESPACE",
        help="namespace for the pods, certificates and pull secrets of packages; default: --home",
    )
    group.add_argument(
        "--package-cache", default="", metavar="DIR", help="cache packages in this folder"
    )
    group.add_argument(
        "--registry-ca",
        default="",
        metavar="FILE",
        help="additional authority for certificates of registries",
    )
    group.add_argument(
        "--certificate-life",
        # Authorities are valid for ten years, and certificates cannot be valid for longer.
        type=seconds_from("1s", "87600h"),
        default="2160h",
        metavar="DURATION",
        help="validity of certificates of functions; renewed when a third is left",
    )
    group.add_argument(
        "--function-certificates",
        default="",
        metavar="DIR",
        help="folder with tls.crt, tls.key and ca.crt for calls of functions; default: the "
        "controller issues the certificates",
    )
    switch(group, "--insecure-functions", help="call functions without TLS")


def composition_parts(
    args: argparse.Namespace, functions: Functions, home: str, stack: ExitStack
) -> list[PartMaker]:
    """Return the part of the controller that reconciles compositions, if it is enabled."""
    dependent = ("enable_composition_revisions", "enable_function_revisions", "replace_crossplane")
    if not args.enable_compositions:
        if args.disable_actionsets:
            raise CommandLineError("--disable-actionsets needs --enable-compositions")
        set_flags = [flag for flag in dependent if getattr(args, flag)]
        if set_flags:
            flag = set_flags[0].replace("_", "-")
            raise CommandLineError(f"--{flag} needs --enable-compositions")
        return []
    from kanister_py.controller.functions.settings import CompositionSettings
    from kanister_py.core.revisions.functions import Runtime
    from kanister_py.wiring import FunctionAccess, composition_part

    settings = CompositionSettings(
        args.functions_namespace or home,
        uses_revisions=args.enable_composition_revisions,
        runs_functions=args.enable_function_revisions,
        gives_resources=not args.disable_extra_resources,
        restricts_resources=args.restrict_extra_resources,
        keeps_revisions=args.keep_composition_revisions,
        poll_seconds=args.poll_interval,
        workers=args.compose_workers,
        default_runtime=Runtime(args.package_runtime),
        is_strict=args.strict_versions,
        certificate_life=timedelta(seconds=args.certificate_life),
        is_paused=args.paused,
        partition=args.partition,
    )
    access = FunctionAccess(
        _path(args.package_cache),
        _path(args.registry_ca),
        _path(args.function_certificates),
        args.insecure_functions,
        args.replace_crossplane,
        args.max_answer_size,
    )
    return [composition_part(functions, settings, access, stack)]


def _path(text: str) -> Path | None:
    return Path(text) if text else None
