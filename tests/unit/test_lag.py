"""A run is due by what is unread behind the head; it is asked for again ever more seldom."""

import asyncio
import logging
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.worlds.build import ID, NOW, OTHER_ID, head, position
from tideline.airflow import lag_watch
from tideline.airflow.lag_watch import LagWatch
from tideline.errors import ServiceAway
from tideline.ledger.state import Control, LedgerState
from tideline.model.decoding import Decoding
from tideline.model.fleet import update_topics
from tideline.model.incident import Decision, Finding, Incident
from tideline.model.observation import Ends
from tideline.model.run import Rewind
from tideline.rules.lag import FIRST_WAIT, MOST_WAIT, Lag, asked, lag_of, may_ask, reason
from tideline.stream.contents import keep_topics
from tideline.stream.files import read_fleet

STREAM = """\
stream: {name}
kafka: {{connection: {connection}, topics: [{name}]}}
table: {{uri: /lake/{name}}}
schedule: "@daily"
trigger: {{lag_records: 100, lag_seconds: 60, poll_seconds: 5}}
"""


def ends(young=None, **topics):
    return Ends(topics, {60: young or {}})


def incident(finding, choice=None):
    decision = None if choice is None else Decision(choice, "ann", NOW, "it was meant")
    return Incident("incident-1", "halted", NOW, finding, decision=decision)


def test_lag_is_counted_from_the_head():
    """Also of partitions without a position; not of topics that are set aside."""
    known = head(
        position(100), position(50, partition=1), position(7, topic="old", topic_id=OTHER_ID)
    )
    known = replace(known, set_aside=("old",))
    found = ends(orders={0: 130, 1: 40, 2: 5}, old={0: 999}, others={0: 999})
    assert lag_of(known, ["orders"], found, None) == Lag(35)
    assert lag_of(head(), ["orders"], found, 60) == Lag(175)


def test_a_partition_that_was_retired_is_no_lag_while_its_topic_is_the_same():
    """No run takes it up again; a topic of that name that was created anew counts."""
    known = replace(head(), retired=(position(100),))
    found = ends(orders={0: 130, 1: 40})
    assert lag_of(known, ["orders"], replace(found, ids={"orders": ID}), 60) == Lag(40)
    assert lag_of(known, ["orders"], replace(found, ids={"orders": OTHER_ID}), 60) == Lag(170)
    followed = replace(head(position(20, topic_id=OTHER_ID)), retired=(position(100),))
    assert lag_of(followed, ["orders"], replace(found, ids={"orders": ID}), 60) == Lag(150)


def test_a_record_is_old_if_the_first_young_one_lies_beyond_the_head():
    known = head(position(100))
    assert not lag_of(known, ["orders"], ends({"orders": {0: 100}}, orders={0: 130}), 60).is_old
    assert lag_of(known, ["orders"], ends({"orders": {0: 101}}, orders={0: 130}), 60).is_old
    assert not lag_of(known, ["orders"], ends({"orders": {0: 130}}, orders={0: 130}), None).is_old
    read = head(position(130))
    assert not lag_of(read, ["orders"], ends({"orders": {0: 130}}, orders={0: 130}), 60).is_old


def test_either_of_both_bounds_makes_a_run_due():
    assert reason(Lag(99), 100, 60) is None
    assert reason(Lag(100), 100, 60) == "100 offsets are unread, 100 may be"
    assert reason(Lag(1, is_old=True), 100, 60) == "a record has waited for longer than 60 s"
    assert reason(Lag(10**9, is_old=True), None, None) is None


def test_while_the_head_stands_still_a_run_is_asked_for_ever_more_seldom():
    """A halted stream under steady traffic, a paused Dag: seven times in the first hour."""
    before, times, now = None, 0, 0.0
    while now < 3600:
        if may_ask(before, (), now):
            before, times = asked(before, (), now), times + 1
        now += 10
    assert times == 7
    assert before.wait == MOST_WAIT
    moved = (("orders", ID, 0, 0, 5),)
    assert may_ask(before, moved, now)
    assert asked(before, moved, now).wait == FIRST_WAIT


class World:
    """Streams in files; brokers and ledgers that say what a test wants."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.now = folder, 0.0
        self.log = {}
        self.heads, self.incidents, self.others, self.rewinds = {}, {}, {}, {}
        self.asked, self.read = [], []
        self.away, self.closed = set(), []
        self.open, self.young = {}, {}
        self.published = []
        monkeypatch.setattr(lag_watch, "KafkaCluster", self.cluster)
        monkeypatch.setattr(lag_watch, "kafka_settings", self.settings)
        monkeypatch.setattr(lag_watch, "open_ledger", self.ledger)
        monkeypatch.setattr(lag_watch, "publish", lambda m, v, **t: self.published.append((v, t)))
        self.watch = LagWatch(str(folder), clock=lambda: self.now)

    def stream(self, name, connection="one", more=""):
        text = STREAM.format(name=name, connection=connection) + more
        (self.folder / f"{name}.yaml").write_text(text)
        self.watch.join(name)
        self.log[name] = 0

    def settings(self, connection):
        return SimpleNamespace(less_patient=lambda: connection)

    def cluster(self, connection):
        def found(topics, ages):
            self.asked.append(connection)
            if connection in self.away:
                raise ServiceAway(f"{connection} is away")
            ends = {t: self.log[t] - self.open.get((t, level), 0) for t, level in topics.items()}
            young = {a: {t: {0: self.young[t]} for t in self.young} for a in ages}
            return Ends({t: {0: end} for t, end in ends.items()}, young)

        def there(pattern):
            self.asked.append(f"topics of {connection}")
            return {name: f"id of {name}" for name in self.log}

        def close():
            self.closed.append(connection)

        return SimpleNamespace(ends=found, topic_ids=there, close=close)

    def ledger(self, stream):
        def read(*_):
            self.read.append(stream.stream)
            if stream.stream in self.away:
                raise ServiceAway("the ledger is away")
            at = self.heads.get(stream.stream)
            known = head() if at is None else head(position(at, topic=stream.stream))
            mine = self.incidents.get(stream.stream, ())
            found = LedgerState(1, Control("ledger", stream.stream, incidents=mine), known)
            others = self.others.get(stream.stream, ())
            rewind = self.rewinds.get(stream.stream)
            found = replace(found, control=replace(found.control, rewind=rewind))
            return replace(found, decoding=Decoding(incidents=others))

        return SimpleNamespace(read=read, read_since=read)

    def poll(self, seconds=10):
        """The Dags that are told of at the next look."""
        self.now += seconds
        self.watch._folder._read_at = None
        due = {}
        for connection, files in self.watch._to_ask().items():
            due |= self.watch.look(connection, files)
        return due


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


def test_one_request_serves_all_streams_of_a_cluster(world):
    """Ledgers are read once, and then only of those that seem to be behind."""
    for n in range(20):
        world.stream(f"s{n}")
    world.stream("other", "two")
    assert world.poll() == {}
    assert sorted(world.asked) == ["one", "two"]
    assert len(world.read) == 21
    world.log["s3"] = 100
    assert world.poll()["s3"]["streams"] == {
        "s3": {"lag": 100, "why": "100 offsets are unread, 100 may be"}
    }
    assert world.read[21:] == ["s3"]


def test_a_head_that_has_moved_since_it_was_read_is_read_again(world):
    world.stream("a")
    world.poll()
    world.log["a"], world.heads["a"] = 150, 140
    assert world.poll() == {}
    assert world.read == ["a", "a"]


def test_lag_that_stays_is_told_again_and_again(world):
    """An event is lost where a Dag is paused; a capped run leaves lag."""
    world.stream("a")
    world.log["a"] = 1000
    told = []
    for tick in range(61):
        if world.poll():
            told.append(tick * 10)
    assert told == [0, 60, 180, 420]
    world.heads["a"] = 200
    assert "a" in world.poll()


def test_a_stream_that_would_halt_is_not_started(world):
    """Once somebody has decided it is."""
    world.stream("a")
    world.stream("b", more="on_incident: proceed\n")
    world.log = {"a": 500, "b": 500}
    finding = Finding("cluster_changed", "", "")
    world.incidents = dict.fromkeys("ab", (incident(finding),))
    assert set(world.poll()) == {"b"}
    world.incidents["a"] = (incident(finding, "restart"),)
    assert set(world.poll()) == {"a"}


def test_an_incident_that_halts_no_run_bars_none(world):
    """Of a topic that was taken out of the file; or the file has a policy since it was opened."""
    world.stream("a")
    world.stream("b", more="on_reset: {retention_loss: accept_loss}\n")
    world.stream("c")
    world.log = {"a": 500, "b": 500, "c": 500}
    world.incidents["a"] = (incident(Finding("topic_recreated", "", "", topic="old")),)
    for name in "bc":
        lost = Finding("retention_loss", "", "", topic=name, partition=0)
        world.incidents[name] = (incident(lost),)
    assert set(world.poll()) == {"a", "b"}


def test_a_head_that_went_back_is_seen_within_a_quarter_of_an_hour(world):
    """By a rewind, a decision, or an older ledger: nothing that the brokers say tells of it."""
    world.stream("a")
    world.log["a"], world.heads["a"] = 500, 500
    assert world.poll() == {}
    world.heads["a"] = 100
    told = [tick for tick in range(100) if world.poll()]
    assert told[0] * 10 <= MOST_WAIT


def test_a_rewind_that_is_not_finished_bars_all_runs(world):
    world.stream("a", more="on_incident: proceed\n")
    world.log = {"a": 500}
    world.rewinds["a"] = Rewind("rewind-1", "one", "why", "ann", NOW, "head-1")
    assert world.poll() == {}
    world.rewinds.clear()
    assert set(world.poll()) == {"a"}


def test_what_halts_no_landing_bars_no_run(world):
    """Records that cannot be decoded wait in the raw table; those in Kafka do not wait for ever."""
    world.stream("a")
    world.log = {"a": 500}
    world.others["a"] = (SimpleNamespace(is_decided=False),)
    assert set(world.poll()) == {"a"}


def test_what_an_incident_bars_is_no_lag(world):
    """A run would leave it unread, and be asked for again as soon as it had ended."""
    world.stream("a", more="on_incident: proceed\n")
    world.log["a"], world.heads["a"] = 500, 0
    bars = Finding("retention_loss", "", "", topic="a", partition=0)
    world.incidents["a"] = (incident(bars),)
    assert world.poll() == {}
    world.incidents["a"] = (incident(bars, "accept_loss"),)
    assert set(world.poll()) == {"a"}


def test_a_record_from_the_future_hides_no_waiting_one(world):
    """By time all that is unread is young; the head stands still, by the watch's own clock."""
    world.stream("a")
    world.log["a"], world.young["a"], world.heads["a"] = 50, 0, 0
    told = [tick for tick in range(12) if world.poll()]
    assert told == [7]
    world.heads["a"] = 20
    assert [world.poll() for _ in range(6)] == [{}] * 6


def test_each_isolation_level_has_its_own_end(world):
    world.stream("a")
    world.stream("b", more="")
    for name in "ab":
        text = (
            (world.folder / f"{name}.yaml").read_text().replace(f"topics: [{name}]", "topics: [t]")
        )
        level = "read_committed" if name == "a" else "read_uncommitted"
        text = text.replace("topics: [t]", f"topics: [t], isolation_level: {level}")
        (world.folder / f"{name}.yaml").write_text(text)
    world.log["t"], world.open["t", "read_committed"] = 500, 500
    assert set(world.poll()) == {"b"}


def test_a_new_topic_of_a_pattern_is_lag(world):
    """Before a run has seen it; of a stream that names its topics nobody asks for all of them."""
    world.stream("a")
    file = world.folder / "a.yaml"
    file.write_text(file.read_text().replace("topics: [a]", "topic_pattern: 'a.*'"))
    assert world.poll() == {}
    world.log |= {"a-new": 100, "other": 500}
    assert world.poll()["a"]["streams"]["a"]["lag"] == 100
    file.write_text(STREAM.format(name="a", connection="one"))
    world.asked.clear()
    assert world.poll() == {}
    assert world.asked == ["one"]


FLEET = """\
fleet: herd
topic_pattern: "h-.*"
leave_out: [h-out]
shards: 2
stream:
  stream: "{topic}"
  kafka: {connection: one}
  table: {uri: "/lake/{topic}"}
  schedule: "@daily"
  trigger: {lag_records: 100, poll_seconds: 5}
"""


def test_a_new_topic_of_a_fleet_starts_a_run_of_it(world):
    """Also the first one of all; once it is in the list its own head counts."""
    file = world.folder / "herd.yaml"
    file.write_text(FLEET)
    world.watch.join("herd")
    assert world.poll() == {}
    world.log |= {"h-a": 99, "h-out": 500, "others": 500}
    assert world.poll() == {}
    world.log["h-a"] = 120
    told = world.poll()["herd"]["streams"]
    assert told == {"h-a": {"lag": 120, "why": "120 offsets are unread, 100 may be"}}
    assert world.poll() == {}  # asked for; the next time in a minute
    keep_topics(read_fleet(file).fleet, file, update_topics(None, "herd", {"h-a": "id"}, NOW))
    world.heads["h-a"] = 120
    assert world.poll(100) == {}
    world.log |= {"h-b": 100, "h-a": 130}
    assert list(world.poll()["herd"]["streams"]) == ["h-b"]
    (world.folder / "herd.topics.json").write_text("{")
    world.log["h-a"] = 500  # a damaged list hides what is new, and nothing else is asked for
    assert world.poll(1000) == {}


def test_a_folder_that_is_back_is_well_again(world):
    world.stream("a")
    gone = world.folder.with_name("gone")
    world.folder.rename(gone)
    for _ in range(3):
        world.poll()
    gone.rename(world.folder)
    world.poll()
    assert [value for value, tags in world.published if tags == {"connection": ""}] == [1, 2, 3, 0]


def test_clusters_that_hang_hold_up_no_other(world):
    """However many there are: the triggerer's own threads are few."""
    for n in range(12):
        world.stream(f"hangs{n}", f"dead{n}")
    world.stream("a", "well")
    world.log["a"] = 500
    release, look = threading.Event(), world.watch.look

    def slow(connection, files):
        if connection.startswith("dead"):
            release.wait(20)
        return look(connection, files)

    world.watch.look = slow

    async def first():
        events = world.watch.events()
        found = await asyncio.wait_for(anext(events), 10)
        await events.aclose()
        return found

    try:
        assert set(asyncio.run(first())) == {"a"}
    finally:
        release.set()
        world.watch._executor.shutdown()


def test_what_is_away_is_said_once_and_holds_up_no_other(world, caplog):
    """An exception would fail every trigger that shares the poll."""
    world.stream("a")
    world.stream("b", "two")
    world.stream("c", "two")
    world.log = dict.fromkeys("abc", 500)
    world.away = {"one", "c"}
    with caplog.at_level(logging.WARNING, "tideline"):
        assert set(world.poll()) == {"b"}
        for _ in range(5):
            world.poll()
    assert len(caplog.records) == 2
    assert (6, {"connection": "one"}) in world.published
    assert world.closed == ["one"] * 6  # the next poll connects anew
    world.away.clear()
    assert set(world.poll()) >= {"a", "c"}
    assert (0, {"connection": "one"}) in world.published


def test_only_dags_with_a_watcher_are_asked_for(world):
    world.stream("a")
    world.log["a"] = 500
    world.watch.leave("a")
    assert world.poll() == {}
    assert world.asked == []


def test_no_cluster_is_asked_more_often_than_its_streams_want(world):
    world.stream("a")
    world.poll()
    world.poll(1)
    world.poll(4)
    assert world.asked == ["one", "one"]


def test_a_broken_folder_ends_nothing(world, caplog):
    world.stream("a")
    world.folder.rename(world.folder.with_name("gone"))
    with caplog.at_level(logging.WARNING, "tideline"):
        assert world.poll() == {}
    assert "the folder of stream files" in caplog.text


def test_all_triggers_share_one_poll_and_hear_of_their_own_dag():
    trigger_module = pytest.importorskip("tideline.airflow.lag_trigger")
    one, other = (trigger_module.LagTrigger(name, "/streams") for name in "ab")
    assert one.shared_stream_key() == other.shared_stream_key()
    assert one.serialize()[1] == {"dag_id": "a", "folder": "/streams"}

    async def raw():
        yield {"b": {"n": 1}}
        yield {"a": {"n": 2}, "b": {"n": 3}}

    async def heard():
        return [event.payload async for event in one.filter_shared_stream(raw())]

    assert asyncio.run(heard()) == [{"n": 2}]
    assert lag_watch.watch_of("/streams")._members["a"] == 0
