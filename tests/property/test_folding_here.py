"""The fold in the run's own process: whatever portions come, the definition decides."""

import logging
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.worlds.build import ID, OTHER_ID
from tests.worlds.damage import Breaking, spoil_page
from tests.worlds.fold_histories import portions, records
from tests.worlds.folds import SEQUENCE, Folds, at, change, same
from tideline.delta.delta_io import files_of
from tideline.errors import ServiceAway, VerificationFailed
from tideline.fleet import batch
from tideline.folding import engine
from tideline.folding.arrow import folding, spilling
from tideline.folding.arrow import row_shape as rows_module
from tideline.folding.arrow.buckets import Writer
from tideline.folding.engine import fold_here
from tideline.launch.progress import logged_seldom
from tideline.model.current import CurrentColumn, Floor, differing
from tideline.model.fold_job import FoldResult


def count_spilled(monkeypatch, spills):
    """Note each run that goes to a disk."""
    spilled = folding.spilled
    monkeypatch.setattr(folding, "spilled", lambda *of: spills.append(of) or spilled(*of))


def split(folds):
    """Each bucket's rows in two files, as folds by Spark leave them; the keys of both overlap."""
    for bucket, files in folds.files.items():
        rows = [pq.ParquetFile(folds.folder / "current" / f).read() for f in files]
        if len(rows) > 1 or len(rows[0]) < 2:
            continue
        names = []
        for first in (0, 1):
            names.append(files[0].replace(".parquet", f"-{first}.parquet"))
            part = rows[0].take(list(range(first, len(rows[0]), 2)))
            pq.write_table(part, folds.folder / "current" / names[-1])
        folds.files[bucket] = names


def shuffle(folds, seed):
    """Each file's rows in any order, as somebody else has written them."""
    for path in (folds.folder / "current" / f for files in folds.files.values() for f in files):
        rows = pq.ParquetFile(path).read()
        pq.write_table(rows.take(random.Random(seed).sample(range(len(rows)), len(rows))), path)


@pytest.mark.parametrize("seed", range(24))
def test_the_table_is_the_fold_of_its_changes(tmp_path, seed, monkeypatch):
    """Read a few rows at a time, from one file or two, with sorted runs on a disk."""
    monkeypatch.setattr(rows_module, "_MOST_ROWS", 1 + seed % 4)
    monkeypatch.setattr(spilling, "_PART", 2)
    order = "sequence" if seed % 4 == 3 else "offset"
    more = SEQUENCE | {"has_truncates": False} if order == "sequence" else {}
    lacks = 0 if order == "sequence" else 0.3 * (seed % 3)
    if not lacks:
        more |= {"has_unavailable": False}
    keeps = seed % 5 > 1
    eras = (ID, OTHER_ID) if keeps else (ID,)
    folds = Folds(tmp_path, eras=eras, keeps=keeps, **more)
    count_spilled(monkeypatch, spills := [])
    if seed % 3:
        monkeypatch.setattr(spilling, "PORTION", 2)
    truncates = order == "offset" and seed % 2 == 0
    folds.has(*(rows := [*records(seed, order, lacks=lacks, truncates=truncates, eras=eras)]))
    for portion in portions(seed, rows):
        result = folds.fold(portion)
        assert not result.refused
        found, expected = same(folds.table(), folds.expected())
        assert found == expected
        split(folds)
        if seed % 7 < 3:
            shuffle(folds, seed)
    sums = folds.head.buckets
    if keeps:
        monkeypatch.setattr(spilling, "PORTION", 7)
        spills.clear()
        folds.fold([], is_anew=True)
        assert folds.head.buckets == sums
        assert len(rows) < 20 or len(spills) > 1
        found, expected = same(folds.table(), folds.expected())
        assert found == expected


@pytest.fixture
def standing(tmp_path):
    """Twenty keys in one bucket, folded; and the job that folds one more change."""
    folds = Folds(tmp_path, buckets=1)
    folds.has(*(change(n, f"k{n:02}", "c", "x", n) for n in range(20)))
    folds.fold([at(0, 20)])
    folds.has(change(20, "k07", "u", "y"))
    return folds


def rewritten(folds, change_of):
    """The bucket's file, as somebody else has written it."""
    (path,) = folds.files[0]
    file = folds.folder / "current" / path
    pq.write_table(change_of(pq.ParquetFile(file).read()), file)
    return file


def job_of(folds):
    """The job that folds the change that has come."""
    jobs = []
    folds.execute = lambda job: jobs.append(job) or FoldResult(left=(None,))
    folds.fold([at(20, 21)])
    return jobs[0]


def no_texts(count):
    """Texts whose bytes are no UTF-8, in order."""
    data = b"".join(bytes([0xC8, n]) for n in range(count))
    ends = pa.array(range(0, 2 * count + 1, 2), pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), count, [None, ends, pa.py_buffer(data)])


def stores(uri):
    return files_of(uri, {})


def test_rows_in_another_order_are_sorted(standing, monkeypatch):
    """In as many files as somebody likes, and with more rows than memory bears."""
    monkeypatch.setattr(spilling, "PORTION", 6)
    monkeypatch.setattr(spilling, "_PART", 2)
    monkeypatch.setattr(rows_module, "_MOST_ROWS", 3)
    (path,) = standing.files[0]
    file = standing.folder / "current" / path
    rows = pq.ParquetFile(file).read().take([7, *range(19, 7, -1), *range(7)])
    pq.write_table(rows.slice(0, 9), file)
    pq.write_table(rows.slice(9), file.with_name("other.parquet"))
    standing.files[0].append(path.replace(file.name, "other.parquet"))
    assert standing.fold([at(20, 21)]).written.rows == 20
    found, expected = same(standing.table(), standing.expected())
    assert found == expected
    (path,) = standing.files[0]
    keys = pq.ParquetFile(standing.folder / "current" / path).read()["k"].to_pylist()
    assert keys == sorted(keys)


def test_the_log_of_a_fleet_names_the_stream_whose_rows_are_in_another_order(standing, caplog):
    """Buckets are folded in threads of their own."""
    shuffle(standing, 1)
    context = copy_context()
    context.run(batch._AT_WORK.set, "orders")
    with batch._named_in_logs(), caplog.at_level(logging.INFO, "tideline"):
        context.run(fold_here, stores, None, job_of(standing))
    assert "orders: bucket 0 is in another order: others have written it" in caplog.messages


def test_sorted_rows_of_one_bucket_are_on_the_disk_at_a_time(tmp_path, monkeypatch):
    """Others may have put the whole table in another order, which is more than the disk has."""
    monkeypatch.setattr(folding, "_workers", lambda buckets: nullcontext(1))
    folds = Folds(tmp_path, buckets=3)
    folds.has(*(change(n, f"k{n:02}", "c", "x", n) for n in range(20)))
    folds.fold([at(0, 20)])
    for path in (files[0] for files in folds.files.values()):
        file = folds.folder / "current" / path
        rows = pq.ParquetFile(file).read()
        pq.write_table(rows.take([*range(len(rows) - 1, -1, -1)]), file)
    there, in_order = [], folding.sorted_runs

    def counted(shape, batches, folder):
        there.append(sum(name.suffix == ".arrow" for name in folder.parent.rglob("*")))
        return in_order(shape, batches, folder)

    monkeypatch.setattr(folding, "sorted_runs", counted)
    folds.has(*(change(20 + n, f"k{n:02}", "u", "y", n) for n in range(20)))
    assert folds.fold([at(20, 40)]).written.rows == 20
    assert there == [0, 0, 0]
    found, expected = same(folds.table(), folds.expected())
    assert found == expected


def test_a_key_that_stands_twice_is_a_change_of_others(standing):
    """The bucket is not what the ledger says; where the ledger says it, the fold halts as well."""
    job = job_of(standing)
    rewritten(standing, lambda rows: pa.concat_tables([rows, rows.slice(19)]))
    result = folding.fold(job, stores, logged_seldom())
    assert differing(job.before_in([0]), result.found)
    assert not result.written.rows
    with pytest.raises(VerificationFailed, match="a key stands twice in bucket 0"):
        folding.fold(replace(job, before=result.found), stores, logged_seldom())


def with_row(rows, **facts):
    """One row more, behind all others, with these values and else those of the last one."""
    row = rows.slice(len(rows) - 1).to_pylist()[0] | facts
    return pa.concat_tables([rows, pa.Table.from_pylist([row], rows.schema)])


@pytest.mark.parametrize(
    ("change_of", "foreign"),
    [
        (lambda rows: rows.set_column(3, "topic_id", pa.array(["another"] * 20)), 20),
        (lambda rows: rows.set_column(9, "is_deleted", pa.nulls(20, pa.bool_())), 20),
        (lambda rows: rows.drop(["topic_id"]), 20),
        (lambda rows: rows.drop(["k"]), 20),
        (lambda rows: with_row(rows, k=None), 1),
        (lambda rows: with_row(rows, k="z", topic_id=None), 1),
        (lambda rows: with_row(rows, k="z", topic_id="another"), 1),
        (lambda rows: with_row(rows, k="z", offset=None), 1),
        (lambda rows: with_row(rows, k="z", is_deleted=None), 1),
        (lambda rows: with_row(rows, k=None).take([20, *range(19, -1, -1)]), 1),
    ],
    ids=[
        *("another topic", "no flags", "no topic ids", "no keys", "a row without a key"),
        *("one without a topic id", "one of another topic", "one without an offset"),
        *("one without a flag", "one without a key, in another order"),
    ],
)
def test_rows_of_others_in_the_table_are_counted(standing, change_of, foreign):
    """No fold has written them: the bucket is not what the ledger says, nor is it for a look."""
    job = job_of(standing)
    (known,) = job.before
    rewritten(standing, change_of)
    result = folding.fold(job, stores, logged_seldom())
    (found,) = result.found
    assert found.rows == foreign + (20 if foreign == 1 else 0)
    assert (found.checksum == known.checksum) == (foreign == 1)
    assert differing(job.before_in([0]), result.found)
    assert not result.written.rows
    looked = folding.fold(replace(job, is_recompute=True), stores, logged_seldom())
    assert looked.found == result.found


@pytest.mark.parametrize(
    ("change_of", "what"),
    [
        (
            lambda rows: rows.set_column(2, "w", rows["w"].cast(pa.string())),
            "column w has string in place of int64: others have changed the table",
        ),
        (
            lambda rows: rows.append_column("W", rows["w"]),
            "column w stands there twice: w, W",
        ),
    ],
    ids=["another type", "a column twice"],
)
def test_a_file_of_others_that_tells_other_values_is_named(standing, change_of, what):
    job = job_of(standing)
    file = rewritten(standing, change_of)
    with pytest.raises(VerificationFailed, match=what) as raised:
        folding.fold(job, stores, logged_seldom())
    assert file.name in str(raised.value)


@pytest.mark.parametrize(
    "change_of",
    [
        lambda rows: rows.set_column(2, "w", rows["w"].cast(pa.int32())),
        lambda rows: rows.rename_columns({"w": "W", "k": "K"}),
        lambda rows: rows.set_column(0, "k", rows["k"].cast(pa.large_string())),
    ],
    ids=["a narrower type", "names in another case", "longer texts"],
)
def test_a_file_of_others_that_tells_the_same_is_folded(standing, change_of):
    job = job_of(standing)
    rewritten(standing, change_of)
    result = folding.fold(job, stores, logged_seldom())
    assert not differing(job.before, result.found)
    assert result.written.rows == 20


def test_typed_rows_of_others_are_none(standing):
    """Without a place among the records, or in another topic."""
    job = job_of(standing)
    file = standing.folder / "typed" / job.typed_files[0]
    rows = pq.ParquetFile(file).read()
    others = [with_row(rows, topic_id=t, offset=n) for t, n in ((None, 20), ("other", 20))]
    others.append(with_row(rows, offset=None))
    for found in (*others, rows.rename_columns({"w": "W"})):
        pq.write_table(found, file)
        result = folding.fold(job, stores, logged_seldom())
        assert (result.changes, result.written.rows) == (1, 20)
    pq.write_table(rows.drop(["topic_id"]), file)
    with pytest.raises(VerificationFailed, match="tells the topic id"):
        folding.fold(job, stores, logged_seldom())


def test_keys_that_are_no_utf_8_are_folded(tmp_path):
    """Beside others that are; each has a row of its own, whatever the bucket."""
    folds = Folds(tmp_path, buckets=2)
    folds.has(*(change(n, f"k{n:02}", "c", "x", n) for n in range(20)))
    folds.fold([at(0, 5)])
    job = job_of(folds)
    file = folds.folder / "typed" / job.typed_files[0]
    rows = pq.ParquetFile(file).read()
    pq.write_table(rows.set_column(rows.schema.names.index("k"), "k", no_texts(20)), file)
    job = replace(job, plan=replace(job.plan, ranges=(at(5, 20),)))
    result = folding.fold(job, stores, logged_seldom())
    assert (result.changes, result.written.rows) == (15, 20)
    written = Path(job.current.uri, job.current.folder)
    keys = [
        pq.ParquetFile(f).read()["k"].cast(pa.binary()).to_pylist()
        for f in written.rglob("*.parquet")
    ]
    assert all(listed == sorted(listed) for listed in keys)
    expected = [*(b"k%02d" % n for n in range(5)), *(bytes([0xC8, n]) for n in range(5, 20))]
    assert sorted(key for listed in keys for key in listed) == sorted(expected)


@pytest.mark.parametrize("kind", ["variant", {"type": "array", "elementType": "variant"}], ids=str)
def test_a_variant_is_copied_and_hashed_by_its_bytes(tmp_path, kind):
    """Whatever order its parts have in a file; another byte is another sum."""
    folds = Folds(tmp_path, buckets=1)
    folds.plan["columns"] = (*folds.plan["columns"], CurrentColumn("any", "any", kind))

    def values(count, last=b"\x0c\x01"):
        parts = [
            {"metadata": b"\x01\x00\x00", "value": last if n == 3 else b"\x00"}
            for n in range(count)
        ]
        parts[1] = None
        return [parts[n : n + 1] for n in range(count)] if isinstance(kind, dict) else parts

    def folded(number, ranges, found):
        folds.has(*(change(n, f"k{n:02}", "c", "x", n) for n in range(number)))
        jobs = []
        real = folds.execute
        folds.execute = lambda job: jobs.append(job) or with_values(job, found) or real(job)
        result = folds.fold(ranges)
        folds.execute = real
        return result

    def with_values(job, found):
        file = folds.folder / "typed" / job.typed_files[0]
        pq.write_table(pq.ParquetFile(file).read().append_column("any", pa.array(found)), file)

    first = folded(5, [at(0, 5)], values(5))
    (path,) = folds.files[0]
    rows = pq.ParquetFile(folds.folder / "current" / path).read()
    assert rows["any"].to_pylist() == values(5)
    second = folded(6, [at(5, 6)], values(6))
    assert second.found == first.left
    other = folded(6, [at(3, 4)], values(6, b"\x0c\x02"))
    assert other.found == second.left
    assert (other.left[0].rows, other.left[0].checksum != second.left[0].checksum) == (6, True)


def damage(file, kind):
    """Spoil a data file."""
    if kind == "gone":
        file.unlink()
    elif kind == "cut off":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        spoil_page(file)


@pytest.mark.parametrize("kind", ["gone", "cut off", "other bytes"])
def test_a_file_that_is_damaged_is_named(standing, kind):
    job = job_of(standing)
    (path,) = standing.files[0]
    file = standing.folder / "current" / path
    damage(file, kind)
    with pytest.raises(VerificationFailed, match=file.name):
        fold_here(stores, logged_seldom(), job)


@pytest.mark.parametrize(("times", "error"), [(1, ServiceAway), (99, VerificationFailed)])
def test_changes_that_a_store_does_not_give_are_not_left_out(tmp_path, times, error):
    """Arrow takes the end of what comes for the end of a column; once it may pass."""
    folds = Folds(tmp_path)
    folds.has(*(change(n, f"k{n}", "c", random.Random(n).randbytes(600).hex()) for n in range(900)))
    jobs = []
    folds.execute = lambda job: jobs.append(job) or FoldResult(left=(None,))
    folds.fold([at(0, 900)])
    breaking = Breaking(tmp_path / "typed", times)
    (tmp_path / "current").mkdir()
    with pytest.raises(error, match="of 900 rows"):
        fold_here(lambda uri: breaking if "typed" in uri else stores(uri), None, jobs[0])


def test_long_values_that_a_file_has_once_fill_no_memory(tmp_path):
    """Spark writes them with a dictionary: the file says nothing of their size in memory."""
    values = pa.array(["x" * 20_000, "y" * 20_000]).take(pa.array([0, 1] * 2500))
    rows = pa.table({"topic_id": [ID] * 5000, "v": values})
    pq.write_table(rows, tmp_path / "rows.parquet")
    columns = {"topic_id": pa.dictionary(pa.int32(), pa.string()), "v": pa.string()}
    store = stores(str(tmp_path))
    found = rows_module.read_rows(store, "rows.parquet", pa.schema(columns), pa.array([ID]))
    sizes = [(len(batch), batch.nbytes) for batch in found]
    assert sum(count for count, _ in sizes) == 5000
    assert max(size for _, size in sizes) < 32 * 1024 * 1024


@pytest.mark.parametrize("stands", [True, False], ids=["a row", "a change"])
def test_one_large_value_is_not_copied_for_each_key(tmp_path, stands):
    """Where it is that of a row between many new keys, or of a change between many that lack it."""
    folds = Folds(tmp_path, buckets=1)
    first = change(0, "z" if stands else "a", "c", "x" * 1024 * 1024)
    folds.has(first)
    if stands:
        folds.fold([at(0, 1)])
        folds.has(change(1, "z", "u", "y"))
    lacks = () if stands else ["v"]
    folds.has(*(change(n, f"k{n:04}", "u", None, n, lacks=lacks) for n in range(2, 2500)))
    folds.fold([at(1, 2500)] if stands else [at(0, 2500)])
    found, expected = same(folds.table(), folds.expected())
    assert found == expected


def test_large_changes_are_read_in_small_parts(tmp_path, monkeypatch):
    """Of each run on a disk one part is in memory: it is small, whatever the size of a row."""
    monkeypatch.setattr(spilling, "PORTION", 50)
    monkeypatch.setattr(rows_module, "_MOST_ROWS", 50)
    sizes, read = [], spilling._read
    monkeypatch.setattr(spilling, "_read", lambda s, b: sizes.append(b.nbytes) or read(s, b))
    folds = Folds(tmp_path, buckets=1)
    folds.has(*(change(n, f"k{n * 37 % 100:03}", "c", "x" * 100_000) for n in range(100)))
    assert folds.fold([at(0, 100)]).written.rows == 100
    assert max(sizes) <= 1024 * 1024
    found, expected = same(folds.table(), folds.expected())
    assert found == expected


def test_there_may_be_more_runs_than_open_files(tmp_path, monkeypatch):
    """A run's file is open only while a part of it is read."""
    monkeypatch.setattr(spilling, "PORTION", 2)
    monkeypatch.setattr(rows_module, "_MOST_ROWS", 2)
    opened, read = [], spilling._read

    def counted(shape, batch):
        opened.append(sum(name.endswith(".arrow") for name in open_files()))
        return read(shape, batch)

    monkeypatch.setattr(spilling, "_read", counted)
    folds = Folds(tmp_path, buckets=1)
    folds.has(*(change(n, f"k{n:03}", "c", "x") for n in range(40)))
    assert folds.fold([at(0, 40)]).written.rows == 40
    assert (len(opened), max(opened)) == (20, 0)


def open_files():
    """The names of this process' open files."""
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the list itself
            yield os.readlink(f"/proc/self/fd/{number}")


def test_lists_that_are_too_large_together_are_read_in_smaller_parts(tmp_path):
    """Arrow has no array for more than 2 GiB of items; each row comes once."""
    asked = []

    class Parquet:
        def iter_batches(self, size, **_options):
            asked.append(size)
            for start in range(0, 100, size):
                if size > 3 and start >= 64:
                    raise pa.ArrowNotImplementedError("Nested data conversions not implemented")
                yield pa.record_batch({"n": [*range(start, min(100, start + size))]})

    found = rows_module._batches(Parquet(), 0, ["n"], 64)
    assert [n for batch in found for n in batch["n"].to_pylist()] == [*range(100)]
    assert asked == [64, 2]


def test_a_value_that_others_have_changed_is_found(standing):
    """What stood there is told; nothing counts as written."""
    job = job_of(standing)
    rewritten(standing, lambda rows: rows.set_column(1, "v", pa.array(["other"] * 20)))
    result = folding.fold(job, stores, logged_seldom())
    assert differing(job.before, result.found)
    assert not result.written.rows


def test_a_column_that_the_file_does_not_have_is_null(standing):
    """And changes no sum of before."""
    columns = (*standing.plan["columns"], CurrentColumn("more", "more", "long"))
    standing.plan["columns"] = columns
    job = job_of(standing)
    result = folding.fold(job, stores, logged_seldom())
    assert not differing(job.before, result.found)
    assert result.written.rows == 20


def test_who_waits_is_told_how_far_a_fold_is(tmp_path):
    """First what it has read, then what it has written."""
    folds, told = Folds(tmp_path), []
    folds.has(*(change(n, f"k{n}") for n in range(20)))
    jobs = []
    folds.execute = lambda job: jobs.append(job) or FoldResult(left=(None,))
    folds.fold([at(0, 20)])
    Path(jobs[0].current.uri).mkdir()
    fold_here(stores, told.append, jobs[0])
    assert told == [
        "changes of 0 of 1 file read",
        *(f"{n} of 3 buckets folded" for n in (1, 2, 3)),
    ]


def test_who_waits_is_told_how_far_a_check_is(standing):
    """The changes are read and folded, then the rows that stand there are read."""
    told = []
    fold_here(stores, told.append, replace(job_of(standing), is_recompute=True))
    assert told == [
        "changes of 0 of 1 file read",
        "changes of 0 of 1 bucket folded",
        "rows of 0 of 1 bucket read",
    ]


def test_a_short_fold_behind_long_work_says_nothing_to_the_log(standing, monkeypatch, caplog):
    """The run was opened long before, and has landed and decoded since."""
    fold = partial(fold_here, stores, None)
    times = iter([1000.0, *(1001.0 for _ in range(100))])
    monkeypatch.setattr(engine, "logged_seldom", lambda: logged_seldom(lambda: next(times)))
    with caplog.at_level(logging.INFO, "tideline"):
        fold(job_of(standing))
    assert not [m for m in caplog.messages if "folded" in m or "read" in m]


def test_folds_of_several_streams_share_cores_and_memory(standing, monkeypatch):
    """As in a fleet: a fold that begins beside another one has what that has left, or a thread."""
    pools = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, count, *others):
            pools.append(count)
            super().__init__(count, *others)
            if len(pools) < 3:
                fold_here(stores, None, replace(job, current=beside(len(pools))))

    def beside(number):
        return replace(job.current, folder=f"landed-{number}")

    plan = replace(standing.last, is_anew=True, layout=replace(standing.last.layout, buckets=6))
    job = replace(job_of(standing), plan=plan, anew=())
    monkeypatch.setattr(folding, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(folding.os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setattr(folding, "free_bytes", lambda: 99 * 2**30)
    fold_here(stores, None, job)
    assert pools == [6, 2, 1]
    fold_here(stores, None, job)
    assert pools[3:] == [6]


def test_a_disk_that_is_full_may_pass(standing, monkeypatch):
    """Of a store or of what is spilled; the folder's files are discarded by the run."""

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    job = job_of(standing)
    monkeypatch.setattr(Writer, "_write", full)
    with pytest.raises(ServiceAway, match="No space left"):
        fold_here(stores, logged_seldom(), job)


def test_a_sweep_takes_rows_below_the_floors(tmp_path):
    """Later changes below them are deletes, and rows of keys that are gone are dropped."""
    folds = Folds(tmp_path, keeps=False)
    folds.has(*(change(n, f"k{n}", "c", "x", n) for n in range(12)), change(12, "k3", "d"))
    folds.fold([at(0, 5), at(6, 13)])
    folds.plan |= {"floors": (Floor(ID, 0, 0, 8),), "is_sweep": True}
    assert folds.fold([]).written.rows == 11
    folds.plan["is_sweep"] = False
    folds.fold([at(5, 6)])
    live = {k for k, row in folds.table().items() if not row["is_deleted"]}
    assert live == {"k8", "k9", "k10", "k11"}
    folds.has(change(13, "z", "c"))
    folds.fold([at(13, 14)])
    assert folds.table().keys() == {*live, "z"}
