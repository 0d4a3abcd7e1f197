"""Unity Catalog over REST: the open one, or that of a Databricks workspace.

Requests, below `/api/2.1/unity-catalog`:

    GET  /tables/{catalog}.{schema}.{table}
    GET  /schemas/{catalog}.{schema}
    POST /tables
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from tideline.catalog.port import SECONDS, STREAM, SchemaMissing
from tideline.errors import AccessRefused
from tideline.model.catalog import EXTERNAL, CatalogEntry, TableName
from tideline.registry.client import trust
from tideline.registry.connecting import RegistrySettings

_API = "/api/2.1/unity-catalog"


class Unity:
    """`CatalogPort` on Unity Catalog.

    Args:
        settings: Where it is, and how to log in; a path in them comes before the API's.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        known = self._settings
        headers = {} if known.token is None else {"Authorization": f"Bearer {known.token}"}
        with httpx.Client(
            headers=headers,
            auth=(known.login, known.password or "") if known.login else None,
            verify=trust(known),
            timeout=SECONDS,
            trust_env=not known.tells_in_clear,
        ) as client:
            return client.request(method, f"{known.url}{_API}{path}", json=body)

    def _raise_for(self, answer: httpx.Response) -> None:
        """Raise what an answer says; a login that is refused is so however often it is tried."""
        if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise AccessRefused(
                f"connection {self._settings.connection}: {self._settings.url} answers"
                f" {answer.status_code} {answer.reason_phrase}: its token or login is refused, or"
                " lacks a right on the catalog"
            )
        answer.raise_for_status()

    def find(self, name: TableName) -> CatalogEntry | None:
        """As of `CatalogPort`."""
        answer = self._ask("GET", f"/tables/{quote(str(name))}")
        if answer.status_code == HTTPStatus.NOT_FOUND:
            schema = ".".join(name.path[:-1])
            if self._ask("GET", f"/schemas/{quote(schema)}").status_code == HTTPStatus.NOT_FOUND:
                raise SchemaMissing
            return None
        self._raise_for(answer)
        found = answer.json()
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
        if answer.status_code in taken and "ALREADY_EXISTS" in answer.text:
            return  # whoever it was: the name is read back
        self._raise_for(answer)
