"""Remedies: the flags that give what the templates of an action lack."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Final

from kanister_py.core.yaml.documents import nearest

_GIVES: Final = {
    ".Secrets": "--secret {}=NAMESPACE/NAME",
    ".ConfigMaps": "--config-map {}=NAMESPACE/NAME",
    ".Options": "--option {}=VALUE",
    ".Profile": "--profile NAMESPACE/NAME",
}
_OBJECTS: Final = {
    f".{kind}": f"--object {kind}/NAMESPACE/NAME"
    for kind in ("StatefulSet", "Deployment", "DeploymentConfig", "PVC")
}
_LACKING: Final = re.compile(r'no "([^"]+)" in \.(\w+);(?: there are: ([^;]*))?')
_LACKING_IN_JINJA: Final = re.compile(r"'([^']+)' is undefined in (\w+);(?: there are: ([^;]*))?")
_NO_POD: Final = re.compile(r"index out of range, in <index \.\w+\.Pods ")
_NOT_THERE: Final = re.compile(r"(?<!\S)\.?(\w+) is not there, and has no ")


def inputs_that_give(args: argparse.Namespace) -> dict[str, str]:
    """Say by the root that templates read which of the inputs gives what stands there.

    An object that was named is not named again: what is wrong then is the template.
    """
    return _GIVES if args.object else {**_GIVES, **_OBJECTS}


def ways_to_give(
    problems: Sequence[str], gives: Mapping[str, str], *, may_be_near: bool = False
) -> list[str]:
    """Say how what templates read and nobody gave is given, each once.

    Where a name like it is there, it is taken for misspelt, unless it `may_be_near`.
    """
    lacking = [
        (f".{found[2]}", found[1])
        for each in problems
        if (found := _LACKING.search(each) or _LACKING_IN_JINJA.search(each))
        and (may_be_near or not nearest(found[1], (found[3] or "").split(", ")))
    ]
    if any(_NO_POD.search(each) for each in problems):
        lacking.append((".Pods", ""))
    lacking += [(f".{found[1]}", "") for each in problems if (found := _NOT_THERE.search(each))]
    ways = (gives[root].format(name) for root, name in lacking if root in gives)
    return [*dict.fromkeys(ways)]
