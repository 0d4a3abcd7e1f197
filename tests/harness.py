"""Helpers around real parts: topics, producers, streams, runs."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml
from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

import ingest_range
from devstack.connect_server import ConnectServer
from devstack.process import wait_until
from devstack.sample import ProducerLog
from tideline.errors import ServiceAway
from tideline.launch.connect import SparkConnect
from tideline.launch.jars import spark_jars
from tideline.launch.java import find_java
from tideline.launch.submit import configuration
from tideline.model.incident import Decision
from tideline.model.request import RunRequest, read_form
from tideline.operations.audit import audit_stream
from tideline.pipeline.run_batch import run_batch
from tideline.stream_files import read_stream
from tideline.wiring import open_ledger, open_run

ROOT = Path(__file__).parents[1]


class InProcessSpark:
    """The Spark application in this process: real Spark, without a JVM start per run."""

    def __init__(self, *, is_small=True):
        self.submits = 0
        self._is_small = is_small
        self._session = None

    @property
    def session(self):
        """The session, started at first use."""
        if self._session is None:
            from tideline.spark.session import build_session

            logging.getLogger("py4j").setLevel(logging.WARNING)  # it says goodbye to closed files
            properties = {
                **configuration("local[2]", is_small=self._is_small),
                "spark.ui.showConsoleProgress": "false",
            }
            options = [part for k, v in properties.items() for part in ("--conf", f'"{k}={v}"')]
            jars = ",".join(map(str, spark_jars()))
            os.environ["JAVA_HOME"] = str(find_java().home)
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(
                ["--master", "local[2]", "--jars", jars, *options, "pyspark-shell"]
            )
            self._session = build_session("tests")
        return self._session

    def submit(self, job_path):
        """Run the job file as spark-submit would."""
        self.submits += 1
        result = ingest_range.run(job_path, self.session)
        if result.error:
            raise ServiceAway("the application failed")

    def stop(self):
        """End the session."""
        if self._session is not None:
            self._session.stop()


class ConnectSpark(InProcessSpark):
    """The application as a client of a Spark Connect server; the session is for looking."""

    def __init__(self, folder):
        super().__init__()
        self.server = ConnectServer(folder, "local[2]").start()

    @property
    def url(self):
        return self.server.url

    def submit(self, job_path):
        """Run the job file as a stream with such a connection would."""
        self.submits += 1
        SparkConnect(self.url).submit(job_path)

    def stop(self):
        """End the server and the session."""
        super().stop()
        self.server.stop()


class StreamHarness:
    """One test's topics and streams.

    Args:
        name: Prefix of every name on the shared broker.
    """

    def __init__(self, broker, folder, name):
        self.broker = broker
        self.folder = folder
        self.name = name
        self.log = ProducerLog(broker.bootstrap_servers)
        self.connect(broker.bootstrap_servers)
        os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = '{"conn_type": "spark", "host": "local[2]"}'

    @property
    def connection(self):
        """Id of the Kafka connection."""
        return "kafka_" + self.name.replace("-", "_")

    def connect(self, bootstrap_servers, **extra):
        """Have the streams' runs go to these servers; the producer does not."""
        settings = {"bootstrap.servers": bootstrap_servers}
        settings |= {name.replace("_", "."): value for name, value in extra.items()}
        os.environ[f"AIRFLOW_CONN_{self.connection.upper()}"] = json.dumps(
            {"conn_type": "kafka", "extra": settings}
        )

    def topic(self, suffix="orders"):
        """A topic's name on the shared broker."""
        return f"{self.name}-{suffix}"

    @contextmanager
    def admin(self):
        """An admin client for faults and set-up."""
        client = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap_servers)
        try:
            yield client
        finally:
            client.close()

    def create(self, suffix="orders", partitions=3, **config):
        """Create a topic; its full name."""
        name = self.topic(suffix)
        with self.admin() as admin:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
            admin.wait_for_topics([name])
        return name

    def delete(self, suffix="orders"):
        """Delete a topic and wait until the broker has forgotten it."""
        name = self.topic(suffix)
        with self.admin() as admin:
            admin.delete_topics([name])
            wait_until(lambda: name not in admin.list_topics(), f"{name} is still there", 20)

    def topic_id(self, suffix="orders"):
        """The topic's id now."""
        with self.admin() as admin:
            return str(admin.describe_topics([self.topic(suffix)])[0]["topic_id"])

    def send(self, count, suffix="orders", partition=0, value=b"x"):
        """Send the same small record many times to one partition."""
        producer = KafkaProducer(
            bootstrap_servers=self.broker.bootstrap_servers, linger_ms=20, batch_size=100_000
        )
        for _ in range(count):
            producer.send(self.topic(suffix), value, partition=partition)
        producer.flush()
        producer.close()

    def send_at(self, *times, suffix="orders", partition=0):
        """One record per time, in this order, whatever the times are."""
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

    def transactions(self, *batches, suffix="orders"):
        """Transactions to partition 0, each (value, records, whether it commits)."""
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

    def delete_records(self, before, suffix="orders", partition=0):
        """Move the log start offset."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(self.topic(suffix), partition): before})

    def stream(self, topics=("orders",), **changes):
        """A stream file in the test's folder, read back."""
        return read_stream(self.stream_file(topics, **changes))

    def stream_file(self, topics=("orders",), name="orders", kafka=None, **changes):
        """Write a stream file; its path."""
        data = {
            "stream": name,
            "kafka": kafka or {"topics": [self.topic(t) for t in topics]},
            "table": {"uri": str(self.folder / "lake" / name)},
            **changes,
        }
        data["kafka"].setdefault("connection", self.connection)
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    def run(self, stream, run_id, spark, **form):
        """One run in this process, with a form as a trigger has it; the closed record."""
        request = read_form(form, datetime.now(UTC))
        with open_run(stream, run_id, request, spark) as context:
            return run_batch(context)

    def audit(self, stream):
        """Ledger, table and broker against each other."""
        with open_run(stream, "audit", RunRequest()) as context:
            return audit_stream(context)


def head(stream):
    """Next offsets by (topic, partition)."""
    return {p.topic_partition: p.next_offset for p in open_ledger(stream).read().head.positions}


def spans(record):
    """Planned ranges as (partition, start, end)."""
    return [(r.partition, r.start_offset, r.end_offset) for r in record.plan.ranges]


def table_rows(stream, *columns):
    """The table's rows as tuples, in the order of the coordinates."""
    wanted = columns or ("topic", "partition", "offset")
    found = DeltaTable(stream.table.uri).to_pyarrow_table(columns=list(wanted)).to_pydict()
    return sorted(zip(*(found[c] for c in wanted), strict=True), key=repr)


def table_version(stream):
    """Newest version of the table."""
    return DeltaTable(stream.table.uri).version()


def tideline(*arguments, env=None, **options):
    """Start the command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tideline", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins"), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def finished(process, timeout=300):
    """Exit status, JSON (or text) of standard output, standard error."""
    output, errors = process.communicate(timeout=timeout)
    try:
        answer = json.loads(output)
    except ValueError:
        answer = output
    return process.returncode, answer, errors


def decide(stream, choice, incident_id=None, by="ann", reason="it was meant"):
    """Answer an open incident, the only one if none is named, as `tideline resolve` does."""
    ledger = open_ledger(stream)
    if incident_id is None:
        (incident,) = ledger.read().control.incidents
        incident_id = incident.incident_id
    decision = Decision(choice, by, datetime.now(UTC), reason)
    ledger.update(lambda state: state.with_decision(incident_id, decision))


def closed_incidents(stream):
    """Incidents that were decided and carried out, or vanished."""
    return list(open_ledger(stream).closed_incidents())
