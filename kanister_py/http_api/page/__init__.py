"""Web page of all functions and versions, in a single HTML file."""

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
    """Render the page. It loads no other files."""
    content = content_of(publication, discovery.summaries, discovery.references)
    # Files of this package, which contain no user input.
    style, script = Markup(_text("page.css")), Markup(_text("page.js"))  # noqa: S704 - see above
    installed = [
        {**function, "anchor": f"_installed-{function['name']}"}
        for function in installed_functions(revisions)
    ]
    html: str = _template().render(**content, installed=installed, style=style, script=script)
    return html.encode()


def security_headers(**allowed: str) -> dict[str, str]:
    """Build security headers. The content security policy forbids everything except `allowed`."""
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
    """Return the headers of this page, which allow only its own style and script."""
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
    """Convert a docstring to HTML: paragraphs, and code for text in backticks."""
    paragraphs = [part for part in re.split(r"\n\s*\n", str(text)) if part.strip()]
    # Escape first, so that the text cannot contain markup.
    marked = [_CODE.sub(r"<code>\1</code>", str(escape(paragraph))) for paragraph in paragraphs]
    return Markup("\n".join(f"<p>{paragraph}</p>" for paragraph in marked))  # noqa: S704 - escaped above
