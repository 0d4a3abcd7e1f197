"""The catalog that a connection stands for; its type says which kind.

| type | catalog | parts |
|---|---|---|
| `hive_metastore` | Hive's, over thrift | host, port (9083) |
| `aws` | Glue | login and password, or boto3's own chain; in the extra what `_GLUE` lists |
| `http` | Unity's REST | as of a schema registry: host, token, `ca` |
"""

from __future__ import annotations

from importlib.util import find_spec

from tideline.catalog.catalog_port import CatalogPort
from tideline.catalog.glue import Glue
from tideline.catalog.hive import HiveMetastore
from tideline.catalog.unity import Unity
from tideline.connections import refuse_others, refused, required
from tideline.errors import BadInput
from tideline.model.catalog import TableName
from tideline.registry.registry_connection import read_settings

_EXAMPLE = '{"conn_type": "hive_metastore", "host": "metastore", "port": 9083}'
_GLUE = ("region_name", "endpoint_url", "catalog_id")
_LIBRARIES = {"hive_metastore": ("hive_metastore", "hive"), "aws": ("boto3", "glue")}
_PORT = 9083
_PARTS = {"hive_metastore": 2, "aws": 2, "http": 3}


def catalog_of(connection_id: str, name: str) -> CatalogPort:
    """The catalog of a connection.

    Args:
        name: A name that it is to hold: how many parts it has depends on the kind.

    Raises:
        ConnectionMissing: There is no such connection, it has another type, or a part of it is not
            allowed.
        BadInput: The name has too many parts, or too few; or the kind's library is not installed.
    """
    found = required(connection_id, *_PARTS, key="catalog.connection", example=_EXAMPLE)
    kind, parts = found.conn_type, len(TableName.of(name).path)
    if parts != _PARTS[kind]:
        allowed = "catalog.schema.table" if _PARTS[kind] == 3 else "schema.table"
        raise BadInput(
            f"catalog.name: got {name}; allowed for a connection of type {kind}: {allowed}"
        )
    module, extra = _LIBRARIES.get(kind, ("httpx", ""))
    if find_spec(module) is None:
        raise BadInput(
            f"connection {connection_id}: type {kind} needs what is not installed: pip install"
            f" 'tideline[{extra}]'"
        )
    if kind == "http":
        return Unity(read_settings(connection_id, found))
    if kind == "hive_metastore":
        refuse_others(connection_id, found.extra, ())
        if not found.host:
            raise refused(connection_id, "host", "missing", "where the metastore listens")
        return HiveMetastore(found.host, found.port or _PORT)
    refuse_others(connection_id, found.extra, _GLUE)
    options = {key: found.extra.get(key) for key in ("region_name", "endpoint_url")}
    keys = {"aws_access_key_id": found.login, "aws_secret_access_key": found.password}
    return Glue({**options, **(keys if found.login else {})}, found.extra.get("catalog_id"))
