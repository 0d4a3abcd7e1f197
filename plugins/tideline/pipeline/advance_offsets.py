"""Step 6: move the head by compare-and-swap, then tell others."""

from __future__ import annotations

from tideline.errors import BadInput
from tideline.model.run import RunRecord
from tideline.pipeline.closing import close_plan, commit_group_offsets
from tideline.pipeline.context import RunContext
from tideline.pipeline.incidents import halt, open_and_halt, open_incidents
from tideline.pipeline.landed import changes_after_read, find_commit, foreign_changes


def advance_offsets(run: RunContext) -> RunRecord:
    """The run's closed record; the head is past the plan's ranges.

    Repeating it moves nothing and tells the consumer group again.

    Raises:
        BadInput: The plan's newest commit is not verified: only `advance_offsets` was cleared, or
            the plan was read again since.
        ResetDetected: Somebody else has changed the table since, or the log is another one.
        ServiceAway: The cluster cannot say whether it is.
        StreamBusy: The head is neither at the plan's start nor past its end.
    """
    state, record, plan = run.frozen()
    if plan is None:
        return record
    commit = find_commit(run, record)
    if commit is None or commit != record.table_commit:
        raise BadInput(
            f"plan {plan.plan_id}: its newest commit in {run.stream.table.uri} is not verified;"
            " clear verify_ranges and what follows, or run the same run id again",
            plan_id=plan.plan_id,
        )
    if record.is_open:
        if foreign := foreign_changes(run, state, plan)[1]:
            open_and_halt(run, state, foreign)
        # Since verifying, the live lane may have taken a newer epoch for known: ask once more (R7).
        if changed := changes_after_read(run, plan.on_cluster):
            halt(run, open_incidents(run, state, changed, plan))
    state = close_plan(run, record, plan, commit, record.verified)
    commit_group_offsets(run)
    closed = run.record_in(state)
    assert closed is not None
    return closed
