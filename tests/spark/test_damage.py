"""What an audit says about damage made by hand: each kind, with its place, and exit status 6."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.worlds.streams import folder_of, table_rows
from tideline.cli.main import main
from tideline.documents import dump
from tideline.model.offsets import Coverage, OffsetRange, subtract
from tideline.stream.files import read_stream
from tideline.wiring import open_ledger

FLAWS = ("gaps", "overlaps", "duplicates", "missing", "foreign")
OTHER_ID = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def orders(harness, spark):
    """A stream file with two runs of 100 records in two partitions each."""
    harness.create(partitions=2)
    path = harness.stream_file()
    for run_id in ("first", "second"):
        for partition in (0, 1):
            harness.send(100, partition=partition)
        harness.run(read_stream(path), run_id, spark)
    return path


@pytest.fixture
def audited(orders, capsys):
    """Run `tideline audit --json`; exit status and answer. Clean before the damage."""

    def audit():
        capsys.readouterr()
        status = main(["audit", str(orders), "--json"])
        return status, json.loads(capsys.readouterr().out)

    status, answer = audit()
    assert (status, answer["clean"], answer["rows"]) == (0, True, 400)
    assert [answer[kind] for kind in FLAWS] == [[]] * len(FLAWS)
    return audit


@pytest.fixture
def table(orders):
    """The table, to be changed by a writer that is not Tideline."""
    return DeltaTable(read_stream(orders).table.uri)


def found(answer, kind):
    """One kind of flaw as (topic, generation, partition, start, end, offsets), the only kind."""
    others = [k for k in FLAWS if k != kind and answer[k]]
    assert not others
    names = ("topic", "generation", "partition", "start_offset", "end_offset", "offsets")
    return [tuple(flaw[n] for n in names) for flaw in answer[kind]]


def rows_at(table, partition, *offsets):
    """Rows of the table by coordinates, to be written again."""
    data = table.to_pyarrow_table()
    wanted = pc.and_(
        pc.equal(data["partition"], partition), pc.is_in(data["offset"], pa.array(offsets))
    )
    return data.filter(wanted)


def changed(rows, **columns):
    """Rows with other values in some columns."""
    for name, value in columns.items():
        index = rows.schema.get_field_index(name)
        field = rows.schema.field(index)
        rows = rows.set_column(index, field, pa.array([value] * len(rows), field.type))
    return rows


def test_a_row_written_twice_is_a_duplicate(harness, table, audited):
    """By somebody's append, which no version check stops."""
    write_deltalake(table, rows_at(table, 1, 7, 8), mode="append")
    status, answer = audited()
    assert status == 6
    assert found(answer, "duplicates") == [(harness.topic(), 0, 1, 7, 9, 2)]
    assert answer["findings"] == []


@pytest.mark.slow
def test_two_copies_in_one_file_are_duplicates_as_well(harness, table, audited):
    """Named by their own offsets, not by the file's; both copies beside the row in its file."""
    rows = rows_at(table, 0, 150)
    write_deltalake(table, pa.concat_tables([rows, rows]), mode="append")
    status, answer = audited()
    assert status == 6
    spans = [(f["start_offset"], f["end_offset"]) for f in answer["duplicates"]]
    assert set(spans) == {(150, 151)}
    assert sum(f["offsets"] for f in answer["duplicates"]) == 2


def test_a_deleted_range_is_missing(harness, table, audited):
    """And the removal is a finding of its own (R13)."""
    table.delete("partition = 0 AND offset >= 40 AND offset < 60")
    status, answer = audited()
    assert status == 6
    assert found(answer, "missing") == [(harness.topic(), 0, 0, 40, 60, 20)]
    assert [f["class"] for f in answer["findings"]] == ["table_changed"]


@pytest.mark.slow
def test_a_deleted_file_s_rows_are_missing(orders, audited):
    """Taken out of the transaction log by hand, without a commit that tells."""
    (log,) = (folder_of(read_stream(orders).table.uri) / "_delta_log").glob("*2.json")
    adds = [json.loads(line) for line in log.read_text().splitlines() if '"add"' in line]
    gone = json.loads(adds[0]["add"]["stats"])
    kept = [line for line in log.read_text().splitlines() if adds[0]["add"]["path"] not in line]
    log.write_text("\n".join(kept) + "\n")
    status, answer = audited()
    assert status == 6
    (flaw,) = found(answer, "missing")
    assert flaw[3:5] == (gone["minValues"]["offset"], gone["maxValues"]["offset"] + 1)


@pytest.mark.parametrize(
    ("columns", "place"),
    [
        ({"offset": 5000}, (0, 0, 5000, 5001)),
        ({"generation": 1}, (1, 0, 3, 4)),
        ({"partition": 9}, (0, 9, 3, 4)),
        ({"topic_id": OTHER_ID}, (0, 0, 3, 4)),
    ],
)
def test_a_row_at_coordinates_of_no_plan_is_foreign(harness, table, audited, columns, place):
    """Beyond the head, in another generation, partition or incarnation."""
    write_deltalake(table, changed(rows_at(table, 0, 3), **columns), mode="append")
    status, answer = audited()
    assert status == 6
    ((topic, *rest, count),) = found(answer, "foreign")
    assert (tuple(rest), count) == (place, 1)
    assert topic == (None if "topic_id" in columns else harness.topic())


def test_a_record_taken_out_of_the_history_is_a_gap(harness, orders, audited):
    """The head still has its coverage, so no row is foreign."""
    store = open_ledger(read_stream(orders)).store
    ledger = DeltaTable(store.location)
    ledger.delete("kind = 'run' AND key = 'second'")
    status, answer = audited()
    assert status == 6
    expected = [(harness.topic(), 0, partition, 100, 200, 100) for partition in (0, 1)]
    assert found(answer, "gaps") == expected


@pytest.mark.slow
def test_coverage_cut_out_of_the_head_is_a_gap(harness, orders, audited):
    """The closed runs still know of it."""
    ledger = open_ledger(read_stream(orders))
    first, *others = ledger.read().head.coverage
    cut = Coverage(first.identity, subtract(first.intervals, [OffsetRange(90, 110)]))
    head = ledger.read().head
    documents = ledger.store.read()
    ledger.store.commit(documents, put={"head": dump(replace(head, coverage=(cut, *others)))})
    status, answer = audited()
    assert status == 6
    ((topic, _, partition, *span),) = found(answer, "gaps")
    assert (topic, partition, span) == (harness.topic(), first.identity.partition, [90, 110, 20])


@pytest.mark.slow
def test_an_audit_of_the_damaged_table_changes_nothing(orders, table, audited):
    """It only looks."""
    write_deltalake(table, rows_at(table, 1, 7), mode="append")
    stream = read_stream(orders)
    before = (DeltaTable(stream.table.uri).version(), open_ledger(stream).read())
    assert audited()[0] == audited()[0] == 6
    assert (DeltaTable(stream.table.uri).version(), open_ledger(stream).read()) == before
    assert len(table_rows(stream)) == 401
