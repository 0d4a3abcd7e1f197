"""Unity Catalog over REST: the open one, or that of a Databricks workspace.

Requests, below `/api/2.1/unity-catalog`:

    GET  /tables/{catalog}.{schema}.{table}
    GET  /schemas/{catalog}.{schema}
    POST /tables
"""

from __future__ import annotations

import json
from contextlib import closing
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from tideline.bounded_http import Answer
from tideline.catalog.catalog_port import SECONDS, STREAM, SchemaMissing
from tideline.errors import AccessRefused
from tideline.model.catalog import EXTERNAL, CatalogEntry, TableName
from tideline.registry.confluent import LARGEST_ANSWER_BYTES, http_of
from tideline.registry.registry_connection import RegistrySettings

_API = "/api/2.1/unity-catalog"


class UnityFailed(Exception):
    """It has not done what was asked for."""


class Unity:
    """`CatalogPort` on Unity Catalog.

    Args:
        settings: Where it is, and how to log in; a path in them comes before the API's.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self.secrets = (settings.token, settings.password)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        with closing(http_of(self._settings, SECONDS, "application/json")) as http:
            return http.ask(f"{_API}{path}", LARGEST_ANSWER_BYTES, method, json=body)

    def _raise_for(self, answer: Answer) -> None:
        """Raise what an answer says; a login that is refused is so however often it is tried."""
        settings = self._settings
        answered = f"{answer.status} {settings.without_secrets(answer.reason)}"
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise AccessRefused(
                f"connection {settings.connection}: {settings.url} answers {answered}: its token or"
                " login is refused, or lacks a right on the catalog"
            )
        if answer.target is not None:
            target = settings.without_secrets(answer.target)
            answered = f"{answered}, a redirect to {target}, which is not followed"
        if answer.status != HTTPStatus.OK:
            raise UnityFailed(f"{settings.url} answers {answered}")

    def find(self, name: TableName) -> CatalogEntry | None:
        """As of `CatalogPort`."""
        answer = self._ask("GET", f"/tables/{quote(str(name))}")
        if answer.status == HTTPStatus.NOT_FOUND:
            schema = ".".join(name.path[:-1])
            if self._ask("GET", f"/schemas/{quote(schema)}").status == HTTPStatus.NOT_FOUND:
                raise SchemaMissing
            return None
        self._raise_for(answer)
        found = json.loads(answer.body)
        kind = str(found.get("table_type", "")).lower()
        return CatalogEntry(
            found.get("storage_location"),
            EXTERNAL if kind == EXTERNAL else kind.replace("_", " "),
            str(found.get("data_source_format") or "").lower(),
            found.get("table_id"),
        )

    def create(self, name: TableName, uri: str, stream: str) -> None:
        """As of `CatalogPort`; columns are left to the table's log."""
        place = uri.replace("s3a://", "s3://", 1)
        catalog, schema, table = name.path
        answer = self._ask(
            "POST",
            "/tables",
            {
                "name": table,
                "catalog_name": catalog,
                "schema_name": schema,
                "table_type": "EXTERNAL",
                "data_source_format": "DELTA",
                "columns": [],
                "storage_location": f"file://{place}" if place.startswith("/") else place,
                "properties": {STREAM: stream},
            },
        )
        taken = (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
        if answer.status in taken and b"ALREADY_EXISTS" in answer.body:
            return  # whoever it was: the name is read back
        self._raise_for(answer)
