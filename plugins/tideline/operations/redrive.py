"""Decode quarantined records again, out of the raw table, with the schemas of now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import get_args

from tideline.decoding.execution import commit, decode
from tideline.decoding.rules import still_landed
from tideline.decoding.steps import finish_open, new_plan
from tideline.decoding.tables import check_tables
from tideline.decoding.verifying import close_decoding
from tideline.errors import BadInput
from tideline.landing.context import RunContext, log
from tideline.model.decoding import ErrorClass, Redriven

_MOST_RANGES = 10_000
"""Of one plan; what is left is for another pass."""


def redrive(
    run: RunContext, classes: Collection[str] = (), since: datetime | None = None
) -> Redriven:
    """Decode quarantined records again; what succeeds moves into the typed table.

    Kafka is not asked: the raw rows are there. The typed table is committed first, so that a record
    may stand in both tables if this dies, and never in none; whoever decodes next removes the copy.

    Args:
        run: This run; its id is the redrive's.
        classes: Only these error classes; all if empty.
        since: Only records with Kafka's time from this one on (inclusive); None for all.

    Raises:
        BadInput: The stream has no typed tables, or a class does not exist.
        ServiceAway: Registry, Spark or a store is away.
        StreamBusy: Somebody else decodes.
    """
    if run.typed is None:
        raise BadInput(f"stream {run.stream.stream}: decode: got nothing; a redrive needs it")
    if unknown := sorted(set(classes) - set(get_args(ErrorClass))):
        raise BadInput(
            f"class: got {', '.join(unknown)}; allowed: {', '.join(get_args(ErrorClass))}"
        )
    with run.ledger.lease("decoder"):
        check_tables(run)
        left = finish_open(run)  # its own as well: what it has moved is not in quarantine any more
        records = [left] if left is not None and left.plan.run_id == run.run_id else []
        asked = sum(len(r.offsets) for record in records for r in record.plan.ranges)
        state = run.ledger.read()
        ranges = still_landed(run.typed.quarantine.quarantined(classes, since), state.head)
        asked += sum(len(r.offsets) for r in ranges)
        for start in range(0, len(ranges), _MOST_RANGES):
            part = ranges[start : start + _MOST_RANGES]
            plan = new_plan(run, run.ledger.read(), part, redrives=tuple(classes) or ("all",))
            number = start // _MOST_RANGES
            plan = plan if number == 0 else replace(plan, plan_id=f"{plan.plan_id}-{number}")
            attempt, result = decode(run, plan)
            if result.decoded.rows == 0:
                attempt.discard(run)
                log.info("none of %d records can be decoded yet", result.raw_rows)
                continue
            records.append(close_decoding(run, commit(run, attempt, result)))
    return Redriven(asked, tuple(records))
