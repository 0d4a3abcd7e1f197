"""A table and a ledger with two landed runs, without a broker and without Spark.

Rows are written by deltalake with the metadata of a run's commit; the cluster is a description.
"""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.worlds.build import head, observation, plan, planned, position, seen, topic
from tests.worlds.rows import raw_rows
from tideline.landing.context import RunContext
from tideline.model.plan import VerifiedRange
from tideline.model.request import RunRequest
from tideline.model.run import RunRecord, TableCommit
from tideline.operations.questions import require_clean
from tideline.rules.advance import advance_head
from tideline.stream.stream import Stream
from tideline.table.delta_table import TargetTable
from tideline.table.schema import app_id, commit_metadata
from tideline.wiring import open_ledger

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BY = ["topic_id", "partition"]


def rows(start, end, copies=1, **others):
    """Rows of one log as a run lands them."""
    return raw_rows((o for o in range(start, end) for _ in range(copies)), **others)


class Cluster:
    """A broker that has everything that was ever landed."""

    end = 300

    def observe(self, topics, epochs):
        return observation(topic(seen(end=self.end), seen(end=self.end, partition=1)))

    def compacted(self, topics):
        return set()


class Lake:
    """A stream with a table and a ledger: two runs of 100 records in each of two partitions."""

    def __init__(self, folder):
        self.uri = str(folder / "lake" / "orders")
        self.stream = Stream.model_validate(
            {
                "stream": "orders",
                "kafka": {"connection": "kafka", "topics": ["orders"]},
                "table": {"uri": self.uri, "partition_by": BY},
            }
        )
        self.ledger = open_ledger(self.stream)

    @property
    def run(self):
        return self.open("audit")

    def open(self, run_id, **request):
        """A run's context; there is no Spark to be started."""
        table, asked = TargetTable(self.uri), RunRequest(**request)
        return RunContext(self.stream, run_id, asked, self.ledger, Cluster, table, None)

    def build(self):
        state = self.ledger.update(lambda s: s.with_head(head(position(0), position(0, 1))))
        TargetTable(self.uri).create("orders", state.control.ledger_id, BY)
        self.land("first", 0, 100)
        self.land("second", 100, 200)
        assert require_clean(self.run).rows == 400
        return self

    def land(self, run_id, start, end, lane="live"):
        """What a run leaves in table and ledger."""
        state = self.ledger.update(lambda s: s.with_next_token())
        ledger_id, token = state.control.ledger_id, state.control.token
        frozen = plan(
            planned(start, end),
            planned(start, end, partition=1),
            run_id=run_id,
            plan_id=f"plan-{run_id}",
            lane=lane,
        )
        metadata = commit_metadata(
            ledger_id=ledger_id,
            plan_id=frozen.plan_id,
            run_id=run_id,
            token=token,
            ranges=frozen.ranges,
            rows=2 * (end - start),
        )
        properties = CommitProperties(
            custom_metadata={"userMetadata": metadata},
            app_transactions=[Transaction(app_id(ledger_id), token)],
        )
        both = [rows(start, end, partition=p, plan_id=frozen.plan_id) for p in (0, 1)]
        write_deltalake(
            self.uri, pa.concat_tables(both), mode="append", commit_properties=properties
        )
        table = DeltaTable(self.uri)
        made = TableCommit(str(table.metadata().id), table.version(), token, 2 * (end - start), 9)
        done = RunRecord(run_id, lane, "done", "digest", NOW, plan=frozen, table_commit=made)
        verified = tuple(VerifiedRange(r, end - start, ()) for r in frozen.ranges)
        self.ledger.update(lambda s: s.with_run(replace(done, status="planned")))
        self.ledger.update(
            lambda s: s.with_head(advance_head(s.head, frozen, made)).with_run(
                replace(done, verified=verified)
            )
        )

    def append(self, data):
        write_deltalake(self.uri, data, mode="append")

    def file(self, partition=0):
        """The data file of the first run in one partition."""
        (path,) = self.added(1, partition)
        return Path(self.uri, path)

    def added(self, version, partition):
        adds = [a["add"] for a in self.log(version) if "add" in a]
        wanted = str(partition)
        return [a["path"] for a in adds if a["partitionValues"]["partition"] == wanted]

    def log(self, version):
        return [json.loads(line) for line in self.commit_file(version).read_text().splitlines()]

    def commit_file(self, version):
        return Path(self.uri, "_delta_log", f"{version:020d}.json")

    def write_log(self, version, *actions):
        text = "".join(json.dumps(action) + "\n" for action in actions)
        self.commit_file(version).write_text(text)

    def replace_file(self, data):
        """Another file under the same name; the log still has the first one's statistics."""
        pq.write_table(data.drop_columns(BY), self.file())

    def head(self, change):
        self.ledger.update(lambda s: s.with_head(change(s.head)))


def hide_rows(lake):
    """As Delta's own writer leaves it: the protocol, and a file with rows taken out of it."""
    version = DeltaTable(lake.uri).version() + 1
    add = next(a["add"] for a in lake.log(1) if "add" in a)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    vector = {"storageType": "u", "pathOrInlineDv": "x" * 20, "sizeInBytes": 9, "cardinality": 20}
    lake.write_log(
        version,
        {"commitInfo": {"operation": "DELETE"}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}},
        {"add": add | {"deletionVector": vector}},
    )


def overwrite_commit(lake):
    """Another engine puts its own version 2 over ours, and commits on."""
    lake.append(rows(5, 6, partition=1))
    foreign = lake.log(3)
    lake.commit_file(3).unlink()
    lake.write_log(2, *foreign)


def replace_table(lake, stream="orders"):
    """Deleted and created anew, with the same mark or another stream's."""
    ledger_id = lake.ledger.read().control.ledger_id
    shutil.rmtree(lake.uri, ignore_errors=True)
    TargetTable(lake.uri).create(stream, ledger_id, BY)


def map_columns(uri, renamed=None):
    """Column mapping by name, as Spark's ALTER TABLE leaves it; and a column under another name."""
    log = Path(uri, "_delta_log")
    lines = (log / f"{0:020d}.json").read_text().splitlines()
    action = next(a for line in lines if "metaData" in (a := json.loads(line)))["metaData"]
    schema = json.loads(DeltaTable(uri).schema().to_json())
    number = count(1)

    def mapped(kind):
        if isinstance(kind, dict):
            mapped(kind.get("elementType"))
            for field in kind.get("fields", ()):
                names = {"id": next(number), "physicalName": field["name"]}
                field["metadata"] |= {f"delta.columnMapping.{k}": v for k, v in names.items()}
                mapped(field["type"])
                field["name"] = "renamed" if field["name"] == renamed else field["name"]

    mapped(schema)
    action["schemaString"] = json.dumps(schema)
    last = str(next(number) - 1)
    added = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": last}
    action["configuration"] |= added
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    text = "".join(json.dumps(line) + "\n" for line in (protocol, {"metaData": action}))
    (log / f"{DeltaTable(uri).version() + 1:020d}.json").write_text(text)
