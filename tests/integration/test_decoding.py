"""Decoding in pairs that meet: other tables, other files, decisions, redrives, schemas."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable, Field, write_deltalake

from tests.texts import ONE_TOO_MANY
from tests.worlds.build import NOW, OTHER_ID
from tests.worlds.decoded_lake import DecodedLake, FakeDecoder, value_of
from tests.worlds.lake import map_columns, rows
from tideline.decoding import decode_execution, decode_steps
from tideline.decoding.decode_steps import finish_open
from tideline.decoding.readers import parts_of
from tideline.decoding.verifying import refuse_lacking
from tideline.errors import (
    BadInput,
    DecodingHalted,
    RegistryAway,
    SchemaChanged,
    ServiceAway,
    StreamBusy,
    VerificationFailed,
)
from tideline.model.decoding import OWN_COLUMNS
from tideline.model.incident import Decision
from tideline.model.offsets import ReadRange
from tideline.model.places import NOWHERE
from tideline.model.run import Rewind

ID, NOTE, TOTAL = ("id", "int"), ("note", "string"), ("total", "double")


@pytest.fixture
def lake(tmp_path):
    """Three rows are decoded: one typed, one a tombstone, one in quarantine."""
    found = DecodedLake(tmp_path)
    found.first = found.register(ID, NOTE)
    found.lands(value_of(found.first), None, b"nonsense")
    found.decodes("one")
    assert (found.typed(), found.bad()) == ([0, 1], [(2, "framing")])
    return found


def moved(lake, **uris):
    """The stream file names other tables."""
    for table, name in uris.items():
        lake.decode[table] = {**lake.decode[table], "uri": str(lake.folder / name)}


def decided(lake, choice):
    """Somebody answers the one open incident."""
    ledger = lake.ledger
    (incident,) = ledger.read().open_incidents
    decision = Decision(choice, "ann", datetime.now(UTC), "it was meant")
    ledger.update(lambda s: s.with_decision(incident.incident_id, decision))
    return incident


@pytest.mark.parametrize(
    ("spark", "said"),
    [
        (FakeDecoder(loses=[3]), "1 raw rows are in neither table"),
        (FakeDecoder(doubles=[3]), f"{ONE_TOO_MANY} into .*nothing was committed"),
    ],
)
def test_rows_that_are_lost_or_doubled_while_they_are_decoded(lake, spark, said):
    """The application's word is held against the raw rows; the next run mends it."""
    good, lake.spark = lake.spark, spark
    lake.lands(value_of(lake.first))
    with pytest.raises(VerificationFailed, match=said):
        lake.decodes("two")
    state = lake.ledger.read()
    assert state.decoding.coverage != state.head.coverage
    lake.spark = good
    lake.decodes("three")
    assert lake.typed() == [0, 1, 3]
    assert lake.audits().clean


class DyingDecoder(FakeDecoder):
    """Ends badly behind its answer."""

    def submit(self, job_path):
        super().submit(job_path)
        raise ServiceAway("killed")


def test_an_application_that_ends_badly_behind_its_answer(lake):
    """As with landing: nothing is committed, and the next run decodes again."""
    good, lake.spark = lake.spark, DyingDecoder()
    lake.lands(value_of(lake.first))
    with pytest.raises(ServiceAway, match="killed"):
        lake.decodes("two")
    assert lake.typed() == [0, 1]
    lake.spark = good
    lake.decodes("two")
    assert lake.typed() == [0, 1, 3]


@pytest.mark.parametrize("table", ["table", "quarantine"])
def test_one_other_table_is_refused(lake, table):
    """What is decoded stands in two tables; one of them alone proves nothing."""
    moved(lake, **{table: "elsewhere"})
    lake.lands(value_of(lake.first))
    for run_id in ("two", "one"):
        with pytest.raises(BadInput, match=f"decode.{table}.uri: table .*elsewhere is gone"):
            lake.decodes(run_id)
    with pytest.raises(BadInput, match="Next: "):
        lake.redrives("again")
    assert not (lake.folder / "elsewhere").exists()


def test_two_new_tables_are_a_new_beginning(lake):
    """Everything that is landed is decoded again, by whichever run; and back is refused."""
    moved(lake, table="typed2", quarantine="bad2")
    lake.lands(None)
    lake.decodes("two")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])
    lake.decodes("one")  # cleared: its plan is older than these addresses
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])
    assert lake.audits().clean
    moved(lake, table="typed", quarantine="bad")
    lake.lands(None)
    with pytest.raises(BadInput, match="is another one: its id is"):
        lake.decodes("three")


def test_tables_beside_the_raw_one_may_be_named_later(tmp_path):
    """Without addresses they lie there; a file that names just these has the same tables."""
    lake = DecodedLake(tmp_path, table={}, quarantine={"max_share": 1.0})
    first = lake.register(ID, NOTE)
    lake.lands(value_of(first), None, b"nonsense")
    lake.decodes("one")
    before = lake.versions()
    assert set(before) == {"raw_decoded", "raw_quarantine"}
    moved(lake, table="raw_decoded", quarantine="raw_quarantine")
    assert lake.decodes("idle") is None
    assert before == lake.versions()
    lake.lands(value_of(first))
    lake.decodes("two")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])
    assert lake.audits().clean


def test_tables_that_are_deleted_are_decoded_again(lake):
    """By hand, with everything in them; one alone is refused until the other goes as well."""
    lake.lands(None)
    shutil.rmtree(lake.folder / "bad")
    with pytest.raises(BadInput, match=r"decode\.quarantine\.uri: table .*bad is gone"):
        lake.decodes("two")
    shutil.rmtree(lake.folder / "typed")
    lake.decodes("two")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])
    assert lake.audits().clean


def test_a_new_beginning_that_is_cut_off_goes_on(lake, monkeypatch):
    """The tables are made, and nobody has noted them."""
    moved(lake, table="typed2", quarantine="bad2")
    lake.lands(None)
    with monkeypatch.context() as cut:
        cut.setattr(decode_execution, "note_tables", away)
        with pytest.raises(ServiceAway):
            lake.decodes("two")
    lake.decodes("three")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])


def test_an_open_plan_is_executed_where_the_tables_are_now(lake, monkeypatch):
    """It was frozen for other addresses."""
    lake.lands(value_of(lake.first))
    with monkeypatch.context() as cut:
        cut.setattr(decode_execution, "commit_all_tables", away)
        with pytest.raises(ServiceAway):
            lake.decodes("two")
    moved(lake, table="typed2", quarantine="bad2")
    lake.decodes("three")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])
    assert lake.audits().clean


def away(*_):
    raise ServiceAway("cut off")


def test_a_foreign_table_is_left_alone(tmp_path):
    """Another program's, with columns of its own."""
    found = DecodedLake(tmp_path)
    found.lands(value_of(found.register(ID)))
    write_deltalake(tmp_path / "typed", rows(0, 3))
    before = DeltaTable(tmp_path / "typed").version()
    with pytest.raises(BadInput, match="was not created by Tideline"):
        found.decodes("one")
    assert DeltaTable(tmp_path / "typed").version() == before


@pytest.mark.parametrize("table", ["typed", "bad"])
@pytest.mark.parametrize("renamed", [None, "schema_id"])
def test_a_table_with_column_mapping_is_refused_before_it_is_decoded(lake, table, renamed):
    """By name; also where a column has to be added, which nobody but Delta's own writer can."""
    uri = str(lake.folder / table)
    map_columns(uri, renamed)
    lake.lands(value_of(lake.first))
    jobs, version = len(lake.spark.jobs), DeltaTable(uri).version()
    with pytest.raises(BadInput, match=r"columnMapping: .*'delta.columnMapping.mode' = 'none'"):
        lake.decodes("two")
    assert (len(lake.spark.jobs), DeltaTable(uri).version()) == (jobs, version)


def test_two_streams_cannot_share_a_table(lake, tmp_path):
    """Both tables carry the stream's name, as the raw one does."""
    other = DecodedLake(tmp_path / "other")
    (tmp_path / "other").mkdir()
    other.name = "invoices"
    other.lands(value_of(other.register(ID)))
    other.decode["table"] = lake.decode["table"]
    with pytest.raises(BadInput, match="belongs to stream orders"):
        other.decodes("one")
    other.name = "orders"  # of another ledger
    other.store = type(other.store)()
    other.covers(1)
    with pytest.raises(BadInput, match="belongs to ledger"):
        other.decodes("one")
    assert lake.typed() == [0, 1]


def test_another_raw_table_is_not_decoded(lake):
    """It may hold other rows at the same coordinates; the landing asks about it."""
    lake.lands(value_of(lake.first))
    before = lake.raw
    shutil.rmtree(lake.folder / "raw")
    before.create("orders", lake.ledger.read().control.ledger_id, [])
    with pytest.raises(DecodingHalted, match="is another one"):
        lake.decodes("two")
    with pytest.raises(DecodingHalted, match="is another one"):
        lake.decodes("one")


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_an_open_plan_of_a_raw_table_that_was_approved_as_gone(lake, monkeypatch, is_made_anew):
    """It ends with the next table, and fails no run; there its rows are lost, as was accepted."""
    lake.lands(value_of(lake.first))
    with monkeypatch.context() as cut:
        cut.setattr(decode_execution, "commit_all_tables", away)
        with pytest.raises(ServiceAway):
            lake.decodes("two")
    raw, ledger_id = lake.raw, lake.ledger.read().control.ledger_id
    shutil.rmtree(lake.folder / "raw")
    with pytest.raises(ServiceAway, match="is gone"):
        lake.decodes("three")
    if is_made_anew:
        raw.create("orders", ledger_id, [])
    known = raw.observe()
    approved = {"table_id": known.table_id, "table_version": known.version, "commits": ()}
    lake.ledger.update(
        lambda s: s.with_head(replace(s.head, **approved, accepted_loss=s.head.coverage))
    )
    assert lake.decodes("four") is None
    assert lake.ledger.read().decoding.open is None
    assert (lake.typed(), lake.bad()) == ([0, 1], [(2, "framing")])


def test_two_cannot_decode_at_once(lake):
    """The second one lands, and may come again for its rows."""
    lake.lands(value_of(lake.first))
    with lake.ledger.lease("decoder"), pytest.raises(StreamBusy):
        lake.decodes("two")
    lake.decodes("two")
    assert lake.typed() == [0, 1, 3]


def test_too_many_bad_records_halt_until_somebody_decides(tmp_path):
    """Nothing is committed; what is found meanwhile is asked about as well."""
    lake = DecodedLake(tmp_path)
    lake.decode["quarantine"] = {**lake.decode["quarantine"], "max_share": 0.5}
    lake.lands(value_of(lake.register(ID)), b"x", b"y")
    with pytest.raises(DecodingHalted, match="2 of 3 records"):
        lake.decodes("one")
    (incident,) = lake.ledger.read().open_incidents
    assert incident.finding.kind == "quarantine_share"
    assert incident.finding.choices == ("quarantine", "retry", "fail")
    lake.lands(b"z")
    with pytest.raises(DecodingHalted):
        lake.decodes("two")
    decided(lake, "quarantine")
    lake.decodes("three")
    assert (lake.typed(), lake.bad()) == ([0], [(n, "framing") for n in (1, 2, 3)])
    assert not lake.ledger.read().open_incidents
    closed = [i.finding.kind for i in lake.ledger.closed_incidents()]
    assert closed == ["quarantine_share"] * 2


def halted_by_its_share(folder):
    """Two of three records are bad, the run `one` has halted, and that is decided."""
    lake = DecodedLake(folder)
    lake.decode["quarantine"] = {**lake.decode["quarantine"], "max_share": 0.5}
    lake.lands(value_of(lake.register(ID)), b"x", b"y")
    with pytest.raises(DecodingHalted, match="2 of 3 records"):
        lake.decodes("one")
    decided(lake, "quarantine")
    return lake


def test_a_decision_about_the_share_holds_for_its_records(tmp_path):
    """What came later is judged anew, by the same run."""
    lake = halted_by_its_share(tmp_path)
    lake.lands(b"z", b"z")
    with pytest.raises(DecodingHalted, match="2 of 2 records"):
        lake.decodes("two")
    assert (lake.typed(), lake.bad()) == ([0], [(n, "framing") for n in (1, 2)])
    assert lake.ledger.find_decoding("one").decoded == 1


def test_a_cleared_run_decodes_what_was_decided(tmp_path):
    """And leaves to the next one what came later."""
    lake = halted_by_its_share(tmp_path)
    lake.lands(b"z", b"z")
    lake.decodes("one")
    assert (lake.typed(), lake.bad()) == ([0], [(n, "framing") for n in (1, 2)])
    with pytest.raises(DecodingHalted, match="2 of 2 records"):
        lake.decodes("two")


def test_a_registry_that_is_away_is_waited_for(lake):
    """The next run that reaches it decodes what all runs before have landed."""
    second = lake.register(ID, TOTAL)
    lake.lands(value_of(second))
    lake.registry.away = True
    with pytest.raises(RegistryAway):
        lake.decodes("two")
    lake.lands(value_of(lake.first))
    lake.registry.away = False
    lake.decodes("three")
    assert lake.typed() == [0, 1, 3, 4]


def test_a_schema_that_does_not_fit_halts_with_both_schemas(lake):
    """With `quarantine` its records wait there, and the others are decoded."""
    wrong = lake.register(("id", {"type": "array", "items": "string"}))
    lake.lands(value_of(wrong), value_of(lake.first))
    with pytest.raises(DecodingHalted, match=r"id.*array"):
        lake.decodes("two")
    assert decided(lake, "quarantine").finding.kind == "schema_changed"
    lake.decodes("three")
    assert (lake.typed(), lake.bad()[1:]) == ([0, 1, 4], [(3, "type_mismatch")])


def test_an_audit_names_what_is_wrong_in_the_typed_tables(lake):
    """A row that is gone, and one that stands twice."""
    lake.lands(*[value_of(lake.first)] * 3)
    lake.decodes("two")
    uri = str(lake.folder / "typed")
    DeltaTable(uri).delete("offset = 3")
    twice = DeltaTable(uri).to_pyarrow_table(filters=[("offset", "=", 4)])
    write_deltalake(uri, twice, mode="append")
    found = lake.audits()
    assert [(f.start_offset, f.end_offset) for f in found.missing] == [(3, 4)]
    assert [f.offsets for f in found.doubled] == [1]
    assert (found.clean, found.rows, found.pending) == (False, 5, 0)


def test_a_decision_for_quarantine_counts_when_the_run_is_cleared(tmp_path):
    """It is about the same records, and nobody is asked twice."""
    lake = DecodedLake(tmp_path)
    lake.decode["quarantine"] = {**lake.decode["quarantine"], "max_share": 0.1}
    lake.lands(value_of(lake.register(ID)), b"nonsense")
    with pytest.raises(DecodingHalted):
        lake.decodes("one")
    decided(lake, "quarantine")
    for run_id in ("one", "one"):
        lake.decodes(run_id)
        assert (lake.typed(), lake.bad()) == ([0], [(1, "framing")])
    assert not lake.ledger.read().open_incidents


def test_a_redrive_finishes_its_own_plan(lake, monkeypatch):
    """Cut off behind both commits, it says what it has moved."""
    lake.lands(value_of(lake.first + 1))
    lake.decodes("two")
    assert lake.bad() == [(2, "framing"), (3, "unknown_schema")]
    lake.register(ID, TOTAL)
    with monkeypatch.context() as cut:
        cut.setattr("tideline.operations.redrive.close_decoding", away)
        with pytest.raises(ServiceAway):
            lake.redrives("again")
    found = lake.redrives("again")
    assert found.moved == 1
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])
    assert lake.ledger.read().decoding.open is None
    assert lake.audits().clean


def test_more_new_ids_than_a_run_asks_for(lake, monkeypatch, caplog):
    """The rest is in quarantine, the run's log says so, and a redrive asks on."""
    monkeypatch.setattr(decode_execution, "_ROUNDS", 0)
    lake.lands(value_of(lake.register(ID, TOTAL)))
    lake.decodes("two")
    assert lake.bad() == [(2, "framing"), (3, "unknown_schema")]
    assert "1 records of plan" in caplog.text
    monkeypatch.undo()
    assert lake.redrives("again").moved == 1
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])


def test_an_old_run_that_decodes_after_a_rewind_keeps_what_later_ones_have_learned(lake):
    """Its own schemas count for its records; the table has columns that they do not know."""
    lake.lands(value_of(lake.register(ID, TOTAL)))
    lake.decodes("two")
    learned = lake.ledger.read().decoding.parts
    lake.covers(0)
    lake.decodes("undo")
    lake.covers(4)
    lake.decodes("one")
    assert lake.ledger.read().decoding.parts == learned
    lake.decodes("three")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])
    assert lake.audits().clean


def test_a_run_is_cleared_after_a_redrive(lake):
    """Its own schemas are the older ones, so it leaves alone what the redrive has decided."""
    lake.lands(value_of(lake.first + 1), b"x")
    lake.decodes("two")
    lake.register(ID, TOTAL)
    assert lake.redrives("again").moved == 1
    for _ in range(2):
        lake.decodes("two")
        assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing"), (4, "framing")])
        assert lake.audits().clean


def test_a_rewind_meets_an_open_plan(lake, monkeypatch):
    """Its coordinates are landed no more: the rows go again, and come with the next landing."""
    lake.lands(value_of(lake.first))
    with monkeypatch.context() as cut:
        cut.setattr(decode_execution, "commit_all_tables", away)
        with pytest.raises(ServiceAway):
            lake.decodes("two")
    lake.covers(2)
    for run_id in ("three", "four"):
        lake.decodes(run_id)
    assert (lake.typed(), lake.bad()) == ([0, 1], [])
    state = lake.ledger.read()
    assert state.decoding.coverage == state.head.coverage
    lake.covers(4)
    lake.decodes("five")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3], [(2, "framing")])


@pytest.mark.parametrize("topic_id", [None, OTHER_ID])
def test_the_same_offsets_once_more(lake, topic_id):
    """Behind a truncation, or in a topic that was created anew: rows of both logs stand."""
    lake.begins_anew(*filter(None, [topic_id]))
    lake.lands(value_of(lake.first), value_of(lake.first), b"nonsense", None)
    lake.decodes("two")
    assert (lake.typed(), lake.bad()) == ([0, 0, 1, 1, 3], [(2, "framing")] * 2)
    lake.decodes("one")  # cleared: its own log's rows only
    assert (lake.typed(), lake.bad()) == ([0, 0, 1, 1, 3], [(2, "framing")] * 2)
    lake.redrives("again")
    assert lake.audits().clean
    state = lake.ledger.read()
    assert state.decoding.coverage == state.head.coverage


def test_decode_is_taken_out_and_put_back(lake):
    """What was landed meanwhile is decoded then; at most so much in one run."""
    lake.lands(*[value_of(lake.first)] * 3)
    lake.decodes("later")
    assert lake.typed() == [0, 1, 3, 4, 5]
    assert lake.audits().clean


def _wide(names, *more):
    """A schema of Connect's with so many fields, as bytes."""
    fields = [{"type": "int64", "optional": True, "field": n} for n in (*names, *more)]
    return json.dumps({"type": "struct", "fields": fields, "optional": False}).encode()


def _in_connect(tmp_path):
    return DecodedLake(tmp_path, value={"format": "json", "framing": "connect"})


@pytest.mark.parametrize("choice", ["quarantine", "retry"])
@pytest.mark.parametrize("framing", ["connect", "confluent"])
def test_records_bring_so_many_fields_at_a_time_and_no_more(tmp_path, framing, choice):
    """However many schemas share them; a person takes them all, or none of those that are wide."""
    names = [f"c{n}" for n in range(120)]
    lake = _in_connect(tmp_path) if framing == "connect" else DecodedLake(tmp_path)
    lake.lands(_wide(["id"]) if framing == "connect" else value_of(lake.register(ID)))
    lake.decodes("one")
    if framing == "connect":
        lake.lands(_wide(names[:60]), _wide(names[60:]), _wide(["id", "ok"]))
    else:
        fields = [{"name": n, "type": "int", "default": 0} for n in names]
        inside = {"type": "record", "name": "R", "fields": fields}
        wide = lake.register(ID, ("inside", inside))
        lake.lands(value_of(wide), value_of(lake.register(ID, ("ok", "int"))))
    with pytest.raises(DecodingHalted, match=r"12[12] new fields at a time \(allowed: 100"):
        lake.decodes("two")
    decided(lake, choice)
    if choice == "retry":
        lake.decode["on_schema"] = {"most_new_fields": 130}
    lake.decodes("three")
    columns = {f.name for f in DeltaTable(lake.folder / "typed").schema().fields}
    assert "ok" in columns
    assert len(lake.bad()) == (choice == "quarantine")
    lake.decodes("four")
    assert not lake.ledger.read().open_incidents
    assert lake.audits().clean


def test_names_count_by_their_length(tmp_path):
    """A table's columns are written down with each version of it, for good."""
    lake = _in_connect(tmp_path)
    lake.lands(_wide(["id"]))
    lake.decodes("one")
    lake.lands(_wide(["id", *("n" * 5_000 + str(n) for n in range(5))]))
    with pytest.raises(DecodingHalted, match=r"105 new fields at a time \(allowed: 100"):
        lake.decodes("two")


def test_the_newest_version_of_a_subject_brings_no_more_either(tmp_path):
    """With `framing: plain` nothing in a record names the schema."""
    wanted = {"format": "avro", "subject": "orders-value", "framing": "plain"}
    lake = DecodedLake(tmp_path, value=wanted)
    lake.register(ID)
    first = parts_of(lake.run("one"), lake.ledger.read().decoding)
    lake.register(ID, *((f"c{n}", ["null", "int"]) for n in range(101)))
    known = replace(lake.ledger.read().decoding, parts=first)
    with pytest.raises(DecodingHalted, match=r"101 new fields at a time"):
        parts_of(lake.run("two"), known)


def test_what_a_producer_calls_a_field_commands_no_terminal(tmp_path):
    """Nor is it a line of its own in a log, nor longer than anybody reads."""
    lake = _in_connect(tmp_path)
    lake.decode["on_schema"] = {"new_field": "halt"}
    lake.lands(_wide(["id"]))
    lake.decodes("one")
    forged = "x\nINFO  tideline: audit: clean\u202e\x1b[2J\u2028"
    lake.lands(_wide(["id", forged, "n" * 500_000]))
    with pytest.raises(DecodingHalted) as halted:
        lake.decodes("two")
    (incident,) = lake.ledger.read().open_incidents
    for text in (halted.value.message, incident.finding.actual):
        assert "x INFO tideline: audit: clean" in text
        assert not {"\n", "\x1b", "\u202e", "\u2028"} & {*text}
        assert len(text) < 5_000


def test_a_tables_first_columns_may_be_more(tmp_path):
    """Wide tables are there; one record of thousands of fields is none."""
    lake = _in_connect(tmp_path)
    lake.lands(_wide([f"c{n}" for n in range(900)]), _wide([f"d{n}" for n in range(101)]))
    with pytest.raises(DecodingHalted, match=r"1001 new fields at a time \(allowed: 1000"):
        lake.decodes("one")
    decided(lake, "quarantine")
    lake.decodes("two")
    assert (lake.typed(), lake.bad()) == ([1], [(0, "type_mismatch")])
    lake.lands(_wide([f"d{n}" for n in range(101)]), _wide(["a"]))
    lake.decodes("three")
    assert lake.typed() == [1, 2, 3]


@pytest.mark.parametrize("choice", ["quarantine", "add_column"])
def test_a_new_field_halts_if_the_stream_file_says_so(lake, choice):
    """Answered with `quarantine`, no column comes; the other records are decoded."""
    lake.decode["on_schema"] = {"new_field": "halt"}
    second = lake.register(ID, NOTE, TOTAL)
    lake.lands(value_of(second), value_of(lake.first))
    with pytest.raises(DecodingHalted, match="brings the field total"):
        lake.decodes("two")
    assert lake.typed() == [0, 1]
    if choice == "quarantine":
        decided(lake, "quarantine")
    else:
        lake.decode["on_schema"] = {"new_field": "add_column"}
    lake.decodes("three")
    columns = {f.name for f in DeltaTable(lake.folder / "typed").schema().fields}
    if choice == "quarantine":
        assert (lake.typed(), lake.bad()[1:]) == ([0, 1, 4], [(3, "type_mismatch")])
        assert "total" not in columns
        lake.lands(value_of(second))
        lake.decodes("four")  # it was decided about this schema
        assert lake.bad()[2:] == [(5, "type_mismatch")]
    else:
        assert lake.typed() == [0, 1, 3, 4]
        assert "total" in columns
    assert not lake.ledger.read().open_incidents


def test_an_unknown_id_halts_if_the_stream_file_says_so(lake):
    """Until the registry knows it, or somebody decides."""
    lake.decode["on_schema"] = {"unknown_id": "halt"}
    lake.lands(value_of(lake.first + 1))
    for _ in range(2):
        with pytest.raises(DecodingHalted, match="does not know the id 2"):
            lake.decodes("two")
    assert len(lake.ledger.read().open_incidents) == 1
    lake.register(ID, TOTAL)
    lake.decodes("three")
    assert lake.typed() == [0, 1, 3]
    assert not lake.ledger.read().open_incidents


def test_an_incompatible_schema_goes_into_quarantine_by_policy(lake):
    lake.decode["on_schema"] = {"incompatible": "quarantine"}
    wrong = lake.register(("id", {"type": "array", "items": "string"}))
    lake.lands(value_of(wrong), value_of(lake.first))
    lake.decodes("two")
    assert (lake.typed(), lake.bad()[1:]) == ([0, 1, 4], [(3, "type_mismatch")])


def test_a_schema_of_two_subjects_is_asked_for_once(tmp_path):
    """It is noted by the part's own subject, whichever name comes first."""
    lake = DecodedLake(tmp_path)
    lake.register(NOTE, subject="aaa")
    lake.register(NOTE)
    shared = lake.register(ID, subject="aaa")
    assert lake.register(ID) == shared
    newest = lake.register(ID, NOTE)
    lake.lands(value_of(shared), value_of(newest))
    lake.decodes("one")
    assert lake.ledger.known_schemas([shared])[shared].known_as == "orders-value:2"
    asked = lake.registry.asked
    lake.decode["tombstones"] = "drop"
    lake.ledger.update(lambda s: replace(s, decoding=replace(s.decoding, parts=())))
    lake.lands(value_of(shared))
    lake.registry.asked = 0
    lake.decodes("two")
    assert lake.registry.asked == 1 < asked  # the newest schema of the subject


def test_another_registry_is_noticed(tmp_path):
    """An id that stands for another schema than before: nothing is decoded with it."""
    lake = DecodedLake(tmp_path)
    lake.lands(value_of(lake.register(ID)))
    lake.decodes("one")
    lake.registry = type(lake.registry)()
    lake.register(TOTAL)
    lake.ledger.update(lambda s: replace(s, decoding=replace(s.decoding, parts=())))
    lake.lands(value_of(1))
    with pytest.raises(SchemaChanged):
        lake.decodes("two")
    assert lake.typed() == [0]


def test_a_schema_file_that_changes(tmp_path):
    """Its new fields come behind the others; what does not fit halts with the file's name."""
    file = tmp_path / "order.avsc"

    def writes(*fields):
        named = [{"name": n, "type": t} for n, t in fields]
        file.write_text(json.dumps({"type": "record", "name": "Order", "fields": named}))

    writes(ID)
    lake = DecodedLake(tmp_path, value={"format": "avro", "schema": str(file)})
    lake.lands(b"plain")
    lake.decodes("one")
    writes(ID, TOTAL)
    lake.lands(b"plain")
    lake.decodes("two")
    columns = [f.name for f in DeltaTable(tmp_path / "typed").schema().fields]
    assert columns.index("total") > columns.index("id")
    writes(("id", {"type": "array", "items": "string"}))
    lake.lands(b"plain")
    with pytest.raises(DecodingHalted, match=r"order\.avsc"):
        lake.decodes("three")
    assert lake.typed() == [0, 1]


def test_lost_rows_do_not_pass_for_tombstones(tmp_path):
    """Where tombstones are dropped, raw rows without a typed one are counted."""
    lake = DecodedLake(tmp_path, tombstones="drop")
    first = lake.register(ID)
    lake.lands(value_of(first), None, value_of(first))
    lake.decodes("one")
    assert (lake.typed(), lake.audits().dropped, lake.audits().clean) == ([0, 2], 1, True)
    DeltaTable(tmp_path / "typed").delete("offset = 2")
    found = lake.audits()
    assert not found.clean
    assert [(f.start_offset, f.end_offset) for f in found.missing] == [(2, 3)]
    assert found.dropped == 1


CUSTOMER = (
    "customer",
    {"type": "record", "name": "Customer", "fields": [{"name": "id", "type": "int"}]},
)


def listing(lake, *fields):
    """The stream file lists fields of the value."""
    lake.decode["value"] = {**lake.decode["value"], "fields": list(fields)}


def columns_of(lake):
    return [f.name for f in DeltaTable(lake.folder / "typed").schema().fields]


def test_a_list_of_fields_changes(lake):
    """New columns come behind the others, and none goes; a run that is cleared is as it was."""
    before = columns_of(lake)
    listing(lake, {"field": "id", "as": "order_id"}, "customer.id")
    lake.register(ID, NOTE, CUSTOMER)
    lake.lands(value_of(lake.first), value_of(lake.first + 1))
    lake.decodes("two")
    assert columns_of(lake) == [*before, "order_id", "customer_id"]
    lake.decodes("one")
    lake.decode["value"].pop("fields")
    lake.lands(value_of(lake.first + 1))
    lake.decodes("three")
    assert columns_of(lake) == [*before, "order_id", "customer_id", "customer"]
    (part,) = lake.ledger.read().decoding.parts
    assert [c.name for c in part.reader.in_table] == ["id", "note", "customer"]
    assert [c.name for c in part.reader.dropped] == ["order_id", "customer_id"]
    assert lake.typed() == [0, 1, 3, 4, 5]
    assert lake.audits().clean


def test_new_tables_have_the_listed_columns_only(lake):
    """The names of others are free again."""
    listing(lake, {"field": "id", "as": "order_id"})
    lake.lands(value_of(lake.first))
    lake.decodes("two")
    moved(lake, table="typed2", quarantine="bad2")
    lake.lands(value_of(lake.first))
    listing(lake, {"field": "id", "as": "note"})
    lake.decodes("three")
    columns = [f.name for f in DeltaTable(lake.folder / "typed2").schema().fields]
    assert [c for c in columns if c not in OWN_COLUMNS] == ["note"]
    assert (lake.typed(), lake.bad()) == ([0, 1, 3, 4], [(2, "framing")])


def test_a_listed_field_that_no_schema_has_is_refused(lake):
    """Before anything is committed; a schema that records bring may have it."""
    listing(lake, "id", "customer.id", "nowhere")
    lake.register(ID, CUSTOMER)
    lake.lands(value_of(lake.first + 1))
    before = lake.ledger.read().decoding
    said = r"decode\.value\.fields\.2: got 'nowhere'; .*allowed: id, note, customer, customer\.id\."
    with pytest.raises(BadInput, match=said):
        lake.decodes("two")
    assert lake.ledger.read().decoding == before
    assert lake.typed() == [0, 1]
    listing(lake, "id", "customer.id")
    lake.decodes("two")
    assert lake.typed() == [0, 1, 3]


def test_a_list_that_changes_asks_for_its_columns(lake):
    """What it names is not new; a field inside of it that comes later is."""
    lake.decode["on_schema"] = {"new_field": "halt"}
    wide = {**CUSTOMER[1], "fields": [*CUSTOMER[1]["fields"], {"name": "name", "type": "string"}]}
    wider = {**wide, "fields": [*wide["fields"], {"name": "age", "type": "int"}]}
    second = lake.register(ID, ("customer", wide), TOTAL)
    third = lake.register(ID, ("customer", wider))
    for run_id, field in (("two", "customer.id"), ("again", "customer")):
        listing(lake, "id", field)
        lake.lands(value_of(second))
        lake.decodes(run_id)
    assert lake.typed() == [0, 1, 3, 4]
    lake.lands(value_of(third))
    with pytest.raises(DecodingHalted, match=r"brings the field customer\.age"):
        lake.decodes("three")


def test_a_list_may_leave_out_what_does_not_fit(lake):
    """The field that changed its type is listed no more, and the decoding goes on."""
    second = lake.register(ID, ("note", "double"))
    lake.lands(value_of(second))
    with pytest.raises(DecodingHalted, match="does not fit: field note"):
        lake.decodes("two")
    listing(lake, "id")
    lake.decodes("three")
    assert lake.typed() == [0, 1, 3]
    assert not lake.ledger.read().open_incidents


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([{"field": "id", "as": "note"}], "id cannot be note: the table has that column"),
        ([{"field": "id", "as": "note"}, "note"], "id cannot be note: "),
    ],
)
def test_a_column_s_type_never_changes(lake, fields, said):
    """Nor does it become another field's by mistake."""
    listing(lake, *fields)
    lake.lands(value_of(lake.first))
    with pytest.raises(BadInput, match=f"decode.value.fields: {said}"):
        lake.decodes("two")
    assert lake.typed() == [0, 1]


def test_a_column_that_somebody_has_added_keeps_its_type(lake):
    """The ledger does not know it; the table does."""
    DeltaTable(lake.folder / "typed").alter.add_columns([Field("order_id", "string")])
    listing(lake, {"field": "id", "as": "order_id"})
    lake.lands(value_of(lake.first))
    with pytest.raises(BadInput, match="Cannot merge types string and long"):
        lake.decodes("two")
    assert lake.typed() == [0, 1]


def test_an_event_s_time_is_a_column(lake):
    """One that the list has left out is none."""
    listing(lake, "id")
    lake.decode["event_time"] = {"field": "note"}
    lake.lands(value_of(lake.first))
    said = r"decode\.event_time\.field: got 'note'; .*allowed: id\."
    with pytest.raises(BadInput, match=said):
        lake.decodes("two")


def test_only_a_column_of_values_may_be_null(lake):
    lake.decode["on_value"] = {"note": None, "nobody": None}
    lake.lands(value_of(lake.first))
    said = r"decode\.on_value\.nobody: got 'null'; no column of values; allowed: id, note"
    with pytest.raises(BadInput, match=said):
        lake.decodes("two")
    lake.decode["on_value"] = {"note": None}
    lake.decodes("two")
    assert "invalid_columns" in columns_of(lake)


def test_own_columns_of_a_new_table(tmp_path):
    """Those that are not wanted are not there, and audit, redrive and clear miss none."""
    lake = DecodedLake(tmp_path, tombstones="drop")
    lake.decode["table"]["own_columns"] = ["headers", "schema_id"]
    first = lake.register(ID)
    lake.lands(value_of(first), None, b"nonsense", value_of(first + 1))
    lake.decodes("one")
    own = ["topic_id", "generation", "partition", "offset", "schema_id", "headers"]
    assert columns_of(lake) == [*own, "id", "decode_plan_id"]
    lake.register(ID, NOTE)
    lake.redrives("again")
    lake.decodes("one")
    lake.redrives("once more")
    assert (lake.typed(), lake.bad()) == ([0, 3], [(2, "framing")])
    assert lake.audits().clean
    lake.decode["table"]["own_columns"] = ["topic"]
    lake.lands(value_of(first))
    lake.decodes("two")
    assert columns_of(lake) == [*own, "id", "decode_plan_id", "note", "topic"]
    assert lake.typed() == [0, 3, 4]


def undo(lake, end):
    """A rewind of everything from an offset on: raw rows first, then the ledger, in one swap."""
    state = lake.ledger.read()
    *_, log = state.head.coverage
    gone = ReadRange("orders", log.topic_id, log.generation, log.partition, end, lake.landed, None)
    DeltaTable(lake.raw.uri).delete(f"offset >= {end}")
    rewind = Rewind("rewind-1", "one", "because", "ann", NOW, "head", removes=(gone,))
    lake.covers(end)
    lake.ledger.update(lambda s: s.with_rewind_finished(rewind, s.head))
    lake.landed = end


@pytest.mark.parametrize("step", ["commit_all_tables", "close_decoding"])
def test_a_rewind_takes_its_records_out_of_an_open_plan(lake, monkeypatch, step):
    """Finished without their raw rows, it would call them decoded, and nobody would come back."""
    lake.lands(*[value_of(lake.first)] * 3)
    module = decode_execution if step == "commit_all_tables" else decode_steps
    with monkeypatch.context() as cut:
        cut.setattr(module, step, away)
        with pytest.raises(ServiceAway):
            lake.decodes("two")
    undo(lake, 4)
    run = lake.run("three")
    with run.ledger.lease("decoder"):
        finish_open(run)
    lake.lands(*[value_of(lake.first)] * 3)
    lake.decodes("three")
    assert (lake.typed(), lake.bad()) == ([0, 1, 3, 4, 5, 6], [(2, "framing")])
    assert lake.audits().clean


def test_an_undone_run_decodes_by_the_file_of_now(lake):
    """Its rows went with the rewind, and what was wrong is corrected since."""
    lake.lands(*[value_of(lake.first)] * 3)
    assert lake.decodes("two").plan.max_share == 1.0
    undo(lake, 1)
    lake.decode["quarantine"]["max_share"] = 0.5
    lake.lands(*[value_of(lake.first)] * 3)
    again = lake.decodes("two")
    assert again.plan.max_share == 0.5
    assert lake.decodes("two").plan.frozen_at == again.plan.frozen_at  # cleared, it is its plan
    assert (lake.typed(), lake.audits().clean) == ([0, 1, 2, 3], True)


def test_a_cleared_run_leaves_what_a_later_run_has_decoded(lake):
    """The run was undone, and another one has decoded the same offsets by a corrected file."""
    lake.lands(*[value_of(lake.first)] * 3)
    lake.decodes("two")
    undo(lake, 1)
    lake.lands(*[value_of(lake.first)] * 3)
    plan_id = lake.decodes("three").plan.plan_id
    lake.decodes("two")
    assert lake.plans()[1:] == [plan_id] * 3


def test_new_tables_owe_nothing_that_a_rewind_has_undone(lake):
    """They hold no such row; what is landed is decoded from the start."""
    undo(lake, 1)
    moved(lake, table="other", quarantine="other-bad")
    record = lake.decodes("later")
    assert (record.plan.removes, lake.typed()) == ((), [0])
    assert lake.ledger.read().decoding.undone == NOWHERE


def test_records_without_a_value_that_were_dropped_are_not_said_to_be_removed(tmp_path):
    """The stream file keeps them now: the rows of before are made by decoding once more."""
    lake = DecodedLake(tmp_path, tombstones="drop")
    lake.lands(value_of(lake.register(ID)), None)
    lake.decodes("one")
    lake.decode["tombstones"] = "keep"
    covered = lake.ledger.read().decoding.coverage.ranges()
    with pytest.raises(VerificationFailed, match=r"tombstones was drop.*decode FILE --again"):
        refuse_lacking(lake.run("fold"), covered, "Nothing was folded")


def test_a_column_of_others_whose_name_differs_in_case_alone_is_named(lake):
    """Delta has no two such columns; nothing is decoded into that table."""
    DeltaTable(str(lake.folder / "typed")).alter.add_columns([Field("Total", "double")])
    lake.lands(value_of(lake.register(ID, NOTE, TOTAL)))
    with pytest.raises(BadInput, match=r"columns cannot be added: .*'total'.* in case alone"):
        lake.decodes("two")
    assert lake.typed() == [0, 1]
