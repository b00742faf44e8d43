"""Log of a phase: its lines without secrets, the last of them, and the outputs among them."""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.outputs import LogLines, OutputParser

_TAIL_LINES: Final = 10
_TAIL_WIDTH: Final = 400


class PhaseLog:
    """Log of a phase. Nothing longer than a screen is kept of it."""

    def __init__(
        self,
        masker: Masker,
        learn: Callable[[Iterable[Mapping[str, Any]]], Masker],
        on_line: Callable[[str], None] | None,
    ) -> None:
        self._masker = masker
        self._learn = learn
        self._on_line = on_line
        self._last: deque[str] = deque(maxlen=_TAIL_LINES)

    def add(self, line: str) -> None:
        for each in line.splitlines():
            text = each.strip()
            if text:
                self._last.append(text)
            if self._on_line is not None:
                self._on_line(self.mask(each))

    def mask(self, text: str) -> str:
        return self._masker.mask(text)

    def conceal(self, secret: str) -> None:
        raw = secret.encode("utf-8", "surrogateescape")
        self.learn_secrets([{"data": {"secret": b64encode(raw).decode()}}])

    def learn_secrets(self, secrets: Iterable[Mapping[str, Any]]) -> None:
        """Mask from now on what these Secrets hold too."""
        self._masker = self._learn(secrets)

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines that say anything, without secrets and cut to fit."""
        return tuple(_cut(self.mask(line)) for line in self._last)


class OutputReader:
    """Takes what a command prints: outputs are collected, the rest is logged line by line."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._parser = OutputParser()
        self._lines = LogLines(log)

    def feed(self, chunk: bytes) -> None:
        for piece in self._parser.feed(chunk):
            if isinstance(piece, bytes):
                self._lines.feed(piece)

    def finish(self) -> dict[str, str]:
        """Give the outputs, or raise what is wrong with one of them."""
        for piece in self._parser.finish():
            if isinstance(piece, bytes):
                self._lines.feed(piece)
        self._lines.finish()
        if self._parser.error is not None:
            raise self._parser.error
        return self._parser.outputs


def _cut(line: str) -> str:
    return line if len(line) <= _TAIL_WIDTH else line[: _TAIL_WIDTH - 1] + "…"
