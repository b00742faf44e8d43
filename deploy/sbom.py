"""CycloneDX software bill of materials of an environment, written to stdout.

python sbom.py requirements.lock > sbom.cdx.json

Components are the distributions that are installed for the running Python, with the hashes
from the lock file.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

OWN = "kanister-py"
_LOCKED = re.compile(r"^([\w.-]+)==\S+((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)


def component(distribution: Distribution, hashes: list[str]) -> dict[str, Any]:
    name, metadata = normalized(distribution.name), distribution.metadata
    purl = f"pkg:pypi/{name}@{distribution.version}"
    entry: dict[str, Any] = {
        "type": "application" if name == OWN else "library",
        "bom-ref": purl,
        "name": name,
        "version": distribution.version,
        "purl": purl,
    }
    if "License-Expression" in metadata:
        entry["licenses"] = [{"expression": metadata["License-Expression"]}]
    if hashes:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum} for checksum in hashes]
    return entry


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(distribution: Distribution, installed: set[str]) -> list[str]:
    """List the requirements of a distribution that are installed."""
    matches = (re.match(r"[\w.-]+", requirement) for requirement in distribution.requires or ())
    return sorted(
        {normalized(match[0]) for match in matches if match}
        & installed - {normalized(distribution.name)}
    )


def bill_of(lock: str) -> dict[str, Any]:
    """Build the SBOM. The same environment and lock file give the same result."""
    hashes = {
        normalized(match[1]): re.findall(r"sha256:([0-9a-f]{64})", match[2])
        for match in _LOCKED.finditer(lock)
    }
    installed = {normalized(distribution.name): distribution for distribution in distributions()}
    components = {
        name: component(distribution, hashes.get(name, []))
        for name, distribution in sorted(installed.items())
    }
    refs = {name: part["bom-ref"] for name, part in components.items()}
    own = components.pop(OWN, None)
    bill: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own} if own else {},
        "components": list(components.values()),
        "dependencies": [
            {
                "ref": refs[name],
                "dependsOn": [refs[other] for other in needs(distribution, set(refs))],
            }
            for name, distribution in sorted(installed.items())
        ],
    }
    bill["serialNumber"] = f"urn:uuid:{uuid5(NAMESPACE_URL, json.dumps(bill, sort_keys=True))}"
    return bill


if __name__ == "__main__":
    lock = Path(sys.argv[1]).read_text(encoding="utf-8")
    json.dump(bill_of(lock), sys.stdout, indent=1)
    sys.stdout.write("\n")
