"""Masking of secret data in the output of a composition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

REDACTED = "**REDACTED**"


def masked_secrets(value: Any, secret_keys: tuple[str, ...] = ()) -> Any:
    """Return data with the contents of all Secrets in it masked.

    Maps under one of `secret_keys` are masked as well.
    """
    if isinstance(value, list):
        return [masked_secrets(item, secret_keys) for item in value]
    if not isinstance(value, dict):
        return value
    hides = is_secret(value)
    return {
        key: _redacted(part)
        if (hides and key in ("data", "stringData"))
        # In the input of a function, `connectionDetails` is a list of rules without secret values.
        or (key in secret_keys and isinstance(part, dict))
        else masked_secrets(part, secret_keys)
        for key, part in value.items()
    }


def secrets_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the Secrets at any depth of data."""
    if isinstance(value, dict) and is_secret(value):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from secrets_in(part)


def is_secret(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a Kubernetes Secret."""
    return value.get("kind") == "Secret" and value.get("apiVersion") == "v1"


def masked_message(value: Any) -> Any:
    """Mask Secrets, credentials and connection details in a message of the protocol."""
    return masked_secrets(value, ("connectionDetails", "credentialData"))


def _redacted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _redacted(part) for key, part in value.items()}
    return REDACTED
