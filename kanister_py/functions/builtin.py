"""Where is the code of each function that comes with kanister_py? `module:Class`, loaded lazily."""

from __future__ import annotations

from collections.abc import Mapping

BUILTIN_FUNCTIONS: Mapping[str, Mapping[str, str]] = {
    "KubeTask": {
        "v0.0.0": "kanister_py.functions.blueprint.kube_task.v0_0_0:KubeTask",
        "v0.1.0": "kanister_py.functions.blueprint.kube_task.v0_1_0:KubeTaskV010",
    },
}
