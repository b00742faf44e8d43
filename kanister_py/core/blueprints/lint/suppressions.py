"""Which findings has the author of a file asked not to hear of?"""

from __future__ import annotations

import re
from collections.abc import Mapping

_COMMENT = re.compile(
    r"(?P<before>.*?)(?:^|(?<=\s))#\s*kanister-py:\s*ignore(?:\s*=\s*(?P<rules>[\w-]+(?:\s*,\s*[\w-]+)*))?\s*$"
)
EVERY_RULE = frozenset({"*"})


def suppressions_in(text: str) -> Mapping[int, frozenset[str]]:
    """Find the comments `# kanister-py: ignore` and `# kanister-py: ignore=RULE,RULE`.

    Gives the rules for each line. A comment on a line of its own speaks of the line below.
    """
    if "kanister-py:" not in text:
        return {}
    by_line: dict[int, frozenset[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _COMMENT.match(line)
        if match is None:
            continue
        rules = match["rules"]
        named = frozenset(re.split(r"\s*,\s*", rules)) if rules else EVERY_RULE
        target = number if match["before"].strip() else number + 1
        by_line[target] = by_line.get(target, frozenset()) | named
    return by_line
