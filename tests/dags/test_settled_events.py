"""A run that finishes what another one has begun to decode or to fold publishes its events."""

from collections import defaultdict
from contextlib import contextmanager

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from tests.simulation.clock import simulated
from tests.worlds.dying import dying
from tests.worlds.memory import Memory
from tideline.airflow import decode_operators, fleet_dags, fold_operators, telemetry
from tideline.airflow.forms import asset_of, decoded_assets
from tideline.airflow.step_operators import SparkStep
from tideline.fleet import batch
from tideline.fleet.batch import Batch, StreamRun
from tideline.model import metrics
from tideline.model.request import RunRequest
from tideline.pipeline.run_batch import decode_batch, land_batch, run_batch


class Outlet:
    """As Airflow's events of an outlet: of an alias with `add`."""

    def __init__(self):
        self.added, self.extra = [], None

    def add(self, asset, extra):
        self.added.append((asset.name, extra["plan_id"]))


@pytest.fixture
def world(monkeypatch):
    """A stream in memory whose tasks run there; what they publish."""
    memory = Memory()
    current = {"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}}
    memory.configure(decode={"value": {"format": "json"}}, current=current)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.gauges = {}

    @contextmanager
    def run_with_spark(task, context):
        yield memory.open(context["run_id"])

    def publish(metric, value, **tags):
        memory.gauges[metric.name] = value

    monkeypatch.setattr(SparkStep, "run_with_spark", run_with_spark)
    monkeypatch.setattr(telemetry, "publish", publish)
    with simulated(memory.machine()):
        with memory.ledger().lease("live"):
            pass
        memory.send(10)
        yield memory


def execute(task, run_id):
    """The task's return value, and the events that it has published."""
    context = {"run_id": run_id, "outlet_events": defaultdict(Outlet)}
    told = task.execute(context)
    return told, [event for outlet in context["outlet_events"].values() for event in outlet.added]


def test_a_decoding_that_another_run_finishes_has_its_event(world, monkeypatch):
    """A Dag that waits for the typed table would never hear of these rows; then nothing is left."""
    with dying(monkeypatch, "tideline.decoding.decode_execution", "decode:frozen"):
        world.run("dies")
    world.clock.milliseconds += 999_000  # its leases have run out
    assets = decoded_assets(world.stream)
    task = decode_operators.DecodeRows(task_id="decode_rows", stream=world.stream, assets=assets)
    assert [a.name for a in task.outlets] == ["tideline/s/decoded/settled"]
    told, events = execute(task, "next")
    plan = world.ledger().find_decoding("dies").plan.plan_id
    assert (told["plan_id"], events) == (plan, [("tideline/s/decoded", plan)])
    assert world.gauges[metrics.DECODED.name] == 10
    with pytest.raises(AirflowSkipException):
        execute(task, "later")


def test_what_is_decided_is_decoded_with_an_event_of_the_run_that_halted(world):
    world.configure(decode={"value": {"format": "json"}, "quarantine": {"max_share": 0.2}})
    world.spark.garbled = {*range(1, 8)}
    with pytest.raises(Exception, match="quarantine_share"):
        world.run("halts")
    world.decide("quarantine", "incident-1")
    assets = decoded_assets(world.stream)
    task = decode_operators.DecodeRows(task_id="decode_rows", stream=world.stream, assets=assets)
    _, events = execute(task, "next")
    assert events == [("tideline/s/decoded", world.ledger().find_decoding("halts").plan.plan_id)]
    assert world.gauges[metrics.DECODED.name] == 3


def test_a_fold_that_another_run_closes_has_its_event(world, monkeypatch):
    with dying(monkeypatch, "tideline.folding.fold_execution", "fold:committed"):
        world.run("dies")
    world.clock.milliseconds += 999_000
    asset = asset_of(world.stream, world.stream.current.table.uri, "current")
    task = fold_operators.FoldChanges(task_id="fold_changes", stream=world.stream, asset=asset)
    told, events = execute(task, "next")
    plan = world.ledger().find_fold("dies").plan.plan_id
    assert (told["plan_id"], events) == (plan, [("tideline/s/current", plan)])
    with pytest.raises(AirflowSkipException):
        execute(task, "later")


def test_a_run_outside_of_airflow_and_a_shard_of_a_fleet_know_it(world, monkeypatch):
    with dying(monkeypatch, "tideline.decoding.decode_execution", "decode:frozen"):
        world.run("dies")
    world.clock.milliseconds += 999_000
    run = world.open("next")
    land_batch(run)
    decode_batch(run)
    assert (run.decoded, [r.plan.run_id for r in run.settled]) == (None, ["dies"])
    landed = StreamRun("s", "nothing_to_do", settled=tuple(run.settled))
    assert landed.has_landed
    outlets = defaultdict(Outlet)
    fleet_dags._publish({"outlet_events": outlets}, world.stream, landed)
    plan = world.ledger().find_decoding("dies").plan.plan_id
    assert outlets[fleet_dags._LANDED].added == [("tideline/s/decoded", plan)]
    again = world.open("dies")
    run_batch(again)
    assert not again.settled  # its own, which it tells itself


def test_a_shard_s_retry_of_a_run_that_a_rewind_has_undone_decodes_and_folds_it(world, monkeypatch):
    """Cleared after the rewind it has landed again, and died: its decoding of before is no more."""
    world.run("one")
    world.send(10)
    world.run("two")
    world.rewind("one")
    land_batch(world.open("two"))

    @contextmanager
    def open_run(stream, run_id, request, spark):
        yield world.open(run_id)

    monkeypatch.setattr(batch, "open_run", open_run)
    (found,) = Batch("two", RunRequest(), threads=1, only_left=True).run([world.stream])
    assert (found.state, found.decoded.decoded) == ("closed_before", 10)
    state = world.ledger().read()
    assert (state.decoding.coverage, len(world.decoded.rows())) == (state.head.coverage, 20)
    assert state.folding.unfolded(state.decoding.coverage) == 0
