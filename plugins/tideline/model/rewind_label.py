"""How a run's record names the rewind that has undone it."""

from __future__ import annotations

import re

_LABEL = re.compile(r"rewind-\d+ \(.*\)", re.DOTALL)


def label_of(rewind_id: str, reason: str) -> str:
    """The `superseded_by` of a record that a rewind undoes."""
    return f"{rewind_id} ({reason})"


def is_label(superseded_by: str) -> bool:
    """Whether a record's `superseded_by` names a rewind."""
    return _LABEL.fullmatch(superseded_by) is not None
