"""Write every page of the reference that is made of the code."""

from __future__ import annotations

from pathlib import Path

from devstack.reference import PAGES

DOCS = Path(__file__).parents[2] / "docs"

if __name__ == "__main__":
    for name, build_page in PAGES.items():
        (DOCS / name).write_text(build_page())
