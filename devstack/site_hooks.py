"""Hooks of the site's build: what a page means in a checkout, and what it means on the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)]*)\)")
_DECISIONS = "ADRS"
_MOVED = "# Moved\n"


def on_config(config: Any) -> Any:
    """List the decisions in the navigation, in the order of their numbers."""
    folder = Path(config["docs_dir"])
    decisions = [f"adr/{file.name}" for file in sorted((folder / "adr").glob("*.md"))]
    config["nav"] = _filled(config["nav"], decisions)
    return config


def _filled(part: Any, decisions: list[str]) -> Any:
    if part == [_DECISIONS]:
        return decisions
    if isinstance(part, list):
        return [_filled(item, decisions) for item in part]
    if isinstance(part, dict):
        return {title: _filled(item, decisions) for title, item in part.items()}
    return part


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Links to files outside of the pages stay as text: the site has only the pages.

    A page that only leads on is not searched.
    """
    if markdown.startswith(_MOVED):
        page.meta["search"] = {"exclude": True}
    pages = Path(config["docs_dir"]).resolve()
    here = pages / Path(page.file.src_uri).parent

    def text(found: re.Match[str]) -> str:
        target = (here / found[2].partition("#")[0]).resolve()
        return found[0] if target.is_relative_to(pages) else found[1]

    return _LINK.sub(text, markdown)
