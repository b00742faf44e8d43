"""CEL (Common Expression Language): conditions of steps, rules of kinds, readiness.

    from kanister_py.core.kube.cel.expression import compile_cel

    compile_cel("object.status.replicas == object.spec.replicas").evaluate({"object": obj})

Values are plain data, with `Uint`, `datetime`, `timedelta` and bytes where CEL has more
types than JSON. Besides the standard functions there are those for strings, optional
values and `cel.bind`. One thing is friendlier than elsewhere: a whole number and a double
may be added and so on, since data from JSON does not say which of them it means.

Nothing an expression says can crash the process or keep it busy: nesting, length and
work are bounded, and regular expressions are RE2's.
"""
