"""Decoding beside other work on a stream: maintenance, a move, another redrive, other tables."""

import shutil
from datetime import timedelta

import pytest
from deltalake import DeltaTable, write_deltalake

from devstack.airflow_services import connection_to
from tests.worlds.decoded_lake import DecodedLake, FakeDecoder, value_of
from tideline.decoding import decode_execution
from tideline.decoding.decode_steps import decode_rows, verify_decoded
from tideline.errors import BadInput, ServiceAway, StreamBusy
from tideline.landing.context import now
from tideline.ledger import move as ledger_move
from tideline.ledger.ledger import Ledger
from tideline.ledger.move import move_ledger
from tideline.model.addresses import LedgerLocation
from tideline.operations import maintaining as quarantine_retention
from tideline.operations.maintaining import maintain_stream
from tideline.wiring import open_store, open_tables

ID, TOTAL = ("id", "int"), ("total", "double")


@pytest.fixture
def lake(tmp_path):
    """Two rows are typed; in quarantine are one for good, and one that a redrive can move."""
    found = DecodedLake(tmp_path)
    waits(found)
    return found


def waits(lake):
    lake.first = lake.register(ID)
    for number, value in enumerate((lake.first, lake.first, None, lake.first + 1)):
        lake.lands(b"nonsense" if value is None else value_of(value))
        lake.decodes(f"run {number}")
    lake.register(ID, TOTAL)
    assert (lake.typed(), lake.bad()) == ([0, 1], [(2, "framing"), (3, "unknown_schema")])


def is_redriven(lake):
    """Every landed row is in one table, once, and nothing is open."""
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])
    state = lake.ledger.read()
    assert (state.decoding.open, state.decoding.coverage) == (None, state.head.coverage)
    assert lake.audits().clean


def maintain(lake):
    """Of the typed tables; files per table before and after."""
    run = lake.run("maintain")
    tables = {r: t for r, t in open_tables(run.stream).items() if r != "raw"}
    done = maintain_stream(run, tables)
    return {u.table: (u.before.active.files, u.after.active.files) for u in done}


class Meddled(FakeDecoder):
    """Something happens while the application runs."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = meanwhile

    def submit(self, job_path):
        super().submit(job_path)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()


def refused(act):
    def during():
        with pytest.raises(StreamBusy, match="decoder"):
            act()

    return during


def away(*_):
    raise ServiceAway("cut off")


def cut_off(monkeypatch, lake, act, place="decode:committed"):
    """An attempt that ends at a place; its lease is free."""

    def reach(reached):
        if reached == place:
            away()

    with monkeypatch.context() as cut:
        for module in (decode_execution, decode_execution):
            cut.setattr(module, "reach", reach)
        with pytest.raises(ServiceAway, match="cut off"):
            act()
    assert lake.ledger.read().decoding.open is not None


def test_typed_tables_are_not_maintained_while_a_redrive_is_at_work(lake):
    """Nor is anything redriven meanwhile; one after the other, both do their work."""
    lake.spark = Meddled(refused(lambda: maintain(lake)))
    assert lake.redrives("again").moved == 1
    assert maintain(lake) == {"decoded": (3, 1), "quarantine": (1, 1)}
    is_redriven(lake)


def test_a_redrive_waits_for_a_maintenance(lake, monkeypatch):
    """Both change the typed tables' files."""
    met = []

    def reach(place):
        if place == "maintain:merged" and not met:
            met.append(place)
            refused(lambda: lake.redrives("again"))()

    monkeypatch.setattr("tideline.operations.maintaining.reach", reach)
    maintain(lake)
    assert met
    assert lake.redrives("again").moved == 1
    is_redriven(lake)


@pytest.mark.parametrize("place", ["decode:frozen", "decode:committed", "decode:noted"])
def test_a_redrive_that_was_cut_off_finds_its_rows_in_merged_files(lake, monkeypatch, place):
    """Between its two commits a record stands in both tables, and maintenance keeps it there."""
    cut_off(monkeypatch, lake, lambda: lake.redrives("again"), place)
    maintain(lake)
    assert {*lake.typed(), *(o for o, _ in lake.bad())} == {0, 1, 2, 3}
    lake.redrives("again")
    is_redriven(lake)


def test_two_redrives_at_once(lake):
    """The second one is refused, and later finds nothing to move."""
    lake.spark = Meddled(refused(lambda: lake.redrives("another")))
    assert lake.redrives("again").moved == 1
    is_redriven(lake)
    assert lake.redrives("another").moved == 0
    is_redriven(lake)


class Movable(DecodedLake):
    """Its ledger is wherever the stream file says, in a real store."""

    @property
    def ledger(self):
        return Ledger(open_store(self.location), self.name)


@pytest.fixture
def movable(tmp_path, sqlite_tables, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_TIDELINE_LEDGER", connection_to(sqlite_tables))
    found = Movable(tmp_path)
    found.places = (
        LedgerLocation("delta", str(tmp_path / "raw.ledger"), found.name),
        LedgerLocation("airflow", "tideline_ledger", found.name),
    )
    found.location = found.places[0]
    waits(found)
    return found


def test_an_open_plan_to_decode_moves_with_the_ledger(movable, monkeypatch):
    """There it is finished, with the schemas that the ledger knows; there and back as well."""
    cut_off(monkeypatch, movable, lambda: movable.redrives("again"))
    for target in (movable.places[1], movable.places[0]):
        before = movable.ledger.read()
        known = movable.ledger.known_schemas([movable.first])
        move_ledger(movable.location, target, open_store)
        movable.location = target
        assert movable.ledger.read().decoding == before.decoding
        assert movable.ledger.known_schemas([movable.first]) == known
        assert movable.ledger.find_decoding("run 0") is not None
    move_ledger(movable.location, movable.places[1], open_store)
    movable.location = movable.places[1]
    movable.redrives("again")
    is_redriven(movable)


def test_what_was_let_go_moves_with_the_ledger(movable, monkeypatch):
    """Neither place misses it, and both miss it again once it was decoded again."""
    movable.maintenance = {"quarantine_days": 1}
    late = now() + timedelta(days=2)
    monkeypatch.setattr(quarantine_retention, "now", lambda: late)
    maintain(movable)
    for target in (movable.places[1], movable.places[0]):
        move_ledger(movable.location, target, open_store)
        movable.location = target
        audit = movable.audits()
        assert (audit.clean, audit.let_go, movable.bad()) == (True, 2, [])
    movable.decodes("run 2")
    move_ledger(movable.location, movable.places[1], open_store)
    movable.location = movable.places[1]
    audit = movable.audits()
    assert (audit.clean, audit.let_go, movable.bad()) == (True, 1, [(2, "framing")])


def test_nothing_is_decoded_while_the_ledger_moves(movable, monkeypatch):
    """The move keeps out whoever decodes, as it keeps out whoever lands."""
    movable.lands(value_of(movable.first))
    met = []

    def reach(place):
        if place == "move:copied" and not met:
            met.append(place)
            refused(lambda: movable.decodes("late"))()

    monkeypatch.setattr(ledger_move, "reach", reach)
    move_ledger(*movable.places, open_store)
    assert met
    movable.location = movable.places[1]
    movable.decodes("late")
    assert movable.typed() == [0, 1, 4]


def by_days(lake):
    """Kafka's time makes the partitions."""
    lake.decode["event_time"] = {}
    lake.decode["table"] = {**lake.decode["table"], "partition_by": ["event_date"]}


@pytest.mark.parametrize("work", ["decodes", "redrives"])
def test_event_time_is_taken_out_of_the_file_of_a_table_by_days(tmp_path, work):
    """Refused before Spark starts, by key and table; with it, everything goes on."""
    lake = DecodedLake(tmp_path)
    by_days(lake)
    waits(lake)
    table = lake.decode["table"]
    lake.lands(value_of(lake.first))
    del lake.decode["event_time"]
    lake.decode["table"] = {"uri": table["uri"]}
    jobs = len(lake.spark.jobs)
    with pytest.raises(BadInput, match=r"decode\.event_time: got nothing; table .*event_date"):
        getattr(lake, work)("late")
    assert (len(lake.spark.jobs), lake.ledger.read().decoding.open) == (jobs, None)
    lake.decodes("run 1")  # a plan of before knows its days
    lake.decode |= {"event_time": {}, "table": table}
    lake.redrives("again")
    lake.decodes("late")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3, 4], [(2, "framing")])
    assert lake.audits().clean


def committed(lake):
    """A decoding that waits for `verify_decoded`."""
    lake.lands(value_of(lake.first))
    decode_rows(lake.run("late"))
    assert lake.ledger.read().decoding.open.table_version is not None


@pytest.mark.parametrize("table", ["table", "quarantine"])
@pytest.mark.parametrize("kind", ["empty", "a copy"])
def test_a_typed_table_is_replaced_before_it_is_verified(lake, tmp_path, table, kind):
    """The ledger knows the tables by their ids: even the same rows elsewhere prove nothing."""
    committed(lake)
    uri = lake.decode[table]["uri"]
    rows, fields = DeltaTable(uri).to_pyarrow_table(), DeltaTable(uri).schema()
    properties = DeltaTable(uri).metadata().configuration
    shutil.move(uri, tmp_path / "aside")
    DeltaTable.create(uri, fields, configuration=properties, raise_if_key_not_exists=False)
    if kind == "a copy":
        write_deltalake(uri, rows, mode="append")
    before = lake.ledger.read().decoding
    with pytest.raises(BadInput, match=rf"decode\.{table}\.uri: .* is another one"):
        verify_decoded(lake.run("late"))
    assert lake.ledger.read().decoding == before
    shutil.rmtree(uri)
    shutil.move(tmp_path / "aside", uri)
    assert verify_decoded(lake.run("late")).status == "done"
    assert lake.typed() == [0, 1, 4]
    assert lake.audits().clean


def test_both_typed_tables_are_replaced_before_they_are_verified(lake):
    """Nothing moves; decoded again, everything that is landed is in the new ones."""
    committed(lake)
    for table in ("table", "quarantine"):
        shutil.rmtree(lake.decode[table]["uri"])
    with pytest.raises(ServiceAway, match="is gone"):
        verify_decoded(lake.run("late"))
    lake.decodes("late")
    lake.decodes("later")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3, 4], [(2, "framing")])
    assert lake.audits().clean
