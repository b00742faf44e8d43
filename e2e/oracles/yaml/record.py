"""Records the answers of sigs.k8s.io/yaml to the texts below.

Texts in which two keys become equal (`1` and `'1'`) are left out, because Go's answer
depends on the random order of its maps.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

RECORD = Path(__file__).parents[3] / "tests" / "core" / "yaml" / "recorded_yaml.jsonl"

SCALARS = """
a
y
Y
n
N
yes
Yes
YES
yEs
no
No
NO
on
On
ON
off
Off
OFF
true
True
TRUE
tRue
false
False
FALSE
t
f
null
Null
NULL
nUll
~
~a
0
-0
+0
1
+1
-1
01
-01
+01
08
09
0o17
-0o17
+0o17
0o8
0O17
017
-017
0x1F
0X1F
-0x1F
+0x1F
0xg
0b101
0B101
-0b101
+0b101
0b2
1_000
1__0
_1
1_
0x_1F
0b1_0
-0b1_0
0o1_7
1_000.5
1_0e3
1.
.5
-.5
+.5
.
..
...x
-
--
+
1.5
-1.5
+1.5
1.50
1e3
1E3
1e+3
1e-3
-1e3
+1e3
1.e3
.5e3
1e
e1
1e400
-1e400
1e-400
1e20
1e21
1e22
-1e21
123456789012345678901234567890
9223372036854775807
9223372036854775808
-9223372036854775808
-9223372036854775809
18446744073709551615
18446744073709551616
0xFFFFFFFFFFFFFFFF
0x10000000000000000
-0x8000000000000000
-0x8000000000000001
01777777777777777777777
02000000000000000000000
0b1111111111111111111111111111111111111111111111111111111111111111
-0b1000000000000000000000000000000000000000000000000000000000000000
.inf
-.inf
+.inf
.Inf
.INF
-.INF
.iNf
.nan
.NaN
.NAN
.nAn
nan
inf
Infinity
2001-12-14
2001-12-14T21:59:43.10-05:00
2001-12-14 21:59:43
12:30
12:30:45
190:20:30
1:1
=
<<
!
0.0
-0.0
0e0
00
0_0
000
0777
0x
0b
0o
1.2.3
1-2
1,000
1 2
1.0
100.0
1.0e5
3.14159265358979323846
0.1e1
1e15
123456.789e3
5e-324
4.9e-325
1.7976931348623157e308
1.7976931348623159e308
0.000001
0.0000001
123456789.123456789
9007199254740993.0
1e18
1e19
12345678901234567890.0
0x1p4
1d5
1f
1L
١٢
NaN
TrUe
oFF
y1
no1
null1
0xabcdef
0XABCDEF
-.5e-1
+12e03
1e03
-1_000
+1_000
._5
.5_0
5._0
1_.5
0._5
_
__
-_1
0_
0x1_
1e1_0
1e_1
685_230.15
6.8523015e+5
190:20:30.15
0o0
-0o0
0x0
-0x0
0b0
-0b0
1e5x
""".splitlines()

TAGS = [
    "!!str",
    "!!int",
    "!!float",
    "!!bool",
    "!!null",
    "!!binary",
    "!!timestamp",
    "!!set",
    "!!map",
    "!!seq",
    "!!omap",
    "!!merge",
    "!!value",
    "!!unknown",
    "!own",
    "!",
]

TAGGED = [
    "yes",
    "1",
    "0x1F",
    "0o17",
    "1.5",
    "1e3",
    "null",
    "~",
    "''",
    "'1'",
    "'yes'",
    '"null"',
    "aGk=",
    "aGk",
    "/w==",
    "'@'",
    "2001-12-14",
    "[a]",
    "{a:b}",
    "text",
    ".nan",
    ".inf",
    "12:30",
    "08",
    '""',
    "1_0",
    "017",
]

TEXTS = [
    "a: 'yes'\n",
    'a: "1"\n',
    "a: |\n  yes\n",
    "a: >\n  1\n",
    "a: 'null'\n",
    "'yes': 1\n",
    '"1": a\n',
    "? |\n  1\n: a\n",
    "a:\n",
    "a: \n",
    "'': a\n",
    "? \n: a\n",
    ": a\n",
    "~: a\n",
    "null: a\n",
    "a: ~\n",
    "",
    "# only a comment\n",
    "---\n",
    "--- a\n",
    "a\n",
    "- 1\n- yes\n",
    "[1, yes]\n",
    "{a: 1, b: [x, {c: d}]}\n",
    "{a, b: c}\n",
    "{a: }\n",
    "[a, ]\n",
    "[, a]\n",
    "[]\n",
    "{}\n",
    "a: &x 1\nb: *x\n",
    "a: &x {b: c}\nd: *x\n",
    "a: &x [1]\nd: *x\ne: *x\n",
    "&k a: 1\nb: *k\n",
    "&k a: 1\n*k : 2\n",
    "a: *none\n",
    "a: &a [*a]\n",
    "a: &a {b: *a}\n",
    "a: &x 1\nb: &x 2\nc: *x\n",
    "a: &x yes\n*x : b\n",
    "base: &b {x: 1, y: 2}\nd:\n  <<: *b\n  x: 3\n",
    "base: &b {x: 1}\nd:\n  x: 3\n  <<: *b\n",
    "a: &a {x: 1}\nb: &b {x: 2, z: 3}\nd:\n  <<: [*a, *b]\n",
    "d:\n  <<: {x: 1}\n  z: 2\n",
    "d:\n  <<: 1\n",
    "d:\n  <<: [1]\n",
    "d:\n  <<: []\n",
    "d:\n  <<: {}\n",
    "d:\n  <<: null\n",
    "a: &a {x: 1}\nb: &b\n  <<: *a\n  z: 1\nc:\n  <<: *b\n  x: 4\n",
    "a: &a {x: 1}\nd:\n  <<: *a\n  <<: *a\n",
    "a: &a {x: 1}\nb: &b {x: 5, k: 1}\nd:\n  <<: *a\n  <<: *b\n",
    "d:\n  '<<': {x: 1}\n",
    'd:\n  "<<": {x: 1}\n',
    "d:\n  !!str <<: {x: 1}\n",
    "d:\n  !!merge <<: {x: 1}\n",
    "d: {<<: {x: 1}, y: 2}\n",
    "- <<: {x: 1}\n- <<\n",
    "a: &a [x]\nd:\n  <<: *a\n",
    "a: &a {x: 1, x: 2}\n",
    "a: 1\na: 2\n",
    "a: 1\n'a': 2\n",
    "{a: 1, a: 2}\n",
    "a:\n  b: 1\n  b: 2\nc: 1\nc: 2\n",
    "null: a\n~: b\n",
    "? {a: b}\n: c\n",
    "? [a]\n: c\n",
    "? 1.5\n: c\n",
    "? - a\n: c\n",
    "[a]: b\n",
    "{a: b}: c\n",
    "? a\n? b\n",
    "a: b: c\n",
    "a:\n\tb: c\n",
    "a: [b\n",
    "a: {b\n",
    "a: 'b\n",
    'a: "b\n',
    "a: @b\n",
    "a: `b`\n",
    "a: %b\n",
    "%YAML 1.1\n---\na: 1\n",
    "%YAML 1.2\n---\na: yes\n",
    "%YAML 2.0\n---\na: 1\n",
    "%TAG ! tag:example.com,2000:\n---\na: !x 1\n",
    "a: !e!x 1\n",
    "a: 1\n---\nb: 2\n",
    "a: 1\n...\nb: 2\n",
    "a: 1\n...\n---\nb: 2\n",
    "a: 1\n--- \nb: 2\n",
    "---\n---\na: 1\n",
    "a: 1\r\nb: 2\r\n",
    "a: 1\rb: 2\r",
    "\ufeffa: 1\n",
    "a: \ufeffb\n",
    "a: \u00e9\n",
    "a: \ud83d\ude00\n",
    "a: \u2028b\n",
    "a: \u0085b\n",
    "a: \u0001b\n",
    'a: "\\x01"\n',
    'a: "\\u00e9\\U0001F600"\n',
    'a: "\\ud83d\\ude00"\n',
    'a: "\\q"\n',
    'a: "x\\\n  y"\n',
    "a: 'x\n  y'\n",
    "a: x\n  y\n",
    "a: x\n\n  y\n",
    "a: 'x''y'\n",
    'a: "\\0\\a\\b\\e\\_\\N\\L\\P"\n',
    'a: "\\/"\n',
    "a: |\n  x\n  y\n",
    "a: |-\n  x\n",
    "a: |+\n  x\n\n",
    "a: >\n  x\n  y\n\n  z\n",
    "a: >-\n  x\n   y\n  z\n",
    "a: |2\n   x\n",
    "a: |1\n  x\n",
    "a: |\n",
    "a: |\n x\n  y\n",
    "a: >+\n\n  x\n\n",
    "a: |0\n  x\n",
    "a: |-1\n  x\n",
    "a: x # c\n",
    "a: x#c\n",
    "a: 'x'#c\n",
    "#c\na: 1 #d\n#e\n",
    "a: - b\n",
    "a:\n- b\n- c\n",
    "a:\n  - b\n  -\n  - \n",
    "-\n  - a\n",
    "- - a\n  - b\n",
    "- a: 1\n  b: 2\n",
    "a:\n  b\n",
    "a:\nb:\n",
    "? a\n",
    "a: ?b\n",
    "a: -b\n",
    "a: :b\n",
    "a::b\n",
    "a:b\n",
    "a: b:c\n",
    "a: http://x/y\n",
    "{a:b}\n",
    '{"a":b}\n',
    "{'a':1}\n",
    "[a:b]\n",
    "[a: b]\n",
    "[a: b, c]\n",
    "[? a: b]\n",
    "{? a : b}\n",
    "{a: b, }\n",
    "a: {b: c\n  }\n",
    "a: [b,\nc]\n",
    "{a: b}\n{c: d}\n",
    "a b\nc: d\n",
    "a\nb: c\n",
    "- a\nb: c\n",
    "a: 1\n b: 2\n",
    "a:\n    b: 1\n  c: 2\n",
    "a: !!str\n",
    "a: !!null\n",
    "a: !<tag:yaml.org,2002:str> 1\n",
    "a: !<tag:yaml.org,2002:int> '1'\n",
    "a: &x\nb: *x\n",
    "a: &x\n  b: 1\nc: *x\n",
    "a: &x *y\n",
    "a: & b\n",
    "a: * b\n",
    "a: *x\n",
    "a: !!float 1\n",
    "a: !!binary |\n  aGVs\n  bG8=\n",
    "a: !!binary /w==\n",
    "!!binary aGk=: 1\n",
    "!!str 1: a\n",
    "!!int '1': a\n",
    "!!float 1: a\n",
    "2001-12-14: a\n",
    "0x10: a\n",
    "-1: a\n",
    "18446744073709551615: a\n",
    "1e400: a\n",
    "- &a x\n- *a\n",
    "{a: &x b, c: *x }\n",
    "{a: &x b, *x : c}\n",
    'a: ""\n',
    "a: ''\n",
    "a: \t1\n",
    "a: 1\t\n",
    "a:\t1\n",
    "\ta: 1\n",
    "a: 1 \n",
    "a: !!bool y\n",
    '"a\nb": c\n',
    "a: 'b\n\n  c'\n",
    "a: 1\n# c\n\nb: 2\n",
    "a: [1,2,[3,[4]]]\n",
    "a: {{ .x }}\n",
    'a: "{{ .x }}"\n',
    "{{ .x }}: a\n",
    "a: [{{ x }}]\n",
    "x: {{ x }: y}\n",
    "x: !foo {a: 1}\n",
    "x: !foo [a]\n",
    "x: !!map [a]\n",
    "x: !!seq {a: b}\n",
    "x: !!omap [a: 1]\n",
    "x: !!set {a, b}\n",
    "x: !!set {a: null}\n",
    "a: 1e5\nb: 1.0\nc: [1.0, 2.5]\n",
    "a: .1_0\n",
    "a: 0.1e-7\n",
    "a: 100000000000000000000.0\n",
    "a: 1000000000000000000000.0\n",
    "a: -0.0\n",
    "-0.0: a\n",
    "a: 0.00001\n",
    "a: 1e-7\n",
    "a: 18446744073709551615.0\n",
    "0.1: a\n",
    "1e21: a\n",
    "1e20: a\n",
    "0.00001: a\n",
    "1234567.5: a\n",
    "123456789.5: a\n",
    "1e-7: a\n",
    "-1e30: a\n",
    "0.1e1: a\n",
    "16777217.0: a\n",
    "3.4028236e38: a\n",
    "1.00000001: a\n",
    "9007199254740993: a\n",
    "-0: a\n",
    "+5: a\n",
    "1_000: a\n",
    "a: &anchor-x:y 1\nb: *anchor-x:y\n",
    "a: &\u00e9 1\n",
    "? &a x\n: *a\n",
    "x: &a\n  k: v\ny:\n  <<: *a\n  <<: {k: w, l: m}\n  m: n\n",
    "x: &a {k: v}\ny: {<<: [*a, {k: w, l: m}, {l: q, r: s}]}\n",
    "x:\n  <<: {yes: 1}\n  true: 2\n",
    "x:\n  <<: [[{a: 1}]]\n",
    "x:\n  <<: &m {a: 1}\ny: *m\n",
    "x:\n  ? <<\n  : {a: 1}\n",
    "x: {<<: !!map {a: 1}}\n",
    "<<: {a: 1}\n",
    "x:\n  <<: {<<: {a: 1}, b: 2}\n",
    "x:\n  <<:\n",
]


def texts() -> list[str]:
    """Return all texts without duplicates."""
    scalars = [scalar for scalar in SCALARS if scalar]
    documents = [f"a: {scalar}\n" for scalar in scalars]
    documents += [f"{scalar}: a\n" for scalar in scalars]
    documents += [f"a: {tag} {scalar}\n" for tag in TAGS for scalar in TAGGED]
    return list(dict.fromkeys(documents + TEXTS))


def ask(oracle: Path) -> str:
    """Run the oracle; its output has one answer per line."""
    questions = "".join(json.dumps({"yaml": text}) + "\n" for text in texts())
    return subprocess.run(
        [oracle], input=questions, capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout
