"""Where tables and ledgers lie: which addresses are safe, and which lie inside each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

LedgerKind = Literal["delta", "airflow"]
DEFAULT_CONNECTION = "tideline_ledger"


def safe_uri(value: str) -> str:
    """Check an address that is passed to Spark, delta-rs and SQL.

    Returns:
        The address, unchanged.

    Raises:
        ValueError: A scheme other than file and s3a, a login, a relative path, a bucket without a
            path, an empty part of a store's path, `..`, or a character that is not allowed in a
            path.
    """
    scheme, separator, rest = value.partition("://")
    path = rest if separator else value
    if separator and scheme not in ("file", "s3a"):
        raise ValueError("allowed are an absolute path, file:///... and s3a://bucket/...")
    if scheme != "s3a" and not path.startswith("/"):
        raise ValueError("needs an absolute path, file:///... or s3a://bucket/...")
    if separator and re.search("[@:]", rest.partition("/")[0]):
        raise ValueError(
            "a login or a port does not belong into an address; credentials come from a connection"
        )
    if scheme == "s3a":
        bucket, _, key = path.removesuffix("/").partition("/")
        if not bucket or not all(key.split("/")):
            raise ValueError(
                "needs a bucket and a path without empty parts, as in s3a://lake/orders"
            )
    # two spellings of one folder would pass for two tables
    if ".." in PurePosixPath(path).parts:
        raise ValueError("'..' is not allowed")
    if re.search(r"[`'\"\s\\%?#*\[\]{}\x00-\x1f]", value):
        raise ValueError("allowed are letters, digits and . _ - / = : + @ ,")
    return value


def is_in_object_store(uri: str) -> bool:
    """Whether an address is `s3a://...`, and no folder of a file system."""
    return uri.startswith("s3a://")


def one_inside_the_other(one: str, other: str) -> bool:
    """Whether two addresses are the same folder, or one holds the other.

    Links of a file system are not followed: what is there may be another machine's.
    """
    mine, theirs = _parts(one), _parts(other)
    shorter = min(len(mine), len(theirs))
    return mine[:shorter] == theirs[:shorter]


def _parts(uri: str) -> tuple[str, ...]:
    """Scheme and folders, each once: `/a//b/./c/` is `/a/b/c`."""
    scheme, _, path = uri.removeprefix("file://").rpartition("://")
    return (scheme, *PurePosixPath("/", path.lstrip("/")).parts)


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
