"""Lexer: a template's text as tokens.

The whole text is cut at once. What Go's lexer would refuse becomes a last token of
kind ERROR: the parser says it when it gets there, and not if it stumbles earlier.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from kanister_py.gotemplate.quoting import describe_rune, quote

# Kinds of tokens. Small ints, since the parser compares them all the time.
TEXT, OPEN, CLOSE, FIELD, WORD, VARIABLE, STRING, NUMBER, PIPE, LEFT, RIGHT = range(1, 12)
DOT, CHARACTER, DECLARE, ASSIGN, SIGN, COMPLEX, BOOL, NIL, KEYWORD, ERROR, END = range(12, 23)

# kind, text, position in the template, whether white space stands before it
Token = tuple[int, str, int, bool]
_Append = Callable[[Token], None]

KEYWORDS = frozenset(
    ("block", "break", "continue", "define", "else", "end", "if", "range", "template", "with")
)

_SPACES = " \t\r\n"
_BLANKS = tuple(_SPACES)
# What may follow a name. The end of the text may, too.
_AFTER_NAME = r"(?=[ \t\r\n.,|:()]|\}\}|\Z)"
# Fields of fields are one token: `.A.B`.
_FIELDS = r"(?:\.(?![0-9])\w+)+"

# One token inside of an action, with the white space before it. The order of the
# groups is that of the kinds above, from CLOSE on; what none of them takes is looked at by hand.
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
    """Cut a template into tokens; the last one is END or ERROR.

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
            at = _cut_action(text, inside, append, are_loops_words)
        if at < 0:
            return tokens


def _skip_comment(text: str, at: int, append: _Append) -> int:
    """Find where the text goes on after a comment; -1 if it does not."""
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


def _cut_action(  # noqa: C901, PLR0912 - one turn for each token, and turns are hot
    text: str, at: int, append: _Append, are_loops_words: bool
) -> int:
    """Find where the text goes on after an action; -1 if it does not."""
    depth = 0
    match = _TOKEN.match
    while True:
        found = match(text, at)
        if found is None:
            end = _cut_rare(text, at, append)
            if end < 0:
                return -1
            at = end
            continue
        group = found.lastindex
        assert group is not None
        kind = group + 1
        spaces = found.end(1)
        end = found.end()
        is_spaced = spaces > at
        value = found.group(group)
        if kind == WORD:
            if value in KEYWORDS:
                if not (are_loops_words and value in ("break", "continue")):
                    kind = KEYWORD
            elif value in ("true", "false"):
                kind = BOOL
            elif value == "nil":
                kind = NIL
            if not value.isascii() and (wrong := _wrong_letter(value)):
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
            wrong = _wrong_letter(value[1:].replace(".", ""))
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


def _wrong_letter(name: str) -> str:
    """Go's complaint about the first character that may not stand in a name."""
    for char in name:
        if not _is_name_letter(char):
            return f"bad character {describe_rune(char)}"
    return ""


_UNFINISHED = {
    ":": "expected :=",
    '"': "unterminated quoted string",
    "`": "unterminated raw quoted string",
    "'": "unterminated character constant",
}


def _cut_rare(text: str, at: int, append: _Append) -> int:
    """Cut what the pattern leaves: numbers of all sorts, single signs, mistakes."""
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
    if char in _UNFINISHED:
        return fail(_UNFINISHED[char])
    if char == "$" or (char == "." and following and not "0" <= following <= "9"):
        return fail(_bad_character(text, at + 1))
    if char in "+-.0123456789":
        return _cut_number(text, at, append, is_spaced=is_spaced)
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


def _cut_number(text: str, at: int, append: _Append, *, is_spaced: bool) -> int:
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
    found = _NUMBER.match(text, at)
    end = found.end() if found is not None else at
    if end < len(text) and _is_name_letter(text[end]):
        return end + 1, False
    return end, True
