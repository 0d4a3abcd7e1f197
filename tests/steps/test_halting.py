"""Findings: halted, named, nothing read, nothing written, head unmoved."""

import pytest

from tests.worlds.build import NOW
from tideline.errors import AttemptFenced, BadInput, ReplayUnavailable, ResetDetected, ServiceAway
from tideline.pipeline.steps import advance_offsets, verify_ranges


def deleted(world):
    world.send(50)
    world.expire(130)


def recreated(world):
    world.create()
    world.send(200)


def wiped(world):
    world.log().elect(0)
    world.send(300)


FAULTS = {
    "deleted records": (deleted, "retention_loss", (100, 130)),
    "re-created and refilled past the position": (recreated, "topic_recreated", (0, 0)),
    "deleted": (lambda world: world.delete(), "topic_missing", (0, 0)),
    "wiped and refilled": (wiped, "truncation", (0, 100)),
    "another cluster": (lambda world: world.swap_cluster(orders=300), "cluster_changed", (0, 0)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_contradicts_the_ledger_halts_every_run(landed, fault):
    """One loss is one incident, however often the schedule comes round, and Spark is not asked."""
    happens, kind, lost = FAULTS[fault]
    happens(landed)
    for run_id in ("first", "second"):
        assert landed.halts(run_id) == [kind]
    assert (landed.incident.run_id, landed.submits) == ("first", 1)
    found = landed.incident.finding
    assert (found.lost_start or 0, found.lost_end or 0) == lost


@pytest.mark.parametrize("policy", ["fail", "approve"])
def test_a_stream_that_halts_goes_on_telling_how_long_retention_leaves_it(landed, policy):
    """While somebody decides, what is unread grows old: its oldest readable record is measured."""
    landed.configure(on_reset=policy)
    landed.cluster.topics["orders"].config["retention.ms"] = "60000"
    deleted(landed)
    landed.send_at(*[NOW] * 5)
    landed.expire(150)
    landed.halts()
    (left,) = landed.ledger().read().head.headroom
    assert (left.partition, left.next_offset, left.written_at) == (0, 150, NOW)
    assert left.retention_ms == 60_000


def test_a_recreated_topic_is_told_by_its_ids(landed):
    """Only they tell."""
    old = landed.topic_id()
    recreated(landed)
    landed.halts()
    assert old in str(landed.incident.finding)
    assert landed.topic_id() in str(landed.incident.finding)


def test_a_deleted_topic_halts(landed):
    """Gone is not empty."""
    landed.delete()
    assert landed.halts() == ["topic_missing"]


def test_a_topic_that_a_pattern_no_longer_lists_is_missed(memory):
    """R14: known topics are asked for by name; the pattern alone would forget it."""
    memory.create("orders-b")
    memory.configure(kafka={"topic_pattern": "orders.*"})
    memory.send(5)
    memory.run("lands")
    memory.delete("orders-b")
    assert memory.halts() == ["topic_missing"]
    assert memory.incident.finding.place == "orders-b"


def test_another_cluster_s_topics_are_not_adopted(landed):
    """Or they would be missed for good once the connection points back."""
    landed.configure(kafka={"topic_pattern": "orders.*"})
    landed.swap_cluster(**{"orders-b": 5})
    assert landed.halts() == ["cluster_changed"]
    landed.connected_to = 0
    landed.send(5)
    assert landed.run("back").status == "done"
    assert not landed.incidents


@pytest.mark.parametrize("mood", ["away", "fault", "lagging"])
def test_brokers_that_answer_badly_are_no_finding(landed, mood):
    """Retriable; nothing moved, no incident."""
    landed.log().elect(100)
    landed.cluster.moods = [mood] * 50
    before = landed.head
    with pytest.raises(ServiceAway):
        landed.run("away")
    assert (landed.head, landed.incidents) == (before, ())


def test_a_clean_election_is_no_finding(landed):
    """The epoch changes, the log does not."""
    landed.log().elect(100)
    landed.send(10)
    landed.run("after")
    assert landed.offsets() == list(range(110))


def test_a_table_that_was_dropped_under_an_open_plan_is_not_made_anew(landed):
    """The rows of earlier runs were in it."""
    landed.send(10)
    landed.freeze("open")
    landed.table.table_id, landed.table.versions = None, []
    with pytest.raises(ResetDetected, match="the table is gone"):
        landed.run("open")
    assert landed.table.table_id is None


def test_a_topic_that_was_recreated_while_it_was_read_blocks_the_advance(landed):
    """Spark reads by name: the rows may be another incarnation's (R7)."""
    landed.send(10)
    run = landed.commit("doubtful")
    recreated(landed)
    with pytest.raises(ResetDetected, match="topic_recreated"):
        verify_ranges(run)
    with pytest.raises(BadInput, match="not verified"):
        advance_offsets(run)
    assert landed.head == {("orders", 0): 100}


def test_a_topic_that_was_recreated_after_verifying_blocks_the_advance(landed):
    """In Airflow hours may lie between two tasks; the log is asked once more (R7)."""
    landed.send(10)
    run = landed.commit("verified")
    verify_ranges(run)
    recreated(landed)
    with pytest.raises(ResetDetected, match="topic_recreated"):
        advance_offsets(run)
    assert landed.head == {("orders", 0): 100}


def test_a_log_start_that_moved_after_the_read_blocks_nothing(landed):
    """The rows are here."""
    landed.send(10)
    run = landed.commit("moved")
    landed.expire(110)
    verify_ranges(run)
    assert advance_offsets(run).status == "done"


def test_an_empty_ledger_beside_a_filled_table_is_refused(landed):
    """Starting over would land everything again under another ledger."""
    landed.location = "/lake/another-ledger"
    version = landed.version
    with pytest.raises(ResetDetected, match="another ledger"):
        landed.run("anew")
    assert landed.version == version


@pytest.mark.parametrize(
    ("stream", "said"), [("second", "belongs to another stream"), ("", "not created by Tideline")]
)
def test_a_table_of_somebody_else_is_refused(memory, stream, said):
    """Two heads over one table would not know of each other; nothing in it is ours to replace."""
    memory.context(None, "x", None).table.create(stream or None, "l" if stream else None, [])
    memory.send(5)
    with pytest.raises(ResetDetected, match=said):
        memory.run("run")
    assert memory.version == 0


def test_a_topic_that_never_was_is_bad_input(memory):
    """A typing error, not a loss."""
    memory.configure(kafka={"topics": ["nowhere"]})
    with pytest.raises(BadInput, match="no such topic"):
        memory.run("run")


def test_a_replay_that_kafka_cannot_serve_is_refused_and_the_rows_stay(landed):
    """It says what is still there."""
    landed.expire(60)
    with pytest.raises(ReplayUnavailable, match=r"still there: \[60, 100\)"):
        landed.run("lands")
    assert len(landed.rows()) == 100


def test_a_table_that_was_put_back_before_the_advance_is_a_finding(landed):
    """An older copy: its commit is gone, and no task was cleared in a wrong order."""
    landed.send(10)
    run = landed.commit("put back")
    verify_ranges(run)
    del landed.table.versions[-1]
    with pytest.raises(ResetDetected, match="table_changed"):
        advance_offsets(run)
    assert landed.head == {("orders", 0): 100}


def appended(table):
    """Others commit until the table's version is what it was."""
    table.add_foreign(table.rows(), "WRITE", removes_rows=False)
    table.add_foreign(table.rows(), "WRITE", removes_rows=False)


@pytest.mark.parametrize("goes_on", [lambda table: None, appended], ids=["older", "as new"])
def test_a_table_that_was_put_back_before_it_was_verified_is_a_finding(landed, goes_on):
    """An older copy than the ledger knows: to clear a task would not bring its rows back."""
    landed.send(10)
    run = landed.commit("put back")
    del landed.table.versions[-2:]
    goes_on(landed.table)
    with pytest.raises(ResetDetected, match="table_changed"):
        verify_ranges(run)
    assert landed.head == {("orders", 0): 100}
    landed.decide("approve")
    assert landed.run("put back").status == "done"
    landed.run("lands")
    assert landed.is_clean()


def test_a_verified_commit_that_is_gone_is_a_finding_of_verifying_too(landed):
    """Whoever has cleared that task alone is not told to ingest: another program was here."""
    landed.send(10)
    run = landed.commit("put back")
    verify_ranges(run)
    del landed.table.versions[-1]
    with pytest.raises(ResetDetected, match=r"table_changed: .*vanished"):
        verify_ranges(run)


def test_a_table_put_back_to_what_the_ledger_knows_is_as_if_nothing_had_landed(landed):
    """The plan is read again by the same run; nothing is lost, nothing stands twice."""
    landed.send(10)
    run = landed.commit("put back")
    del landed.table.versions[-1]
    with pytest.raises(AttemptFenced, match="run ingest_ranges first"):
        verify_ranges(run)
    assert landed.run("put back").status == "done"
    assert len(landed.rows()) == 110
    assert landed.is_clean()


def test_closed_runs_land_again_in_a_copy_much_older_than_their_commits(landed):
    """As the finding says; each finds the commit that it makes there."""
    for name in ("two", "three"):
        landed.send(10)
        landed.run(name)
    del landed.table.versions[1:]
    assert landed.halts("four") == ["table_changed"]
    landed.decide("approve")
    landed.run("four")
    for name in ("three", "two", "lands"):
        assert landed.run(name).status == "done"
    assert len(landed.rows()) == 120
    assert landed.is_clean()


def test_a_partition_without_a_leader_holds_up_no_other_where_runs_may_proceed(landed):
    """Its position stays, and what comes there later is landed once it answers; `halt` waits."""
    landed.grow(2)
    landed.run("both")
    for partition in (0, 1):
        landed.send(10, partition)
    landed.log(1).has_leader = False
    with pytest.raises(ServiceAway, match="an answer of the leader"):
        landed.run("waits")
    landed.configure(on_incident="proceed")
    before = {p.partition: p.next_offset for p in landed.ledger().read().head.positions}
    landed.run("proceeds")
    after = {p.partition: p.next_offset for p in landed.ledger().read().head.positions}
    assert after == {0: before[0] + 10, 1: before[1]}
    assert landed.ledger().read().open_incidents == ()
    landed.log(1).has_leader = True
    landed.run("again")
    assert landed.is_clean()
    after = {p.partition: p.next_offset for p in landed.ledger().read().head.positions}
    assert after[1] == before[1] + 10


@pytest.mark.parametrize("is_decided", [False, True])
def test_an_incident_stays_while_its_partition_has_no_leader(memory, is_decided):
    """Nobody has told that it is gone; what was decided is carried out once the leader is back."""
    memory.configure(on_incident="proceed")
    memory.grow(2)
    memory.send(20)
    memory.send(20, partition=1)
    memory.run("one")
    memory.log(1).elect(10)
    memory.send(3, partition=1)
    memory.send(5)
    assert memory.halts("two") == ["truncation"]
    if is_decided:
        memory.decide("restart")
    memory.log(1).has_leader = False
    memory.send(5)
    memory.run("three")
    assert memory.ledger().read().head.positions[0].next_offset == 30
    (incident,) = memory.ledger().read().open_incidents
    assert (incident.incident_id, incident.is_decided) == ("incident-1", is_decided)
    memory.log(1).has_leader = True
    memory.run("four")
    still = [i.incident_id for i in memory.ledger().read().open_incidents]
    assert still == ([] if is_decided else ["incident-1"])


def test_a_new_partition_without_a_leader_is_waited_for(landed):
    """It has no position yet, and might begin too late."""
    landed.configure(on_incident="proceed")
    landed.grow(2)
    landed.log(1).has_leader = False
    with pytest.raises(ServiceAway):
        landed.run("waits")
