"""The docs as web pages: where links to the runbook lead if no site is named."""

from __future__ import annotations

import os
import re
from functools import cache, lru_cache
from html import escape
from itertools import pairwise
from pathlib import Path

DOCS = "TIDELINE_DOCS"
"""Variable with the address of the docs' site; `make docs` builds it."""
OWN = "docs"
"""Stands for the page's own copy where no site is named."""
RUNBOOK = "incidents-and-errors.md"
_CHECKOUT = Path(__file__).parents[3] / "docs"
FOLDER = _CHECKOUT if (_CHECKOUT / RUNBOOK).is_file() else Path(__file__).parents[1]
"""Of the checkout; an installed package has the runbook alone."""
_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · Tideline</title>
<link rel="icon" type="image/svg+xml" href="{up}assets/icon.svg">
<link rel="stylesheet" href="{up}assets/page.css">
<script src="{up}assets/theme.js"></script>
</head><body><main class="docs">
{body}
</main></body></html>
"""


@cache
def names() -> frozenset[str]:
    """Paths of pages and pictures below the folder."""
    files = (file for kind in ("md", "png") for file in FOLDER.rglob(f"*.{kind}"))
    return frozenset(file.relative_to(FOLDER).as_posix() for file in files)


def site() -> str | None:
    """Where the docs are: the address of their site, or `OWN`; None where there are none."""
    return os.environ.get(DOCS) or (OWN if names() else None)


@lru_cache(maxsize=32)
def render(name: str) -> str:
    """A page as HTML; its headings have the anchors that links to them name.

    Args:
        name: Its path, one of `names`.
    """
    from markdown_it import MarkdownIt  # no page of the streams needs it

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse((FOLDER / name).read_text())
    title = name
    for heading, text in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", _anchor(text.content))
            title = text.content if heading.tag == "h1" else title
    return _PAGE.format(
        title=escape(title),
        up="../" * (name.count("/") + 1),
        body=markdown.renderer.render(tokens, markdown.options, {}),
    )


def _anchor(heading: str) -> str:
    """As the docs' own site has it."""
    words = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
    return re.sub(r"[-\s]+", "-", words)
