"""The base of every section of a stream file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

ConnectionId = Annotated[str, Field(min_length=1, max_length=250)]


class Section(BaseModel):
    """Keys of one level of a stream file; unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)
