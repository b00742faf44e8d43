"""All groups, in the order of the troubleshooting page."""

from __future__ import annotations

from typing import Final

from kanister_py.core.reasons import compositions, machines, runs

GROUPS: Final = (
    runs.DOCUMENTS,
    runs.RUNS,
    runs.STORES,
    runs.SCHEDULES,
    compositions.COMPOSITE_RESOURCES,
    compositions.FUNCTION_CALLS,
    compositions.PACKAGES,
    machines.CLUSTER,
    machines.CONTROLLER,
    machines.LAPTOP,
)
