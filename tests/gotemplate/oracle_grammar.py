"""Random templates of Go's grammar.

Expressions usually have the expected kind of value: in a template that is wrong
everywhere only the first error would be tested.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.gotemplate.oracle_table import NOW, Case

Expressions = st.SearchStrategy[str]

_WORDS = [
    "a",
    "B",
    "foo bar",
    "",
    "x-y_z",
    "Ünï",
    "12",
    "-4",
    "1.5",
    "a,b,,c",
    "tRuE",
    "<&>",
    "日本",
    "a/b/../c",
    " pad ",
]

texts: Expressions = st.one_of(
    st.sampled_from(
        [".text", ".blank", ".unicode", ".lines", ".quotes", ".html", "(index .list 1)"]
    ),
    st.sampled_from(_WORDS).map(lambda word: f'"{word}"'),
    st.sampled_from(_WORDS).map(lambda word: f"`{word}`"),
)
integers: Expressions = st.one_of(
    st.integers(-3, 12).map(str),
    st.sampled_from([".int", ".zero", ".neg", "0x1F", "1_000", "(len .list)", "(len .text)", "$i"]),
)
floats: Expressions = st.sampled_from([".f", "1.5", "-2.25", ".whole", ".tiny", "1e3", "0.1"])
lists: Expressions = st.sampled_from(
    [
        ".list",
        ".mixed",
        ".none",
        ".texts",
        ".ints",
        '(list 1 "a" 2.5)',
        '(splitList "," "a,b,a")',
        "(until 3)",
        "$l",
    ]
)
# Go's capacity of a list that grew is unspecified, but `slice` can observe it.
exact_lists: Expressions = lists.filter(lambda text: "until" not in text)
dicts: Expressions = st.sampled_from(
    [".dict", ".nodict", '(dict "a" 1 "b" "x")', "(dict)", '(dict "k" (list 1 2))', ".dict.c"]
)
anything: Expressions = st.one_of(
    texts,
    integers,
    floats,
    lists,
    dicts,
    st.sampled_from(
        [
            ".nil",
            ".yes",
            ".no",
            ".missing",
            ".dict.zz",
            ".textmap",
            ".bytes",
            ".time",
            "nil",
            "true",
            "'a'",
            "$x",
            ".",
            "$",
        ]
    ),
)

_OF_TEXT = [
    "upper",
    "lower",
    "title",
    "untitle",
    "trim",
    "nospace",
    "initials",
    "swapcase",
    "snakecase",
    "camelcase",
    "kebabcase",
    "b64enc",
    "b64dec",
    "b32enc",
    "sha1sum",
    "sha256sum",
    "adler32sum",
    "atoi",
    "base",
    "dir",
    "clean",
    "ext",
    "quote",
    "squote",
    "toJson",
    "len",
    "html",
    "js",
    "urlquery",
    "int64",
    "float64",
    "repeat 2",
    "trunc 3",
    "abbrev 6",
    'replace "a" "b"',
    'trimSuffix "c"',
    'trimPrefix "a"',
    'trimAll "a "',
    'contains "a"',
    'hasPrefix "a"',
    'splitList ","',
    "indent 2",
    "nindent 1",
    "wrap 4",
    'wrapWith 3 "|"',
    "substr 0 2",
    'split ","',
    'splitn "," 2',
    'regexMatch "a+"',
    'regexFind "[a-z]+"',
    'cat "x"',
    "print 1",
    'printf "%q"',
    'printf "%-6s|"',
    'printf "%x"',
]
_OF_NUMBER = [
    "add 1",
    "add1",
    "sub 5",
    "mul 3",
    "div 7",
    "mod 5",
    "max 4",
    "min 2",
    "int",
    "float64",
    "floor",
    "ceil",
    "until",
    'plural "one" "many"',
    "toString",
    'printf "%03d"',
    'printf "%x"',
    'printf "%v"',
    "eq 3",
    "lt 2",
    "ge 1",
    "quote",
]
_OF_LIST = [
    "len",
    "first",
    "last",
    "rest",
    "initial",
    "reverse",
    "uniq",
    "compact",
    "sortAlpha",
    'join ","',
    "toJson",
    "toStrings",
    'has "a"',
    "deepCopy",
    "empty",
    "kindOf",
    "typeOf",
    "toPrettyJson",
    'printf "%d"',
    'printf "%#v"',
]
_OF_DICT = [
    "len",
    "toJson",
    "toPrettyJson",
    "empty",
    "kindOf",
    "typeOf",
    "deepCopy",
    'printf "%v"',
    "values | len",
]
_OF_ANYTHING = [
    "print",
    "println",
    "toString",
    "quote",
    "squote",
    "empty",
    "not",
    "toJson",
    "kindOf",
    "typeOf",
    'default "d"',
    "coalesce",
    "int",
    "float64",
    "html",
    "list",
    "cat",
    'printf "%v"',
    'printf "%T"',
    'printf "%s"',
    'printf "%d"',
    "len",
    "and 1",
    "or 0",
    'kindIs "string"',
    "deepCopy",
    "toStrings",
    'join "-"',
    "first",
    "upper",
    "add 1",
]


def _call(name: str, argument: str) -> str:
    head, bar, tail = name.partition(" | ")
    return f"{head} {argument}{bar}{tail}"


def _calls(names: list[str], arguments: Expressions) -> Expressions:
    return st.tuples(st.sampled_from(names), arguments).map(lambda drawn: _call(*drawn))


_two_arguments: Expressions = st.one_of(
    st.builds(
        "{} {} {}".format, st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), integers, integers
    ),
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["eq", "ne", "lt", "contains", "hasSuffix"]),
        texts,
        texts,
    ),
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["and", "or", "eq", "default", "deepEqual", "print", "list"]),
        anything,
        anything,
    ),
    st.builds("index {} {}".format, lists, integers),
    st.builds("index {} {}".format, dicts, texts),
    st.builds(
        "{} {} {}".format, st.sampled_from(["append", "prepend", "without"]), lists, anything
    ),
    st.builds("slice {} {} {}".format, exact_lists, integers, integers),
    st.builds("{} {} {}".format, st.sampled_from(["hasKey", "pick", "omit"]), dicts, texts),
    st.builds(
        "{} {} {} | toJson".format,
        st.sampled_from(["merge", "mergeOverwrite"]),
        st.just('(dict "a" "" "z" (dict "y" 1))'),
        dicts,
    ),
    st.builds(
        "ternary {} {} {}".format, anything, anything, st.sampled_from([".yes", ".no", "true"])
    ),
    st.builds("round {} {}".format, floats, st.integers(0, 3).map(str)),
)
expressions: Expressions = st.one_of(
    _calls(_OF_TEXT, texts),
    _calls(_OF_NUMBER, st.one_of(integers, floats)),
    _calls(_OF_LIST, lists),
    _calls(_OF_DICT, dicts),
    _calls(_OF_ANYTHING, anything),
    _two_arguments,
    anything,
)
_stages = st.sampled_from([*_OF_ANYTHING, *_OF_TEXT])
pipelines: Expressions = st.one_of(
    expressions,
    st.tuples(expressions, st.lists(_stages, min_size=1, max_size=3)).map(
        lambda drawn: " | ".join([drawn[0], *drawn[1]])
    ),
    st.builds("({}) | {}".format, expressions, _stages),
)

_spaces = st.sampled_from(["", " ", "\n", "  \n  ", "text ", "é{}"])
_left = st.sampled_from(["{{ ", "{{ ", "{{- "])
_right = st.sampled_from([" }}", " }}", " -}}"])
_actions: Expressions = st.builds("{}{}{}{}".format, _spaces, _left, pipelines, _right)


def _blocks(bodies: Expressions) -> Expressions:
    return st.one_of(
        st.builds("{{{{ if {} }}}}{}{{{{ end }}}}".format, pipelines, bodies),
        st.builds(
            "{{{{ if {} }}}}{}{{{{ else }}}}{}{{{{ end }}}}".format, pipelines, bodies, bodies
        ),
        st.builds(
            "{{{{ if {} }}}}{}{{{{ else if {} }}}}{}{{{{ end }}}}".format,
            pipelines,
            bodies,
            pipelines,
            bodies,
        ),
        st.builds(
            "{{{{- range $i, $x := {} }}}}{}{{{{ $i }}}}={{{{ $x }}}};{{{{- end }}}}".format,
            st.one_of(lists, dicts),
            bodies,
        ),
        st.builds(
            "{{{{ range {} }}}}{}{{{{ else }}}}{}{{{{ end }}}}".format, anything, bodies, bodies
        ),
        st.builds(
            "{{{{ range {} }}}}{{{{ if {} }}}}{{{{ {} }}}}{{{{ end }}}}{}{{{{ end }}}}".format,
            lists,
            expressions,
            st.sampled_from(["break", "continue"]),
            bodies,
        ),
        st.builds(
            "{{{{ with {} }}}}{}{{{{ else }}}}{}{{{{ end }}}}".format, pipelines, bodies, bodies
        ),
        st.builds("{{{{ with $x := {} }}}}{}{{{{ $x }}}}{{{{ end }}}}".format, pipelines, bodies),
        st.builds("{{{{ $x := {} }}}}{}{{{{ $x }}}}".format, pipelines, bodies),
        st.builds("{{{{ $x = {} }}}}{}{{{{ $x }}}}".format, pipelines, bodies),
        st.builds(
            '{{{{ define "t" }}}}{}{{{{ end }}}}{{{{ template "t" {} }}}}'.format, bodies, anything
        ),
        st.builds("{}{}".format, bodies, bodies),
        st.builds("{{{{/* {} */}}}}{}".format, st.sampled_from(["", "note", "}} {{"]), bodies),
    )


templates: Expressions = st.builds(
    '{{{{- $x := "X" }}}}{{{{- $l := .list }}}}{{{{- $i := 2 -}}}}{}'.format,
    st.recursive(_actions, _blocks, max_leaves=4),
)

# Expressions whose order or output is random in Go.
_UNSTABLE = ("values ", "keys ", "values|", "shuffle", "rand", "uuid", "%p")

cases = st.builds(
    Case,
    templates.filter(lambda text: not any(word in text for word in _UNSTABLE)),
    st.just("map"),
    st.sampled_from(["error", "error", "error", "default", "zero"]),
    st.just(NOW),
)


def generated(count: int, from_seed: int) -> list[Case]:
    """Generate cases from a seed."""
    generated_cases: dict[Case, None] = {}

    @seed(from_seed)
    @settings(
        max_examples=count * 2,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def collect(case: Case) -> None:
        if len(case.template) < 400:
            generated_cases[case] = None

    collect()
    return list(generated_cases)[:count]
