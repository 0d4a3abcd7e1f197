"""Where tables and ledgers lie: which addresses are safe, and which lie inside each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import urlsplit

LedgerKind = Literal["delta", "airflow"]
DEFAULT_CONNECTION = "tideline_ledger"
StoreKind = Literal["s3a", "azure", "google"]
STORES: dict[str, StoreKind] = {"s3a": "s3a", "abfss": "azure", "abfs": "azure", "gs": "google"}
"""Schemes of addresses in an object store. Spark and delta-rs both know them."""
_EXAMPLES: dict[StoreKind, str] = {
    "s3a": "s3a://lake/orders",
    "azure": "abfss://lake@account.dfs.core.windows.net/orders",
    "google": "gs://lake/orders",
}
_ALLOWED = f"an absolute path, file:///..., or an address as in {', '.join(_EXAMPLES.values())}"
_OTHERS = {
    **dict.fromkeys(("s3", "s3n"), "write s3a://bucket/path, which Spark knows as well"),
    **dict.fromkeys(("gcs",), "write gs://bucket/path, which Spark knows as well"),
    **dict.fromkeys(
        ("wasb", "wasbs", "az", "azure", "adl", "https"),
        f"not supported; Azure's stores are {_EXAMPLES['azure']}, which Spark and delta-rs know",
    ),
}
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}\.dfs\.core\.windows\.net")
_CONTAINER = re.compile(r"(?=.{3,63}$)[a-z0-9]+(?:-[a-z0-9]+)*")
"""Azure's rules for names of accounts and containers ("Naming and referencing containers")."""


def safe_uri(value: str) -> str:
    """Check an address that is passed to Spark, delta-rs and SQL.

    Returns:
        The address, unchanged.

    Raises:
        ValueError: Another scheme than file and those of `STORES`, a login, a relative path, a
            store's address without a bucket or a path, an empty part of a store's path, `..`, or a
            character that is not allowed in a path.
    """
    scheme, separator, rest = value.partition("://")
    path = rest if separator else value
    if separator and scheme not in ("file", *STORES):
        raise ValueError(_OTHERS.get(scheme, f"allowed are {_ALLOWED}"))
    store = STORES.get(scheme) if separator else None
    if store is None and not path.startswith("/"):
        raise ValueError(f"needs {_ALLOWED}")
    authority, _, key = path.removesuffix("/").partition("/")
    if store == "azure":
        _check_account(authority)
    elif separator and re.search("[@:]", authority):
        raise ValueError(
            "a login or a port does not belong into an address; credentials come from a connection"
        )
    if store is not None and (not authority or not all(key.split("/"))):
        raise ValueError(f"needs a bucket and a path without empty parts, as in {_EXAMPLES[store]}")
    # two spellings of one folder would pass for two tables
    if ".." in PurePosixPath(path).parts:
        raise ValueError("'..' is not allowed")
    if found := re.search(r"[`'\"\s\\%?#*\[\]{}\x00-\x1f]", value):
        raise ValueError(
            f"allowed: an address without {found[0]!r}; it has no blank, no control character and"
            " none of ` ' \" \\ % ? # * [ ] { }"
        )
    return value


def _check_account(authority: str) -> None:
    """Refuse what is not a container and an account of Azure's own cloud."""
    container, _, host = authority.rpartition("@")
    if host.endswith(".fabric.microsoft.com"):
        raise ValueError("OneLake is not supported: it lists no folder from a name on")
    if re.search(r"\.(chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de)$", host):
        raise ValueError(f"{host}: only Azure's public cloud is supported")
    if ".privatelink." in host:
        raise ValueError(
            f"{host}: write {host.replace('.privatelink', '')}, which leads to the private endpoint"
            " where there is one"
        )
    if host.endswith(".storage.azure.net"):
        raise ValueError(f"{host}: accounts with endpoints in a DNS zone are not supported")
    if container.startswith("$"):
        raise ValueError(
            f"{container} is Azure's own, for web pages or logs: name another container"
        )
    if not _ACCOUNT.fullmatch(host) or not _CONTAINER.fullmatch(container):
        raise ValueError(f"needs a container and an account, as in {_EXAMPLES['azure']}")


def store_of(uri: str) -> StoreKind | None:
    """The kind of object store that an address is in; None in a file system."""
    scheme, separator, _ = uri.partition("://")
    return STORES.get(scheme) if separator else None


def is_in_object_store(uri: str) -> bool:
    """Whether an address is in an object store, and no folder of a file system."""
    return store_of(uri) is not None


def bucket_of(uri: str) -> tuple[str, str]:
    """Of a store's address the bucket, or Azure's container, and the path in it, without slashes.

    What the address says of Azure's account is `account_of`.
    """
    address = urlsplit(uri)
    return address.netloc.partition("@")[0], address.path.strip("/")


def account_of(uri: str) -> str | None:
    """Azure's account of an address; None for other stores."""
    if store_of(uri) != "azure":
        return None
    return urlsplit(uri).netloc.partition("@")[2].partition(".")[0]


def one_inside_the_other(one: str, other: str) -> bool:
    """Whether two addresses are the same folder, or one holds the other.

    Links of a file system are not followed: what is there may be another machine's.
    """
    mine, theirs = folders_of(one), folders_of(other)
    shorter = min(len(mine), len(theirs))
    return mine[:shorter] == theirs[:shorter]


def folders_of(uri: str) -> tuple[str, ...]:
    """Kind of store and folders, each once: `/a//b/./c/` is `/a/b/c`."""
    path = uri.removeprefix("file://").rpartition("://")[2]
    return (store_of(uri) or "", *PurePosixPath("/", path.lstrip("/")).parts)


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    """One location of one stream's ledger.

    Args:
        kind: A Delta table, or tables in the database of an Airflow connection.
        address: The Delta table's address, or the Airflow connection's id.
        stream: The stream's name.
    """

    kind: LedgerKind
    address: str
    stream: str

    def __str__(self) -> str:
        return self.address if self.kind == "delta" else f"{self.address}: {self.stream}"

    @property
    def in_stream_file(self) -> str:
        """The keys of a stream file that name this location."""
        if self.kind == "delta":
            return f"`ledger: delta` and `ledger_uri: {self.address}`, without ledger_connection"
        return f"`ledger: airflow` and `ledger_connection: {self.address}`, without ledger_uri"


@dataclass(frozen=True, slots=True)
class RelocationMarker:
    """Marks a location whose ledger was moved away, or was not yet copied to it completely.

    Args:
        state: `moved_to` another location, or an `unfinished` copy of another location.
        ledger_id: Id of the ledger.
        other: The location that the ledger was moved to, or is being copied from.
        by: Who moves it; None if it was moved by a version that did not record it.
    """

    state: Literal["moved_to", "unfinished"]
    ledger_id: str
    other: LedgerLocation
    by: str | None = None

    def refusal(self, location: str) -> str:
        """Why the ledger at this location cannot be opened, and what to do."""
        if self.state == "moved_to":
            return (
                f"ledger {location} was moved to {self.other}{f' by {self.by}' if self.by else ''}:"
                f" set {self.other.in_stream_file}, in the stream file"
            )
        return (
            f"ledger {location} is an unfinished copy of {self.other}: repeat the"
            " `tideline move-ledger` that began it, or set"
            f" {self.other.in_stream_file}, in the stream file"
        )
