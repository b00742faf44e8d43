"""Creation of objects: --dry-run, --output and --wait of all commands that create something."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.follow_actionset import follow
from kanister_py.cli.output import write_data
from kanister_py.cli.parser import pairs, switch

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject

_FORMATS: Final = ("yaml", "json", "name")


def add_creation_flags(group: Any, *, takes_inputs: bool = False, can_wait: bool = False) -> None:
    """Add the flags that `create` reads; `takes_inputs` is set for commands with `--options`."""
    switch(group, "--dry-run", help="print the object and create nothing")
    if takes_inputs:
        switch(group, "--skip-validation", help="do not check that all named objects exist")
    if can_wait:
        switch(group, "--wait", help="show the progress of the ActionSet until it has ended")
    description = "print the created object in this format"
    if takes_inputs:
        group.add_argument(
            "-o",
            "--output",
            action=_OutputOrOptions,
            default="",
            metavar="|".join(_FORMATS),
            help=description,
        )
    else:
        group.add_argument("-o", "--output", choices=_FORMATS, default="", help=description)


class _OutputOrOptions(argparse.Action):
    """Store an output format. `-o KEY=VALUE` adds options, as kanctl's `-o` does."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002 - argparse's signature
    ) -> None:
        text = str(values)
        if "=" in text:
            namespace.options = [*namespace.options, *pairs(text)]
        elif text in _FORMATS:
            setattr(namespace, self.dest, text)
        else:
            raise argparse.ArgumentError(
                self, f"must be one of {', '.join(_FORMATS)}, found {text!r}"
            )


def create(
    args: argparse.Namespace,
    cluster: Cluster,
    obj: KubeObject,
    check: Callable[[KubeObject], None] = lambda _: None,
) -> int:
    """Create an object, or only print it with --dry-run; `check` gets the created object."""
    created = obj if args.dry_run else cluster.create(obj)
    created["metadata"].pop("managedFields", None)
    if not args.dry_run:
        check(created)
    form = getattr(args, "output", "") or ("yaml" if args.dry_run else "line")
    name = created["metadata"]["name"]
    write_data(created, form, lambda: [f"{obj['kind'].lower()} {name} created"])
    if args.dry_run or not getattr(args, "wait", False):
        return 0
    return follow(cluster, args.namespace, name)
