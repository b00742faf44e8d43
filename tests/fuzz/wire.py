"""Mutated messages of composition functions, compared with protobuf's own implementation."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf import json_format

from kanister_py.proto.decoding import decode_message
from kanister_py.proto.encoding import encode_message
from kanister_py.proto.errors import NotDecodable
from kanister_py.proto.messages import V1, message_class
from tests.fuzz.mutations import mutated
from tests.proto.examples import MESSAGES, whole_numbers_as_ints


def wire(choose: random.Random) -> bool:
    """Parse and write a mutated message, and compare with protobuf."""
    name, data = choose.choice(_SHORT)
    full = f"{V1}.{name}"
    changed = mutated(encode_message(full, data), choose)
    try:
        ours = decode_message(full, changed)
    except NotDecodable:
        return False
    # Ours must reject everything that protobuf rejects: this raises if protobuf does.
    theirs = message_class(full).FromString(changed)
    fields = json_format.MessageToDict(theirs)
    assert _is_part_of(whole_numbers_as_ints(fields), ours), changed.hex()
    written = message_class(full).FromString(encode_message(full, ours))
    assert _is_part_of(
        whole_numbers_as_ints(fields), whole_numbers_as_ints(json_format.MessageToDict(written))
    ), changed.hex()
    return True


def _short(value: Any) -> Any:
    """Shorten long texts, which would receive most of the mutations."""
    if isinstance(value, dict):
        return {key: _short(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_short(element) for element in value]
    return value[:20] if isinstance(value, str) and len(value) > 100 else value


def _is_part_of(theirs: Any, ours: Any) -> bool:
    """Compare two messages, ignoring map entries that contain an unknown field.

    The Python library treats such an entry as an unknown field; Go, C++ and our code keep it.
    """
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(key in ours and _is_part_of(value, ours[key]) for key, value in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(_is_part_of, theirs, ours))
    return bool(theirs == ours and type(theirs) is type(ours))


_SHORT = [(name, _short(data)) for name, data in MESSAGES]
