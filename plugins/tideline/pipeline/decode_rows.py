"""Step 7, where the stream has typed tables: decode what is landed and not decoded yet."""

from __future__ import annotations

from tideline.model.decoding import DecodeRecord
from tideline.pipeline.context import RunContext
from tideline.pipeline.decode_execution import execute
from tideline.pipeline.decode_planning import finish_open, plan_decoding
from tideline.pipeline.decode_tables import check_tables
from tideline.rules.decoding import has_work


def decode_rows(run: RunContext, *, only_removals: bool = False) -> DecodeRecord | None:
    """Bring typed table and quarantine to what is landed; None where there is nothing to do.

    A plan that another run has left open is finished first. A run that has decoded before decodes
    its own plan once more: the same records with the same schemas give the same rows.

    Args:
        run: This run.
        only_removals: Whether only rows go whose raw rows have gone, as after a rewind.

    Returns:
        The run's plan with its commits, still to be verified.

    Raises:
        DecodingHalted: A schema does not fit, or too many records cannot be decoded; nothing was
            committed, and the landing goes on.
        ServiceAway: Registry, Spark or a store is away; the landed rows stay as they are.
        StreamBusy: Somebody else decodes.
        BadInput: A table is not the one that holds what is decoded.
    """
    if run.typed is None or _has_nothing(run):
        return None
    with run.ledger.lease("decoder"):
        check_tables(run)
        state = run.ledger.read()
        if state.decoding.open is not None and state.decoding.open.plan.run_id != run.run_id:
            finish_open(run)
        plan = plan_decoding(run, run.ledger.read(), only_removals=only_removals)
        return None if plan is None else execute(run, plan)


def _has_nothing(run: RunContext) -> bool:
    """Asked before the lease is taken: most runs of most streams have nothing new."""
    state = run.ledger.read()
    if has_work(state.head, state.decoding):
        return False
    return run.ledger.find_decoding(run.run_id) is None
