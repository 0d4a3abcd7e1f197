"""Write every page of the reference that is made of the code."""

from __future__ import annotations

from pathlib import Path

from devstack.reference import PAGES

FOLDER = Path(__file__).parents[2] / "docs/reference"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, build_page in PAGES.items():
        (FOLDER / name).write_text(build_page())
