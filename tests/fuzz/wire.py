"""Mutated messages of composition functions, both ways, against protobuf's own answers."""

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
    """Read and write a mutated message as protobuf does."""
    name, data = choose.choice(_SHORT)
    full = f"{V1}.{name}"
    changed = mutated(encode_message(full, data), choose)
    try:
        ours = decode_message(full, changed)
    except NotDecodable:
        return False
    # What protobuf refuses, ours refuses too: this parses.
    theirs = message_class(full).FromString(changed)
    fields = json_format.MessageToDict(theirs)
    assert _is_part_of(whole_numbers_as_ints(fields), ours), changed.hex()
    written = message_class(full).FromString(encode_message(full, ours))
    assert _is_part_of(
        whole_numbers_as_ints(fields), whole_numbers_as_ints(json_format.MessageToDict(written))
    ), changed.hex()
    return True


def _short(value: Any) -> Any:
    """Leave long texts out, which would take most of the mutations."""
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_short(element) for element in value]
    return value[:20] if isinstance(value, str) and len(value) > 100 else value


def _is_part_of(theirs: Any, ours: Any) -> bool:
    """Say whether both are the same, but for entries of maps that hold an unknown field.

    The library puts such an entry aside as a whole; protobuf in Go and C++ keeps it, as we do.
    """
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(key in ours and _is_part_of(value, ours[key]) for key, value in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(_is_part_of, theirs, ours))
    return bool(theirs == ours and type(theirs) is type(ours))


_SHORT = [(name, _short(data)) for name, data in MESSAGES]
