"""Masking of secret data in what a composition shows."""

from __future__ import annotations

from typing import Any

REDACTED = "**REDACTED**"


def masked_secrets(value: Any) -> Any:
    """Give data in which what Secrets hold is masked, wherever they stand."""
    if isinstance(value, list):
        return [masked_secrets(each) for each in value]
    if not isinstance(value, dict):
        return value
    is_secret = value.get("kind") == "Secret" and value.get("apiVersion") == "v1"
    return {
        key: _redacted(each)
        if is_secret and key in ("data", "stringData")
        else masked_secrets(each)
        for key, each in value.items()
    }


def masked_message(value: Any) -> Any:
    """Mask in a message of the protocol what `masked_secrets` does, credentials and connections."""
    if isinstance(value, list):
        return [masked_message(each) for each in value]
    if not isinstance(value, dict):
        return value
    masked = {
        key: _redacted(each)
        # Where it is a list, it is an input that says which details there are to be.
        if key in ("connectionDetails", "credentialData") and isinstance(each, dict)
        else masked_message(each)
        for key, each in value.items()
    }
    return masked_secrets(masked)


def _redacted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _redacted(each) for key, each in value.items()}
    return REDACTED
