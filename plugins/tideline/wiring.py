"""Connect the ports with Kafka, Delta, databases and Spark: the one place that knows them all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tideline.catalog.catalog_port import CatalogPort
from tideline.delta.delta_io import files_of
from tideline.folding.engine import fold_here
from tideline.kafka.kafka_port import KafkaPort
from tideline.kafka.kafka_settings import kafka_settings
from tideline.landing.context import RunContext, TypedTables
from tideline.launch.job import SparkPort
from tideline.launch.launcher import Launcher
from tideline.launch.progress import Stage
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.ledger.ledger_port import LedgerStore
from tideline.model.addresses import LedgerLocation, is_in_object_store
from tideline.model.maintenance import TableRole, kind_of
from tideline.model.request import RunRequest
from tideline.registry.registry_connection import registry_settings
from tideline.registry.registry_port import RegistryPort
from tideline.store.store_settings import StoreSettings, store_settings, with_limits
from tideline.stream.stream import Stream, tables_of
from tideline.table.delta_table import TargetTable
from tideline.table.schema import (
    COLUMNS,
    CURRENT_COORDINATES,
    QUARANTINE_COLUMNS,
    TYPED_COORDINATES,
)

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from tideline.table.table_port import MaintainedTablePort


def open_ledger(stream: Stream) -> Ledger:
    """The stream's ledger."""
    location = stream.ledger_location
    return Ledger(open_store(location, find_store(stream)), stream.stream)


def find_store(stream: Stream) -> StoreSettings | None:
    """How the stream's object store is reached; None if all its addresses are of a file system."""
    addresses = stream.store_addresses
    return store_settings(stream.table.connection, addresses[0]) if addresses else None


def open_store(location: LedgerLocation, store: StoreSettings | None = None) -> LedgerStore:
    """The store at a ledger's location.

    Args:
        location: Where it is.
        store: For an address in an object store.
    """
    if location.kind == "delta":
        return DeltaLedgerStore(location.address, store_options(location.address, store))
    # Imported here: most runs do not need SQLAlchemy.
    from tideline.ledger.connection import ledger_url
    from tideline.ledger.sql_store import SqlLedgerStore

    return SqlLedgerStore(ledger_url(location.address), location.stream, str(location))


def names_beside(location: LedgerLocation, store: StoreSettings | None = None) -> list[str]:
    """What else has a name where a ledger is stored: in its folder, or in its database.

    Args:
        location: Of a ledger, which need not be there.
        store: For an address in an object store.
    """
    if location.kind == "airflow":
        from tideline.ledger.connection import ledger_url
        from tideline.ledger.sql_store import SqlLedgerStore

        return SqlLedgerStore(ledger_url(location.address), "", location.address).names()
    folder = location.address.removeprefix("file://").rpartition("/")[0]
    if not is_in_object_store(location.address):
        return os.listdir(folder) if os.path.isdir(folder) else []
    from tideline.store.table_files import names_in

    return names_in(folder, store_options(location.address, store))


def open_tables(stream: Stream) -> Mapping[TableRole, MaintainedTablePort]:
    """Every table of a stream, for maintenance."""
    store = find_store(stream)
    return {role: _maintained(store, role, uri) for role, uri in tables_of(stream).items()}


def _maintained(store: StoreSettings | None, role: TableRole, uri: str) -> MaintainedTablePort:
    # Imported here: no run needs it.
    from tideline.table.maintained_table import MaintainedTable

    columns: Mapping[str, Mapping[str, str]] = {
        "raw": COLUMNS,
        "decoded": TYPED_COORDINATES,
        "quarantine": QUARANTINE_COLUMNS,
        "current": CURRENT_COORDINATES,
    }
    return MaintainedTable(uri, store_options(uri, store), columns[kind_of(role)])


def store_options(uri: str, store: StoreSettings | None) -> Mapping[str, str]:
    """delta-rs options for an address; none for a file system's."""
    if not is_in_object_store(uri):
        return {}
    store = store or store_settings(None, uri)
    return with_limits(store.for_delta(), store.connection)


class Clusters:
    """One client a cluster, for who asks on behalf of several streams.

    Args:
        opened: Closes the clients.
        patience_seconds: As of `open_run`.
    """

    def __init__(self, opened: ExitStack, patience_seconds: float | None = None) -> None:
        self._opened = opened
        self._patience_seconds = patience_seconds
        self._clients: dict[str, KafkaPort] = {}

    def of(self, connection: str) -> KafkaPort:
        """The client of a connection's cluster."""
        from tideline.kafka.kafka_cluster import KafkaCluster  # many commands ask no cluster

        if connection not in self._clients:
            settings = kafka_settings(connection)
            if self._patience_seconds is not None:
                settings = settings.less_patient(self._patience_seconds)
            self._clients[connection] = self._opened.enter_context(KafkaCluster(settings))
        return self._clients[connection]


@contextmanager
def open_run(
    stream: Stream,
    run_id: str,
    request: RunRequest,
    spark: SparkPort | None = None,
    patience_seconds: float | None = None,
    cluster: KafkaPort | None = None,
    stage: Stage | None = None,
) -> Iterator[RunContext]:
    """A run's context; connections are closed when the block ends.

    Args:
        spark: For tests, and for who shows progress; None: as the stream's connection says.
        patience_seconds: How long brokers that are away are waited for, if that is less than the
            connection says.
        cluster: A client of the stream's cluster that others use as well; it stays open.
        stage: Is told how far a fold is; None: the log is, where a fold takes long.
    """
    settings = kafka_settings(stream.kafka.connection)
    if patience_seconds is not None:
        settings = settings.less_patient(patience_seconds)
    store = find_store(stream)
    uri = stream.table.uri
    with ExitStack() as connections:

        def connect() -> KafkaPort:
            if cluster is not None:
                return cluster
            # Imported here: many tasks ask the cluster nothing.
            from tideline.kafka.kafka_cluster import KafkaCluster

            return connections.enter_context(KafkaCluster(settings))

        def connect_registry() -> RegistryPort:
            # Its connection is looked up here as well: landing goes on without a registry.
            from tideline.registry.confluent import SchemaRegistry

            assert stream.registry is not None
            found = registry_settings(stream.registry.connection)
            return connections.enter_context(SchemaRegistry(found))

        def connect_catalog() -> CatalogPort:
            from tideline.catalog.catalog_connection import catalog_of  # most runs ask no catalog

            assert stream.catalog is not None
            return catalog_of(stream.catalog.connection, stream.catalog.name)

        yield RunContext(
            stream=stream,
            run_id=run_id,
            request=request,
            ledger=open_ledger(stream),
            connect=connect,
            table=TargetTable(uri, store_options(uri, store)),
            spark=spark or Launcher(stream.spark, store=store),
            kafka_options=settings.for_spark(),
            store_options={} if store is None else store.for_spark(),
            typed=_typed_tables(stream, store),
            current=_current_table(stream, store),
            connect_registry=None if stream.registry is None else connect_registry,
            warnings=settings.warnings,
            connect_catalog=None if stream.catalog is None else connect_catalog,
            open_table=partial(_maintained, store),
            fold=partial(fold_here, partial(_files, store), stage),
        )


def _files(store: StoreSettings | None, uri: str) -> FileSystem:
    return files_of(uri, store_options(uri, store))


def _typed_tables(stream: Stream, store: StoreSettings | None) -> TypedTables | None:
    if stream.decode is None:
        return None
    quarantine = stream.decode.quarantine.uri
    return TypedTables(
        {
            name: TargetTable(uri, store_options(uri, store), TYPED_COORDINATES)
            for name, uri in stream.decode.addresses.items()
        },
        TargetTable(quarantine, store_options(quarantine, store), QUARANTINE_COLUMNS),
    )


def _current_table(stream: Stream, store: StoreSettings | None) -> TargetTable | None:
    if stream.current is None:
        return None
    uri = stream.current.table.uri
    return TargetTable(uri, store_options(uri, store), CURRENT_COORDINATES)
