"""Mutated YAML: it is parsed or rejected with a position, and all parsers agree."""

from __future__ import annotations

import random

from kanister_py.core.errors import InvalidDocument
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.core.yaml.go_yaml import dump_go_yaml
from kanister_py.functions.composition.templating.manifests import parse_simple
from tests.fuzz.mutations import mutated_text

_WORDS = (
    ": ",
    "- ",
    "? ",
    "|",
    ">",
    "|2-",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "!x ",
    "{",
    "}",
    "[",
    "]",
    "---",
    "...",
    "%YAML 1.2",
    "#",
    '"',
    "'",
    "\\",
    "\t",
    "\n",
    "\n  ",
    "\r\n",
    "\x00",
    "\x85",
    "\ufeff",
    "é",
    "\U0001f600",
    "~",
    "null",
    "yes",
    "0o17",
    "0x1F",
    "1e3",
    ".inf",
    ".nan",
    "12:30",
    "2024-01-01",
    "9" * 400,
    "-0",
    "1_000",
    "=",
    "@",
    "`",
    ",",
)
_DOCUMENTS = (
    (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {x: 'y'}\n"
        "data:\n  k: |\n    one\n    two\n"
    ),
    'a: &x\n  - b: 1\n    c: [1, 2.5, true]\n  - d\nuse: *x\n---\nsecond: "t\\tn\\u00e9"\n',
    (
        "spec:\n  containers:\n  - name: a\n    args:\n    - --x=1\n"
        "    env:\n    - name: A\n      value: 'b c'\n"
    ),
    "? complex\n: value\nfolded: >-\n  one\n  two\n\nnothing:\nf: 1e3\nd: 2024-01-01T00:00:00Z\n",
)


def yaml_documents(choose: random.Random) -> bool:
    """Parse a mutation, write the result and parse that again, also with the fast parser."""
    text = mutated_text(choose.choice(_DOCUMENTS), _WORDS, choose)
    try:
        documents = parse_documents(text, repeated_keys_win=True)
    except InvalidDocument:
        return False
    values = [document.root.value for document in documents]
    for value in values:
        (again,) = parse_documents(dump_go_yaml(value))
        assert again.root.value == value, text
    if "\n---" not in text and "%" not in text and len(values) == 1:
        assert parse_simple(text) in (None, values[0]), text
    return True
