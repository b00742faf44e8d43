"""Flags of the controller for compositions, and the parts they make."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanister_py.cli.parser import CommandLineError, namespace, seconds_from, size, switch, whole

if TYPE_CHECKING:
    from kanister_py.controller.machine.part import PartMaker
    from kanister_py.wiring import Functions


def add_composition_arguments(group: Any) -> None:
    switch(
        group,
        "--enable-compositions",
        help="compose the resources of CompositeResourceDefinitions, in Crossplane's place",
    )
    switch(
        group,
        "--enable-composition-revisions",
        help="make a revision of each change of a Composition, which resources hold or follow; "
        "without it they use the Composition itself",
    )
    switch(
        group,
        "--enable-function-revisions",
        help="install the packages of Functions and run each active revision; without it, "
        "functions that come with kanister-py are called, and whatever has an endpoint",
    )
    switch(
        group,
        "--replace-crossplane",
        help="act even though Crossplane is installed: scale it to 0 first",
    )
    switch(
        group,
        "--disable-extra-resources",
        help="give functions no resources of the cluster but those they compose",
    )
    switch(
        group,
        "--restrict-extra-resources",
        help="give functions of a namespaced composite resource only resources of its namespace",
    )
    group.add_argument(
        "--keep-composition-revisions",
        type=whole(0, 999_999),
        default=0,
        metavar="N",
        help="keep the newest N revisions of a Composition and all that are used; 0 keeps all",
    )
    group.add_argument(
        "--poll-interval",
        type=seconds_from("0s"),
        default="0s",
        metavar="DURATION",
        help="look at every composite resource so often, besides whenever something changes",
    )
    group.add_argument(
        "--compose-workers",
        type=whole(1, 9_999),
        default=32,
        metavar="N",
        help="composite resources that are reconciled at a time; of these, those of one kind take "
        "up three eighths, and those that call one function a quarter; default: %(default)s",
    )
    group.add_argument(
        "--max-answer-size",
        type=size,
        default="8Mi",
        metavar="SIZE",
        help="the largest answer of a function that is read, unless the annotation "
        "kanister-py.io/max-answer-size of its Function says another; default: %(default)s",
    )
    group.add_argument(
        "--package-runtime",
        choices=("Deployment", "InProcess", "External"),
        default="Deployment",
        help="who runs a Function whose annotation kanister-py.io/runtime says nothing",
    )
    group.add_argument(
        "--functions-namespace",
        type=namespace,
        metavar="NAMESPACE",
        help="namespace for the pods, certificates and pull secrets of packages; default: that of "
        "--home",
    )
    group.add_argument(
        "--package-cache", default="", metavar="DIR", help="where packages are kept once read"
    )
    group.add_argument(
        "--registry-ca", default="", metavar="FILE", help="an authority that registries may have"
    )
    group.add_argument(
        "--certificate-life",
        # Authorities live for ten years: nothing that they sign is good for longer.
        type=seconds_from("1s", "87600h"),
        default="2160h",
        metavar="DURATION",
        help="how long certificates of functions live; they are renewed when a third is left",
    )
    group.add_argument(
        "--function-certificates",
        default="",
        metavar="DIR",
        help="tls.crt, tls.key and ca.crt to call functions with, where nobody here makes them",
    )
    switch(group, "--insecure-functions", help="call functions in the clear")


def composition_parts(
    args: argparse.Namespace, functions: Functions, home: str, stack: ExitStack
) -> list[PartMaker]:
    """Make the part of the controller that composes, if it is switched on."""
    needs = ("enable_composition_revisions", "enable_function_revisions", "replace_crossplane")
    if not args.enable_compositions:
        if args.disable_actionsets:
            raise CommandLineError("--disable-actionsets goes with --enable-compositions")
        set_flags = [flag for flag in needs if getattr(args, flag)]
        if set_flags:
            flag = set_flags[0].replace("_", "-")
            raise CommandLineError(f"--{flag} goes with --enable-compositions")
        return []
    from kanister_py.controller.functions.settings import CompositionSettings
    from kanister_py.core.revisions.functions import Runtime
    from kanister_py.wiring import FunctionAccess, composing_part

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
    return [composing_part(functions, settings, access, stack)]


def _path(text: str) -> Path | None:
    return Path(text) if text else None
