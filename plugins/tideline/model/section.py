"""The base of every section of a stream file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

TEN_YEARS = 315_360_000
"""Seconds; the most that any setting takes."""
LARGEST_OFFSET = 2**63 - 1
LARGEST_PARTITION = 2**31 - 1
ConnectionId = Annotated[str, Field(min_length=1, max_length=250)]


class Section(BaseModel):
    """Keys of one level of a stream file; unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


def given_twice(values: Iterable[str]) -> list[str]:
    """What stands more than once among values, sorted."""
    return sorted(value for value, times in Counter(values).items() if times > 1)
