"""Parsers of flags that refer to objects, such as `--profile shop/s3`.

They check the form only. The namespace of a reference without one is chosen later.
The models of references are slow to import, so they are imported when a flag is parsed,
and not when a command only completes or explains its flags.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from kanister_py.core.errors import UsageError


def object_reference(text: str) -> str:
    """Check a reference to an object, such as `StatefulSet/shop/db`."""
    from kanister_py.core.actionsets.references import parse_object_reference

    return _checked(text, parse_object_reference)


def named_reference(text: str) -> str:
    """Check `REF=NAMESPACE/NAME`."""
    from kanister_py.core.actionsets.references import parse_named_reference

    return _checked(text, parse_named_reference)


def place(text: str) -> str:
    """Check `NAMESPACE/NAME`."""
    from kanister_py.core.actionsets.references import parse_place

    return _checked(text, parse_place)


def _checked(text: str, parse: Callable[[str], object]) -> str:
    try:
        parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return text
