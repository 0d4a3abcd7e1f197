"""A stream over the simulated world (`tests.simulation`), driven step by step in one thread."""

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.simulation.clock import Machine
from tests.simulation.kafka import HOLE, RECORD, Entry, Log
from tests.simulation.world import World
from tests.worlds.spark_doubles import HookedSpark
from tideline.errors import ResetDetected
from tideline.model.incident import Decision
from tideline.model.request import RunRequest, read_form
from tideline.operations.questions import audit_stream, dry_run
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.run_batch import run_batch
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges
from tideline.stream.stream import Stream

HOUR = timedelta(hours=1)


class Memory(World):
    """The topic `orders` with one partition, and whatever a test adds.

    `submits` counts the Spark applications. A run's Spark is the next of `sparks`, called with the
    one in memory; without any it is that one.
    """

    def __init__(self):
        super().__init__(self._read({}), {"orders": 1})
        self.submits, self.slept, self.sparks = 0, 0.0, []

    @staticmethod
    def _read(changes):
        base = {"stream": "s", "kafka": {"topics": ["orders"]}, "table": {"uri": "/lake/s"}}
        return Stream.model_validate({**base, "patience_seconds": 2, **changes})

    def configure(self, **changes):
        """The stream file has these keys from now on."""
        self.stream = self._read(changes)

    def machine(self):
        """Nobody else acts during a pause: the time passes."""
        machine: Machine = super().machine()
        machine.pause, machine.elapsed = self._sleep, lambda: self.slept
        return machine

    def _sleep(self, seconds):
        self.slept += seconds

    # ---- what happens to the cluster

    def log(self, partition=0, topic="orders"):
        """A partition's log."""
        return self.cluster.topics[topic].logs[partition]

    def topic_id(self, topic="orders"):
        """The id of a topic as it is now."""
        return self.cluster.topics[topic].topic_id

    def create(self, topic="orders", partitions=1):
        """A topic, or another incarnation of it; its id."""
        return self.new_topic(self.cluster, topic, partitions).topic_id

    def delete(self, topic="orders"):
        """It is gone."""
        del self.cluster.topics[topic]

    def grow(self, partitions):
        """The topic `orders` has so many."""
        logs = self.cluster.topics["orders"].logs
        logs += [Log() for _ in range(partitions - len(logs))]

    def send(self, count, partition=0, topic="orders"):
        """Records of now."""
        self.produce(topic, partition, count)

    def send_at(self, *times, partition=0):
        """A record of each time."""
        for at in times:
            entry = Entry(RECORD, len(self.origins), round(at.timestamp() * 1000))
            self.send(1, partition)
            self.log(partition).entries[-1] = entry

    def transaction(self, count, commits=True):
        """Records of a transaction, and its marker."""
        producer = self.number("producer")
        self.produce("orders", 0, count, producer)
        self.log().end_transaction(producer, commits, self.clock.epoch_ms())

    def expire(self, before, partition=0, topic="orders"):
        """The log starts there."""
        self.log(partition, topic).log_start = before

    def spoil(self, *offsets, partition=0, **facts):
        """Spark cannot read these; or the facts say what else is wrong with them."""
        entries = self.log(partition).entries
        for offset in offsets:
            entries[offset] = entries[offset]._replace(**(facts or {"is_broken": True}))

    def hole(self, *offsets):
        """The log has lost them."""
        self.spoil(*offsets, kind=HOLE)

    def swap_cluster(self, **topics):
        """The connection leads to another cluster, which has these topics with so many records."""
        cluster = self.new_cluster()
        self.connected_to = self.clusters.index(cluster)
        for topic, count in topics.items():
            self.create(topic)
            self.send(count, topic=topic)

    # ---- runs

    def open(self, run_id, **form):
        """A run's context, with a form as a trigger has it."""
        request = read_form(form, self.clock.now()) if form else RunRequest()
        run = self.context(None, run_id, request)
        spark = HookedSpark(run.spark, before=self._count)
        return replace(run, spark=self.sparks.pop(0)(spark) if self.sparks else spark)

    def _count(self):
        self.submits += 1

    def run(self, run_id, **form):
        """All steps; the closed record."""
        return run_batch(self.open(run_id, **form))

    def freeze(self, run_id, **form):
        """A run that dies after its plan was frozen."""
        run = self.open(run_id, **form)
        plan_offset_ranges(run)
        return detect_earliest_reset(run)

    def commit(self, run_id, **form):
        """A run that dies after the table's commit; its context for the steps after."""
        self.freeze(run_id, **form)
        run = self.open(run_id, **form)
        ingest_ranges(run)
        return run

    def halts(self, run_id="halted", **form):
        """The kinds of what a run halts at; nothing has moved."""
        before = (self.head, self.version)
        with pytest.raises(ResetDetected) as halted:
            self.run(run_id, **form)
        assert (self.head, self.version) == before
        return [incident.finding.kind for incident in halted.value.incidents]

    def halts_at(self, run_id):
        """The kinds of what a run halts at; before that it may have carried a decision out."""
        with pytest.raises(ResetDetected) as halted:
            self.run(run_id)
        return [incident.finding.kind for incident in halted.value.incidents]

    def save_ledger(self):
        """A backup of it."""
        store = self.store
        history = {kind: [*entries] for kind, entries in store.history.items()}
        self.saved = (store.version, dict(store.documents), history)

    def restore_ledger(self):
        """The backup in its place; nobody holds a lease."""
        store = self.store
        store.version, documents, history = self.saved
        store.documents = dict(documents)
        store.history = defaultdict(list, {kind: [*e] for kind, e in history.items()})
        self._state = None

    def rewind(self, to_run, reason="wrong filter", **asked):
        """As `tideline rewind` does."""
        return rewind_stream(self.open("rewind"), RewindRequest(to_run, reason, "ann", **asked))

    def look(self, **form):
        """What a run would do."""
        return dry_run(self.open("look", **form))

    # ---- people

    def decide(self, choice, incident_id=None, by="ann"):
        """Answer an open incident, the only one if none is named."""
        if incident_id is None:
            incident_id = self.incident.incident_id
        decision = Decision(choice, by, self.clock.now(), "it was meant")
        self.ledger().update(lambda state: state.with_decision(incident_id, decision))

    def delete_rows(self, unwanted):
        """Somebody else deletes rows, by offset."""
        kept = [row for row in self.table.rows() if not unwanted(row.offset)]
        self.table.add_foreign(kept, "DELETE", removes_rows=True)

    # ---- looking

    @property
    def incidents(self):
        """Those that are open."""
        return self.ledger().read().control.incidents

    @property
    def incident(self):
        """The only one."""
        (found,) = self.incidents
        return found

    @property
    def closed(self):
        """Incidents that were decided and carried out, or vanished."""
        return list(self.ledger().closed_incidents())

    @property
    def head(self):
        """Next offsets by topic and partition."""
        found = {}
        for position in self.ledger().read().head.positions:
            found[position.topic, position.partition] = position.next_offset
        return found

    @property
    def version(self):
        """The table's newest version."""
        return len(self.table.versions) - 1

    def rows(self, partition=None, generation=None):
        """Coordinates of the rows, sorted; a second copy would show here."""
        found = [
            (row.identity.topic_id, row.identity.generation, row.identity.partition, row.offset)
            for row in self.table.rows()
            if partition in (None, row.identity.partition)
            and generation in (None, row.identity.generation)
        ]
        assert len(set(found)) == len(found)
        return sorted(found)

    def offsets(self, partition=0):
        """Landed offsets of a partition."""
        return [offset for *_, offset in self.rows(partition)]

    def audit(self):
        """The audit, and what a run would find."""
        return audit_stream(self.open("audit"))

    def is_clean(self):
        """Whether an audit finds nothing."""
        audit, findings = self.audit()
        return audit.clean and not findings


def stands_at(world, name, place, work, times=1):
    """A process that stands still where it has come to a boundary for the n-th time."""
    process = world.start(name, work)
    while process.trace.count(f"@{place}") < times:
        process.go_on(1)
        assert not process.is_over, f"{name} never came to {place}: {process.trace}"
    return process


def wakes(process):
    """What a process that stood still ends with."""
    process.go_on()
    assert process.crash is None, repr(process.crash)
    return process.error


def hours(world, start, end):
    """A form that asks for a window."""
    at = (world.noon + n * HOUR for n in (start, end))
    return dict(zip(("from", "to"), (instant.isoformat() for instant in at), strict=True))


def spans(record):
    """Planned ranges as (partition, start, end)."""
    return [(r.partition, r.start_offset, r.end_offset) for r in record.plan.ranges]


def one_range(start, end, partition=0, topic="orders"):
    """A form that asks for one range."""
    at = {"topic": topic, "partition": partition, "start_offset": start, "end_offset": end}
    return {"ranges": [at]}
