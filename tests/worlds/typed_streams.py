"""A stream with typed tables on a real broker, with a real registry and a real Spark."""

import json
import os

from deltalake import DeltaTable
from kafka import KafkaProducer

from tests.worlds.raw_tables import avro
from tideline.model.request import RunRequest
from tideline.operations.redrive import decode_again
from tideline.pipeline.run_batch import decode_batch
from tideline.stream.stream import tables_of
from tideline.wiring import open_run

V1 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": "string"}],
}
V2 = V1 | {"fields": [V1["fields"][0], {"name": "total", "type": "double"}]}
WRONG = V1 | {"fields": [{"name": "id", "type": {"type": "array", "items": "string"}}]}


class Typed:
    """A stream with typed tables on a topic of its own; their addresses are the defaults."""

    def __init__(self, harness, registry, spark, name, **decode):
        self.harness, self.registry, self.spark = harness, registry, spark
        self.subject = f"{harness.name}-{name}-value"
        harness.create(partitions=2)
        self.section = {
            "value": {"format": "avro", "subject": self.subject},
            "table": {},
            "quarantine": {"max_share": 0.5},
            **decode,
        }
        self.name = name
        self.ids, self.limits = {}, {}
        self.connect(registry.connection["port"])

    def connect(self, port):
        """Where the runs look for the registry."""
        settings = self.registry.connection | {"port": port}
        os.environ["AIRFLOW_CONN_REGISTRY_OF_TESTS"] = json.dumps(settings)

    @property
    def stream(self):
        return self.harness.stream(
            name=self.name,
            registry={"connection": "registry_of_tests"},
            decode=self.section,
            limits=self.limits,
        )

    @property
    def tables(self):
        """The address of each table, by what it holds."""
        return tables_of(self.stream)

    def register(self, schema):
        self.ids[json.dumps(schema)] = self.registry.register(self.subject, json.dumps(schema))
        return self.ids[json.dumps(schema)]

    def send(self, schema, *records, partition=0):
        self.send_bytes(
            *(avro(schema, r, self.ids[json.dumps(schema)]) for r in records), partition=partition
        )

    def send_bytes(self, *values, partition=0, key=b"k"):
        producer = KafkaProducer(bootstrap_servers=self.harness.broker.bootstrap_servers)
        for value in values:
            producer.send(self.harness.topic(), key=key, value=value, partition=partition)
        producer.close()

    def run(self, run_id, **form):
        return self.harness.run(self.stream, run_id, self.spark, **form)

    def decode(self, run_id):
        with open_run(self.stream, run_id, RunRequest(), self.spark) as run:
            decode_batch(run)
            return run.decoded

    def decode_again(self, run_id, since=None):
        with open_run(self.stream, run_id, RunRequest(), self.spark) as run:
            return decode_again(run, since)

    def versions(self):
        return [DeltaTable(self.tables[t]).version() for t in ("decoded", "quarantine")]

    def rows(self, *columns):
        return rows_of(self.tables["decoded"], "partition", "offset", *columns)

    def bad(self, *columns):
        return rows_of(self.tables["quarantine"], "partition", "offset", *columns)


def rows_of(uri, *columns):
    found = DeltaTable(uri).to_pyarrow_table(columns=list(columns)).to_pylist()
    return sorted(tuple(row[c] for c in columns) for row in found)
