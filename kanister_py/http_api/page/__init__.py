"""The page for people: every function and version, in one file that needs no other."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape

from kanister_py.http_api.discovery import (
    Discovery,
    Publication,
    Revisions,
    installed_functions,
)
from kanister_py.http_api.page.content import content_of

__all__ = ["own_headers", "render_page", "security_headers"]


def render_page(publication: Publication, discovery: Discovery, revisions: Revisions = ()) -> bytes:
    """Write the page. Everything in it is text of this machine: nothing is fetched to show it."""
    content = content_of(publication, discovery.summaries, discovery.references)
    # Our own files, and not made of any user's input.
    style, script = Markup(_text("page.css")), Markup(_text("page.js"))  # noqa: S704 - see above
    installed = [
        {**each, "anchor": f"_installed-{each['name']}"} for each in installed_functions(revisions)
    ]
    html: str = _template().render(**content, installed=installed, style=style, script=script)
    return html.encode()


def security_headers(**allowed: str) -> dict[str, str]:
    """Say what a browser may do with a page: what is named, and nothing else."""
    policy = {
        "default-src": "'none'",
        "style-src": "'none'",
        "script-src": "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        **allowed,
    }
    return {
        "content-security-policy": "; ".join(f"{key} {value}" for key, value in policy.items()),
        "cross-origin-opener-policy": "same-origin",
        "referrer-policy": "no-referrer",
    }


def _allowed(file: str) -> str:
    digest = b64encode(sha256(_text(file).encode()).digest()).decode()
    return f"'sha256-{digest}'"


@lru_cache(maxsize=1)
def own_headers() -> dict[str, str]:
    """Say what a browser may do with this page: its own style and script."""
    allowed = {"style-src": _allowed("page.css"), "script-src": _allowed("page.js")}
    return security_headers(**allowed)


@lru_cache(maxsize=4)
def _text(file: str) -> str:
    return files(__name__).joinpath(file).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    return environment.from_string(_text("page.html.j2"))


_CODE = re.compile(r"``?([^`\n]+)``?")


def _prose(text: Any) -> Markup:
    """Set a docstring as paragraphs, with what stands in backticks as code."""
    paragraphs = [each for each in re.split(r"\n\s*\n", str(text)) if each.strip()]
    # Escaped first: what is left of the text cannot be markup.
    marked = [_CODE.sub(r"<code>\1</code>", str(escape(each))) for each in paragraphs]
    return Markup("\n".join(f"<p>{each}</p>" for each in marked))  # noqa: S704 - escaped above
