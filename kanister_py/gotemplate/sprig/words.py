"""Case conversion and word splitting, with the exact behaviour of Go's libraries."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from kanister_py.gotemplate.sprig.conversions import SPACES
from kanister_py.gotemplate.values import from_bytes, to_bytes

_NOT_A_RUNE = "\ufffd"
# Ideographs that do not form words; later blocks of ideographs do.
_IDEOGRAPHS = (("\u3400", "\u4d85"), ("\u4e00", "\u9fcc"), ("\U00020000", "\U0002b81d"))


def runes(text: str) -> str:
    """Return a text with replacement characters in place of bytes that are not UTF-8."""
    if text.isascii():
        return text
    return "".join(_NOT_A_RUNE if "\udc80" <= char <= "\udcff" else char for char in text)


def upper_rune(char: str) -> str:
    """Convert a letter to upper case, except if the result has two letters (ß)."""
    changed = char.upper()
    return changed if len(changed) == 1 else title_rune(char)


def lower_rune(char: str) -> str:
    return char.lower() if char != "\u0130" else "i"


def title_rune(char: str) -> str:
    changed = char.title()
    return changed if len(changed) == 1 else char


def upper(text: str) -> str:
    return text.upper() if text.isascii() else "".join(map(upper_rune, runes(text)))


def lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(lower_rune, runes(text)))


def title(text: str) -> str:
    """Convert the first letter of each word to upper case; words are letters, digits and `_`."""
    chars = []
    before = " "
    for char in runes(text):
        chars.append(title_rune(char) if _parts_words(before) else char)
        before = char
    return "".join(chars)


def _parts_words(char: str) -> bool:
    if char.isascii():
        return not (char.isalnum() or char == "_")
    return not _is_letter(char) and not _is_digit(char) and char in SPACES


def untitle(text: str) -> str:
    """Convert the first letter of each word to lower case."""
    chars = []
    is_first = True
    for char in runes(text):
        if char in SPACES:
            is_first = True
        elif is_first:
            char = lower_rune(char)  # noqa: PLW2901 - replaces the letter in the result
            is_first = False
        chars.append(char)
    return "".join(chars)


def swap_case(text: str) -> str:
    """Swap upper and lower case; a lower-case letter at the start of a word gets title case."""
    chars = []
    is_first = True
    for char in runes(text):
        category = unicodedata.category(char)
        if category in ("Lu", "Lt"):
            chars.append(lower_rune(char))
            is_first = False
        elif category == "Ll":
            chars.append(title_rune(char) if is_first else upper_rune(char))
            is_first = False
        else:
            chars.append(char)
            is_first = char in SPACES
    return "".join(chars)


def initials(text: str) -> str:
    """Return the first byte of each word, decoded as Latin-1."""
    letters = []
    was_gap = True
    for char in to_bytes(text).decode("latin-1"):
        if char in SPACES:
            was_gap = True
        elif was_gap:
            letters.append(char)
            was_gap = False
    return "".join(letters)


def without_spaces(text: str) -> str:
    """Remove white space.

    If there is any, all bytes are decoded as Latin-1, so that other letters become two
    characters.
    """
    chars = to_bytes(text).decode("latin-1")
    kept = "".join(char for char in chars if char not in SPACES)
    return text if len(kept) == len(chars) else kept


def abbreviate(text: str, offset: int, width: int) -> str | None:
    """Shorten a text to a width with `...` at the removed parts; None if that is impossible."""
    data = to_bytes(text)
    if not data:
        return ""
    if width < 4:
        return None
    if len(data) <= width:
        return text
    room = width - 3
    offset = min(offset, len(data))
    if len(data) - offset < room:
        offset = len(data) - room
    if offset <= 4:
        return from_bytes(data[:room]) + "..."
    if width < 7:
        return None
    if offset + room < len(data):
        return "..." + (abbreviate(from_bytes(data[offset:]), 0, room) or "")
    return "..." + from_bytes(data[len(data) - room :])


def wrap(text: str, width: int, line_end: str, *, cuts_long_words: bool) -> str:
    """Break a text into lines at spaces.

    Spaces at the start of a line are dropped, except on the last line.
    """
    data = to_bytes(text)
    width = max(width, 1)
    break_ = to_bytes(line_end or "\n")
    wrapped = bytearray()
    at = 0
    while len(data) - at > width:
        if data[at] == 0x20:
            at += 1
            continue
        space = data.rfind(b" ", at, at + width + 1)
        if space >= 0:
            wrapped += data[at:space] + break_
            at = space + 1
        elif cuts_long_words:
            wrapped += data[at : at + width] + break_
            at += width
        else:
            space = data.find(b" ", at + width)
            if space < 0:
                wrapped += data[at:]
                at = len(data)
            else:
                wrapped += data[at:space] + break_
                at = space + 1
    return from_bytes(bytes(wrapped + data[at:]))


# Conversion between styles of joined words

_OLD_JOINTS = ("_", " ", "-")


def _is_joint(char: str) -> bool:
    return char in "-_" or char in SPACES


def capitalized(text: str) -> str:
    """Join words as in HttpServer; of consecutive capitals only the first one stays a capital."""
    chars = runes(text)
    start = 0
    while start < len(chars) and _is_joint(chars[start]):
        start += 1
    if start == len(chars):
        # Only joints: the library repeats the last one.
        return chars + chars[-1:]
    result = [chars[:start]]
    was_upper = _is_upper(chars[start])
    current = upper_rune(chars[start])
    for following in chars[start + 1 :]:
        before, current = current, following
        if _is_joint(current) and _is_joint(before):
            result.append(before)
            continue
        if _is_joint(before):
            was_upper = _is_upper(current)
            current = upper_rune(current)
            continue
        if was_upper:
            if _is_upper(current):
                current = lower_rune(current)
            else:
                was_upper = False
        result.append(before)
    return "".join([*result, current])


def capitalized_in_blueprints(text: str) -> str:
    """Join words as in HttpServer, as the older library does: only `_` separates words.

    A single remaining letter is lost.
    """
    chars = runes(text)
    start = len(chars) - len(chars.lstrip("_"))
    if start >= len(chars) - 1:
        return chars[:start]
    result = [chars[:start]]
    current = upper_rune(chars[start])
    for following in chars[start + 1 :]:
        before, current = current, following
        if before != "_":
            current = lower_rune(current)
            result.append(before)
        elif current == "_":
            result.append(before)
        else:
            current = upper_rune(current)
    return "".join([*result, current])


def delimited_in_blueprints(text: str, joint: str) -> str:
    """Convert to snake_case or kebab-case as the older library does: numbers are separate words."""
    chars = runes(text)
    result: list[str] = []
    at, before = 0, joint
    while at < len(chars):
        char = chars[at]
        at += 1
        starts_word = before != joint and not _is_number(before)
        if _is_upper(char):
            result += [joint] if starts_word else []
            result.append(lower_rune(char))
            if at < len(chars):
                at, char = _run_of_capitals(chars, at, joint, result)
        elif _is_number(char):
            result += [joint, char] if starts_word else [char]
        else:
            char = joint if char in _OLD_JOINTS else char
            result.append(char)
        before = char
    return "".join(result)


def _run_of_capitals(chars: str, at: int, joint: str, result: list[str]) -> tuple[int, str]:
    """Append the letters after a capital up to the end of its word, and return the position.

    The last of several capitals begins the next word.
    """
    char = chars[at]
    at += 1
    if not _is_upper(char):
        result.append(char)
        return at, char
    while at < len(chars):
        capital, char = char, chars[at]
        at += 1
        small = lower_rune(capital)
        if _is_upper(char):
            result.append(small)
            continue
        if char == _NOT_A_RUNE:
            result += [small, char]
        elif char in _OLD_JOINTS:
            char = joint
            result.append(small)
        elif _is_number(char):
            result += [small, joint, char]
        else:
            result += [joint, small, char]
        break
    if at == len(chars) or char == joint:
        result.append(lower_rune(char))
    return at, char


_NONE, _NUMBER, _UPPER, _ALPHABET, _JOINT, _PUNCTUATION, _OTHER = range(7)


def delimited(text: str, joint: str) -> str:
    """Convert to snake_case or kebab-case; numbers belong to the previous word if possible."""
    return _Delimited(text, joint).text()


class _Delimited:
    """Converter that splits a text into words and sets joints by the kinds of words."""

    def __init__(self, text: str, joint: str) -> None:
        self.joint = joint
        self.parts: list[str] = []
        self.kind, self.word, self.rest = _next_word(text)

    def text(self) -> str:
        while self.rest:
            if self.kind != _JOINT:
                self._write(self.kind, self.word)
            before, last = self.kind, self.word
            self._advance()
            if before == _NUMBER:
                self._write_while_joined()
            elif before == _JOINT:
                self._write(before, last)
            elif before != _PUNCTUATION:
                self._write_number_behind_word()
        self._write(self.kind, self.word)
        return "".join(self.parts)

    def _advance(self) -> None:
        self.kind, self.word, self.rest = _next_word(self.rest)

    def _write(self, kind: int, word: str) -> None:
        if kind in (_UPPER, _JOINT):
            word = "".join(map(self._written, runes(word)))
        self.parts.append(word)

    def _written(self, char: str) -> str:
        if _is_joint(char):
            return self.joint
        return lower_rune(char) if _is_upper(char) else char

    def _join(self, *not_before: int) -> None:
        if self.kind not in (_PUNCTUATION, _JOINT, *not_before):
            self.parts.append(self.joint)

    def _write_while_joined(self) -> None:
        while self.kind in (_ALPHABET, _NUMBER):
            self._write(self.kind, self.word)
            self._advance()
        self._join(_NONE)

    def _write_number_behind_word(self) -> None:
        if self.kind != _NUMBER:
            self._join()
            return
        if not self.rest:
            return
        number = self.word
        self._advance()
        if self.kind != _ALPHABET:
            # A number before a new word belongs to the previous one: Bld4Floor becomes bld4_floor.
            self._write(_NUMBER, number)
            self._join()
        else:
            # A number before lower-case letters is a word with them: HTTP2xx becomes http_2xx.
            self.parts.append(self.joint)
            self._write(_NUMBER, number)
            self._write_while_joined()


def _next_word(text: str) -> tuple[int, str, str]:
    """Split a text into its first word, with the kind of this word, and the remaining text."""
    walk = _Walk(text)
    first = walk.step()
    if not first:
        return _NONE, text, ""
    kind, _, belongs = next(entry for entry in _KINDS if entry[1](first))
    if kind == _UPPER:
        _walk_capitalized(walk)
    else:
        walk.run(belongs)
    return kind, text[: walk.at], text[walk.at :]


def _walk_capitalized(walk: _Walk) -> None:
    after_first = walk.at
    walk.run(_is_upper)
    if walk.at == after_first:
        walk.run(_is_small_letter)
    elif walk.at < len(walk.text) and _is_alphabet(walk.peek()):
        # The last of several capitals begins the next word if a lower-case letter follows.
        walk.at = walk.before


class _Walk:
    """Cursor over the characters of a text.

    Bytes that are not UTF-8 belong to the following character; at the end of the text
    they count as a repetition of the previous character.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.before = 0
        self._char = ""

    def peek(self) -> str:
        """Return the next character; "" if the text has no characters."""
        at = self._next()
        return self.text[at] if at < len(self.text) else self._char

    def step(self) -> str:
        self._char = self.peek()
        self.before, self.at = self.at, min(self._next() + 1, len(self.text))
        return self._char

    def run(self, belongs: Callable[[str], bool]) -> None:
        while self.at < len(self.text) and belongs(self.peek()):
            self.step()

    def _next(self) -> int:
        at = self.at
        while at < len(self.text) and _is_no_rune(self.text[at]):
            at += 1
        return at


def _is_no_rune(char: str) -> bool:
    return char == _NOT_A_RUNE or "\udc80" <= char <= "\udcff"


def _is_upper(char: str) -> bool:
    return unicodedata.category(char) == "Lu"


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] == "L"


def _is_alphabet(char: str) -> bool:
    return _is_letter(char) and not any(first <= char <= last for first, last in _IDEOGRAPHS)


def _is_small_letter(char: str) -> bool:
    return _is_alphabet(char) and not _is_upper(char)


def _is_digit(char: str) -> bool:
    return unicodedata.category(char) == "Nd"


def _is_number(char: str) -> bool:
    return unicodedata.category(char)[0] == "N"


def _is_punctuation(char: str) -> bool:
    return unicodedata.category(char)[0] == "P"


def _is_other(char: str) -> bool:
    return not (_is_joint(char) or _is_alphabet(char) or _is_number(char) or _is_punctuation(char))


_Test = Callable[[str], bool]
# Kinds of words: tests for the first character and for the following ones. The first match wins.
_KINDS: tuple[tuple[int, _Test, _Test], ...] = (
    (_JOINT, _is_joint, _is_joint),
    (_PUNCTUATION, _is_punctuation, _is_punctuation),
    (_UPPER, _is_upper, _is_upper),
    (_ALPHABET, _is_alphabet, _is_small_letter),
    (_NUMBER, _is_number, _is_number),
    (_OTHER, _is_other, _is_other),
)
