"""Go's text/template: same syntax, same values, same printing, same error texts.

    compile_template(text, functions).execute(data, effects)

`values` says how Go values look in Python, `functions` how to declare a function.
"""

from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.gotemplate.functions import (
    NO_FUNCTIONS,
    Function,
    FunctionTable,
    GoError,
    go_function,
)
from kanister_py.gotemplate.limits import DEFAULT, Budget, Context, Limits
from kanister_py.gotemplate.template import MissingKey, Template, compile_template

__all__ = [
    "DEFAULT",
    "NO_EFFECTS",
    "NO_FUNCTIONS",
    "Budget",
    "Context",
    "Effects",
    "Function",
    "FunctionTable",
    "GoError",
    "Limits",
    "MissingKey",
    "Template",
    "compile_template",
    "go_function",
]
