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


def component(found: Distribution, hashes: list[str]) -> dict[str, Any]:
    name, told = spelled(found.name), found.metadata
    purl = f"pkg:pypi/{name}@{found.version}"
    made: dict[str, Any] = {
        "type": "application" if name == OWN else "library",
        "bom-ref": purl,
        "name": name,
        "version": found.version,
        "purl": purl,
    }
    if "License-Expression" in told:
        made["licenses"] = [{"expression": told["License-Expression"]}]
    if hashes:
        made["hashes"] = [{"alg": "SHA-256", "content": each} for each in hashes]
    return made


def spelled(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(found: Distribution, there: set[str]) -> list[str]:
    """List the requirements of a distribution that are installed."""
    asked = (re.match(r"[\w.-]+", each) for each in found.requires or ())
    return sorted({spelled(each[0]) for each in asked if each} & there - {spelled(found.name)})


def bill_of(lock: str) -> dict[str, Any]:
    """Build the SBOM. The same environment and lock file give the same result."""
    hashes = {
        spelled(each[1]): re.findall(r"sha256:([0-9a-f]{64})", each[2])
        for each in _LOCKED.finditer(lock)
    }
    installed = {spelled(each.name): each for each in distributions()}
    made = {name: component(each, hashes.get(name, [])) for name, each in sorted(installed.items())}
    refs = {name: each["bom-ref"] for name, each in made.items()}
    own = made.pop(OWN, None)
    bill: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own} if own else {},
        "components": list(made.values()),
        "dependencies": [
            {"ref": refs[name], "dependsOn": [refs[other] for other in needs(each, set(refs))]}
            for name, each in sorted(installed.items())
        ],
    }
    bill["serialNumber"] = f"urn:uuid:{uuid5(NAMESPACE_URL, json.dumps(bill, sort_keys=True))}"
    return bill


if __name__ == "__main__":
    lock = Path(sys.argv[1]).read_text(encoding="utf-8")
    json.dump(bill_of(lock), sys.stdout, indent=1)
    sys.stdout.write("\n")
