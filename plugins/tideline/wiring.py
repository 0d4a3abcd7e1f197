"""Connect the ports with Kafka, Delta, databases and Spark: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tideline.connections import kafka_settings
from tideline.kafka_io.port import KafkaPort
from tideline.launch.job import SparkPort
from tideline.launch.launcher import Launcher
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.ledger.port import LedgerStore
from tideline.model.ledger_location import LedgerLocation
from tideline.model.request import RunRequest
from tideline.model.stream import Stream
from tideline.pipeline.context import RunContext
from tideline.table.delta_table import TargetTable


def open_ledger(stream: Stream) -> Ledger:
    """The stream's ledger.

    Raises:
        ConnectionMissing: Its `ledger_connection` cannot be used.
    """
    return Ledger(open_store(stream.ledger_location), stream.stream)


def open_store(location: LedgerLocation) -> LedgerStore:
    """The store at a ledger's location.

    Raises:
        ConnectionMissing: The location's connection cannot be used.
    """
    if location.kind == "delta":
        return DeltaLedgerStore(location.address)
    # Imported here: most runs do not need SQLAlchemy.
    from tideline.ledger.connection import ledger_url
    from tideline.ledger.sql_store import SqlLedgerStore

    return SqlLedgerStore(ledger_url(location.address), location.stream, str(location))


@contextmanager
def open_run(
    stream: Stream, run_id: str, request: RunRequest, spark: SparkPort | None = None
) -> Iterator[RunContext]:
    """A run's context; connections are closed when the block ends.

    Raises:
        ConnectionMissing: The stream's Kafka connection cannot be used.
    """
    settings = kafka_settings(stream.kafka.connection)
    with ExitStack() as connections:

        def connect() -> KafkaPort:
            # Imported here: many tasks ask the cluster nothing.
            from tideline.kafka_io.client import KafkaCluster

            return connections.enter_context(KafkaCluster(settings))

        yield RunContext(
            stream=stream,
            run_id=run_id,
            request=request,
            ledger=open_ledger(stream),
            connect=connect,
            table=TargetTable(stream.table.uri),
            spark=spark or Launcher(stream.spark),
            kafka_options=settings.for_spark(),
        )
