"""Addresses in a real object store, and the proxy before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs

import obstore
import pytest

from devstack.object_store import ObjectStore
from devstack.store_faults import (
    Answer,
    Forward,
    Hold,
    IgnoreCondition,
    LoseAnswer,
    Rule,
    StoreAnswer,
    StoreRequest,
)
from devstack.store_proxy import StoreProxy
from tideline.store.table_files import object_store

BUCKET = "lake"
Result = TypeVar("Result")


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
        return self.store.address(BUCKET, f"{self.folder}/{table}")

    @property
    def options(self) -> dict[str, str]:
        """delta-rs options of a client that goes through the proxy."""
        return self.store.options(self.proxy.endpoint)

    def path(self, table: str = "orders") -> Path:
        """Where the server keeps a table's objects, if it keeps them as files."""
        objects = self.store.objects(BUCKET)
        if objects is None:
            pytest.skip(f"{self.store.name} keeps no objects as files that a test could look at")
        return objects / self.folder / table


@dataclass(frozen=True)
class Fronted:
    """A server and the proxy before it."""

    store: ObjectStore
    proxy: StoreProxy

    def bucket(self, folder: str) -> Bucket:
        """A folder, and a proxy as new."""
        self.proxy.clear()
        return Bucket(self.store, self.proxy, folder)


@dataclass(frozen=True)
class AssumeRole:
    """The service beside a store that gives out a role's credentials; other requests pass.

    Args:
        role: The ARN that it knows.
        access_key, secret_key: What it gives out.
    """

    role: str
    access_key: str
    secret_key: str

    def __call__(self, request: StoreRequest, forward: Forward) -> StoreAnswer:
        """Give them out, or pass the request on."""
        wanted = parse_qs(request.body.decode(errors="replace"))
        if wanted.get("Action") != ["AssumeRole"]:
            return forward()
        if wanted["RoleArn"] != [self.role]:
            return Answer(403, "AccessDenied")(request, forward)
        parts = {
            "AccessKeyId": self.access_key,
            "SecretAccessKey": self.secret_key,
            "SessionToken": "of-the-role",
            "Expiration": "2099-01-01T00:00:00Z",
        }
        given = "".join(f"<{name}>{value}</{name}>" for name, value in parts.items())
        text = (
            '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
            f"<AssumeRoleResult><Credentials>{given}</Credentials></AssumeRoleResult>"
            "</AssumeRoleResponse>"
        )
        return StoreAnswer(200, (("Content-Type", "text/xml"),), text.encode())


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


def commit_key(version: int, table: str = "") -> str:
    """What the key of a version's commit ends with.

    Args:
        version: The table's.
        table: The last part of its address; any table if empty.
    """
    return f"{table}/_delta_log/{version:020d}.json"


def losing_commit(version: int, table: str = "") -> Rule:
    """The store takes the commit of a version, and nobody hears of it; arguments as above."""
    return Rule(LoseAnswer(), "PUT", commit_key(version, table), times=1)


def while_held(
    bucket: Bucket,
    version: int,
    hold: Hold,
    commit: Callable[[], Result],
    meanwhile: Callable[[], object],
) -> Result:
    """Let others do something while a commit's request, or its answer, is held.

    Args:
        bucket: Where the table is.
        version: The one that is to be committed first.
        hold: How it is held.
        commit: Commits; its result, or its error, is this function's.
        meanwhile: What the others do.
    """
    rule = Rule(hold, "PUT", commit_key(version), times=1)
    with bucket.proxy.applying(rule), ThreadPoolExecutor(1) as pool:
        committing = pool.submit(commit)
        try:
            bucket.proxy.wait_reached(hold, 120)
            meanwhile()
        finally:
            bucket.proxy.release(hold)
        return committing.result()


def ignoring_conditions(bucket: Bucket) -> Rule:
    """The store ignores `If-None-Match`, and what Google has in its place."""
    fault = IgnoreCondition(bucket.uri(), bucket.store.options())
    return Rule(fault, "PUT", conditional=True)


def left_in(bucket: Bucket, table: str) -> list[str]:
    """What objects the store has below a table's address."""
    store, prefix = object_store(bucket.uri(table), bucket.store.options())
    return [entry["path"] for page in obstore.list(store, prefix) for entry in page]
