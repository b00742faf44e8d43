"""Expectation of errors that only their reason tells apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kanister_py.core.errors import UsageError


@contextmanager
def refused_as(reason: str, match: str | None = None) -> Iterator[pytest.ExceptionInfo[UsageError]]:
    """Expect an error that is the user's to mend, with this reason."""
    with pytest.raises(UsageError, match=match) as caught:
        yield caught
    assert caught.value.reason == reason
