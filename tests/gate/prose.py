"""Finder of phrases in docstrings, comments and pages that readers stumble over.

    python -m tests.gate.prose [PATH...]

prints every hit. A hit is a place to look at: idioms without a clear meaning, sentences that begin
with a relative clause, and variables without a noun.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_DOCSTRING_OPENING: Final = re.compile(
    r"(What|Who|Whom|Whose|Whoever|Whatever|Whichever|Those|Nobody|Somebody|Everything that|"
    r"All that|None of|Of (?!course)|As everybody|Give|Say|Hear|Tell|Let|Have|Hold)\b"
)
_OPENING: Final = re.compile(
    r"(What|Who|Whom|Whose|Whoever|Whatever|Whichever|Those|Nobody|Somebody|Everything that|"
    r"All that|As everybody)\b"
)
_IDIOM: Final = re.compile(
    r"\b(anew|whoever|nobody|somebody|whatever|beside(?!s)|stands?\b(?! for)|at rest|way out|"
    r"hand(?:s|ed)? on|hands? over|tak(?:e|es|en) (?:up|in)|lets? go|held (?:to|against)|"
    r"holds? .{1,30} against|beyond doubt|by way of|as long as it takes|is worth|are worth|"
    r"any more|no more|comes? to rest|goes on|went on|"
    r"what (?:is|was|are|were|it|they|he|comes|came)|who (?:is|was|are|were|has)|"
    r"that is (?:all|why)|one that|those (?:of|that)|the like|likewise|meanwhile|besides|unasked|"
    r"behind (?:it|them)|in its (?:turn|place)|for (?:good|ever))\b",
    re.IGNORECASE,
)
_VAGUE_NAMES: Final = frozenset(
    {"each", "every", "found", "made", "given", "known", "asked", "meant", "told", "said"}
    | {"others", "rest", "there", "wanted", "taken", "whole"}
)


class Hit(NamedTuple):
    """A place that needs to be rewritten."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@cache
def hits_of(path: Path) -> list[Hit]:
    """Return the hits of a Python source or a Markdown page."""
    if path.suffix == ".md":
        return [Hit(path, line, text) for line, text in _page_hits(path.read_text("utf-8"))]
    source = path.read_text("utf-8")
    return [Hit(path, line, text) for line, text in _source_hits(source)]


def _source_hits(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    for line, text in _docstrings(tree):
        if match := _DOCSTRING_OPENING.match(text):
            yield line, match[0]
        yield from ((line, match[0]) for match in _IDIOM.finditer(text))
    for line, text in _comments(source):
        if match := _OPENING.match(text):
            yield line, match[0]
        yield from ((line, match[0]) for match in _IDIOM.finditer(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node.id in _VAGUE_NAMES:
                yield node.lineno, f"variable {node.id}"
        elif isinstance(node, ast.arg) and node.arg == "each":
            yield node.lineno, f"parameter {node.arg}"


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield blocks of comments; lines that follow one another belong together."""
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != last + 1:
            yield start, " ".join(block)
            block = []
        if not block:
            start = token.start[0]
        block.append(token.string.lstrip("#: "))
        last = token.start[0]
    if block:
        yield start, " ".join(block)


def _page_hits(page: str) -> Iterator[tuple[int, str]]:
    is_code = False
    for number, line in enumerate(page.split("\n"), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        if is_code:
            continue
        text = re.sub(r"`[^`]*`|\([^)]*\)|https?://\S+", " ", line)
        yield from ((number, match[0]) for match in _IDIOM.finditer(text))
        for sentence in re.split(r"(?<=[.:;])\s+|\|\s*", text):
            if match := _OPENING.match(sentence.lstrip("*-# ")):
                yield number, match[0]


def files_below(*paths: Path) -> list[Path]:
    """List the Python sources and Markdown pages below some paths."""
    return [
        file
        for path in paths
        for file in ([path] if path.is_file() else sorted(path.rglob("*")))
        if file.suffix in (".py", ".md") and "build" not in file.parts
    ]


if __name__ == "__main__":
    for file in files_below(*(Path(word) for word in sys.argv[1:] or ["kanister_py"])):
        for hit in hits_of(file):
            print(hit)
