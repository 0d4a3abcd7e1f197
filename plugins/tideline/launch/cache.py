"""The folder for downloads: outside of the checkout, shared by all checkouts of a user."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`TIDELINE_CACHE`, otherwise `tideline` in the user's cache folder (XDG Base Directory)."""
    own = os.environ.get("TIDELINE_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(shared) / "tideline"
