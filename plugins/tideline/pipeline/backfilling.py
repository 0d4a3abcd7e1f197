"""Freeze a backfill: what cannot be read is named first, and a policy decides about it."""

from __future__ import annotations

import json

from tideline.errors import WindowUnavailable
from tideline.ledger.state import LedgerState
from tideline.model.incident import Finding
from tideline.model.notice import Notice
from tideline.model.plan import BatchProposal
from tideline.model.run import RunRecord
from tideline.pipeline.context import RunContext, log
from tideline.pipeline.freezing import freeze_run
from tideline.pipeline.halting import halt, open_incidents


def freeze_backfill(
    run: RunContext,
    state: LedgerState,
    proposal: BatchProposal,
    findings: tuple[Finding, ...],
) -> RunRecord:
    """The frozen record of a backfill.

    Decisions move the head, so they are the live lane's: a finding halts a backfill in any case.
    Records that have expired halt it unless `on_reset.retention_loss` is `accept_loss`.

    Raises:
        ResetDetected: A log that it would read is not the one that the ledger knows.
        WindowUnavailable: Part of what was asked for has expired.
    """
    if findings:
        halt(run, open_incidents(run, findings))
    if refuses(run, proposal):
        raise WindowUnavailable(
            f"backfill {run.request}: {_what_is_gone(proposal)}. {_offer(proposal)}, or set"
            " on_reset.retention_loss: accept_loss to read what is there",
            gone=[str(g) for g in proposal.gone],
            ranges=_as_ranges(proposal),
        )
    told = tuple(
        Notice("expired", g.topic, g.partition, f"gone from Kafka, left out: {g}")
        for g in proposal.gone
    )
    for notice in told:
        log.warning("%s", notice)
    return freeze_run(run, state, proposal, lambda head: head, notices=told)


def refuses(run: RunContext, proposal: BatchProposal) -> bool:
    """Whether the stream's policy keeps a backfill from reading what is left of its window."""
    return bool(proposal.gone) and run.stream.on_reset.retention_loss != "accept_loss"


def _what_is_gone(proposal: BatchProposal) -> str:
    return f"gone from Kafka, and not in the table: {'; '.join(map(str, proposal.gone))}"


def _as_ranges(proposal: BatchProposal) -> list[dict[str, object]]:
    names = ("topic", "partition", "start_offset", "end_offset")
    return [{name: getattr(r, name) for name in names} for r in proposal.ranges]


def _offer(proposal: BatchProposal) -> str:
    if not proposal.ranges:
        return "Nothing of it is left to read. Choose a later window"
    return f"Still there: ask for ranges={json.dumps(_as_ranges(proposal))}"
