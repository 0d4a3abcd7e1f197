"""A stream on a real broker: its topics, its producers, its file, its runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from devstack.broker import Broker
from devstack.process import wait_until
from devstack.sample import ProducerLog
from tideline.launch.job import SparkPort
from tideline.model.incident import Finding
from tideline.model.request import RunRequest, read_form
from tideline.model.run import RunRecord
from tideline.operations.questions import audit_stream
from tideline.pipeline.run_batch import run_batch
from tideline.rules.audit import Audit
from tideline.stream.files import read_stream
from tideline.stream.stream import Stream
from tideline.wiring import open_run


class StreamHarness:
    """Topics and streams under one name on a broker that others use as well.

    Args:
        broker: Where the topics are.
        folder: For stream files, and for the lake with the tables.
        name: Prefix of every name on the broker.
        keeps_spark_warm: Whether the streams leave `spark.keep_warm_seconds` as it comes. Otherwise
            each run ends its driver, and no test meets the driver of another one.

    With `TIDELINE_TEST_BUCKET`, an address as in `s3a://lake`, the lake lies in an object store;
    the variables of this process say how that is reached.
    """

    def __init__(
        self, broker: Broker, folder: Path, name: str, *, keeps_spark_warm: bool = False
    ) -> None:
        self.broker = broker
        self.folder = folder
        self.name = name
        self.lake = f"{os.environ.get('TIDELINE_TEST_BUCKET', '')}{folder}/lake"
        self._spark = {} if keeps_spark_warm else {"keep_warm_seconds": 0}
        self.log = ProducerLog(broker.bootstrap_servers)
        self.connect(broker.bootstrap_servers)
        os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = '{"conn_type": "spark", "host": "local[2]"}'

    @property
    def connection(self) -> str:
        """Id of the Kafka connection."""
        return "kafka_" + self.name.replace("-", "_")

    def connect(self, bootstrap_servers: str, **extra: object) -> None:
        """Let the streams' runs use these servers; the producer keeps the broker's own."""
        settings: dict[str, object] = {"bootstrap.servers": bootstrap_servers}
        settings |= {name.replace("_", "."): value for name, value in extra.items()}
        os.environ[f"AIRFLOW_CONN_{self.connection.upper()}"] = json.dumps(
            {"conn_type": "kafka", "extra": settings}
        )

    def topic(self, suffix: str = "orders") -> str:
        """A topic's name on the shared broker."""
        return f"{self.name}-{suffix}"

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        """An admin client for faults and set-up."""
        client = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap_servers)
        try:
            yield client
        finally:
            client.close()

    def create(self, suffix: str = "orders", partitions: int = 3, **config: str) -> str:
        """Create a topic; its full name."""
        name = self.topic(suffix)
        with self.admin() as admin:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
            admin.wait_for_topics([name])
        return name

    def delete(self, suffix: str = "orders") -> None:
        """Delete a topic and wait until the broker has forgotten it."""
        name = self.topic(suffix)
        with self.admin() as admin:
            admin.delete_topics([name])
            wait_until(lambda: name not in admin.list_topics(), f"{name} is still there", 20)

    def topic_id(self, suffix: str = "orders") -> str:
        """The topic's id now."""
        with self.admin() as admin:
            return str(admin.describe_topics([self.topic(suffix)])[0]["topic_id"])

    def send(
        self, count: int, suffix: str = "orders", partition: int = 0, value: bytes = b"x"
    ) -> None:
        """Send the same small record many times to one partition."""
        producer = KafkaProducer(
            bootstrap_servers=self.broker.bootstrap_servers, linger_ms=20, batch_size=100_000
        )
        for _ in range(count):
            producer.send(self.topic(suffix), value, partition=partition)
        producer.flush()
        producer.close()

    def send_at(self, *times: datetime, suffix: str = "orders", partition: int = 0) -> None:
        """Send one record per time, in this order, whatever the times are."""
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap_servers, linger_ms=20)
        sent = [
            producer.send(
                self.topic(suffix),
                b"x",
                partition=partition,
                timestamp_ms=round(at.timestamp() * 1000),
            )
            for at in times
        ]
        for record in sent:
            record.get(30)
        producer.close()

    def send_stamped(self, count: int, stamps: Mapping[int, int], *, partition: int = 0) -> None:
        """Send records to a partition of the topic `orders`, some with a CreateTime of their own.

        Args:
            count: How many.
            stamps: CreateTime by position among them; of any size.
            partition: Where to.
        """
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap_servers, linger_ms=20)
        sent = [
            producer.send(
                self.topic(), b"x", partition=partition, timestamp_ms=stamps.get(position)
            )
            for position in range(count)
        ]
        for record in sent:
            record.get(30)
        producer.close()

    def send_batch(self, count: int, *, compression: str | None = None) -> None:
        """Send records to partition 0 of the topic `orders` as one batch."""
        producer = KafkaProducer(
            bootstrap_servers=self.broker.bootstrap_servers,
            linger_ms=500,
            compression_type=compression,
        )
        sent = [producer.send(self.topic(), b"x", partition=0) for _ in range(count)]
        producer.flush()
        for record in sent:
            record.get(30)
        producer.close()

    def transactions(self, *batches: tuple[bytes, int, bool], suffix: str = "orders") -> None:
        """Send transactions to partition 0, each (value, records, whether it commits).

        Their markers are in the log when this returns: a broker answers before it has written them.
        """
        begins = self._log_end(suffix)
        producer = KafkaProducer(
            bootstrap_servers=self.broker.bootstrap_servers, transactional_id=self.name
        )
        producer.init_transactions()
        for value, count, commits in batches:
            producer.begin_transaction()
            for _ in range(count):
                producer.send(self.topic(suffix), value, partition=0)
            producer.flush()
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        producer.close()
        end = begins + sum(count + 1 for _, count, _ in batches if count)
        wait_until(lambda: self._log_end(suffix) >= end, "a marker is not there", 30)

    def _log_end(self, suffix: str) -> int:
        """The high watermark of partition 0."""
        place = TopicPartition(self.topic(suffix), 0)
        consumer = KafkaConsumer(bootstrap_servers=self.broker.bootstrap_servers)
        try:
            return int(consumer.end_offsets([place])[place])
        finally:
            consumer.close()

    def delete_records(self, before: int, suffix: str = "orders", partition: int = 0) -> None:
        """Move the log start offset to `before`, the first offset that stays."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(self.topic(suffix), partition): before})

    def stream(self, topics: Sequence[str] = ("orders",), **changes: Any) -> Stream:
        """Write a stream file and read it back."""
        return read_stream(self.stream_file(topics, **changes))

    def stream_file(
        self,
        topics: Sequence[str] = ("orders",),
        name: str = "orders",
        kafka: Mapping[str, object] | None = None,
        **changes: Any,
    ) -> Path:
        """Write a stream file; its path. `changes` are keys of the file."""
        wanted = kafka or {"topics": [self.topic(t) for t in topics]}
        data = {
            "stream": name,
            "kafka": {"connection": self.connection, **wanted},
            "table": {"uri": f"{self.lake}/{name}"},
            **changes,
        }
        if spark := {**self._spark, **changes.get("spark", {})}:
            data["spark"] = spark
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    def run(
        self, stream: Stream, run_id: str, spark: SparkPort | None, **form: object
    ) -> RunRecord:
        """One run in this process, with a form as a trigger has it; the closed record."""
        request = read_form(form, datetime.now(UTC))
        with open_run(stream, run_id, request, spark) as context:
            return run_batch(context)

    def audit(self, stream: Stream) -> tuple[Audit, tuple[Finding, ...]]:
        """Ledger, table and broker against each other."""
        with open_run(stream, "audit", RunRequest()) as context:
            return audit_stream(context)
