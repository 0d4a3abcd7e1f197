"""Hooks of the site's build: what a page means in a checkout, and what it means on the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)]*)\)")
_DECISIONS = "adr/index.md"
_DECISION = re.compile(r"adr/\d{4}-.+\.md")
_MOVED = "# Moved\n"
_STYLE = "style.md"


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Links to files outside of the pages stay as text: the site has only the pages.

    Pages that only lead on, decisions and the style guide are not searched.
    """
    name = page.file.src_uri
    if markdown.startswith(_MOVED) or _DECISION.fullmatch(name) or name == _STYLE:
        page.meta["search"] = {"exclude": True}
    pages = Path(config["docs_dir"]).resolve()
    here = pages / Path(name).parent
    if name == _DECISIONS:
        markdown += "".join(f"\n- [{_title(file)}]({file.name})" for file in _decisions(here))

    def text(found: re.Match[str]) -> str:
        target = (here / found[2].partition("#")[0]).resolve()
        return found[0] if target.is_relative_to(pages) else found[1]

    return _LINK.sub(text, markdown)


def _decisions(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.md"))


def _title(file: Path) -> str:
    with file.open() as lines:
        return next(lines).removeprefix("# ").strip()
