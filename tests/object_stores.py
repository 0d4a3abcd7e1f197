"""Addresses in a real object store, and the proxy before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devstack.object_store import ObjectStore
from devstack.store_faults import IgnoreCondition, LoseAnswer, Rule
from devstack.store_proxy import StoreProxy
from tideline.store_io.options import for_obstore

BUCKET = "lake"


@dataclass(frozen=True)
class Bucket:
    """A folder of one test in the bucket.

    Args:
        store: The server.
        proxy: Before it.
        folder: The folder's name.
    """

    store: ObjectStore
    proxy: StoreProxy
    folder: str

    def uri(self, table: str = "orders") -> str:
        """Address of a table."""
        return f"s3a://{BUCKET}/{self.folder}/{table}"

    @property
    def options(self) -> dict[str, str]:
        """delta-rs options of a client that goes through the proxy."""
        return self.store.options(self.proxy.endpoint)

    def path(self, table: str = "orders") -> Path:
        """Where the server keeps a table's objects."""
        return self.store.folder / "objects" / BUCKET / self.folder / table


@dataclass(frozen=True)
class Fronted:
    """A server and the proxy before it."""

    store: ObjectStore
    proxy: StoreProxy

    def bucket(self, folder: str) -> Bucket:
        """A folder, and a proxy as new."""
        self.proxy.clear()
        return Bucket(self.store, self.proxy, folder)


@contextmanager
def fronted(store: ObjectStore) -> Iterator[Fronted]:
    """Start a server with a bucket, and a proxy before it."""
    store.start()
    try:
        store.create_bucket(BUCKET)
        with StoreProxy(store.port) as proxy:
            yield Fronted(store, proxy)
    finally:
        store.stop()


def losing_commit(version: int, times: int = 1) -> Rule:
    """The store takes the commit of a version, and nobody hears of it."""
    return Rule(LoseAnswer(), "PUT", f"_delta_log/{version:020d}.json", times=times)


def ignoring_conditions(bucket: Bucket) -> Rule:
    """The store ignores `If-None-Match`."""
    arguments = for_obstore(bucket.store.options())
    return Rule(IgnoreCondition(BUCKET, arguments), "PUT", conditional=True)
