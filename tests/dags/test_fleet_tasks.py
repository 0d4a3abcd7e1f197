"""The tasks of a fleet's Dag: which streams are theirs, and what they tell."""

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)

from tests.worlds.build import NOW
from tideline.airflow import fleet_dags
from tideline.airflow.fleet_dags import LandShard, TellShard
from tideline.errors import Halted, StreamBusy
from tideline.fleet.batch import StreamRun, shard_of
from tideline.model.run import RunRecord, TableCommit
from tideline.stream.files import parse_stream

NAMES = [f"t{n}" for n in range(12)]


def stream(name):
    text = f"stream: {name}\nkafka: {{topics: [{name}]}}\ntable: {{uri: /lake/{name}}}\n"
    return parse_stream(text, "x.yaml")


def landed(name):
    commit = TableCommit("id", 1, 1, 0, 0)
    return StreamRun(
        name, "done", record=RunRecord("run-1", "live", "done", "d", NOW, table_commit=commit)
    )


class World:
    """A fleet whose file says six shards, and what its batch comes to."""

    def __init__(self, monkeypatch):
        self.streams = [stream(name) for name in NAMES]
        self.asked, self.outcomes, self.told, self.left = [], {}, [], {}
        fleet = SimpleNamespace(shards=6, threads=2)
        contents = SimpleNamespace(
            fleet=fleet, streams=self.streams, problems=(), is_discovered=True
        )
        monkeypatch.setattr(fleet_dags, "read_fleet", lambda _: contents)
        monkeypatch.setattr(fleet_dags, "Batch", self.batch)
        monkeypatch.setattr(fleet_dags, "acting_user", lambda _: None)
        monkeypatch.setattr(fleet_dags, "require_operator", lambda *_: None)
        monkeypatch.setattr(fleet_dags, "_publish", lambda _, s, run: self.told.append(s.stream))
        monkeypatch.setattr(fleet_dags, "open_ledger", self.ledger)
        self.task = SimpleNamespace(
            try_number=1,
            get_first_reschedule_date=lambda _: None,
            xcom_push=self.left.__setitem__,
            xcom_pull=lambda key, **_: key == "looked" or self.left.get(key),
            get_ti_count=self.count,
        )
        run = SimpleNamespace(run_id="run-1", dag_id="herd", conf={}, run_type="manual")
        self.context = {"dag_run": run, "ti": self.task}

    def batch(self, *_, **given):
        self.given = given

        def run(streams):
            self.asked += [s.stream for s in streams]
            return [self.outcomes.get(s.stream) or landed(s.stream) for s in streams]

        return SimpleNamespace(run=run)

    def ledger(self, stream):
        return SimpleNamespace(
            find_run=lambda _: None, find_decoding=lambda _: None, find_fold=lambda _: None
        )

    def count(self, *, states, **of):
        assert of == {"dag_id": "herd", "task_ids": ["land_shard"], "run_ids": ["run-1"]}
        assert {"null", "running", "up_for_reschedule"} <= {*states}
        assert "removed" not in states
        return 4

    def lands(self, shard):
        LandShard(task_id="land_shard", file="f", shard=shard).execute(self.context)

    def tells(self, shard=0):
        TellShard(task_id="tell_shard", file="f", shard=shard).execute(self.context)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_run_lands_by_the_number_of_shards_that_it_began_with(world):
    """Whatever the file says by now: each topic is in one task of the run."""
    for shard in range(4):
        with pytest.raises(DownstreamTasksSkipped) as skipped:
            world.lands(shard)
        assert skipped.value.tasks == [("tell_shard", shard)]
    assert sorted(world.asked) == sorted(NAMES)
    assert world.told == world.asked
    assert world.given["only_left"] is False


def test_a_look_that_has_failed_turns_the_run_red(world):
    """Once what is known has landed: a topic that nobody took up lands nowhere."""
    world.task.xcom_pull = lambda **_: None
    with pytest.raises(AirflowFailException, match="discover_topics has not ended well"):
        world.lands(0)
    with pytest.raises(DownstreamTasksSkipped):
        world.lands(1)
    assert len(world.asked) == sum(shard_of(stream(n), 4) < 2 for n in NAMES)


def test_what_a_failed_shard_has_landed_is_told_by_the_other_task(world):
    """Airflow publishes nothing of a task that fails; after a killed one all ledgers are asked."""
    mine = [n for n in NAMES if shard_of(stream(n), 4) == 0]
    world.outcomes[mine[0]] = StreamRun(mine[0], "halted", error=Halted("lost", incidents=()))
    with pytest.raises(AirflowFailException, match="lost"):
        world.lands(0)
    assert world.told == []
    world.tells()
    assert world.told == mine[1:]
    world.left.clear()
    world.tells()
    assert world.told == [*mine[1:], *mine]
    world.left["landed"] = []
    with pytest.raises(AirflowSkipException):
        world.tells()


def test_what_others_hold_of_a_window_comes_again(world):
    """Without a try; and then only what is left is landed."""
    mine = [n for n in NAMES if shard_of(stream(n), 4) == 1]
    busy = StreamBusy("held", lease="writer")
    world.outcomes[mine[0]] = StreamRun(mine[0], "retry", error=busy)
    with pytest.raises(AirflowRescheduleException):
        world.lands(1)
    world.task.get_first_reschedule_date = lambda _: NOW
    world.outcomes.clear()
    with pytest.raises(DownstreamTasksSkipped):
        world.lands(1)
    assert world.given["only_left"] is True


@pytest.mark.parametrize("key", ["plan_only", "ranges", "reason"])
def test_a_form_of_a_stream_is_none_of_a_fleet_s(world, key):
    world.context["dag_run"].conf = {key: True}
    with pytest.raises(AirflowFailException, match="unknown key; allowed: from, to"):
        world.lands(0)
    assert world.asked == []
