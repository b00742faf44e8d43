"""function-patch-and-transform v0.2.0: like v0.1.0, with corrected numbers, joins and defaults."""

from __future__ import annotations

from typing import Any

from kanister_py.functions.composition.patch_and_transform.plans import Plan, strict_plan_for
from kanister_py.functions.composition.patch_and_transform.v0_1_0 import PatchAndTransform


class PatchAndTransformV020(PatchAndTransform):
    """Composes resources from templates, and patches fields to and from the composite resource.

    Like v0.1.0, with these differences: whole numbers are integers everywhere, so that `fmt:
    "%d"` prints them, `MatchInteger` matches them, and a million is not printed as 1e+06.
    `Join` removes the complete last separator. As the published definition specifies, the
    default `type` of a `math` transform is `Multiply`, that of a `string` transform is
    `Format`, and that of a pattern of `match` is `literal`.
    """

    version = "v0.2.0"

    def plan(self, function_input: Any) -> Plan:
        return strict_plan_for(function_input)
