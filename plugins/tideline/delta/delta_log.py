"""A Delta log as a ledger reads and writes it: one request for each thing that has to be asked.

delta-rs opens a log by reading each commit twice and a small checkpoint eleven times, and looks
three times for each commit. Here a look is one LIST, each commit is read once, and a commit is one
PUT that may only create: who is refused looks again. Checkpoints are written from what is known,
by two PUTs (Delta's protocol, "Delta Log Entries", "Checkpoints", "Last Checkpoint File").

What this does not understand fully, it refuses (`NotUnderstood`), and delta-rs opens it: tables
that ask readers or writers for more than protocol 1 and 2, checkpoints in parts or with side files,
logs with holes. What other readers would go on with, and hide rows (`DisputedLog`), nobody opens.
"""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import obstore
import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore

from tideline.delta.delta_checkpoint import (
    Action,
    DamagedLog,
    DisputedLog,
    LogState,
    NotUnderstood,
    read_checkpoint,
    refuse_unknown,
    refuse_unreadable,
    write_checkpoint,
)
from tideline.model.addresses import bucket_of, is_in_object_store
from tideline.store.table_files import object_store

log = logging.getLogger("tideline")
STORE_ERRORS = (BaseError, OSError)
"""What a store's own errors are."""
_NOT_AS_WRITTEN = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(RecursionError, pa.ArrowException),
)
"""What bytes that no writer has written end in when they are read."""
_LOG = "_delta_log"
_LAST = f"{_LOG}/_last_checkpoint"
COMMIT_ID = "tidelineCommit"
"""Among what a commit says about itself: whether a lost answer was a yes."""
_SEEN_SECONDS, _PAUSE_SECONDS = 5.0, 0.05
"""So long a commit is waited for that another writer is making; and between two looks."""
FRESH_SECONDS = 1.0
"""A look so young is not repeated before a commit."""
_LARGEST = 8 * 1024 * 1024
"""Bytes of a checkpoint; what is larger, delta-rs reads with less time and memory."""
_MOST_REMOVES = 1000
"""Files that were taken out since a checkpoint: who knows so many begins at a newer one."""
_OF_A_VERSION = re.compile(r".*/\.?(\d{20})\..*")
_NAMES = re.compile(
    r"(\d{20})\.(?:(json)|(checkpoint\.parquet)"
    r"|checkpoint\.(?:\d{10}\.\d{10}\.parquet|[0-9a-fA-F-]{36}\.(?:json|parquet)))"
)
"""A commit, a checkpoint of one file, and those in several files, in the log's own folder."""
_AS_DELTA_RS = "/=-_.~!$&'()+,:;@"
"""Characters of a path that delta-rs does not escape: it takes out a file by the path that it would
have written itself."""


class CommitTaken(Exception):
    """Another writer has made that version."""


class DeltaLog:
    """One table's log in a folder or a bucket. Threads may share it: it keeps no state.

    Every method raises `STORE_ERRORS` where the store does not answer, or refuses.

    Args:
        uri: The table's address.
        options: delta-rs' options of its store.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._uri, self._options = uri, options
        self._is_in_store = is_in_object_store(uri)
        self._store: Any = None  # made when it is asked: what makes it may refuse the options
        self._prefix = f"{bucket_of(uri)[1]}/" if self._is_in_store else ""
        self._root = Path(urlsplit(uri).path if uri.startswith("file:") else uri)

    def newest(
        self, known: LogState | None = None, read: dict[int, tuple[Action, ...]] | None = None
    ) -> LogState | None:
        """The newest version; None where there is no table.

        Args:
            known: What was read before; it is moved on if its newest commit still stands there.
            read: Takes the lines of the commits that are read, and loses those of another log.

        Raises:
            NotUnderstood: The log says something else than is known here.
        """
        if not self._is_there():
            return None
        if known is not None and known.tag is not None and len(known.removes) < _MOST_REMOVES:
            commits, _ = self._listed(known.version - 1)
            if commits.get(known.version) == known.tag:
                return self._moved_on(known, commits, read)
        if read is not None:
            read.clear()
        return self._opened(read)

    def actions(self, version: int) -> tuple[Action, ...] | None:
        """The lines of a commit; None where it is not there, or not any more.

        One that is not as any writer leaves it is a `DamagedLog`.
        """
        found = self._read(self._path(version))
        return None if found is None else lines_of(version, found[0])

    def commit(
        self,
        state: LogState,
        actions: Iterable[AddAction | RemoveAction],
        about: Action,
        read: dict[int, tuple[Action, ...]] | None = None,
    ) -> LogState:
        """Add and take out files in the version after a state's.

        Args:
            about: What the commit says about itself (`commitInfo`), and `txn`, its transaction.
            read: Takes the commit's lines.

        Raises:
            CommitTaken: Another writer has made that version; nothing was changed.
        """
        version = state.version + 1
        commit_id, now = uuid.uuid4().hex, int(time.time() * 1000)
        info = {
            "timestamp": now,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            **{name: value for name, value in about.items() if name != "txn"},
            COMMIT_ID: commit_id,
        }
        lines: list[Action] = [{"commitInfo": info}, {"txn": about["txn"]}]
        lines += _lines_of(actions, state)
        body = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines).encode()
        path = self._path(version)
        try:
            tag = obstore.put(self._objects(), path, body, mode="create")["e_tag"]
        except STORE_ERRORS as error:
            is_refused = isinstance(error, AlreadyExistsError)
            found = self._seen(path, _SEEN_SECONDS if is_refused else 0.0)
            if found is None:
                raise
            if commit_id.encode() not in found[0]:
                raise CommitTaken(f"version {version} was made by another writer") from error
            tag = found[1]  # only the answer was lost
        if read is not None:
            read[version] = tuple(lines)
        return _applied(state, version, tag, lines)

    def checkpoint(self, state: LogState) -> bool:
        """Write a checkpoint if that can be done. Without it, all is as right, and only slower.

        So nothing that is met here is an error of the commit before it, which stands.
        """
        try:
            self.write_checkpoint(state)
        except Exception as error:
            about = f"{type(error).__name__}: {error}"
            log.warning("table %s: no checkpoint was written: %s", self._uri, about)
            return False
        return True

    def write_checkpoint(self, state: LogState) -> None:
        """Write a checkpoint of a state, so that opening reads nothing older."""
        body, rows = write_checkpoint(state, int(time.time() * 1000))
        path = f"{self._prefix}{_LOG}/{state.version:020d}.checkpoint.parquet"
        self.forget_sums(state.version)
        obstore.put(self._objects(), path, body)
        last = {"version": state.version, "size": rows, "sizeInBytes": len(body)}
        obstore.put(self._objects(), self._prefix + _LAST, json.dumps(last).encode())

    def forget_sums(self, version: int) -> None:
        """Delete what Hadoop's client of a disk has noted about files that are to be replaced.

        It refuses each file that is another one than its note says (`.NAME.crc`).
        """
        if not self._is_in_store:
            for name in (f"{version:020d}.checkpoint.parquet", "_last_checkpoint"):
                (self._root / _LOG / f".{name}.crc").unlink(missing_ok=True)

    def forget_before(self, version: int) -> int:
        """Delete what the log holds of versions before one (exclusive), which has a checkpoint.

        Returns:
            How many files went.
        """
        old = [
            entry["path"]
            for page in obstore.list(self._objects(), f"{self._prefix}{_LOG}")
            for entry in page
            if (found := _OF_A_VERSION.fullmatch(f"/{entry['path']}")) and int(found[1]) < version
        ]
        if old:
            obstore.delete(self._objects(), old)
        return len(old)

    def get(self, path: str) -> bytes:
        """A small file of the table, by one request."""
        return _whole(obstore.get(self._objects(), self._prefix + path))

    def put(self, path: str, data: bytes) -> None:
        """Write a small file of the table, by one request."""
        obstore.put(self._objects(), self._prefix + path, data)

    def _is_there(self) -> bool:
        """Whether a folder has a log; an object store has to be asked."""
        if self._is_in_store or (self._root / _LOG).is_dir():
            return True
        if self._root.exists() and not self._root.is_dir():
            raise NotADirectoryError(str(self._root))
        return False

    def _objects(self) -> Any:
        if not self._is_in_store:
            return LocalStore(self._root)  # of a folder that may not have been there before
        if self._store is None:
            self._store, _ = object_store(self._uri, self._options)
        return self._store

    def _path(self, version: int) -> str:
        return f"{self._prefix}{_LOG}/{version:020d}.json"

    def _read(self, path: str) -> tuple[bytes, str | None] | None:
        """An object and its tag; None where it is not there."""
        try:
            found = obstore.get(self._objects(), path)
        except FileNotFoundError:
            return None
        return _whole(found), _tag(found.meta)

    def _seen(self, path: str, seconds: float) -> tuple[bytes, str | None] | None:
        """As `_read`; some stores refuse a PUT before the one that was first is to be seen."""
        until = time.monotonic() + seconds
        while (found := self._read(path)) is None and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)
        return found

    def _listed(self, after: int) -> tuple[dict[int, str | None], dict[int, bool]]:
        """Tags of the commits behind a version, and which have a checkpoint: one that is read here.

        What lies in a folder of the log's folder is none of both.
        """
        offset = self._path(after) if after >= 0 else None
        commits, checkpoints = dict[int, str | None](), dict[int, bool]()
        folder = f"{self._prefix}{_LOG}"
        for page in obstore.list(self._objects(), folder, offset=offset):
            for entry in page:
                found = _NAMES.fullmatch(entry["path"].removeprefix(f"{folder}/"))
                if found is None:
                    continue
                version = int(found[1])
                if found[2]:
                    commits[version] = _tag(entry)
                else:
                    checkpoints[version] = checkpoints.get(version, False) or bool(found[3])
        return commits, checkpoints

    def _opened(self, read: dict[int, tuple[Action, ...]] | None) -> LogState | None:
        found = self._read(self._prefix + _LAST)
        last = -1 if found is None else self._last(found[0])
        commits, checkpoints = self._listed(last - 1)
        if last >= 0 and not checkpoints.get(last):
            commits, checkpoints = self._listed(-1)
        newest = max(commits, default=-1)
        if max(checkpoints, default=-1) > newest:  # to whom it counts, the table is newer
            raise NotUnderstood(f"a checkpoint is newer than the last commit, version {newest}")
        if not commits:
            return None
        start = max((v for v, is_read in checkpoints.items() if is_read), default=-1)
        state = LogState(start, None, {})
        if start >= 0:
            path = f"{self._prefix}{_LOG}/{start:020d}.checkpoint.parquet"
            checkpoint = obstore.get(self._objects(), path)
            if checkpoint.meta["size"] > _LARGEST:
                raise NotUnderstood(f"its checkpoint has {checkpoint.meta['size']} bytes")
            body = _whole(checkpoint)
            try:
                state = read_checkpoint(start, body)
            except (*_NOT_AS_WRITTEN, OSError) as error:  # no store's: these are bytes
                raise _damaged(start, error) from error
        state = replace(state, tag=commits.get(start))
        state = self._moved_on(state, commits, read)
        if state.tag is None or not {"protocol", "metaData"} <= {*state.others}:
            raise NotUnderstood("the log does not begin where it has to")
        return state

    def _last(self, body: bytes) -> int:
        try:
            last = json.loads(body)
            if "parts" in last or "v2Checkpoint" in last:
                raise NotUnderstood("the checkpoint has several parts")
            return int(last["version"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return -1  # it is a hint

    def _moved_on(
        self,
        state: LogState,
        commits: Mapping[int, str | None],
        read: dict[int, tuple[Action, ...]] | None,
    ) -> LogState:
        newer = sorted(version for version in commits if version > state.version)
        if newer and newer[-1] - state.version != len(newer):
            raise NotUnderstood(f"the log has a hole behind version {state.version}")
        for version in newer:
            found = self._read(self._path(version))
            if found is None:
                raise NotUnderstood(f"version {version} has gone while the log was read")
            lines = lines_of(version, found[0])
            try:
                _refuse_both(version, lines)
                state = _applied(state, version, commits[version], lines)
            except _NOT_AS_WRITTEN as error:
                raise _damaged(version, error) from error
            if read is not None:
                read[version] = lines
        return state


def _damaged(version: int, error: Exception) -> DamagedLog:
    return DamagedLog(f"version {version} is damaged: {type(error).__name__}: {error}")


def lines_of(version: int, body: bytes) -> tuple[Action, ...]:
    """The lines of a commit, which end with a line feed: texts may have other breaks in them.

    Raises:
        DamagedLog: They are no actions, or there is none.
    """
    try:
        lines = tuple(json.loads(line) for line in body.decode().split("\n") if line.strip())
    except _NOT_AS_WRITTEN as error:
        raise _damaged(version, error) from error
    if not lines:  # as a power cut leaves it: for other readers a version in which nothing happened
        raise DisputedLog(f"version {version} is damaged: it is empty")
    if not all(isinstance(line, dict) for line in lines):
        raise DamagedLog(f"version {version} is damaged: a line of it is no action")
    return lines


def _refuse_both(version: int, lines: Sequence[Action]) -> None:
    """A file that one commit adds and takes out: for delta-rs the first counts, for Spark the last.

    Nobody may write that (Delta's protocol, "Add File and Remove File"), but with deletion vectors.
    """
    added, gone = (
        {
            line[kind]["path"]
            for line in lines
            if kind in line and line[kind].get("deletionVector") is None
        }
        for kind in ("add", "remove")
    )
    if both := sorted(added & gone):
        raise DisputedLog(f"version {version} is damaged: it adds and removes {both[0]}")


def _whole(found: Any) -> bytes:
    """An object's bytes: a commit that ends early would lack files, and its rows stand twice.

    Raises:
        OSError: They are fewer than the object has.
    """
    body, meta = bytes(found.bytes()), found.meta
    if len(body) != meta["size"]:
        raise OSError(f"{len(body)} of {meta['size']} bytes of {meta['path']} have come")
    return body


def _tag(entry: Mapping[str, Any]) -> str:
    """What tells an object from another one at its place; some stores know no tags."""
    return entry["e_tag"] or f"{entry['last_modified']}, {entry['size']} bytes"


def _applied(state: LogState, version: int, tag: str | None, lines: Sequence[Action]) -> LogState:
    """The state after a commit's actions."""
    adds, others = dict(state.adds), dict(state.others)
    removes = list[Action]()
    for line in lines:
        ((kind, action),) = line.items()
        if kind == "add":
            refuse_unreadable({action["path"]: action})
            adds[action["path"]] = action
        elif kind == "remove":
            adds.pop(action["path"], None)
            removes.append(action)
        elif kind == "txn":
            others[f"txn:{action['appId']}"] = {n: action[n] for n in ("appId", "version")}
        elif kind in ("protocol", "metaData"):
            others[kind] = action
            refuse_unknown(others)
        elif kind not in ("commitInfo", "cdc"):
            raise NotUnderstood(f"an action is a {kind}")
    return replace(
        state,
        version=version,
        tag=tag,
        adds=adds,
        removes=(*state.removes, *removes),
        others=others,
    )


def _lines_of(actions: Iterable[AddAction | RemoveAction], state: LogState) -> Iterator[Action]:
    """Actions as the log has them; a file goes by the path by which the log knows it."""
    known = defaultdict[str, list[str]](list)
    for path in state.adds:
        known[unquote(path)].append(path)
    for action in actions:
        encoded = quote(action.path, safe=_AS_DELTA_RS)
        if isinstance(action, AddAction):
            yield {
                "add": {
                    "path": encoded,
                    "partitionValues": dict(action.partition_values),
                    "size": action.size,
                    "modificationTime": action.modification_time,
                    "dataChange": action.data_change,
                    "stats": action.stats,
                }
            }
            continue
        for path in known.get(action.path, [encoded]):
            yield {
                "remove": {
                    "path": path,
                    "deletionTimestamp": action.deletion_timestamp,
                    "dataChange": action.data_change,
                    "extendedFileMetadata": action.size is not None,
                    "partitionValues": dict(action.partition_values or {}),
                    "size": action.size,
                }
            }
