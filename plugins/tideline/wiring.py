"""Connect the ports with Kafka, Delta, databases and Spark: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tideline.connections import kafka_settings, registry_settings
from tideline.kafka_io.port import KafkaPort
from tideline.launch.job import SparkPort
from tideline.launch.launcher import Launcher
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.ledger.port import LedgerStore
from tideline.model.ledger_location import LedgerLocation
from tideline.model.maintenance import TableRole, tables_of
from tideline.model.request import RunRequest
from tideline.model.stream import Stream
from tideline.pipeline.context import RunContext, TypedTables
from tideline.registry_io.port import RegistryPort
from tideline.table.delta_table import TargetTable
from tideline.table.schema import COLUMNS, QUARANTINE_COLUMNS, TYPED_COORDINATES

if TYPE_CHECKING:
    from tideline.table.maintenance_port import MaintainedTablePort


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


def open_tables(stream: Stream) -> Mapping[TableRole, MaintainedTablePort]:
    """Every table of a stream, for maintenance."""
    # Imported here: no run needs it.
    from tideline.table.maintained_table import MaintainedTable

    columns = {"raw": COLUMNS, "decoded": TYPED_COORDINATES, "quarantine": QUARANTINE_COLUMNS}
    return {
        role: MaintainedTable(uri, columns=columns[role]) for role, uri in tables_of(stream).items()
    }


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

        def connect_registry() -> RegistryPort:
            # Its connection is looked up here as well: landing goes on without a registry.
            from tideline.registry_io.client import SchemaRegistry

            assert stream.registry is not None
            found = registry_settings(stream.registry.connection)
            return connections.enter_context(SchemaRegistry(found))

        yield RunContext(
            stream=stream,
            run_id=run_id,
            request=request,
            ledger=open_ledger(stream),
            connect=connect,
            table=TargetTable(stream.table.uri),
            spark=spark or Launcher(stream.spark),
            kafka_options=settings.for_spark(),
            typed=_typed_tables(stream),
            connect_registry=None if stream.registry is None else connect_registry,
        )


def _typed_tables(stream: Stream) -> TypedTables | None:
    if stream.decode is None:
        return None
    return TypedTables(
        TargetTable(stream.decode.table.uri, columns=TYPED_COORDINATES),
        TargetTable(stream.decode.quarantine.uri, columns=QUARANTINE_COLUMNS),
    )
