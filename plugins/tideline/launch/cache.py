"""Where downloads live: outside the checkout, shared by all checkouts of one user."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`TIDELINE_CACHE`, else the user's cache folder (XDG Base Directory)."""
    own = os.environ.get("TIDELINE_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(shared) / "tideline"
