"""Paths with slashes, as in Go's path package."""

from __future__ import annotations

from kanister_py.gotemplate.functions import go_function


def clean(path: str) -> str:
    """Return the shortest equivalent path."""
    is_rooted = path.startswith("/")
    kept: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part != ".." or (not is_rooted and (not kept or kept[-1] == "..")):
            kept.append(part)
        elif kept:
            kept.pop()
    return ("/" if is_rooted else "") + "/".join(kept) or "."


def base(path: str) -> str:
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


def directory(path: str) -> str:
    return clean(path[: path.rfind("/") + 1])


def extension(path: str) -> str:
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:] if dot >= 0 else ""


_text = go_function("func(string) string")
_is_absolute = go_function("func(string) bool")(lambda path: path.startswith("/"))

OF_BLUEPRINTS = {
    "base": _text(base),
    "clean": _text(clean),
    "dir": _text(directory),
    "ext": _text(extension),
    "isAbs": _is_absolute,
}

# Paths are always handled as on Linux, on any system.
NEWER = {
    "osBase": _text(base),
    "osClean": _text(clean),
    "osDir": _text(directory),
    "osExt": _text(extension),
    "osIsAbs": _is_absolute,
}
