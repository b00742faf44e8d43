"""Flags that provide the inputs that templates of an action use and the run lacks."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Final

from kanister_py.core.yaml.documents import nearest

_FLAGS: Final = {
    ".Secrets": "--secret {}=NAMESPACE/NAME",
    ".ConfigMaps": "--config-map {}=NAMESPACE/NAME",
    ".Options": "--option {}=VALUE",
    ".Profile": "--profile NAMESPACE/NAME",
}
_OBJECT_FLAGS: Final = {
    f".{kind}": f"--object {kind}/NAMESPACE/NAME"
    for kind in ("StatefulSet", "Deployment", "DeploymentConfig", "PVC")
}
_MISSING: Final = re.compile(r'no "([^"]+)" in \.(\w+);(?: there are: ([^;]*))?')
_MISSING_IN_JINJA: Final = re.compile(r"'([^']+)' is undefined in (\w+);(?: there are: ([^;]*))?")
_NO_POD: Final = re.compile(r"index out of range, in <index \.\w+\.Pods ")
_MISSING_ROOT: Final = re.compile(r"(?<!\S)\.?(\w+) is missing and has no ")


def flags_by_root(args: argparse.Namespace) -> dict[str, str]:
    """Return the flag that provides each root of templates, such as `.Secrets`.

    With `--object` on the command line, flags for other objects are left out: the mistake is
    then in the template.
    """
    return _FLAGS if args.object else {**_FLAGS, **_OBJECT_FLAGS}


def flags_for_missing(
    problems: Sequence[str], flags: Mapping[str, str], *, may_be_misspelt: bool = False
) -> list[str]:
    """Return the flags that provide the missing inputs that `problems` report, without repeats.

    A name similar to an existing one is left out as misspelt, unless `may_be_misspelt`.
    """
    missing = [
        (f".{match[2]}", match[1])
        for problem in problems
        if (match := _MISSING.search(problem) or _MISSING_IN_JINJA.search(problem))
        and (may_be_misspelt or not nearest(match[1], (match[3] or "").split(", ")))
    ]
    if any(_NO_POD.search(problem) for problem in problems):
        missing.append((".Pods", ""))
    missing += [
        (f".{match[1]}", "") for problem in problems if (match := _MISSING_ROOT.search(problem))
    ]
    texts = (flags[root].format(name) for root, name in missing if root in flags)
    return [*dict.fromkeys(texts)]
