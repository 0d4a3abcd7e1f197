"""A table's files in an object store, as Arrow reads them: one request opens a file.

delta-rs' own handler asks for a file's size before it reads, and lists each folder by itself. Here
the last bytes of a file come first, with its size: a Parquet file's footer, or all of a small one.
Folders are listed with all that is below them, and without what only marks a folder.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from obstore.exceptions import BaseError, NotSupportedError
from obstore.store import AzureStore, GCSStore, S3Store
from pyarrow.fs import FileInfo, FileSelector, FileType

from tideline.errors import ServiceAway
from tideline.model.addresses import account_of, bucket_of, is_in_object_store, store_of
from tideline.store.store_refusals import plain_text, refusal
from tideline.store.store_settings import ROLE, for_obstore

if TYPE_CHECKING:
    from obstore import ObjectMeta

SMALL_TAIL = 64 * 1024
"""Bytes that come when a file is opened: so many Arrow asks for when it looks for a footer."""

_PART_BYTES, _PARTS_AT_ONCE = 8 * 1024 * 1024, 2
"""Of an object that is written in parts; what is smaller than one part needs one request."""
_NO_TAIL = ("416", "non-partial response")
"""How obstore says that a store gives no last bytes: of an empty object, each in its way."""


_CLIENTS = {"s3a": S3Store, "azure": AzureStore, "google": GCSStore}


def handler_of(uri: str, options: Mapping[str, str]) -> DeltaStorageHandler | None:
    """Reads and writes the files of a table in an object store; None where delta-rs' own has to.

    Args:
        uri: The table's address.
        options: delta-rs' options of its store; obstore has no client for one with a role.
    """
    if ROLE in options or not is_in_object_store(uri):
        return None
    return _handler(uri, tuple(sorted(options.items())))


@lru_cache(maxsize=32)
def _handler(uri: str, options: tuple[tuple[str, str], ...]) -> DeltaStorageHandler:
    return _ObjectFiles(uri, dict(options))


def object_store(uri: str, options: Mapping[str, str]) -> tuple[Any, str]:
    """A client of an address' bucket, and what the keys of the objects below it begin with."""
    bucket, path = bucket_of(uri)
    given = for_obstore(options)
    kind, account = store_of(uri), account_of(uri)
    assert kind is not None, uri
    if kind == "azure":
        given["config"]["azure_storage_account_name"] = account
    client: Any = _CLIENTS[kind]
    return client(bucket, **given), f"{path}/"


def names_in(uri: str, options: Mapping[str, str]) -> list[str]:
    """The names of what lies in a folder of an object store; none where obstore has no client.

    Raises:
        ServiceAway: The store does not answer.
    """
    if ROLE in options:
        return []
    try:
        client, prefix = object_store(uri, options)
        listed = obstore.list_with_delimiter(client, prefix.strip("/"))
    except BaseError as error:
        raise refusal(uri, options, error) or ServiceAway(plain_text(error)) from error
    paths = [*listed["common_prefixes"], *(entry["path"] for entry in listed["objects"])]
    return [path.rstrip("/").rpartition("/")[2] for path in paths]


class _ObjectFiles(DeltaStorageHandler):
    """delta-rs' handler, but for files, lists of them, and what else Azure leaves of a folder."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        super().__init__(uri, options)
        try:
            self._store, self._prefix = object_store(uri, options)
        except BaseError as error:
            raise OSError(str(error)) from error

    def open_input_file(self, path: str) -> pa.PythonFile:
        try:
            opened = _ObjectFile(self._store, self._prefix + path)
        except BaseError as error:
            if any(sign in str(error) for sign in _NO_TAIL):
                return super().open_input_file(path)
            raise OSError(str(error)) from error
        return pa.PythonFile(opened, mode="r")

    open_input_stream = open_input_file

    def open_output_stream(
        self, path: str, metadata: Mapping[str, str] | None = None
    ) -> pa.PythonFile:
        return pa.PythonFile(_WrittenObject(self._store, self._prefix + path), mode="w")

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> FileInfo:
        """Of a file by one request; of what is none, as delta-rs finds it, by more."""
        try:
            found = obstore.head(self._store, self._prefix + path)
        except FileNotFoundError:
            info: FileInfo = super().get_file_info([path])[0]
            return info
        except BaseError as error:
            raise OSError(str(error)) from error
        return FileInfo(path, FileType.File, size=found["size"])

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        below = f"{self._prefix}{selector.base_dir.strip('/')}".rstrip("/")
        try:
            pages: Iterable[Sequence[ObjectMeta]]
            folders: Sequence[str] = ()
            if selector.recursive:
                pages = obstore.list(self._store, below)
            else:
                listed = obstore.list_with_delimiter(self._store, below)
                pages, folders = [listed["objects"]], listed["common_prefixes"]
            sizes = {
                entry["path"].removeprefix(self._prefix): entry["size"]
                for page in pages
                for entry in page
                if not _marks_folder(entry["path"], entry["size"], below)
            }
        except BaseError as error:
            raise OSError(str(error)) from error
        names = [folder.removeprefix(self._prefix).rstrip("/") for folder in folders]
        return [
            *(FileInfo(name, FileType.Directory) for name in names),
            *(FileInfo(path, FileType.File, size=size) for path, size in sizes.items()),
        ]

    def delete_dir(self, path: str) -> None:
        super().delete_dir(path)
        # What marks the folder lies beside it. A real folder of Azure's may hold others: it stays.
        if isinstance(self._store, AzureStore):
            with suppress(BaseError, FileNotFoundError):
                obstore.delete(self._store, f"{self._prefix}{path.strip('/')}")


def _marks_folder(path: str, size: int, below: str) -> bool:
    """Whether an object stands for a folder: some programs leave one for each.

    Google's has the folder's name and a slash, which obstore leaves out; Hadoop's on Azure has the
    name alone. None of ours is empty, and a file that its writer died over has an ending.
    """
    name = path.rsplit("/", 1)[-1]
    return size == 0 and (path == below or path.endswith("/") or "=" in name or "." not in name)


class _WrittenObject(io.RawIOBase):
    """An object to write: one request makes a small one, where delta-rs' own needs three."""

    def __init__(self, store: Any, key: str) -> None:
        super().__init__()
        self._writer: Any = obstore.open_writer(
            store, key, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
        )

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            self._writer.write(bytes(data))  # sent later, when Arrow may have other bytes there
        except BaseError as error:
            raise OSError(str(error)) from error
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            self._writer.close()
        except BaseError as error:
            raise OSError(str(error)) from error


class _ObjectFile(io.RawIOBase):
    """An object to read from; its last bytes are there from the beginning."""

    def __init__(self, store: Any, key: str) -> None:
        super().__init__()
        self._store, self._key, self._at = store, key, 0
        try:
            found = obstore.get(store, key, options={"range": {"suffix": SMALL_TAIL}})
        except NotSupportedError:  # Azure's stores give no last bytes: the first ones tell its size
            found = obstore.get(store, key, options={"range": (0, SMALL_TAIL)})
        self._tail = bytes(found.bytes())
        self._size = int(found.meta["size"])
        if found.range[1] < self._size:
            self._tail = self._read(self._size - SMALL_TAIL, self._size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        """In bytes."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = begin + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._size - self._at, 0)
        count = left if size is None or size < 0 else min(size, left)
        data = self._bytes(self._at, self._at + count) if count else b""
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def _bytes(self, start: int, end: int) -> bytes:
        """A range; `end` is exclusive."""
        first = self._size - len(self._tail)
        if start >= first:
            return self._tail[start - first : end - first]
        return self._read(start, end)

    def _read(self, start: int, end: int) -> bytes:
        try:
            return bytes(obstore.get_range(self._store, self._key, start=start, end=end))
        except BaseError as error:
            raise OSError(str(error)) from error
