"""Damage of ten kinds planted in a current table: each is named by the bucket that it is in."""

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from kafka import KafkaProducer

from tests.worlds.connect_json import field, of, record, schema
from tests.worlds.current_streams import KEY, Changing
from tests.worlds.streams import folder_of
from tideline import wiring
from tideline.errors import BadInput, FoldingHalted, ServiceAway, VerificationFailed
from tideline.folding import current_checking, fold_planning
from tideline.folding.current_checking import check_current
from tideline.folding.fold_steps import fold_changes, verify_current
from tideline.model.current import OLD_SUMS, SUMS
from tideline.model.request import RunRequest
from tideline.operations.questions import audit_stream
from tideline.pipeline.run_batch import decode_batch, land_batch
from tideline.stream.stream import tables_of
from tideline.wiring import open_ledger, open_run


@pytest.fixture
def orders(harness, spark):
    """Twenty keys, three of them gone, in two folds."""
    found = Changing(harness, spark)
    found.sends(*(("c", n, f"note {n}", n) for n in range(20)))
    found.run("one")
    found.sends(("d", 3), (None, 3), ("d", 4), ("d", 5), ("u", 6, "other", 6))
    found.run("two")
    return found


def check(orders):
    with open_run(orders.stream, "check", RunRequest(), orders.spark) as run:
        return check_current(run)


@pytest.mark.slow  # half a minute beside other parts
def test_some_buckets_alone_are_looked_at(orders, monkeypatch):
    """Those whose turn it is; damage elsewhere waits for its own."""
    table = DeltaTable(orders.tables["current"])
    (row,) = rows(table, lambda r: r["key_id"] == 7)
    DAMAGE["a value changed"](table)
    for turn in ((row["bucket"],), ((row["bucket"] + 1) % 4,)):
        monkeypatch.setattr(current_checking, "buckets_of_day", lambda *of, turn=turn: turn)
        with open_run(orders.stream, "check", RunRequest(), orders.spark) as run:
            found = check_current(run, 1)
        assert found.buckets == turn
        assert {f.bucket for f in found.flaws} == {row["bucket"]} & {*turn}


def audited(orders, buckets=0):
    with open_run(orders.stream, "audit", RunRequest(), orders.spark) as run:
        return audit_stream(run, buckets)


def rows(table, condition):
    found = table.to_pyarrow_table().to_pylist()
    return [row for row in found if condition(row)]


def appended(table, *changed):
    schema = pa.schema(table.schema().to_arrow())
    write_deltalake(table, pa.Table.from_pylist(list(changed), schema), mode="append")


def rewritten(change):
    """One row is another one."""

    def plant(table):
        (row,) = rows(table, lambda r: r["key_id"] == 7)
        table.delete("key_id = 7")
        appended(table, row | change(row))

    return plant


def doubled(table):
    appended(table, *rows(table, lambda r: r["key_id"] == 7))


def an_older_row_beside(table):
    (row,) = rows(table, lambda r: r["key_id"] == 6)
    appended(table, row | {"note": "note 6", "offset": 6})


DAMAGE = {
    "a value changed": rewritten(lambda row: {"note": "forged"}),
    "a value gone": rewritten(lambda row: {"note": None}),
    "a key changed": rewritten(lambda row: {"key_id": 700}),
    "a row of an older change": rewritten(lambda row: {"offset": row["offset"] + 100}),
    "a row deleted by its mark": rewritten(lambda row: {"is_deleted": True}),
    "in another bucket": rewritten(lambda row: {"bucket": (row["bucket"] + 1) % 4}),
    "a row lost": lambda table: table.delete("key_id = 7"),
    "a row twice": doubled,
    "an older row beside the newer": an_older_row_beside,
    "a deleted row brought back": lambda table: table.update(
        {"is_deleted": "false"}, predicate="key_id = 4"
    ),
    "a deleted row dropped": lambda table: table.delete("key_id = 4"),
    "an older version restored": lambda table: table.restore(version_of_first(table)),
}


def version_of_first(table):
    """The version that the first fold has made."""
    versions = [h["version"] for h in table.history() if "tideline" in str(h.get("userMetadata"))]
    return min(versions)


@pytest.mark.slow  # a minute beside other parts
def test_each_is_named(orders):
    """Then the table is restored, and is clean."""
    table = DeltaTable(orders.tables["current"])
    version, noticed, counted = table.version(), {}, set()
    for name, plant in DAMAGE.items():
        plant(table)
        audit, _ = audited(orders, 4)
        noticed[name] = {flaw.place for flaw in audit.current.wrong}
        assert audit.current.checked == (0, 1, 2, 3)
        audit, _ = audited(orders)
        assert audit.current.checked == ()
        counted |= set() if audit.clean else {name}
        assert audit.clean == (audit.current.wrong == ())
        table.update_incremental()
        table.restore(version)
        orders.fold()
        table.update_incremental()
        version = table.version()
    assert noticed == {name: {"table"} for name in DAMAGE}
    assert check(orders).flaws == ()
    assert counted == {*DAMAGE}  # also by an audit that reads no rows
    audit, findings = audited(orders)
    assert (audit.current.rows, audit.current.deleted, audit.current.unfolded) == (17, 3, 0)
    assert (audit.clean, findings) == (True, ())


def test_what_is_damaged_is_folded_anew(orders):
    """Whatever stands there; and where nothing stands any more, without a new change."""
    wanted, table = orders.rows(), DeltaTable(orders.tables["current"])
    for plant in ("a value changed", "a deleted row brought back", "a deleted row dropped"):
        DAMAGE[plant](table)
        table.update_incremental()
    assert check(orders).flaws != ()
    orders.fold("healing", "anew")
    assert check(orders).flaws == ()
    assert orders.rows() == wanted
    shutil.rmtree(folder_of(orders.tables["current"]))
    orders.fold("once more")
    assert orders.rows() == wanted


@pytest.mark.slow  # half a minute
def test_others_change_a_fold_before_it_is_verified(orders):
    """It is not waited for: what the ledger calls folded is not there, so all is folded anew."""
    orders.sends(("u", 7, "newer", 7))
    with open_run(orders.stream, "three", RunRequest(), orders.spark) as run:
        land_batch(run)
        decode_batch(run)
        fold_changes(run)
        DAMAGE["a row lost"](DeltaTable(orders.tables["current"]))
        with pytest.raises(VerificationFailed, match="clear fold_changes"):
            verify_current(run)
    orders.run("three")
    assert orders.rows()[7] == ("newer", 7)
    assert check(orders).flaws == ()


def test_a_new_table_whose_first_fold_dies_holds_nothing(orders, monkeypatch):
    """The ledger has noted it by then: the next fold still makes everything."""
    wanted = orders.rows()
    shutil.rmtree(folder_of(orders.tables["current"]))

    def dies(*arguments):
        raise ServiceAway("a store is away")

    with monkeypatch.context() as away:
        away.setattr(wiring, "fold_here", dies)
        with pytest.raises(ServiceAway):
            orders.fold("first")
    assert orders.head.table_id == str(DeltaTable(orders.tables["current"]).metadata().id)
    orders.sends(("u", 7, "newer", 7))
    orders.run("second")
    assert orders.rows() == wanted | {7: ("newer", 7)}


def test_a_table_that_is_not_the_fold_of_its_changes_is_told(orders):
    """Somebody has changed a typed row behind the ledger's back."""
    typed = DeltaTable(orders.tables["decoded"])
    version = typed.version()
    typed.update({"note": "'forged'"}, predicate="id = 7 AND op = 'c'")
    found = check(orders)
    assert {flaw.place for flaw in found.flaws} == {"changes"}
    assert len(found.flaws) == 1
    typed.restore(version)
    assert check(orders).changes == 25


@pytest.mark.slow  # half a minute beside other parts
def test_what_is_decoded_again_has_to_be_folded_first(orders):
    with open_run(orders.stream, "one", RunRequest(), orders.spark) as run:
        decode_batch(run)
    with pytest.raises(BadInput, match="tideline fold FILE first"):
        check(orders)
    orders.fold()
    assert check(orders).flaws == ()


@pytest.mark.slow  # half a minute beside other parts
def test_sums_of_an_older_kind_are_made_anew_once(harness, spark, monkeypatch):
    """What was forged where they see nothing is neither trusted nor an alarm; later it is told."""
    tags = schema(field("id", of("int64")), field("tags", of("array", items=of("string"))))
    harness.create(partitions=1)
    framing = {"format": "json", "framing": "connect"}
    decode, current = {"value": framing, "key": {**framing}}, {"table": {"buckets": 2}}
    stream = harness.stream(decode=decode, current=current)
    table = tables_of(stream)["current"]

    def runs(run_id, *numbers):
        producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers)
        for n in numbers:
            row = {"id": n, "tags": ["a", None]}
            producer.send(harness.topic(), key=record(KEY, {"id": n}), value=record(tags, row))
        producer.close()
        harness.run(stream, run_id, spark)
        return open_ledger(stream).read().folding

    def forges():
        found = DeltaTable(table).to_pyarrow_table()
        moved = pa.array([[None, "a"]] * len(found), found.schema.field("tags").type)
        at = found.schema.get_field_index("tags")
        write_deltalake(table, found.set_column(at, "tags", moved), mode="overwrite")

    def looks():
        with open_run(stream, "check", RunRequest(), spark) as run:
            return check_current(run).flaws

    monkeypatch.setattr(fold_planning, "SUMS", OLD_SUMS)
    assert runs("old", *range(8)).sums == OLD_SUMS
    forges()
    monkeypatch.undo()
    with pytest.raises(BadInput, match="tideline fold FILE first, which rebuilds the table once"):
        looks()
    head = runs("new", 1)
    assert (head.sums, head.folds) == (SUMS, 2)
    found = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert [row["tags"] for row in found] == [["a", None]] * 8
    assert looks() == ()
    assert runs("later", 2).folds == 3
    forges()
    assert {flaw.place for flaw in looks()} == {"table"}
    with pytest.raises(FoldingHalted, match="current_changed"):
        runs("after", 3)
