"""A table's files in an object store, as Arrow reads them: the same bytes, by fewer requests."""

import random

import obstore
import pytest
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, PyFileSystem

from devstack.store_faults import Answer, Rule, counted
from tideline.delta_io import files_of
from tideline.store.files import SMALL_TAIL, object_store

SIZES = (0, 1, SMALL_TAIL - 1, SMALL_TAIL, SMALL_TAIL + 1, 5 * SMALL_TAIL + 7)


@pytest.fixture
def place(any_bucket):
    """The bucket, our reading of it and delta-rs' own."""
    uri, options = any_bucket.uri(), any_bucket.options
    theirs = PyFileSystem(DeltaStorageHandler(uri, dict(options)))
    return any_bucket, files_of(uri, options), theirs


def put(bucket, path, data):
    store, prefix = object_store(bucket.uri(), bucket.options)
    obstore.put(store, prefix + path, data)


@pytest.mark.parametrize("size", SIZES)
def test_any_part_of_a_file_is_read(place, size):
    bucket, ours, _ = place
    rng = random.Random(size)
    data = rng.randbytes(size)
    put(bucket, "a b/x=ü%3A1/f", data)
    with ours.open_input_file("a b/x=ü%3A1/f") as file:
        assert file.size() == size
        for _ in range(20):
            start = rng.randrange(size + 1)
            count = rng.choice([0, 1, 100, SMALL_TAIL, size + 5])
            file.seek(start)
            assert file.read(count) == data[start : start + count]
            assert file.tell() == min(start + count, size)
        file.seek(-min(size, 8), 2)
        assert file.read() == data[size - min(size, 8) :]
    bucket.proxy.clear()
    with ours.open_input_stream("a b/x=ü%3A1/f") as file:
        assert file.read() == data
    if 0 < size <= SMALL_TAIL:
        assert counted(bucket.proxy.requests) == {"GET": 1}


def test_folders_are_listed_with_all_below_them(place):
    """But for what some programs leave as a mark of a folder; no folder is listed itself."""
    bucket, ours, theirs = place
    sizes = {"f/a": 1, "f/x=1/b": 2, "f/x=1/y=2/c": 3, "f2/d": 4}
    for path, size in sizes.items():
        put(bucket, path, b"x" * size)
    for folder in ("f", "f/x=1", "f2", "none"):
        selector = FileSelector(folder, allow_not_found=True, recursive=True)
        found = {(f.path, f.size) for f in ours.get_file_info(selector) if f.is_file}
        assert found == {(p, s) for p, s in sizes.items() if p.startswith(f"{folder}/")}
        if folder != "none":
            assert found == {(f.path, f.size) for f in theirs.get_file_info(selector) if f.is_file}


def test_what_is_not_there_and_what_is_refused_are_told_apart(place):
    bucket, ours, _ = place
    put(bucket, "f", b"x")
    with pytest.raises(FileNotFoundError):
        ours.open_input_file("g")
    bucket.proxy.add(Rule(Answer(403, "AccessDenied")))
    for ask in (
        lambda: ours.open_input_file("f").read(),
        lambda: ours.get_file_info(FileSelector("", recursive=True)),
    ):
        with pytest.raises(OSError, match="AccessDenied"):
            ask()
