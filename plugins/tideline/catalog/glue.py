"""The catalog of AWS Glue, as Athena, EMR and Redshift Spectrum use it, by way of boto3."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tideline.catalog.catalog_port import PROVIDER, SECONDS, STREAM, SchemaMissing
from tideline.catalog.hive import INPUT, OUTPUT, PLACEHOLDER, SERDE, hive_entry
from tideline.model.catalog import CatalogEntry, TableName


class Glue:
    """`CatalogPort` on Glue.

    Args:
        options: Of boto3's client: `region_name`, `endpoint_url`, keys. Without keys boto3 looks
            along its own chain.
        account: Whose catalog; None for the caller's own.
    """

    def __init__(self, options: Mapping[str, str | None], account: str | None = None) -> None:
        self._options = options
        self.secrets = (options.get("aws_secret_access_key"), options.get("aws_session_token"))
        self._of = {} if account is None else {"CatalogId": account}

    @cached_property
    def _client(self) -> Any:
        import boto3  # an extra of the package
        from botocore.config import Config

        waits = Config(
            connect_timeout=SECONDS, read_timeout=SECONDS, retries={"total_max_attempts": 1}
        )
        return boto3.client("glue", config=waits, **self._options)

    def find(self, name: TableName) -> CatalogEntry | None:
        """As of `CatalogPort`."""
        glue = self._client
        try:
            answer = glue.get_table(DatabaseName=name.schema, Name=name.table, **self._of)
        except glue.exceptions.EntityNotFoundException:
            try:
                glue.get_database(Name=name.schema, **self._of)
            except glue.exceptions.EntityNotFoundException:
                raise SchemaMissing from None
            return None
        found = answer["Table"]
        storage = found.get("StorageDescriptor", {})
        serde = storage.get("SerdeInfo", {}).get("Parameters")
        kind, location = found.get("TableType", ""), storage.get("Location")
        return hive_entry(kind, found.get("Parameters", {}), serde, location)

    def create(self, name: TableName, uri: str, stream: str) -> None:
        """As of `CatalogPort`; Athena knows `s3://` alone."""
        place = uri.replace("s3a://", "s3://", 1)
        column, kind, comment = PLACEHOLDER
        serde = {"path": place, "serialization.format": "1"}
        table = {
            "Name": name.table,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {
                "EXTERNAL": "TRUE",
                PROVIDER: "delta",
                "table_type": "DELTA",
                STREAM: stream,
            },
            "StorageDescriptor": {
                "Columns": [{"Name": column, "Type": kind, "Comment": comment}],
                "Location": place,
                "InputFormat": INPUT,
                "OutputFormat": OUTPUT,
                "SerdeInfo": {"SerializationLibrary": SERDE, "Parameters": serde},
            },
        }
        try:
            self._client.create_table(DatabaseName=name.schema, TableInput=table, **self._of)
        except self._client.exceptions.AlreadyExistsException:
            return  # whoever it was: the name is read back
