"""A Hive metastore over thrift, as Spark and Trino use one; the client comes with pyiceberg.

An entry is as Spark itself makes it: the schema is in the table's log alone, so the metastore has
one column that stands for none, and `path` says where the log is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tideline.catalog.catalog_port import PROVIDER, SECONDS, STREAM, SchemaMissing
from tideline.model.catalog import EXTERNAL, CatalogEntry, TableName

SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
INPUT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
OUTPUT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
PLACEHOLDER = ("col", "array<string>", "from deserializer")
_KINDS = {"EXTERNAL_TABLE": EXTERNAL, "MANAGED_TABLE": "managed table", "VIRTUAL_VIEW": "view"}


class HiveMetastore:
    """`CatalogPort` on a metastore.

    Args:
        host, port: Where it listens.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port

    @contextmanager
    def _client(self) -> Iterator[Any]:
        # Imported here: three megabytes of generated code, which most runs need not.
        from hive_metastore.ThriftHiveMetastore import Client
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TBufferedTransport

        socket = TSocket(*self._address)
        socket.setTimeout(SECONDS * 1000)
        transport = TBufferedTransport(socket)
        transport.open()
        try:
            yield Client(TBinaryProtocol(transport))
        finally:
            transport.close()

    def find(self, name: TableName) -> CatalogEntry | None:
        """As of `CatalogPort`."""
        from hive_metastore.ttypes import NoSuchObjectException

        with self._client() as client:
            try:
                found = client.get_table(name.schema, name.table)
            except NoSuchObjectException:
                try:
                    client.get_database(name.schema)
                except NoSuchObjectException:
                    raise SchemaMissing from None
                return None
        return hive_entry(
            found.tableType,
            found.parameters or {},
            found.sd.serdeInfo.parameters,
            found.sd.location,
        )

    def create(self, name: TableName, uri: str, stream: str) -> None:
        """As of `CatalogPort`."""
        from hive_metastore.ttypes import (
            AlreadyExistsException,
            FieldSchema,
            SerDeInfo,
            StorageDescriptor,
            Table,
        )

        serde = {"path": uri, "serialization.format": "1"}
        storage = StorageDescriptor(
            cols=[FieldSchema(*PLACEHOLDER)],
            location=uri,
            inputFormat=INPUT,
            outputFormat=OUTPUT,
            numBuckets=-1,
            serdeInfo=SerDeInfo(serializationLib=SERDE, parameters=serde),
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        table = Table(
            dbName=name.schema,
            tableName=name.table,
            owner="tideline",
            sd=storage,
            partitionKeys=[],
            parameters={"EXTERNAL": "TRUE", PROVIDER: "delta", STREAM: stream},
            tableType="EXTERNAL_TABLE",
        )
        with self._client() as client:
            try:
                client.create_table(table)
            except AlreadyExistsException:
                return  # whoever it was: the name is read back


def hive_entry(
    kind: str, parameters: dict[str, str], serde: dict[str, str] | None, location: str | None
) -> CatalogEntry:
    """An entry of Hive's form, which Glue has as well.

    Args:
        parameters: Of the table.
        serde: Parameters of its serializer: where Spark has put a table, `path` says it.
    """
    format = parameters.get(PROVIDER) or parameters.get("table_type", "").lower()
    place = (serde or {}).get("path") or location
    return CatalogEntry(place, _KINDS.get(kind, kind), format.lower())
