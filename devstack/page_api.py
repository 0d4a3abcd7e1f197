"""Writes the description of the page's API: `make schema`. The import of Airflow prints, too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tideline.page.app import build_app, openapi


def description() -> str:
    """The API as OpenAPI describes it, always the same text."""
    return json.dumps(openapi(build_app()), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(description())
