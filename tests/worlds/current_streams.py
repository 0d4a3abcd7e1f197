"""A stream of change events with a current table, on a real broker, with a real Spark."""

from deltalake import DeltaTable
from kafka import KafkaProducer

from tests.worlds.connect_json import field, of, record, schema
from tideline.model.request import RunRequest
from tideline.pipeline.run_batch import fold_batch, run_batch
from tideline.stream.stream import tables_of
from tideline.wiring import open_ledger, open_run

ROW = schema(
    field("id", of("int64")),
    field("note", of("string")),
    field("total", of("int64")),
    name="orders.Value",
)
SOURCE = schema(field("ts_ms", of("int64")), field("snapshot", of("string")))
EVENT = schema(
    field("before", ROW | {"optional": True}),
    field("after", ROW | {"optional": True}),
    field("source", SOURCE),
    field("op", of("string")),
)
KEY = schema(field("id", of("int64")), name="orders.Key")
GONE = "__debezium_unavailable_value"


class Changing:
    """A topic of change events, as Connect's JSON; each key in the partition that is named."""

    def __init__(self, harness, spark, *, partitions=1, name="orders", topic=None, **current):
        self.harness, self.spark, self.name = harness, spark, name
        self.current = {"table": {"buckets": 4}, **current}
        self.decode = {
            "value": {"format": "json", "framing": "connect", "envelope": "debezium"},
            "key": {"format": "json", "framing": "connect"},
        }
        self.more = {}
        self.no_value = None  # what a tombstone's value is
        harness.create(partitions=partitions, **(topic or {}))

    @property
    def stream(self):
        return self.harness.stream(
            name=self.name, decode=self.decode, current=self.current, **self.more
        )

    @property
    def tables(self):
        """The address of each table, by what it holds."""
        return tables_of(self.stream)

    def sends(self, *events, partition=0, snapshot="false", at=None, source_at=1_700_000_000_000):
        """Events as `(op, id, note, total)`; without `op` a tombstone, `t` without a key.

        Args:
            snapshot: The mark of the last one, unless it is `false`; the first one's is `first`.
            at: Kafka's time, in milliseconds since 1970; None for now.
            source_at: The database's.
        """
        producer = KafkaProducer(bootstrap_servers=self.harness.broker.bootstrap_servers)
        for number, (op, *row) in enumerate(events, 1):
            row = dict(zip(("id", "note", "total"), [*row, None, None, None], strict=False))
            key = None if op == "t" else record(KEY, {"id": row["id"]})
            is_inside = snapshot != "false" and number < len(events)
            mark = ("first" if number == 1 else "true") if is_inside else snapshot
            source = {"ts_ms": source_at, "snapshot": mark}
            before, after = (row, None) if op == "d" else (None, row)
            event = {"op": op, "before": before, "after": after, "source": source}
            event |= {"after": None, "before": None} if op == "t" else {}
            value = self.no_value if op is None else record(EVENT, event)
            producer.send(
                self.harness.topic(), key=key, value=value, partition=partition, timestamp_ms=at
            )
        producer.close()

    def run(self, run_id="run", **form):
        """A run through all steps; its context."""
        with open_run(self.stream, run_id, RunRequest(**form), self.spark) as run:
            run_batch(run)
            return run

    def fold(self, run_id="due", asked="due"):
        """`tideline fold`, or with `--anew`; what was folded."""
        with open_run(self.stream, run_id, RunRequest(), self.spark) as run:
            fold_batch(run, asked)
            return run.folded

    @property
    def head(self):
        """The fold's own head."""
        return open_ledger(self.stream).read().folding

    def rows(self):
        """The current table's live rows, by id: note and total."""
        found = DeltaTable(self.tables["current"]).to_pyarrow_table().to_pylist()
        keys = [row["key_id"] for row in found]
        assert len(keys) == len({*keys}), keys
        return {
            row["key_id"]: (row["note"], row["total"]) for row in found if not row["is_deleted"]
        }
