"""A gap's loss is counted when its decision is carried out: what has landed since is none (R9)."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.worlds.build import ID, NOW, head, planned
from tideline.errors import StreamBusy
from tideline.ledger.state import Control, LedgerState
from tideline.model.incident import Decision, Finding, Incident
from tideline.model.observation import TableObservation
from tideline.model.offsets import OffsetRange, PartitionIdentity, one_interval
from tideline.model.places import Places
from tideline.model.plan import LandedRange
from tideline.pipeline.decisions import accept_gaps, recount_gap
from tideline.pipeline.resolve_reset import _refuse_landed
from tideline.rules.resolution import accept_gap
from tideline.rules.verification import still_missing

OLD, NEW = PartitionIdentity(ID, 0, 0), PartitionIdentity(ID, 1, 0)
ACCEPT = Decision("accept_loss", "ann", NOW, "because")


def incident(kind="unexplained_gap", *ranges):
    finding = Finding(kind, "e", "a", "orders", ID, 0, one_interval(30, 60))
    unverified = ranges or (planned(0, 100),)
    return Incident("incident-1", "a", NOW, finding, unverified=unverified, decision=ACCEPT)


def landed(identity, *offsets):
    ranges = tuple(OffsetRange(*o) for o in offsets)
    return {identity: LandedRange(identity, sum(map(len, ranges)), ranges)}


def run(rows, version=3):
    """Beside a ledger in which the incident is open."""
    state = LedgerState(1, Control("l", "orders", incidents=(incident(),)), head=head())
    table = SimpleNamespace(
        observe=lambda: TableObservation(version is not None, version=version),
        landed=lambda ranges, version: rows,
    )
    ledger = SimpleNamespace(update=lambda change: change(state))
    return SimpleNamespace(run_id="b", table=table, ledger=ledger)


def lost(state):
    return [(log, str(r)) for log, r in state.head.accepted_loss.pieces]


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ({}, ["[30, 60)"]),
        (landed(OLD, (0, 30), (60, 100)), ["[30, 60)"]),
        (landed(OLD, (0, 40), (45, 100)), ["[40, 45)"]),
        (landed(OLD, (0, 100)), []),
        (landed(NEW, (0, 100)), ["[30, 60)"]),
    ],
)
def test_a_row_that_stands_there_by_now_is_not_lost(rows, left):
    """Another generation's row is another record."""
    assert list(map(str, still_missing(incident(), rows).finding.intervals)) == left
    assert lost(accept_gaps(run(rows), (incident(),))) == [(OLD, r) for r in left]


def test_each_generation_is_counted_for_itself():
    """A plan over a cut: the gap lies on both sides of it."""
    both = incident("log_hole", planned(0, 50), planned(50, 100, generation=1))
    rows = {**landed(OLD, (0, 35)), **landed(NEW, (55, 100))}
    assert still_missing(both, rows).finding.intervals == (OffsetRange(35, 55),)


def test_an_outcome_says_that_nothing_is_lost():
    """The incident is closed all the same."""
    effect = accept_gap(head(), still_missing(incident(), landed(OLD, (0, 100))))
    assert effect.outcome == "lost: nothing; rows have landed there since"


def test_without_a_table_nothing_stands_anywhere():
    """The decision counts as it was made."""
    assert recount_gap(run(landed(OLD, (0, 100)), None), incident()) == incident()


def test_a_row_at_an_offset_that_spark_cannot_read_is_not_lost():
    """The record may have been another one, which was cut; or it could be read meanwhile."""
    counted = recount_gap(run(landed(OLD, (0, 40))), incident("unreadable_record"))
    assert counted.finding.intervals == (OffsetRange(40, 60),)


def test_a_backfill_that_advanced_since_the_count_is_waited_for():
    """It may have filled the gap: the run tries again, and counts again."""
    counted = LedgerState(1, Control("l", "orders"), head=head())
    _refuse_landed(counted, replace(counted, version=2))
    filled = head(coverage=Places({OLD: (OffsetRange(30, 60),)}))
    with pytest.raises(StreamBusy, match="a backfill advanced"):
        _refuse_landed(counted, replace(counted, head=filled))
