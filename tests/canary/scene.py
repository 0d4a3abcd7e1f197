"""A whole stack with a secret of each kind, and everything that a secret may leak into."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from kafka import KafkaProducer
from sqlalchemy import create_engine, inspect, text

from devstack.airflow_harness import AirflowHarness, started
from devstack.cloud_emulators import Azurite, FakeGcs
from devstack.connect_server import ConnectServer
from devstack.object_store import S3Proxy
from devstack.postgres import Postgres
from devstack.process import wait_until
from devstack.stack import Stack
from tests.canary.crawling import crawl
from tests.canary.searching import Canaries, Findings, search_folder
from tests.worlds.drivers import drivers, jvms
from tests.worlds.http_stub import HttpStub, json_answer
from tests.worlds.object_stores import BUCKET
from tests.worlds.secured_broker import PASSWORD, SecuredBroker, secured_broker
from tests.worlds.token_issuer import SECRET
from tideline.stream.stream import Stream

WRONG = "wrong-canary-5c8f41"
STORE = "store-canary-81bd0e"
AZURE = base64.b64encode(b"azure-canary-50cc27").decode()
GOOGLE = "google-canary-9e14d3"
REGISTRY = "registry-canary-c77a2d"
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
_FRAME = b"\0\0\0\0\1"
"""Schema 1 of the registry."""
_SPARK = "spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir file:{}\n"


class Scene:
    """Broker, store, database, registry and Airflow; each asks for a secret.

    Args:
        folder: For everything.
        postgres: Holds Airflow's database and the ledger.
        secured: A broker that runs.
    """

    def __init__(self, folder: Path, postgres: Postgres, secured: SecuredBroker) -> None:
        self.folder = folder
        self.temporary = Path(tempfile.mkdtemp(prefix="tlc-"))  # a socket's path is short
        self.event_logs = folder / "event-logs"
        self.secured = secured
        self.connect = ConnectServer(folder / "connect")
        self.store = S3Proxy(folder / "store")
        self.store.secret_key = STORE
        self.clouds = {"azure": Azurite(folder / "azure"), "google": FakeGcs(folder / "google")}
        self.clouds["azure"].key = AZURE
        self.clouds["google"].private_key = GOOGLE
        self.registry = HttpStub()
        self.registry.answer = json_answer(
            {"id": 1, "version": 1, "subject": "orders-value", "schemaType": "JSON"}
            | {"schema": json.dumps(SCHEMA)}
        )
        self.postgres = postgres
        self.database = postgres.create_database("canary")
        key = self.secured.authority.issue("client").read_text()
        self._key = folder / "client.pem"
        self._key.write_text(key)
        self.canaries = Canaries(
            {
                "Kafka's password": PASSWORD,
                "Kafka's client key": key.splitlines()[1],
                "a wrong password of Kafka's": WRONG,
                "the store's secret": STORE,
                "Azure's key": AZURE,
                "Google's key": GOOGLE,
                "the registry's password": REGISTRY,
                "the database's password": postgres.password,
                "OAuth's client secret": SECRET,
                "the token of Spark Connect": self.connect.token,
            }
        )
        self.said: dict[str, str] = {}
        self.stack = Stack.build(
            folder / "stack",
            database_url=self.database.render_as_string(hide_password=False),
            settings=self._settings(),
            broker=self.secured.broker,
        )

    def _settings(self) -> dict[str, str]:
        kafka = self.secured.settings(
            "SASL_SSL", ssl_certificate_location=str(self._key), ssl_key_location=str(self._key)
        )
        registry = self.registry.connection(login="reader", password=REGISTRY)
        return {
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": kafka}),
            "AIRFLOW_CONN_KAFKA_WRONG": json.dumps(
                {"conn_type": "kafka", "extra": kafka | {"sasl.password": WRONG}}
            ),
            "AIRFLOW_CONN_KAFKA_TOKENS": json.dumps(
                {"conn_type": "kafka", "extra": self.secured.tokens()}
            ),
            "AIRFLOW_CONN_SPARK_SERVER": json.dumps(self.connect.connection),
            "AIRFLOW_CONN_LAKE": json.dumps(self.store.connection()),
            **{
                f"AIRFLOW_CONN_{name.upper()}": json.dumps(cloud.connection())
                for name, cloud in self.clouds.items()
            },
            "AIRFLOW_CONN_SCHEMAS": json.dumps(registry),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
            "AIRFLOW__LOGGING__FAB_LOGGING_LEVEL": "DEBUG",
            "TMPDIR": str(self.temporary),
        }

    def start(self) -> Scene:
        """Start everything."""
        self.event_logs.mkdir()
        self.store.start()
        self.connect.start()
        self.store.create_bucket(BUCKET)
        for cloud in self.clouds.values():
            cloud.start()
            cloud.create_bucket(BUCKET)
        self.stack.start()
        self.client = self.stack.airflow.client()
        self.harness = AirflowHarness(self.stack, self.folder / "lake", "canary")
        self.harness.folder.mkdir()
        self.harness.create(partitions=1)
        return self

    def stop(self) -> None:
        """Stop everything that was started."""
        self.stack.stop()
        self.registry.close()
        self.connect.stop()
        self.store.stop()
        for cloud in self.clouds.values():
            cloud.stop()
        shutil.rmtree(self.temporary, ignore_errors=True)

    def stream(self, name: str, **changes: Any) -> Stream:
        """A stream, its Dag active; its tables lie in the store unless `changes` name another."""
        keys = {} if "table" in changes else self._in_the_store(name)
        usual = {"ledger": "airflow", "airflow": {"retries": 2, "retry_delay_seconds": 5}}
        return started(self.harness, self.client, name, **(usual | keys | changes))

    def _in_the_store(self, name: str) -> dict[str, Any]:
        cloud = self.clouds.get(name)
        base = f"s3a://{BUCKET}/{name}" if cloud is None else cloud.address(BUCKET, name)
        return {
            "table": {"uri": f"{base}/raw", "connection": "lake" if cloud is None else name},
            "registry": {"connection": "schemas"},
            "decode": {
                "value": {"format": "json", "subject": "orders-value"},
                "table": {"uri": f"{base}/typed"},
                "quarantine": {"uri": f"{base}/bad"},
            },
        }

    def send(self, count: int) -> None:
        """Send records, each a JSON object in Confluent's framing."""
        producer = KafkaProducer(bootstrap_servers=self.secured.broker.bootstrap_servers)
        for number in range(count):
            value = _FRAME + json.dumps({"id": number}).encode()
            producer.send(self.harness.topic(), value, partition=0)
        producer.close()

    def run(self, name: str, run_id: str, *, dies: bool = False) -> str:
        """Trigger a run and wait for its end.

        Args:
            name: Of the stream.
            run_id: Of the run.
            dies: Whether Spark and the task are killed while they work.

        Returns:
            Its state.
        """
        self.client.trigger(name, run_id)
        if dies:
            task = "ingest_ranges"
            wait_until(
                lambda: (
                    self.client.tasks(name, run_id)[task]["state"] == "running"
                    and any(self._work())
                ),
                "no Spark was started",
                600,
            )
            for process in self._work():
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
        return self.client.wait_for_run(name, run_id, timeout_seconds=900)

    def _work(self) -> Iterator[psutil.Process]:
        """Spark's drivers of this stack, and the processes of its tasks."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_ours = process.environ().get("TMPDIR") == str(self.temporary)
                words = " ".join(process.cmdline()[:40])
                if is_ours and ("java" in words or "worker" in words or "local_driver" in words):
                    yield process

    def processes(self) -> dict[int, str]:
        """Process ids of everything that was started, and what each is."""
        names = {}
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                names[process.pid] = _name_of(process)
        runtime = self.stack.folder / "spark"  # drivers outlive the tasks that start them
        names |= dict.fromkeys(drivers(runtime), "warm driver")
        return names | dict.fromkeys(jvms(runtime), "JVM of the warm driver")

    def command(self, *arguments: str, **variables: str) -> int:
        """Run a command of Tideline's as a user would, saying all it can; its exit status."""
        found = {k: v for k, v in self.stack.airflow.variables.items() if "AIRFLOW__" not in k}
        configuration = self.folder / "spark-conf"
        configuration.mkdir(exist_ok=True)
        (configuration / "spark-defaults.conf").write_text(_SPARK.format(self.event_logs))
        command = [sys.executable, "-m", "tideline", *arguments]
        done = subprocess.run(
            command,
            env={**found, "SPARK_CONF_DIR": str(configuration), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        self.said[" ".join((*arguments[:2], *variables))] = done.stdout + done.stderr
        return done.returncode

    def search(self) -> Findings:
        """Look into every place that is left after the processes."""
        findings = Findings()
        airflow = self.stack.airflow.folder
        search_folder(self.canaries, findings, "logs of Airflow's tasks", airflow / "logs")
        for file in airflow.glob("*.log"):
            findings.note("logs of Airflow's services", file.name, self.canaries.within_file(file))
        search_folder(self.canaries, findings, "temporary files", self.temporary)
        search_folder(
            self.canaries, findings, "folder of the warm driver", self.stack.folder / "spark"
        )
        search_folder(self.canaries, findings, "tables in the store", self.store.folder / "objects")
        blobs = self.clouds["azure"].folder / "objects" / "__blobstorage__"
        search_folder(self.canaries, findings, "tables in Azure's store", blobs)
        search_folder(self.canaries, findings, "Spark's event logs", self.event_logs)
        search_folder(self.canaries, findings, "tables in folders", self.harness.folder)
        search_folder(self.canaries, findings, "log of Spark Connect", self.folder / "connect")
        search_folder(self.canaries, findings, "stream files", self.stack.streams)
        cache = Path(os.environ.get("TIDELINE_CACHE", Path.home() / ".cache/tideline"))
        for file in cache.glob("*/*"):
            if file.suffix not in (".jar", ".jsa"):
                findings.note("cache", file.name, self.canaries.within_file(file))
        for name, output in self.said.items():
            findings.note("output of commands", name, self.canaries.within(output.encode()))
        self._search_database(findings)
        for address, content in crawl(self.stack.airflow, self.client):
            hits = self.canaries.within(content)
            findings.note("Airflow's page and API", address, hits)
        return findings

    def _search_database(self, findings: Findings) -> None:
        engine = create_engine(self.database)
        with engine.connect() as connection:
            for table in inspect(engine).get_table_names():
                rows = connection.execute(text(f'SELECT t::text FROM "{table}" t'))
                for (row,) in rows:
                    hits = self.canaries.within(row.encode())
                    findings.note(f"database: {_group(table)}", table, hits)
        engine.dispose()


_NAMES = {
    "kafka.Kafka": "embedded broker",
    "s3proxy": "object store",
    "SparkConnectServer": "Spark Connect",
    "postgres": "PostgreSQL",
    "multiprocessing.spawn": "stand-in of a cloud's store",  # its proxy (devstack.store_proxy)
}


def _name_of(process: psutil.Process) -> str:
    """What a process is, in a word or two."""
    words = process.cmdline()
    line = " ".join(words)
    for part, name in _NAMES.items():
        if part in line:
            return name
    return "Airflow" if "airflow" in line else process.name()


def _group(table: str) -> str:
    """What a table is, for the report."""
    if table.startswith("tideline"):
        return "ledger"
    return {"xcom": "XCom", "rendered_task_instance_fields": "rendered fields"}.get(
        table, "everything else"
    )


@contextmanager
def scene(folder: Path, postgres: Postgres) -> Iterator[Scene]:
    """Start one, and stop it at the end."""
    with secured_broker(folder / "secured") as secured:
        found = Scene(folder, postgres, secured)
        try:
            yield found.start()
        finally:
            found.stop()
