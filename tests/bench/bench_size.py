"""Lines of Python in the house, and what each of its larger features takes of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.bench.measure import Row

TITLE = "Lines of Python in kanister_py"

_HOUSE = Path(__file__).parents[2] / "kanister_py"
_MOST = {"in all": 70_000, "gotemplate": 11_000, "embedded": 6_500}

# The first that fits a module's path counts it.
_FEATURES = {
    "Go's templates and sprig": r"gotemplate/",
    "blueprints in Jinja2": r"core/templates/jinja/",
    "CEL": r"core/kube/cel/",
    "pods as processes": r"embedded/pods/|ports/pods",
    "the cluster in memory, with the rules of an API server": (
        r"embedded/|core/kube/(managed_fields|merge_rules|crd_\w+|admission|openapi|patches)\.py"
    ),
    "data: restic, RDS, object stores, Profiles, kando": (
        r"kando/|adapters/object_store|ports/object_store|cli/(profile|location)\.py"
        r"|core/kube/locations|functions/blueprint/("
        r"\w+_data|\w+_data_\w+|\w*rds\w*|check_rep\w+|location_\w+|\w*repositor\w+|restic)\b"
    ),
    "schedules, retention, restores, export": (
        r"core/schedules/|controller/schedules/|cli/(schedule\w*|restore|export|import_)\.py"
    ),
    "pages of runs, and what they show": (
        r"http_api/live/|cli/(run_page|top|view)\.py|\w+/.*overview"
    ),
    "shards and Leases": r"core/shards|controller/machine/(shards|lease|fenc\w+)\.py",
    "packages in registries": (
        r"adapters/packages_oci/|core/revisions/package|controller/functions/packages"
    ),
    "lint": r"core/blueprints/lint/|cli/(lint\w*|findings)\.py",
    "functions of compositions": r"functions/composition/",
    "pipelines, claims, composite resources": (
        r"core/compositions/|controller/compositions/|cli/(render\w*|internal)\.py"
    ),
    "the wire format of functions": r"proto/|grpc_api/",
    "tests for authors": r"testing/|cli/function_test",
    "the Kubernetes client": r"adapters/cluster_kube/",
    "the other commands": r"cli/",
    "the other functions of blueprints": r"functions/",
    "the other parts of the controller": r"controller/",
    "the other decisions": r"core/",
}


def rows() -> Iterator[Row]:
    sizes = {
        str(each.relative_to(_HOUSE)): each.read_bytes().count(b"\n")
        for each in _HOUSE.rglob("*.py")
    }
    for room, most in _MOST.items():
        lines = sum(size for name, size in sizes.items() if room in ("in all", name.split("/")[0]))
        yield Row(room, f"{lines:,}", f"at most {most:,}", holds=lines <= most)
    features = Counter[str]()
    for name, size in sizes.items():
        fitting = (each for each, pattern in _FEATURES.items() if re.match(pattern, name))
        features[next(fitting, "the rest: ports, executor, HTTP, wiring")] += size
    for feature, size in features.most_common():
        yield Row(feature, f"{size:,}", "")
