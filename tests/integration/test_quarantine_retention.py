"""Quarantined rows that are old enough go, and the proof over all tables stays."""

from datetime import timedelta

import pytest
from deltalake import DeltaTable

from tests.worlds.decoded_lake import DecodedLake, value_of
from tideline.errors import ServiceAway, StreamBusy
from tideline.landing.context import now
from tideline.operations import maintaining as quarantine_retention
from tideline.operations.maintaining import maintain_stream
from tideline.wiring import open_tables

DAYS = 90


@pytest.fixture
def lake(tmp_path):
    """Five rows are decoded: two typed, a tombstone, and two in quarantine."""
    found = DecodedLake(tmp_path)
    found.maintenance = {"quarantine_days": DAYS}
    found.first = found.register(("id", "int"))
    good = value_of(found.first)
    found.lands(good, b"bad", None, b"bad", good)
    found.decodes("one")
    assert found.bad() == [(1, "framing"), (3, "framing")]
    return found


@pytest.fixture
def later(monkeypatch):
    """Days pass, for whoever counts them."""

    def pass_(days):
        monkeypatch.setattr(quarantine_retention, "now", lambda: now() + timedelta(days=days))

    return pass_


def maintain(lake, **asked):
    """What becomes of the quarantine."""
    run = lake.run("maintain")
    tables = {"quarantine": open_tables(run.stream)["quarantine"]}
    (upkeep,) = maintain_stream(run, tables, **asked)
    return upkeep


def test_old_rows_go_and_nobody_misses_them(lake, later):
    """In one commit; the ledger names them, and a redrive finds them no more."""
    assert maintain(lake).expired.rows == 0
    later(DAYS + 1)
    expected = maintain(lake, dry_run=True).expired
    assert (expected.rows, len(lake.bad())) == (2, 2)
    assert expected.bytes > 0
    before = DeltaTable(lake.folder / "bad").version()
    assert lake.ledger.read().decoding.in_quarantine == 2
    assert maintain(lake).expired == expected
    assert (lake.typed(), lake.bad()) == ([0, 2, 4], [])
    assert lake.ledger.read().decoding.in_quarantine == 0
    assert DeltaTable(lake.folder / "bad").version() == before + 1
    audit = lake.audits()
    assert (audit.clean, audit.let_go, audit.quarantined) == (True, 2, 0)
    (gone,) = lake.ledger.expired_rows()
    assert (gone.run_id, gone.by) == ("maintain", f"maintenance.quarantine_days: {DAYS}")
    assert [(r.start_offset, r.end_offset) for r in gone.ranges] == [(1, 2), (3, 4)]
    assert lake.redrives("again").asked == 0
    assert maintain(lake).expired.rows == 0


def test_a_redrive_says_how_many_it_does_not_find(lake, later, caplog):
    """They are in no table, so nothing else would."""
    assert lake.redrives("one").asked == 2
    told = "removed from the quarantine for their age (maintenance.quarantine_days): 2 records"
    assert told not in caplog.text
    later(DAYS + 1)
    maintain(lake)
    assert lake.redrives("two").asked == 0
    assert told in caplog.text
    lake.decodes("one")  # cleared: they are there again
    caplog.clear()
    assert lake.redrives("three").asked == 2
    assert told not in caplog.text


def test_a_type_that_is_added_gets_what_was_let_go_by_decoding_again(tmp_path, later):
    """A redrive looks into the quarantine, and decoding again into the raw table."""
    named = [{"type": "a", "record": "A"}]
    value = {"format": "avro", "subject": "orders-value", "types": named}
    lake = DecodedLake(
        tmp_path, value=value, tombstones="drop", table={"uri": f"{tmp_path}/{{type}}"}
    )
    lake.maintenance = {"quarantine_days": DAYS}
    lake.lands(*(value_of(lake.register(("id", "int"), record=name)) for name in "AB"))
    lake.decodes("one")
    assert (lake.typed("a"), lake.bad()) == ([0], [(1, "other_type")])
    later(DAYS + 1)
    maintain(lake)
    named.append({"type": "b", "record": "B"})
    assert lake.redrives("two").asked == 0
    lake.decodes_again("again")
    assert (lake.typed("a"), lake.typed("b"), lake.bad()) == ([0], [1], [])
    audit = lake.audits()
    assert (audit.clean, audit.let_go) == (True, 0)


def test_rows_of_newer_plans_stay(lake, later):
    """However old their records are; those in between are not touched either."""
    lake.lands(b"bad")
    later(DAYS - 1)
    assert maintain(lake).expired.rows == 0
    lake.decodes("two")
    lake.decodes("one")
    before = lake.bad()
    assert maintain(lake).expired.rows == 0
    assert lake.bad() == before == [(1, "framing"), (3, "framing"), (5, "framing")]


def test_without_the_key_nothing_goes(lake, later):
    """Kept for ever."""
    lake.maintenance = {}
    later(36_500)
    assert maintain(lake).expired.rows == 0
    assert len(lake.bad()) == 2


def test_a_clear_brings_them_back_and_they_are_missed_again(lake, later):
    """Its plan says where they belong; the days begin anew."""
    later(DAYS + 1)
    maintain(lake)
    lake.decodes("one")
    assert lake.bad() == [(1, "framing"), (3, "framing")]
    assert lake.ledger.read().decoding.in_quarantine == 2
    audit = lake.audits()
    assert (audit.clean, audit.let_go) == (True, 0)
    DeltaTable(lake.folder / "bad").delete("offset = 1")
    assert [(f.start_offset, f.end_offset) for f in lake.audits().missing] == [(1, 2)]


def test_other_rows_that_are_gone_are_missed(lake, later):
    """The ledger names coordinates, not a number."""
    later(DAYS + 1)
    maintain(lake)
    DeltaTable(lake.folder / "typed").delete("offset = 4")
    assert [(f.start_offset, f.end_offset) for f in lake.audits().missing] == [(4, 5)]


@pytest.mark.parametrize("place", ["maintain:let_go_noted", "table:committing", "maintain:let_go"])
def test_maintenance_that_dies_is_gone_on_with(lake, later, monkeypatch, place):
    """Before and behind the commit; the audit is clean in between."""
    later(DAYS + 1)

    def dies(at):
        if at == place:
            raise ServiceAway("cut off")

    with monkeypatch.context() as cut:
        cut.setattr(quarantine_retention, "reach", dies)
        cut.setattr("tideline.landing.table_commit.reach", dies)
        with pytest.raises(ServiceAway, match="cut off"):
            maintain(lake)
    left = 0 if place == "maintain:let_go" else 2
    assert len(lake.bad()) == left
    assert lake.audits().clean
    assert maintain(lake).expired.rows == left
    assert lake.bad() == []
    assert lake.audits().clean


def test_a_rewind_over_rows_that_were_let_go(lake, later):
    """They come with the next landing, as all others."""
    later(DAYS + 1)
    maintain(lake)
    lake.covers(2)
    lake.decodes("rewound")
    assert (lake.typed(), lake.bad(), lake.audits().let_go) == ([0], [], 1)
    lake.covers(5)
    lake.decodes("landed again")
    assert (lake.typed(), lake.bad()) == ([0, 2, 4], [(3, "framing")])
    audit = lake.audits()
    assert (audit.clean, audit.let_go) == (True, 1)


def test_a_redrive_counts_the_days_anew(lake, later):
    """Of rows that it could not move: its plan has put them there."""
    lake.lands(value_of(lake.first + 1))
    lake.decodes("two")
    lake.register(("id", "int"), ("note", "string"))
    assert lake.redrives("again").moved == 1
    later(DAYS + 1)
    assert maintain(lake).expired.rows == 2
    assert lake.typed() == [0, 2, 4, 5]
    assert lake.audits().clean


def test_a_lease_that_was_lost_meanwhile(lake, later, monkeypatch):
    """Neither ledger nor table learns of rows that another one may be decoding."""
    later(DAYS + 1)
    begin = quarantine_retention.begin_attempt

    def losing(run, *given, **how):
        attempt = begin(run, *given, **how)
        lost = run.ledger.read().control.leases[0]
        run.ledger.update(lambda state: state.without_lease(lost.name, lost.holder))
        return attempt

    monkeypatch.setattr(quarantine_retention, "begin_attempt", losing)
    with pytest.raises(StreamBusy):
        maintain(lake)
    assert len(lake.bad()) == 2
    assert not list(lake.ledger.expired_rows())
