"""Data and functions of the templates in these tests.

`text_template.json` contains the answers of Go 1.26 for the same values and types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kanister_py.gotemplate.durations import MILLISECOND, SECOND
from kanister_py.gotemplate.functions import Function, FunctionTable, GoError, go_function
from kanister_py.gotemplate.times import DURATION, TIME, Duration, Time, make_time
from kanister_py.gotemplate.types import (
    ANY,
    ANY_MAP,
    ANY_SLICE,
    BYTES,
    INT,
    INT64,
    STRING,
    STRING_MAP,
    STRINGS,
    UINT,
    UINT8,
    Field,
    map_of,
    parse_type,
    pointer_to,
    struct_type,
)
from kanister_py.gotemplate.values import Int64, Value, from_bytes, wrap

DEP = struct_type(
    "main.Dep",
    Field("Name", STRING),
    Field("Pods", STRINGS),
    Field("Containers", parse_type("[][]string")),
    Field("N", INT),
    Field("PVC", parse_type("map[string]map[string]string")),
)
INNER = struct_type("main.Inner", Field("ID", STRING), Field("Secret", STRING))
EMB = struct_type("main.Emb", Field("Kind", STRING))
TP = struct_type(
    "main.TP",
    Field("Emb", EMB, embedded=True),
    Field("StatefulSet", pointer_to(DEP)),
    Field("Deployment", pointer_to(DEP)),
    Field("Options", STRING_MAP),
    Field("Object", ANY_MAP),
    Field("Time", STRING),
    Field("T", TIME),
    Field("D", DURATION),
    Field("I64", INT64),
    Field("U8", UINT8),
    Field("U", UINT),
    Field("Data", map_of(STRING, BYTES)),
    Field("NilMap", STRING_MAP),
    Field("NilSlice", STRINGS),
    Field("Any", ANY),
    Field("In", INNER),
    Field("Arts", map_of(STRING, INNER)),
    Field("MI", map_of(INT, STRING)),
    Field("Nested", map_of(STRING, pointer_to(DEP))),
    Field("L", ANY_SLICE),
    Field("B", BYTES),
)

MOMENT = make_time(2024, 2, 29, hour=13, minute=4, second=5, nanosecond=123456789)


def template_data() -> Value:
    """Create the data of the templates."""
    return wrap(
        TP,
        {
            "Emb": {"Kind": "TP"},
            "StatefulSet": {
                "Name": "db",
                "Pods": ["p0", "p1"],
                "Containers": [["c0", "c1"], ["c2"]],
                "N": 3,
                "PVC": {"p0": {"data": "/mnt"}},
            },
            "Options": {"x": "1", "empty": "", "a-b": "dash"},
            "Object": {
                "metadata": {"name": "obj", "labels": {"app": "web", "k.io/x": "y"}},
                "n": None,
                "i": Int64(7),
                "f": 1.5,
                "big": 1e21,
                "l": ["a", Int64(1), None, 2.5, True, {"k": "v"}],
                "t": True,
                "e": {},
                "s": "héllo <b>&'\"",
                "el": [],
            },
            "Time": "2024-02-29T13:04:05.123456789Z",
            "T": MOMENT,
            "D": Duration(90 * SECOND + 500 * MILLISECOND),
            "I64": -5,
            "U8": 200,
            "U": 7,
            "Data": {"k": b"v1", "empty": None},
            "In": {"ID": "id", "Secret": "hid"},
            "Arts": {"a": {"ID": "x"}},
            "MI": {2: "two", 1: "one"},
            "Nested": {"d": {"Name": "n"}, "nil": None},
            "L": [1, "x", None, [2, 3]],
            "B": b"hi",
        },
    )


def _boom() -> str:
    raise GoError("boom %d")


def _second(moment: Time) -> int:
    return moment.unix_nanoseconds // SECOND


def _table() -> dict[str, Function]:
    rows: dict[str, tuple[str, Callable[..., Any]]] = {
        "fstr": ("func(string) string", lambda text: f"<{text}>"),
        "fint": ("func(int) int", lambda number: number + 1),
        "fi64": ("func(int64) int64", lambda number: number * 2),
        "fany": ("func(interface{}) interface{}", lambda value: value),
        "fsv": (
            "func(string, ...string) string",
            lambda text, *words: text + ",".join(words),
        ),
        "fmap": ("func(map[string]interface{}) int", len),
        "fby": ("func([]byte) string", from_bytes),
        "ferr": ("func() (string, error)", _boom),
        "fnil": ("func() interface{}", lambda: None),
        "ftime": ("func(time.Time) int64", _second),
    }
    return {name: go_function(signature)(call) for name, (signature, call) in rows.items()}


FUNCTIONS = FunctionTable(_table())
