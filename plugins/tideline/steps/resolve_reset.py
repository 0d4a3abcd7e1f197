"""Step 3: act on a finding whose policy lets the run go on. Until then every policy fails."""

from __future__ import annotations

from tideline.steps.context import RunContext


def resolve_reset(run: RunContext) -> bool:
    """Whether anything was resolved; detection fails on every finding, so nothing is."""
    run.frozen_plan()
    return False
