"""function-extra-resources v0.2.0: as v0.1.0, but a selector may come to nothing."""

from __future__ import annotations

from kanister_py.functions.composition.extra_resources.v0_1_0 import ExtraResources


class ExtraResourcesV020(ExtraResources):
    """Fetch resources, by name or by labels, and put them into the context.

    As v0.1.0, but a selector whose labels are all optional, and of which the composite
    resource has none, has found nothing: an empty list under its name, held against its
    `minMatch`. v0.1.0 fails the step then, once anything else was found.
    """

    version = "v0.2.0"
    finds_nothing = True
