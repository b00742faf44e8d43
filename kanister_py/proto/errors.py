"""Errors of messages. This module does not import protobuf."""

from __future__ import annotations


class NotDecodable(ValueError):
    """Bytes are not a valid message."""


class TooManyValues(NotDecodable):
    """A message has more values than are allowed."""
