"""Names: which ones Kubernetes takes, and how ours are made."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Final

MAX_LABEL: Final = 63
MAX_SUBDOMAIN: Final = 253
_GENERATED_LENGTH: Final = 5
_MAX_GENERATED_BASE: Final = MAX_LABEL - _GENERATED_LENGTH

# No vowels and no digits that look like letters: nothing generated says a word.
SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def _form(pattern: str, most: int, wanted: str) -> tuple[re.Pattern[str], int, str]:
    return re.compile(pattern), most, f"{wanted}, regex used for validation is '{pattern}')"


_LABEL: Final = _form(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    MAX_LABEL,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc'",
)
_LABEL_1035: Final = _form(
    r"[a-z]([-a-z0-9]*[a-z0-9])?",
    MAX_LABEL,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
    "an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
    "'abc-123'",
)
_SUBDOMAIN: Final = _form(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    MAX_SUBDOMAIN,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'example.com'",
)
_QUALIFIED: Final = _form(
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    MAX_LABEL,
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc'",
)
_VALUE: Final = _form(
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    MAX_LABEL,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
    "'my_value',  or '12345'",
)
_DATA_KEY: Final = _form(
    r"[-._a-zA-Z0-9]+",
    MAX_SUBDOMAIN,
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name'",
)


def _why_not(form: tuple[re.Pattern[str], int, str], text: str) -> str:
    pattern, most, wanted = form
    if len(text) > most:
        return f"must be no more than {most} characters"
    return "" if pattern.fullmatch(text) else wanted


dns_label_problem = partial(_why_not, _LABEL)
"""Say why a text is not a DNS label as RFC 1123 has it; empty if it is one."""
dns_1035_label_problem = partial(_why_not, _LABEL_1035)
"""Say why a text is not a DNS label as RFC 1035 has it; empty if it is one."""
dns_subdomain_problem = partial(_why_not, _SUBDOMAIN)
"""Say why a text is not a DNS subdomain, as most objects' names are; empty if it is one."""
label_value_problem = partial(_why_not, _VALUE)
"""Say why a text cannot be the value of a label; empty if it can."""


def path_segment_problem(name: str) -> str:
    """Say why a text cannot be a name that may hold almost anything; empty if it can."""
    if name in {".", ".."}:
        return f"may not be '{name}'"
    return next((f"may not contain '{sign}'" for sign in "/%" if sign in name), "")


def label_key_problem(key: str) -> str:
    """Say why a text cannot be the key of a label or annotation; empty if it can."""
    prefix, slash, name = key.rpartition("/")
    if slash and "/" in prefix:
        return "a qualified name must have at most one '/'"
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and (why := dns_subdomain_problem(prefix)):
        return f"prefix part {why}"
    if not name:
        return "name part must be non-empty"
    why = _why_not(_QUALIFIED, name)
    return f"name part {why}" if why else ""


def data_key_problem(key: str) -> str:
    """Say why a text cannot be a key in a ConfigMap or Secret; empty if it can."""
    if why := _why_not(_DATA_KEY, key):
        return why
    if key == ".":
        return "must not be '.'"
    if key.startswith(".."):
        return "must not be '..'" if key == ".." else "must not start with '..'"
    return ""


def generate_name(prefix: str, choose: Callable[[str], str]) -> str:
    """Make a name for `generateName`; `choose` picks one of the characters it is given.

    A long prefix is cut so that the name stays a DNS label.
    """
    return prefix[:_MAX_GENERATED_BASE] + "".join(
        choose(SUFFIX_ALPHABET) for _ in range(_GENERATED_LENGTH)
    )


def short_hash(*parts: str, length: int = 8) -> str:
    """Hash parts to hex digits; no two different lists of parts are read as one text."""
    digest = sha256()
    for part in parts:
        raw = part.encode()
        digest.update(f"{len(raw)}:".encode())
        digest.update(raw)
    return digest.hexdigest()[:length]


def run_key(
    actionset_uid: str, action: int, phase: int | None, attempt: int, part: str = ""
) -> str:
    """Name one attempt at one phase, the same after every restart.

    `phase` is the phase's index, None for the deferred one; `part` tells apart
    what one attempt creates more than once.
    """
    place = "defer" if phase is None else str(phase)
    text = "/".join((actionset_uid, str(action), place, str(attempt), part))
    return sha256(text.encode()).hexdigest()[:20]
