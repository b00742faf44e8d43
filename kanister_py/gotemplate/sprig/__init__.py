"""sprig's functions: the table that blueprints see, and the one that compositions see.

Blueprints see sprig 2.22.0 as Kanister ships it, and under the names that only
sprig 3 has, what sprig 3.3 has there. Compositions see sprig 3.3 without the
environment. A name that both have may differ: each table keeps its own.
"""

from kanister_py.gotemplate.sprig.tables import BLUEPRINT_FUNCTIONS, GO_TEMPLATING_FUNCTIONS

__all__ = ["BLUEPRINT_FUNCTIONS", "GO_TEMPLATING_FUNCTIONS"]
