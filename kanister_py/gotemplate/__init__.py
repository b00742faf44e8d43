"""Go's text/template: same syntax, values, output and error messages.

    template.compile_template(text, functions).execute(data, effects)

Go values are mapped to Python in `values`; functions are declared as in `functions`.
"""
