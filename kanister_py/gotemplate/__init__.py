"""Go's text/template: same syntax, same values, same printing, same error texts.

    template.compile_template(text, functions).execute(data, effects)

`values` says how Go values look in Python, `functions` how to declare a function.
"""
