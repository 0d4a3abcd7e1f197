"""The section of a stream file that Airflow is told: how the Dag looks and behaves."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field

from tideline.model.section import Section

OPERATION_DAGS = ("tideline_audit", "tideline_rewind", "tideline_maintenance", "tideline_redrive")
"""Ids of the Dags that work on any stream; no stream may be called so."""
Tag = Annotated[str, Field(min_length=1, max_length=100)]


class AirflowSettings(Section):
    """How the Dag looks and behaves."""

    start_date: date = Field(date(2020, 1, 1), description="The Dag's start date.")
    tags: list[Tag] = Field(default_factory=list, description="Tags besides `tideline`.")
    owner: str = Field("data", description="Owner of the tasks.")
    retries: int = Field(2, ge=0, le=100, strict=True, description="Retries of a task.")
    retry_delay_seconds: int = Field(
        60, ge=0, strict=True, description="Seconds between two tries."
    )
    approval_timeout_seconds: int = Field(
        86_400, ge=1, strict=True, description="Seconds until an unanswered approval fails."
    )
