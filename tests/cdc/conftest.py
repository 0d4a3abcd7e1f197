"""A real PostgreSQL, and a real Debezium that tells its changes."""

import json
from contextlib import contextmanager
from copy import copy

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewPartitions

from devstack.debezium import Debezium, avro_converters
from devstack.postgres import Postgres
from devstack.process import wait_until


@pytest.fixture
def source():
    """A PostgreSQL that tells its changes."""
    found = Postgres(wal_level="logical").start()
    yield found
    found.remove()


@pytest.fixture
def capture(harness, registry, source, monkeypatch):
    """Begins to capture the tables of a database, until the test has ended."""
    begun = []

    def begin(format, database, *, partitions=1, table="orders", **settings):
        monkeypatch.setenv("AIRFLOW_CONN_REGISTRY_OF_CDC", json.dumps(registry.connection))
        begun.append(
            Captured(harness, registry, source, format, database, settings, partitions, table)
        )
        return begun[-1]

    yield begin
    for captured in begun:
        captured.connect.stop()


class Captured:
    """A topic of change events, as Connect's JSON or as Avro, and the stream that reads it.

    `connect` is its Debezium, which runs.

    Args:
        source: The PostgreSQL.
        format: `json` or `avro`.
        database: With the table.
        settings: More settings of the connector.
        partitions: Of the topics.
        table: Whose topic it is.
    """

    def __init__(self, harness, registry, source, format, database, settings, partitions, table):
        self.harness, self.source, self.format = harness, source, format
        prefix = f"{harness.name}-{format}"
        self.topic = f"{prefix}.public.{table}"
        adjusted = {"schema.name.adjustment.mode": format.replace("json", "none")}
        self.connect = Debezium(
            harness.folder / "connect",
            harness.broker.bootstrap_servers,
            database,
            prefix,
            partitions=partitions,
            settings=adjusted | settings,
            converters=avro_converters(registry) if format == "avro" else {},
        ).start()

    def of(self, table):
        """The same Debezium, and the topic of another table."""
        found = copy(self)
        found.topic = f"{self.topic.rpartition('.')[0]}.{table}"
        return found

    def stream(self, *, value=None, **more):
        """The stream; its typed table has the columns of the database's.

        Args:
            value: More of `decode.value`.
        """
        told = value or {}
        value = key = {"format": "json", "framing": "connect"}
        if self.format == "avro":
            parts = ("value", "key")
            value, key = ({"format": "avro", "subject": f"{self.topic}-{p}"} for p in parts)
            more |= {"registry": {"connection": "registry_of_cdc"}}
        return self.harness.stream(
            kafka={"connection": self.harness.connection, "topics": [self.topic]},
            decode={"value": {**value, "envelope": "debezium", **told}, "key": key},
            **more,
        )

    def end(self):
        """How many records the topic has; 0 if there is none. Fails where no more will come."""
        self.connect.refuse_failed()
        with self._consumer() as (consumer, places):
            return sum(consumer.end_offsets(places).values())

    def last_keys(self):
        """The keys of the partitions' last records, as far as they are read in time."""
        with self._consumer() as (consumer, places):
            consumer.assign(places)
            for place, end in consumer.end_offsets(places).items():
                consumer.seek(place, max(0, end - 1))
            return [r[-1].key or b"" for r in consumer.poll(timeout_ms=5000).values()]

    def forget(self, meanwhile):
        """Debezium loses its place; what happens meanwhile, it never tells. It reads all rows anew.

        Args:
            meanwhile: Called while it is away.
        """
        self.connect.stop()
        (self.connect.folder / "offsets").unlink()
        dropped = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
        wait_until(lambda: not self._slots("active"), "the slot is in use still", 30)
        self.source.execute(dropped)
        meanwhile()
        self.connect.start()

    def _slots(self, condition):
        return self.source.execute(f"SELECT 1 FROM pg_replication_slots WHERE {condition}")

    def grow(self, partitions):
        """The topic gets more partitions; Debezium is started again, and sees them."""
        admin = KafkaAdminClient(bootstrap_servers=self.harness.broker.bootstrap_servers)
        admin.create_partitions({self.topic: NewPartitions(partitions)})
        admin.close()
        self.connect.stop()
        self.connect.start()

    @contextmanager
    def _consumer(self):
        consumer = KafkaConsumer(bootstrap_servers=self.harness.broker.bootstrap_servers)
        try:
            found = consumer.partitions_for_topic(self.topic) or ()
            yield consumer, [TopicPartition(self.topic, number) for number in found]
        finally:
            consumer.close()
