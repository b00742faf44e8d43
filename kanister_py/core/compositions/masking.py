"""Masking of secret data in the output of a composition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

REDACTED = "**REDACTED**"


def masked_secrets(value: Any, secret_keys: tuple[str, ...] = ()) -> Any:
    """Give data in which what Secrets hold is masked, wherever they stand.

    So is every map under one of `secret_keys`.
    """
    if isinstance(value, list):
        return [masked_secrets(each, secret_keys) for each in value]
    if not isinstance(value, dict):
        return value
    hides = is_secret(value)
    return {
        key: _redacted(each)
        if (hides and key in ("data", "stringData"))
        # Where it is a list, it is an input that says which details there are to be.
        or (key in secret_keys and isinstance(each, dict))
        else masked_secrets(each, secret_keys)
        for key, each in value.items()
    }


def secrets_in(value: Any) -> Iterator[dict[str, Any]]:
    """Find the Secrets in data, wherever they stand."""
    if isinstance(value, dict) and is_secret(value):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from secrets_in(each)


def is_secret(value: Mapping[str, Any]) -> bool:
    """Say whether an object is a Secret of Kubernetes."""
    return value.get("kind") == "Secret" and value.get("apiVersion") == "v1"


def masked_message(value: Any) -> Any:
    """Mask in a message of the protocol what `masked_secrets` does, credentials and connections."""
    return masked_secrets(value, ("connectionDetails", "credentialData"))


def _redacted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _redacted(each) for key, each in value.items()}
    return REDACTED
