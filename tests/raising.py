"""Context manager for errors that differ only in their reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kanister_py.core.errors import UsageError


@contextmanager
def refused_as(reason: str, match: str | None = None) -> Iterator[pytest.ExceptionInfo[UsageError]]:
    """Expect a UsageError with this reason."""
    with pytest.raises(UsageError, match=match) as caught:
        yield caught
    assert caught.value.reason == reason
