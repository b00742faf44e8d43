"""Docstrings, comments and pages are in ordinary English, and variables have nouns for names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gate.prose import files_below, hits_of

pytestmark = pytest.mark.gate

MOST_PER_FILE = 0.3
MOST_IN_PAGES = 60


@pytest.mark.parametrize("folders", ["kanister_py deploy", "tests e2e"])
def test_sources_are_in_ordinary_english(repository: Path, folders: str) -> None:
    files = files_below(*(repository / folder for folder in folders.split()))
    hits = [hit for file in files if file.suffix == ".py" for hit in hits_of(file)]
    assert len(hits) <= MOST_PER_FILE * len(files), "\n".join(map(str, hits))
    # In ten well-known libraries, no variable has this name.
    assert [str(hit) for hit in hits if hit.text.endswith(" each")] == []


def test_pages_are_in_ordinary_english(repository: Path) -> None:
    names = ("README.md", "SECURITY.md", "CHANGELOG.md", "docs", "blueprints", "kanister_py")
    pages = files_below(*(repository / name for name in names))
    hits = [hit for page in pages if page.suffix == ".md" for hit in hits_of(page)]
    assert len(hits) <= MOST_IN_PAGES, "\n".join(map(str, hits))


def test_idioms_openings_and_vague_names_are_found(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        '"""What is read."""\n\n# Nobody waits any more.\nfor each in ():\n    pass\n'
    )
    assert [hit.text for hit in hits_of(source)] == [
        "What",
        "What is",
        "Nobody",
        "Nobody",
        "any more",
        "variable each",
    ]
