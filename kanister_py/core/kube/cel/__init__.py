"""CEL (Common Expression Language): conditions of steps, rules of kinds, readiness.

    from kanister_py.core.kube.cel.expression import compile_cel

    compile_cel("object.status.replicas == object.spec.replicas").evaluate({"object": obj})

Values are plain data, with `Uint`, `datetime`, `timedelta` and bytes for CEL's types that
JSON lacks. The standard functions and the extensions for strings, optional values and
`cel.bind` are supported. Unlike in cel-go, whole numbers and doubles can be mixed in
arithmetic, since data from JSON does not distinguish them.

Expressions cannot crash the process or block it: nesting, length and work are limited, and
regular expressions are RE2.
"""
