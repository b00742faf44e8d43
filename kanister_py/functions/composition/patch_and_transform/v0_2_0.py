"""function-patch-and-transform v0.2.0: as v0.1.0, but numbers, joins and defaults are as meant."""

from __future__ import annotations

from typing import Any

from kanister_py.functions.composition.patch_and_transform.plans import Plan, mended_plan_for
from kanister_py.functions.composition.patch_and_transform.v0_1_0 import PatchAndTransform


class PatchAndTransformV020(PatchAndTransform):
    """Make resources from templates, and patch fields between them and the composite resource.

    As v0.1.0, but a whole number is an integer wherever it is read: `fmt: "%d"` prints it,
    `MatchInteger` holds, and a million is not 1e+06. `Join` takes the whole of the last
    separator off. Transforms of `math` multiply, those of `string` format and patterns of
    `match` are literal where they have no `type`, as the published definition says.
    """

    version = "v0.2.0"

    def plan(self, given: Any) -> Plan:
        return mended_plan_for(given)
