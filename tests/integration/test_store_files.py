"""A table's files in an object store, as Arrow reads them: the same bytes, by fewer requests."""

import random
import urllib.request
from urllib.parse import urlencode

import obstore
import pytest
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, PyFileSystem

from devstack.store_faults import Answer, Rule, counted
from tests.worlds.object_stores import BUCKET
from tideline.delta.delta_io import discard_folder, files_of
from tideline.store.table_files import SMALL_TAIL, names_in, object_store
from tideline.table.delta_table import TargetTable

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


@pytest.mark.parametrize("size", [0, 1, 300_000, 20 * 1024 * 1024])
def test_a_file_is_written_as_it_is(place, size):
    """A small one by one request; a large one in parts, however it comes."""
    bucket, ours, theirs = place
    data = random.Random(size).randbytes(size)
    bucket.proxy.clear()
    with ours.open_output_stream("a b/x=ü%3A1/f") as file:
        for start in range(0, size, 7_000_001):
            file.write(data[start : start + 7_000_001])
    if size < 1024 * 1024:
        assert counted(bucket.proxy.requests) == {"PUT": 1}
    with theirs.open_input_stream("a b/x=ü%3A1/f") as file:
        assert file.read() == data


def test_a_file_that_a_store_refuses_is_an_error_of_a_file(place):
    bucket, ours, _ = place
    refused = Rule(Answer(403, "AccessDenied"), "PUT")
    with (
        bucket.proxy.applying(refused),
        pytest.raises(OSError),
        ours.open_output_stream("f") as file,
    ):
        file.write(b"x")


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
    assert {(f.path, f.is_file) for f in ours.get_file_info(FileSelector("f"))} == {
        ("f/a", True),
        ("f/x=1", False),
    }
    uri, options = bucket.uri(), bucket.options
    assert sorted(names_in(f"{uri}/f", options)) == ["a", "x=1"]
    assert names_in(f"{uri}/none", options) == []
    root, _, name = uri.rpartition("/")
    assert name in names_in(root, options)


def mark(bucket, path):
    """As Google's client for Hadoop marks a folder, and as Hadoop's own does on Azure."""
    if bucket.store.kind == "azure":
        put(bucket, path, b"")
        return
    _, prefix = object_store(bucket.uri(), bucket.options)
    name = f"{prefix}{path}".rstrip("/") + "/"
    query = urlencode({"uploadType": "media", "name": name})
    url = f"{bucket.store.endpoint}/upload/storage/v1/b/{BUCKET}/o?{query}"
    urllib.request.urlopen(urllib.request.Request(url, b"", method="POST")).close()


@pytest.mark.slow
@pytest.mark.parametrize("server", ["azurite", "fake_gcs"])
def test_what_marks_a_folder_is_no_file(request, server):
    """A folder with nothing but its mark is as empty as one that nobody has made."""
    bucket = request.getfixturevalue(server).bucket("marks")
    uri, options = bucket.uri(), bucket.options
    ours = files_of(uri, options)
    mark(bucket, "")
    assert ours.get_file_info(FileSelector("", allow_not_found=True)) == []
    TargetTable(uri, options).create("orders", "ledger", ["topic_id"])
    mark(bucket, "landed-1")
    mark(bucket, "landed-1/topic_id=a.b")
    attempt = FileSelector("landed-1", recursive=True, allow_not_found=True)
    assert ours.get_file_info(attempt) == []
    put(bucket, "landed-1/topic_id=a.b/part-1.parquet", b"rows")
    put(bucket, "landed-1/topic_id=a.b/part-2.parquet", b"")
    found = {f.path.rsplit("/", 1)[1] for f in ours.get_file_info(attempt)}
    assert found == {"part-1.parquet", "part-2.parquet"}, "a file whose writer died is one"
    discard_folder(uri, options, "landed-1")
    assert ours.get_file_info(attempt) == []
    store, prefix = object_store(uri, options)
    left = [entry["path"] for page in obstore.list(store, prefix) for entry in page]
    is_gone = not any("landed-1" in path for path in left)
    assert is_gone == (server == "azurite"), "no client here deletes a name that ends in a slash"
