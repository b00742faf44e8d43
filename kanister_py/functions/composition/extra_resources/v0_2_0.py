"""function-extra-resources v0.2.0: like v0.1.0, but a selector may match nothing."""

from __future__ import annotations

from kanister_py.functions.composition.extra_resources.v0_1_0 import ExtraResources


class ExtraResourcesV020(ExtraResources):
    """Fetches resources, selected by name or by labels, and adds them to the context.

    Like v0.1.0, except for a selector whose labels are all optional and cannot be resolved
    from the composite resource: its result is an empty list under its name, to which
    `minMatch` applies. In v0.1.0 the step fails if another resource was found.
    """

    version = "v0.2.0"
    finds_nothing = True
