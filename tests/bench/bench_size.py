"""Lines of Python in kanister_py, in total and by feature."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.bench.measure import Row

TITLE = "Lines of Python in kanister_py"

_PACKAGE = Path(__file__).parents[2] / "kanister_py"
_MOST = {"total": 70_000, "gotemplate": 11_000, "embedded": 6_500}

# A module counts for the first pattern that matches its path.
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
    "pages of runs": (r"http_api/live/|cli/(run_page|top|view)\.py|\w+/.*overview"),
    "Leases": r"controller/machine/(lease|fenc\w+)\.py",
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
        str(path.relative_to(_PACKAGE)): path.read_bytes().count(b"\n")
        for path in _PACKAGE.rglob("*.py")
    }
    for folder, most in _MOST.items():
        lines = sum(size for name, size in sizes.items() if folder in ("total", name.split("/")[0]))
        yield Row(folder, f"{lines:,}", f"at most {most:,}", holds=lines <= most)
    features = Counter[str]()
    for name, size in sizes.items():
        fitting = (feature for feature, pattern in _FEATURES.items() if re.match(pattern, name))
        features[next(fitting, "other: ports, executor, HTTP, wiring")] += size
    for feature, size in features.most_common():
        yield Row(feature, f"{size:,}", "")
