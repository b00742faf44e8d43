"""Names: Kubernetes' validation rules, and generation of names."""

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

# Without vowels and digits that look like letters, so that no words are generated.
SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def _form(pattern: str, max_length: int, problem: str) -> tuple[re.Pattern[str], int, str]:
    return re.compile(pattern), max_length, f"{problem}, regex used for validation is '{pattern}')"


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


def _problem_with(form: tuple[re.Pattern[str], int, str], text: str) -> str:
    pattern, max_length, problem = form
    if len(text) > max_length:
        return f"must be no more than {max_length} characters"
    return "" if pattern.fullmatch(text) else problem


dns_label_problem = partial(_problem_with, _LABEL)
"""Return why a name is not a DNS label (RFC 1123), or an empty string."""
dns_1035_label_problem = partial(_problem_with, _LABEL_1035)
"""Return why a name is not a DNS label (RFC 1035), or an empty string."""
dns_subdomain_problem = partial(_problem_with, _SUBDOMAIN)
"""Return why a name is not a DNS subdomain, or an empty string."""
label_value_problem = partial(_problem_with, _VALUE)
"""Return why a text is not a valid value of a label, or an empty string."""


def path_segment_problem(name: str) -> str:
    """Return why a name is not a valid path segment, or an empty string."""
    if name in {".", ".."}:
        return f"may not be '{name}'"
    return next((f"may not contain '{sign}'" for sign in "/%" if sign in name), "")


def label_key_problem(key: str) -> str:
    """Return why a text is not a valid key of a label or annotation, or an empty string."""
    prefix, slash, name = key.rpartition("/")
    if slash and "/" in prefix:
        return "a qualified name must have at max_length one '/'"
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and (why := dns_subdomain_problem(prefix)):
        return f"prefix part {why}"
    if not name:
        return "name part must be non-empty"
    why = _problem_with(_QUALIFIED, name)
    return f"name part {why}" if why else ""


def data_key_problem(key: str) -> str:
    """Return why a text is not a valid key of a ConfigMap or Secret, or an empty string."""
    if why := _problem_with(_DATA_KEY, key):
        return why
    if key == ".":
        return "must not be '.'"
    if key.startswith(".."):
        return "must not be '..'" if key == ".." else "must not start with '..'"
    return ""


def generate_name(prefix: str, choose: Callable[[str], str]) -> str:
    """Generate a name for `generateName`. `choose` selects one character of a string.

    A long prefix is cut so that the name stays a valid DNS label.
    """
    return prefix[:_MAX_GENERATED_BASE] + "".join(
        choose(SUFFIX_ALPHABET) for _ in range(_GENERATED_LENGTH)
    )


def short_hash(*parts: str, length: int = 8) -> str:
    """Hash parts to hex digits. Every part is hashed with its length, so lists are unambiguous."""
    digest = sha256()
    for part in parts:
        raw = part.encode()
        digest.update(f"{len(raw)}:".encode())
        digest.update(raw)
    return digest.hexdigest()[:length]


def run_key(
    actionset_uid: str, action: int, phase: int | None, attempt: int, part: str = ""
) -> str:
    """Return the key of one attempt at a phase, which stays the same after restarts.

    `phase` is the index of the phase, None for the deferred phase. `part` distinguishes
    several objects that one attempt creates.
    """
    place = "defer" if phase is None else str(phase)
    text = "/".join((actionset_uid, str(action), place, str(attempt), part))
    return sha256(text.encode()).hexdigest()[:20]
