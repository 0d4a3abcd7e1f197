"""Rows whose delete was lost: a later snapshot has not read them again. Listed, then swept."""

import json
import shutil
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from tests.worlds.current_streams import Changing
from tests.worlds.streams import decide, folder_of
from tideline.cli.main import main
from tideline.errors import BadInput, FoldingHalted
from tideline.folding import sweeping
from tideline.folding.current_checking import check_current
from tideline.folding.views import view_of
from tideline.landing.context import now
from tideline.model.request import RunRequest
from tideline.operations import maintaining
from tideline.operations.maintaining import maintain_stream
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.wiring import open_run, open_tables

AT = (int(time.time()) - 3600) * 1000
"""Kafka's time of the first records, in milliseconds since 1970: an hour ago."""


@pytest.fixture
def orders(harness, spark):
    """Keys 1 to 5, read by a first snapshot; 2 and 4 vanish, and nobody tells."""
    found = Changing(harness, spark)
    found.sends(*(("r", n, "a", n) for n in range(1, 6)), snapshot="last", at=AT)
    found.sends(("u", 1, "b", 1), at=AT + 1000)
    found.run("one")
    return found


def stale_rows(orders):
    with open_run(orders.stream, "look", RunRequest(), orders.spark) as run:
        return sweeping.find_stale_rows(run)


def sweep(orders, rows, run_id="sweep"):
    with open_run(orders.stream, run_id, RunRequest(by="ann"), orders.spark) as run:
        return sweeping.sweep(run, rows)


def flaws(orders):
    with open_run(orders.stream, "check", RunRequest(), orders.spark) as run:
        return check_current(run).flaws


def snapshot(orders, *keys, at=AT + 60_000):
    orders.sends(*(("r", n, "again", n) for n in keys), snapshot="last", at=at)


def test_what_a_snapshot_has_not_read_again_is_listed_and_swept(orders, capsys):
    """Not what came since; the command names keys, and asks for their number."""
    snapshot(orders, 1, 3, 5)
    orders.sends(("c", 6, "new", 6), at=AT + 61_000)
    orders.run("two")
    file = str(orders.harness.folder / "orders.yaml")
    assert main(["sweep", file]) == 0
    said = capsys.readouterr().out.splitlines()
    at = datetime.fromtimestamp(AT / 1000 + 60, UTC)
    assert said[0] == f"the last complete snapshot: {at:%Y-%m-%d %H:%M:%S} to {at:%H:%M:%S}"
    assert {line.strip() for line in said[1:3]} == {"key_id=2", "key_id=4"}
    assert said[3] == "2 rows no longer exist at the source"
    assert said[4:] == [f"Next: tideline sweep {orders.harness.folder / 'orders.yaml'} --rows 2"]
    assert len(orders.rows()) == 6
    assert main(["sweep", file, "--rows", "3"]) == 2
    assert "--rows: got 3; allowed: 2" in capsys.readouterr().err
    swept, record = sweep(orders, 2)
    assert (swept.rows, record.status, record.plan.by) == (2, "done", "ann")
    assert orders.rows().keys() == {1, 3, 5, 6}
    assert flaws(orders) == ()
    assert stale_rows(orders).rows == 0
    assert main(["sweep", file, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "nothing_to_do"
    assert main(["explain", file, "--key", "key_id=2"]) == 0
    first, change = capsys.readouterr().out.splitlines()
    assert first == "key_id=2: deleted; 1 change, the newest first"
    assert change.endswith("note=a, total=2, swept")


@pytest.mark.slow
def test_what_is_swept_stays_so(orders):
    """Over an old run's fold, a fold anew, and a view; a new change brings a row back."""
    snapshot(orders, 1, 3, 5)
    orders.run("two")
    sweep(orders, 2)
    orders.run("one")
    assert orders.rows().keys() == {1, 3, 5}
    orders.fold("anew", "anew")
    assert orders.rows().keys() == {1, 3, 5}
    assert flaws(orders) == ()
    orders.sends(("c", 2, "back", 2), at=AT + 90_000)
    orders.run("three")
    assert orders.rows()[2] == ("back", 2)
    with open_run(orders.stream, "view", RunRequest()) as run:
        sql = view_of(run, "spark", None, is_history=False)
    assert "`offset` < 6" in sql
    assert flaws(orders) == ()


@pytest.mark.slow
def test_a_rewind_over_the_snapshot_takes_the_sweep_back(orders):
    snapshot(orders, 1, 3, 5)
    orders.run("two")
    sweep(orders, 2)
    with open_run(orders.stream, "rewind", RunRequest(), orders.spark) as run:
        rewind_stream(run, RewindRequest("one", "it was wrong", "ann"))
    orders.fold()
    assert orders.rows().keys() == {1, 2, 3, 4, 5}
    assert orders.head.floors == ()
    orders.run("three")
    assert stale_rows(orders).rows == 2


@pytest.mark.slow
def test_a_snapshot_that_was_cut_off_sweeps_nothing(orders):
    """It has read some rows; the whole one before it is the first. One of one row follows."""
    orders.sends(*(("r", n, "again", n) for n in (1, 3)), snapshot="true", at=AT + 60_000)
    orders.run("two")
    assert stale_rows(orders).rows == 0


@pytest.mark.slow
def test_a_topic_that_was_created_again_sweeps_by_its_own_snapshot(orders):
    """Without one nothing is listed; with it rows of the old topic go that it has not read."""
    orders.more = {"on_reset": {"topic_recreated": "restart"}}
    orders.harness.delete()
    orders.harness.create(partitions=1)
    orders.sends(("u", 1, "c", 1), at=AT + 120_000)
    orders.run("two")
    assert orders.rows()[1] == ("c", 1)
    with pytest.raises(BadInput, match="no whole snapshot is decoded"):
        stale_rows(orders)
    snapshot(orders, 1, 3, 5, at=AT + 180_000)
    orders.run("three")
    assert stale_rows(orders).rows == 2
    sweep(orders, 2)
    assert orders.rows().keys() == {1, 3, 5}
    assert flaws(orders) == ()


@pytest.mark.slow
def test_what_nobody_has_decoded_is_no_ghost(orders, monkeypatch):
    """Key 4 was read again, and its record is in quarantine; then it is let go for its age."""
    orders.decode["quarantine"] = {"max_share": 1.0}
    orders.more["maintenance"] = {"quarantine_days": 1}
    snapshot(orders, 1, 3, 5)
    with closing(KafkaProducer(bootstrap_servers=orders.harness.broker.bootstrap_servers)) as kafka:
        kafka.send(orders.harness.topic(), value=b"{broken")
    orders.run("two")
    with pytest.raises(
        BadInput, match=r"since the snapshot began, partition 0 .* is in quarantine"
    ):
        stale_rows(orders)
    monkeypatch.setattr(maintaining, "now", lambda: now() + timedelta(days=2))
    with open_run(orders.stream, "maintain", RunRequest(), orders.spark) as run:
        tables = {"quarantine": open_tables(orders.stream)["quarantine"]}
        assert [u.expired.rows for u in maintain_stream(run, tables)] == [1]
    with pytest.raises(BadInput, match=r"partition 0 .* was removed by its age or by an erasure"):
        stale_rows(orders)
    assert orders.rows().keys() == {1, 2, 3, 4, 5}


@pytest.mark.slow
def test_a_partition_that_is_not_read_to_the_end_is_not_swept(harness, spark):
    """Its part of the snapshot is in Kafka still; what came later may be unread."""
    orders = Changing(harness, spark, partitions=2)
    orders.more = {"limits": {"max_records_per_partition": 2}}
    orders.sends(*(("r", n, "a", n) for n in (1, 2)), snapshot="last", at=AT)
    orders.run("one")
    orders.sends(("r", 1, "again", 1), snapshot="first", at=AT + 60_000)
    orders.sends(*(("c", n, "new", n) for n in (3, 4)), at=AT + 60_001, partition=1)
    orders.sends(("r", 5, "again", 5), snapshot="true", at=AT + 60_002, partition=1)
    orders.sends(("r", 2, "again", 2), snapshot="last", at=AT + 60_003)
    orders.run("two")
    with pytest.raises(BadInput, match=r"1 offsets of partition 1 are not landed \(tideline run"):
        stale_rows(orders)
    orders.run("three")
    for partition in range(2):
        orders.sends(("u", 3 + partition, "later", 3), at=AT + 120_000, partition=partition)
    assert stale_rows(orders).rows == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "why"),
    [
        ("below its floor", r"partition 1 \[2, 3\) is in quarantine"),
        ("the first one", r"partition 0 \[2, 3\) is in quarantine"),
        ("a clock ahead", r"3 offsets of partition 1 are not landed"),
        ("soon after another", r"less than 30 s before this snapshot began"),
    ],
)
def test_what_may_be_of_the_snapshot_has_to_be_decoded(harness, spark, which, why):
    """Also right below the first record of it that is; what is set aside tells no time."""
    orders = Changing(harness, spark, partitions=2)
    orders.decode["expect"] = [{"name": "small", "sql": "total < 1000", "on_fail": "quarantine"}]
    orders.decode["quarantine"] = {"max_share": 1.0}
    if which == "a clock ahead":
        orders.more = {"limits": {"max_records_per_partition": 3}}
    orders.sends(*(("r", n, "a", n) for n in (1, 2)), snapshot="last", at=AT)
    orders.sends(*(("c", n, "a", n) for n in (11, 12)), at=AT + 1000, partition=1)
    if which == "a clock ahead":
        orders.sends(("c", 77, "a", 5000), at=AT + 600_000, partition=1)
    orders.run("one")
    at = AT + (60_000 if which != "soon after another" else 2000)
    first = 5000 if which == "the first one" else 1
    orders.sends(("r", 1, "again", first), snapshot="first", at=at)
    orders.sends(("r", 2, "again", 2), snapshot="true", at=at)
    if which == "a clock ahead":
        orders.sends(("r", 2, "again", 2), snapshot="last", at=at + 2)
        orders.run("two")
    bad = 5000 if which == "below its floor" else 1
    orders.sends(("r", 11, "again", bad), snapshot="true", at=at + 1, partition=1)
    orders.sends(*(("r", 12, "again", n) for n in (1, 2)), snapshot="true", at=at + 1, partition=1)
    if which != "a clock ahead":
        orders.sends(("r", 2, "again", 3), snapshot="last", at=at + 2)
        orders.run("two")
    with pytest.raises(BadInput, match=why):
        stale_rows(orders)


@pytest.mark.slow
def test_brokers_times_of_several_partitions_tell_no_beginning(harness, spark):
    """A record that was sent later may have been appended earlier in another partition."""
    orders = Changing(harness, spark, partitions=2)
    admin = KafkaAdminClient(bootstrap_servers=harness.broker.bootstrap_servers)
    kind = {"message.timestamp.type": "LogAppendTime"}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, harness.topic(), kind)])
    admin.close()
    for n, mark in ((1, "first"), (2, "last")):
        orders.sends(("r", n, "a", n), snapshot=mark, partition=n % 2)
    orders.run("one")
    with pytest.raises(BadInput, match="LogAppendTime"):
        stale_rows(orders)


@pytest.mark.slow
def test_each_partition_has_its_own_beginning(harness, spark):
    """One of three has no record of the snapshot: its rows are all gone."""
    orders = Changing(harness, spark, partitions=3)
    for n in range(1, 7):
        mark = {1: "first", 6: "last"}.get(n, "true")
        orders.sends(("r", n, "a", n), snapshot=mark, at=AT + n, partition=n % 3)
    orders.run("one")
    orders.sends(("u", 4, "b", 4), at=AT + 1000, partition=1)
    for n, mark in ((1, "first"), (4, "true"), (2, "last")):
        orders.sends(("r", n, "again", n), snapshot=mark, at=AT + 60_000 + n, partition=n % 3)
    orders.sends(("c", 9, "new", 9), at=AT + 70_000, partition=0)
    orders.run("two")
    found = stale_rows(orders)
    assert {key["key_id"] for key in found.keys} == {"3", "5", "6"}
    assert [floor.offset for floor in found.floors] == [2, 3, 2]
    sweep(orders, 3)
    assert orders.rows().keys() == {1, 2, 4, 9}
    assert flaws(orders) == ()
    deleted = DeltaTable(orders.tables["current"]).to_pyarrow_table().to_pylist()
    assert sum(row["is_deleted"] for row in deleted) == 3


@pytest.mark.slow
def test_a_table_that_is_ordered_by_time_is_swept(harness, spark):
    """After a key has moved: floors and order are both of Kafka's time."""
    orders = Changing(harness, spark, partitions=2)
    orders.sends(*(("r", n, "a", n) for n in range(1, 5)), snapshot="last", at=AT)
    orders.run("one")
    orders.sends(("u", 1, "moved", 1), at=AT + 1000, partition=1)
    with pytest.raises(FoldingHalted, match="key_moved"):
        orders.run("two")
    decide(orders.stream, "by_time", orders.head.incidents[0].incident_id)
    orders.fold()
    for n, mark in ((1, "first"), (3, "last")):
        orders.sends(("r", n, "b", n), snapshot=mark, at=AT + 60_000 + n, partition=n % 2)
    orders.run("three")
    found = stale_rows(orders)
    assert {key["key_id"] for key in found.keys} == {"2", "4"}
    sweep(orders, 2)
    assert orders.rows() == {1: ("b", 1), 3: ("b", 3)}
    assert flaws(orders) == ()
    orders.fold("anew", "anew")
    assert orders.rows() == {1: ("b", 1), 3: ("b", 3)}


@pytest.mark.slow
def test_a_snapshot_whose_clock_went_back_keeps_what_it_has_read(harness, spark):
    """Offsets tell where it began in each partition; of one without a record the earliest time."""
    orders = Changing(harness, spark, partitions=3)
    for n in range(1, 4):  # one row in each partition
        mark = {1: "first", 3: "last"}.get(n, "true")
        orders.sends(("r", n, "a", n), snapshot=mark, at=AT + n, partition=n - 1)
    orders.run("one")
    late = AT + 60_000
    orders.sends(("r", 1, "again", 1), snapshot="first", at=late, partition=0)
    for n in (2, 5):
        orders.sends(("r", n, "again", n), snapshot="true", at=late - 1900, partition=1)
    orders.sends(("r", 1, "again", 1), snapshot="last", at=late + 5, partition=0)
    orders.sends(("c", 6, "since", 6), at=late - 1800, partition=2)
    orders.run("two")
    assert {key["key_id"] for key in stale_rows(orders).keys} == {"3"}
    sweep(orders, 1)
    assert orders.rows().keys() == {1, 2, 5, 6}
    assert flaws(orders) == ()


@pytest.mark.slow
def test_a_record_of_before_tells_no_partition_read(harness, spark):
    """Its clock was two seconds ahead; and a topic that is created again loses what is unread."""
    orders = Changing(harness, spark, partitions=2)
    orders.more = {"limits": {"max_records_per_partition": 2}}
    orders.sends(("r", 1, "a", 1), snapshot="last", at=AT)
    orders.sends(("r", 2, "a", 2), at=AT, partition=1)
    orders.run("one")
    orders.sends(("u", 3, "a", 3), at=AT + 62_000, partition=1)
    orders.sends(("r", 1, "b", 1), snapshot="last", at=AT + 60_000)
    orders.run("two")
    orders.sends(("r", 2, "b", 2), at=AT + 60_000, partition=1)
    with pytest.raises(BadInput, match="1 offsets of partition 1 are not landed"):
        stale_rows(orders)
    orders.harness.delete()
    orders.harness.create(partitions=2)
    with pytest.raises(BadInput, match="was created again, and no run has come since"):
        stale_rows(orders)


@pytest.mark.slow
def test_a_clock_that_went_back_in_one_partition_is_refused(harness, spark):
    """All that the snapshot has read there looks older than the end of the one before."""
    orders = Changing(harness, spark, partitions=2)
    for n, mark in ((1, "first"), (2, "true"), (3, "last")):
        orders.sends(("r", n, "a", n), snapshot=mark, at=AT + n, partition=n % 2)
    orders.run("one")
    orders.sends(("r", 1, "b", 1), snapshot="first", at=AT + 60_000, partition=1)
    orders.sends(("r", 2, "b", 2), snapshot="true", at=AT - 5, partition=0)
    orders.sends(("r", 3, "b", 3), snapshot="last", at=AT + 60_001, partition=1)
    orders.run("two")
    with pytest.raises(BadInput, match="may be of partition 0, where times of a snapshot go back"):
        stale_rows(orders)


@pytest.mark.slow
def test_a_change_of_a_clock_that_went_back_a_little_stays(harness, spark):
    """It came after the snapshot began, in a partition that the snapshot has not met."""
    orders = Changing(harness, spark, partitions=2)
    orders.sends(("r", 1, "a", 1), snapshot="last", at=AT)
    orders.sends(("r", 2, "a", 2), snapshot="false", at=AT, partition=1)
    orders.sends(("r", 1, "b", 1), snapshot="last", at=AT + 60_000)
    orders.sends(("c", 3, "new", 3), at=AT + 59_000, partition=1)
    orders.run("one")
    assert {key["key_id"] for key in stale_rows(orders).keys} == {"2"}


@pytest.mark.slow
def test_a_clock_that_went_back_behind_the_snapshot_before_is_refused(harness, spark):
    """Whose record is whose nobody knows then."""
    orders = Changing(harness, spark, partitions=1)
    orders.sends(*(("r", n, "a", n) for n in range(3)), snapshot="last", at=AT)
    orders.sends(*(("r", n, "b", n) for n in range(2)), snapshot="last", at=AT + 1000)
    orders.sends(("u", 1, "c", 1), at=AT - 1)
    orders.run("one")
    with pytest.raises(BadInput, match="the producer's clock went back"):
        stale_rows(orders)


def put_back_later(orders):
    """A copy of the ledger; what it returns puts the copy in the ledger's place."""
    ledger = folder_of(orders.stream.ledger_location.address)
    copy = ledger.with_suffix(".copy")
    shutil.copytree(ledger, copy)

    def put_back():
        shutil.rmtree(ledger)
        shutil.copytree(copy, ledger)

    return put_back


def test_a_sweep_that_the_ledger_has_forgotten_is_learned_from_the_tables_log(orders):
    """The fold's own commit has sealed it; a new order of changes cannot keep it, and says so."""
    snapshot(orders, 1, 3, 5)
    orders.run("two")
    put_back = put_back_later(orders)
    sweep(orders, 2)
    swept = orders.rows()
    put_back()
    orders.sends(("u", 1, "c", 1), at=AT + 90_000)
    orders.run("three")
    assert orders.rows() == {**swept, 1: ("c", 1)}
    assert (len(orders.head.floors), orders.head.unproven_since) == (1, None)
    assert flaws(orders) == ()
    new = {"buckets": 4, "uri": orders.tables["current"] + "_new"}
    orders.current = {"table": new, "sequence_by": ["timestamp"]}
    orders.decode["tombstones"] = "drop"
    orders.sends(("u", 1, "d", 1), at=AT + 95_000)
    orders.run("four")
    assert orders.head.unproven_since is not None
    properties = DeltaTable(orders.tables["current"]).metadata().configuration
    assert properties["tideline.unproven_since"] == orders.head.unproven_since.isoformat()
