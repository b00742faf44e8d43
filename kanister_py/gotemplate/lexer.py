"""Lexer: splits the text of a template into tokens.

The whole text is split at once. An error of Go's lexer becomes a last token of kind
ERROR, which the parser reports when it reaches it, unless it finds an error before.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from kanister_py.gotemplate.quoting import describe_rune, quote

# Kinds of tokens. They are ints because the parser compares them very often.
TEXT, OPEN, CLOSE, FIELD, WORD, VARIABLE, STRING, NUMBER, PIPE, LEFT, RIGHT = range(1, 12)
DOT, CHARACTER, DECLARE, ASSIGN, SIGN, COMPLEX, BOOL, NIL, KEYWORD, ERROR, END = range(12, 23)

# Kind, text, position in the template, and whether white space precedes the token.
Token = tuple[int, str, int, bool]
_Append = Callable[[Token], None]

KEYWORDS = frozenset(
    ("block", "break", "continue", "define", "else", "end", "if", "range", "template", "with")
)

_SPACES = " \t\r\n"
_BLANKS = tuple(_SPACES)
# Characters that may follow a name, or the end of the text.
_AFTER_NAME = r"(?=[ \t\r\n.,|:()]|\}\}|\Z)"
# A path of fields is one token: `.A.B`.
_FIELDS = r"(?:\.(?![0-9])\w+)+"

# One token inside an action, with the preceding white space. The groups are in the order of
# the kinds above, from CLOSE on. `_scan_rare` handles all text that matches none of them.
_TOKEN = re.compile(
    r"([ \t\r\n]*)(?:"
    r"((?<=[ \t\r\n])-\}\}[ \t\r\n]*|\}\})"
    rf"|({_FIELDS}){_AFTER_NAME}"
    rf"|([^\W\d]\w*){_AFTER_NAME}"
    rf"|(\$\w*(?:{_FIELDS})?){_AFTER_NAME}"
    r'|("(?:[^"\\\n]|\\[^\n])*"|`[^`]*`)'
    r"|([0-9]+)(?=[ \t\r\n)|]|\}\})"
    r"|(\|)"
    r"|(\()"
    r"|(\))"
    r"|(\.)(?=[ \t\r\n.,|:()]|\}\})"
    r"|('(?:[^'\\\n]|\\[^\n])*')"
    r"|(:=)"
    r"|(=)"
    r")"
)
_NUMBER = re.compile(
    r"[+-]?(?:"
    r"0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?"
    r"|0[oO][0-7_]*(?:\.[0-7_]*)?"
    r"|0[bB][01_]*(?:\.[01_]*)?"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?"
    r")i?"
)


def tokens_of(text: str, *, are_loops_words: bool = False) -> list[Token]:
    """Split a template into tokens; the last one is END or ERROR.

    With `are_loops_words`, `break` and `continue` are names of functions.
    """
    tokens: list[Token] = []
    append = tokens.append
    at = 0
    while True:
        start = text.find("{{", at)
        if start < 0:
            if at < len(text):
                append((TEXT, text[at:], at, False))
            append((END, "EOF", len(text), False))
            return tokens
        is_trimmed = text[start + 2 : start + 3] == "-" and text[start + 3 : start + 4] in _BLANKS
        if start > at:
            before = text[at:start]
            if is_trimmed:
                before = before.rstrip(_SPACES)
            if before:
                append((TEXT, before, at, False))
        inside = start + (4 if is_trimmed else 2)
        if text.startswith("/*", inside):
            at = _skip_comment(text, inside, append)
        else:
            append((OPEN, "{{", start, False))
            at = _scan_action(text, inside, append, are_loops_words)
        if at < 0:
            return tokens


def _skip_comment(text: str, at: int, append: _Append) -> int:
    """Return the position after a comment; -1 after an error."""
    end = text.find("*/", at + 2)
    if end < 0:
        append((ERROR, "unclosed comment", at, False))
        return -1
    end += 2
    if text.startswith("}}", end):
        return end + 2
    if text[end : end + 1] in _BLANKS and text.startswith("-}}", end + 1):
        end += 4
        while text[end : end + 1] in _BLANKS:
            end += 1
        return end
    append((ERROR, "comment ends before closing delimiter", at, False))
    return -1


def _scan_action(  # noqa: C901, PLR0912 - a hot loop, one round for each token
    text: str, at: int, append: _Append, are_loops_words: bool
) -> int:
    """Return the position after an action; -1 after an error."""
    depth = 0
    match = _TOKEN.match
    while True:
        token = match(text, at)
        if token is None:
            end = _scan_rare(text, at, append)
            if end < 0:
                return -1
            at = end
            continue
        group = token.lastindex
        assert group is not None
        kind = group + 1
        spaces = token.end(1)
        end = token.end()
        is_spaced = spaces > at
        value = token.group(group)
        if kind == WORD:
            if value in KEYWORDS:
                if not (are_loops_words and value in ("break", "continue")):
                    kind = KEYWORD
            elif value in ("true", "false"):
                kind = BOOL
            elif value == "nil":
                kind = NIL
            if not value.isascii() and (wrong := _invalid_letter(value)):
                if not _is_name_letter(value[0]):
                    wrong = f"unrecognized character in action: {describe_rune(value[0])}"
                append((ERROR, wrong, spaces, False))
                return -1
        elif kind == CLOSE:
            if depth:
                append((ERROR, "unclosed left paren", spaces, False))
                return -1
            append((CLOSE, "}}", spaces, is_spaced))
            return end
        elif kind == LEFT:
            depth += 1
        elif kind == RIGHT:
            depth -= 1
            if depth < 0:
                append((ERROR, "unexpected right paren", spaces, False))
                return -1
        elif (kind in (FIELD, VARIABLE)) and not value.isascii():
            wrong = _invalid_letter(value[1:].replace(".", ""))
            if wrong:
                append((ERROR, wrong, spaces, False))
                return -1
        append((kind, value, spaces, is_spaced))
        at = end


def _is_name_letter(char: str) -> bool:
    return char == "_" or (
        char.isalnum()
        if char.isascii()
        else unicodedata.category(char)[0] == "L" or unicodedata.category(char) == "Nd"
    )


def _invalid_letter(name: str) -> str:
    """Return Go's message about the first character that a name must not contain."""
    for char in name:
        if not _is_name_letter(char):
            return f"bad character {describe_rune(char)}"
    return ""


_UNTERMINATED = {
    ":": "expected :=",
    '"': "unterminated quoted string",
    "`": "unterminated raw quoted string",
    "'": "unterminated character constant",
}


def _scan_rare(text: str, at: int, append: _Append) -> int:
    """Append one token that `_TOKEN` does not match: a number, a sign or an error."""
    start = at
    while text[at : at + 1] in _BLANKS:
        at += 1
    is_spaced = at > start
    char = text[at : at + 1]
    following = text[at + 1 : at + 2]

    def fail(why: str) -> int:
        append((ERROR, why, at, False))
        return -1

    if not char:
        return fail("unclosed action")
    if char in _UNTERMINATED:
        return fail(_UNTERMINATED[char])
    if char == "$" or (char == "." and following and not "0" <= following <= "9"):
        return fail(_bad_character(text, at + 1))
    if char in "+-.0123456789":
        return _scan_number(text, at, append, is_spaced=is_spaced)
    if _is_name_letter(char):
        return fail(_bad_character(text, at))
    if char.isascii() and char.isprintable():
        append((SIGN, char, at, is_spaced))
        return at + 1
    return fail(f"unrecognized character in action: {describe_rune(char)}")


def _bad_character(text: str, at: int) -> str:
    while at < len(text) and _is_name_letter(text[at]):
        at += 1
    return f"bad character {describe_rune(text[at])}"


def _scan_number(text: str, at: int, append: _Append, *, is_spaced: bool) -> int:
    end, is_fine = _number_end(text, at)
    kind = NUMBER
    if is_fine and text[end : end + 1] in ("+", "-"):
        end, is_fine = _number_end(text, end)
        is_fine = is_fine and text[end - 1] == "i"
        kind = COMPLEX
    if not is_fine:
        append((ERROR, f"bad number syntax: {quote(text[at:end])}", at, False))
        return -1
    append((kind, text[at:end], at, is_spaced))
    return end


def _number_end(text: str, at: int) -> tuple[int, bool]:
    number = _NUMBER.match(text, at)
    end = number.end() if number is not None else at
    if end < len(text) and _is_name_letter(text[end]):
        return end + 1, False
    return end, True
