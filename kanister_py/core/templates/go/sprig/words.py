"""Upper and lower case, words and their forms, letter by letter as Go has them."""

from __future__ import annotations

import unicodedata

from kanister_py.core.templates.go.sprig.conversions import SPACES
from kanister_py.core.templates.go.values import from_bytes, to_bytes

_NOT_A_RUNE = "\ufffd"


def runes(text: str) -> str:
    """The characters of a text; each byte that is no UTF-8 is the replacement character."""
    if text.isascii():
        return text
    return "".join(_NOT_A_RUNE if "\udc80" <= char <= "\udcff" else char for char in text)


def upper_rune(char: str) -> str:
    """A letter's upper form; a letter that would become two stays (ß)."""
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
    """Upper-case the first letter of each word; letters, digits and `_` make words."""
    made = []
    before = " "
    for char in runes(text):
        made.append(title_rune(char) if _parts_words(before) else char)
        before = char
    return "".join(made)


def _parts_words(char: str) -> bool:
    if char.isascii():
        return not (char.isalnum() or char == "_")
    return not _is_letter(char) and not _is_digit(char) and char in SPACES


def untitle(text: str) -> str:
    """Lower-case the first letter of each word."""
    made = []
    is_first = True
    for char in runes(text):
        if char in SPACES:
            is_first = True
        elif is_first:
            char = lower_rune(char)  # noqa: PLW2901 - the letter that goes on
            is_first = False
        made.append(char)
    return "".join(made)


def swap_case(text: str) -> str:
    """Swap upper and lower case; what begins a word in lower case gets title case."""
    made = []
    is_first = True
    for char in runes(text):
        category = unicodedata.category(char)
        if category in ("Lu", "Lt"):
            made.append(lower_rune(char))
            is_first = False
        elif category == "Ll" or char.islower():
            made.append(title_rune(char) if is_first else upper_rune(char))
            is_first = False
        else:
            made.append(char)
            is_first = char in SPACES
    return "".join(made)


def initials(text: str) -> str:
    """The first byte of each word, taken for a character of Latin-1."""
    found = []
    was_gap = True
    for char in to_bytes(text).decode("latin-1"):
        if char in SPACES:
            was_gap = True
        elif was_gap:
            found.append(char)
            was_gap = False
    return "".join(found)


def without_spaces(text: str) -> str:
    """A text without white space.

    Where there is any, each byte is taken for a character of Latin-1: other
    letters come out as two.
    """
    chars = to_bytes(text).decode("latin-1")
    kept = "".join(char for char in chars if char not in SPACES)
    return text if len(kept) == len(chars) else kept


def abbreviate(text: str, offset: int, width: int) -> str | None:
    """Cut a text to a width with `...` where something is missing; None if that cannot be."""
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

    Spaces at the start of a line are dropped, but for the last line.
    """
    data = to_bytes(text)
    width = max(width, 1)
    break_ = to_bytes(line_end or "\n")
    made = bytearray()
    at = 0
    while len(data) - at > width:
        if data[at] == 0x20:
            at += 1
            continue
        space = data.rfind(b" ", at, at + width + 1)
        if space >= 0:
            made += data[at:space] + break_
            at = space + 1
        elif cuts_long_words:
            made += data[at : at + width] + break_
            at += width
        else:
            space = data.find(b" ", at + width)
            if space < 0:
                made += data[at:]
                at = len(data)
            else:
                made += data[at:space] + break_
                at = space + 1
    return from_bytes(bytes(made + data[at:]))


# Words joined in one way, to be joined in another. Two generations of rules exist: what
# blueprints see knows only the underscore as a joint, and loses the case of the rest of a word.


def camel_case_of_blueprints(text: str) -> str:
    chars = runes(text)
    start = len(chars) - len(chars.lstrip("_"))
    if start >= len(chars) - 1:
        # A letter alone gets lost.
        return chars[:start]
    made = [chars[:start]]
    current = upper_rune(chars[start])
    for char in chars[start + 1 :]:
        before = current
        if before == "_" and char == "_":
            made.append("_")
            current = char
            continue
        current = upper_rune(char) if before == "_" else lower_rune(char)
        if before != "_":
            made.append(before)
    return "".join([*made, current])


def delimited_of_blueprints(text: str, joint: str) -> str:
    """snake_case or kebab-case as blueprints know it."""
    return _Delimiter(runes(text), joint).text()


class _Delimiter:
    """Walks a text once; a run of capitals is one word, its last one may begin the next."""

    def __init__(self, chars: str, joint: str) -> None:
        self.chars = chars
        self.joint = joint
        self.at = 0
        self.made: list[str] = []

    def text(self) -> str:
        before = self.joint
        while self.at < len(self.chars):
            char = self._next()
            if char == _NOT_A_RUNE:
                self.made.append(char)
            elif _is_upper(char):
                if before != self.joint and not _is_number(before):
                    self.made.append(self.joint)
                char = self._capitals(char)
            elif _is_number(char):
                if before != self.joint and not _is_number(before):
                    self.made.append(self.joint)
                self.made.append(char)
            else:
                if char in " -_":
                    char = self.joint
                self.made.append(char)
            before = char
        return "".join(self.made)

    def _next(self) -> str:
        char = self.chars[self.at]
        self.at += 1
        return char

    def _has_ended(self) -> bool:
        return self.at >= len(self.chars)

    def _capitals(self, first: str) -> str:
        """Write a word that begins with a capital; answers with the character it ended on."""
        made = self.made
        made.append(lower_rune(first))
        if self._has_ended():
            return first
        char = self._next()
        if not _is_upper(char):
            made.append(char)
            return char
        while not self._has_ended():
            before, char = char, self._next()
            if char == _NOT_A_RUNE:
                made += [lower_rune(before), char]
                break
            if _is_upper(char):
                made.append(lower_rune(before))
                continue
            if char in "_ -":
                char = self.joint
                made.append(lower_rune(before))
            elif _is_number(char):
                made += [lower_rune(before), self.joint, char]
            else:
                made += [self.joint, lower_rune(before), char]
            break
        if self._has_ended() or char == self.joint:
            made.append(lower_rune(char))
        return char


# And the rules of today.


def _is_joint(char: str) -> bool:
    return char in "-_" or char in SPACES


def pascal_case(text: str) -> str:
    """Words joined by capitals; runs of capitals lose them, but for the first."""
    chars = runes(text)
    start = 0
    while start < len(chars) and _is_joint(chars[start]):
        start += 1
    if start == len(chars):
        # Nothing but joints: the last one comes out twice.
        return chars + chars[-1:]
    made = [chars[:start]]
    was_upper = _is_upper(chars[start])
    current = upper_rune(chars[start])
    for following in chars[start + 1 :]:
        before, current = current, following
        if _is_joint(current) and _is_joint(before):
            made.append(before)
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
        made.append(before)
    return "".join([*made, current])


_NONE, _NUMBER, _UPPER, _ALPHABET, _JOINT, _PUNCTUATION, _OTHER = range(7)


def delimited(text: str, joint: str) -> str:
    """snake_case or kebab-case: numbers belong to the word before them where they can."""
    return _Delimited(text, joint).text()


class _Delimited:
    """Walks a text word by word; a joint is set where the kind of word says so."""

    def __init__(self, text: str, joint: str) -> None:
        self.joint = joint
        self.made: list[str] = []
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
        return "".join(self.made)

    def _advance(self) -> None:
        self.kind, self.word, self.rest = _next_word(self.rest)

    def _write(self, kind: int, word: str) -> None:
        if kind in (_UPPER, _JOINT):
            joint = self.joint
            word = "".join(joint if _is_joint(char) else lower_rune(char) for char in runes(word))
        self.made.append(word)

    def _join(self, *not_before: int) -> None:
        if self.kind not in (_PUNCTUATION, _JOINT, *not_before):
            self.made.append(self.joint)

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
            # A number before a new word is the end of the old one: Bld4Floor is bld4_floor.
            self._write(_NUMBER, number)
            self._join()
        else:
            # A number with small letters behind it is a word: HTTP2xx is http_2xx.
            self.made.append(self.joint)
            self._write(_NUMBER, number)
            self._write_while_joined()


def _next_word(text: str) -> tuple[int, str, str]:
    """Which word does a text begin with, and what comes behind it?"""
    if not text:
        return _NONE, "", ""
    first = text[0]
    if _is_joint(first):
        end = _run(text, 1, _is_joint)
        return _JOINT, text[:end], text[end:]
    if _is_punctuation(first):
        end = _run(text, 1, _is_punctuation)
        return _PUNCTUATION, text[:end], text[end:]
    if _is_upper(first):
        end = _upper_word_end(text)
        return _UPPER, text[:end], text[end:]
    if _is_letter(first):
        end = _run(text, 1, _is_small_letter)
        return _ALPHABET, text[:end], text[end:]
    if _is_number(first):
        end = _run(text, 1, _is_number)
        return _NUMBER, text[:end], text[end:]
    end = _run(text, 1, _is_other)
    return _OTHER, text[:end], text[end:]


def _upper_word_end(text: str) -> int:
    end = _run(text, 1, _is_upper)
    if end > 1:
        # The last of several capitals begins the next word if a small letter follows.
        return end - 1 if end < len(text) and _is_letter(text[end]) else end
    return _run(text, 1, _is_small_letter)


def _run(text: str, start: int, belongs: object) -> int:
    assert callable(belongs)
    end = start
    while end < len(text) and belongs(text[end]):
        end += 1
    return end


def _is_upper(char: str) -> bool:
    return unicodedata.category(char) == "Lu" or (not char.isascii() and char.isupper())


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] == "L"


def _is_small_letter(char: str) -> bool:
    return _is_letter(char) and not _is_upper(char)


def _is_digit(char: str) -> bool:
    return unicodedata.category(char) == "Nd"


def _is_number(char: str) -> bool:
    return unicodedata.category(char)[0] == "N"


def _is_punctuation(char: str) -> bool:
    return unicodedata.category(char)[0] == "P"


def _is_other(char: str) -> bool:
    return not (_is_joint(char) or _is_letter(char) or _is_number(char) or _is_punctuation(char))
