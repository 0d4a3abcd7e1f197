"""Two writers try one version of a table in an object store: Spark's own writer, and ours (ADR 27).

The schedule is the same. A commit's put is held, somebody else commits that version by delta-rs,
and the put is let go. The table that both tests print stands in `docs/object-stores.md`.
"""

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from devstack.store_faults import Hold
from tests.worlds.object_stores import commit_key, while_held
from tests.worlds.streams import is_clean
from tideline.store import store_settings as options

pytestmark = [pytest.mark.slow, pytest.mark.s3a]


def puts(bucket, version):
    """Every put of a version's commit: who sent it, whether it may only create, what was said."""
    return [
        ("Spark" if request.is_spark else "delta-rs", request.is_conditional, status)
        for request, status in bucket.proxy.answered
        if request.operation == "PUT" and request.key.endswith(commit_key(version))
    ]


def commit_of(bucket, version):
    """The bytes of a version's commit, as the server keeps them."""
    return bucket.path().joinpath(commit_key(version).lstrip("/")).read_bytes()


def column(bucket, name):
    return sorted(DeltaTable(bucket.path()).to_pyarrow_table(columns=[name])[name].to_pylist())


def test_before_spark_s_own_writer_overwrites_a_commit(spark_in_store, bucket):
    """It looks, and puts without a condition: it reports success, and the other rows are gone."""

    def write(offsets):
        rows = pa.table({"offset": pa.array(offsets, pa.int64())})
        write_deltalake(bucket.uri(), rows, mode="append", storage_options=bucket.options)

    def others_commit():
        write(range(10, 20))
        theirs.append(commit_of(bucket, 1))

    write(range(10))
    theirs = []
    ours = spark_in_store.session.range(20, 30).selectExpr("id AS offset")
    ours = ours.write.format("delta").mode("append")
    bucket.proxy.clear()
    while_held(bucket, 1, Hold(), lambda: ours.save(bucket.uri()), others_commit)
    assert column(bucket, "offset") == [*range(10), *range(20, 30)]
    assert b"delta-rs" in theirs[0]
    assert theirs[0] != commit_of(bucket, 1)
    assert b"Apache-Spark" in commit_of(bucket, 1)
    assert puts(bucket, 1) == [("delta-rs", True, 200), ("Spark", False, 200)]
    print("| before: Spark's own writer | 200, unconditional | success | 10 of 20 rows are gone |")


def test_after_a_run_never_overwrites_a_commit(spark_in_store, bucket, harness, monkeypatch):
    """Spark writes files; the run's put is refused, it looks again, and commits the next version.

    The other commit is of somebody who asks nobody: runs of ours take turns by a lease.
    """
    spark = spark_in_store
    monkeypatch.setitem(options.LIMITS, "timeout", "110s")  # the put is held, and not sent again
    harness.create(partitions=1)
    stream = harness.stream(table={"uri": bucket.uri(), "connection": "lake"})
    harness.send(100)
    version = harness.run(stream, "lands", spark).table_commit.version + 1
    harness.send(100)
    kept, theirs = {"delta.logRetentionDuration": "interval 40 days"}, []

    def others_commit():
        table = DeltaTable(bucket.uri(), storage_options=bucket.options)
        table.alter.set_table_properties(kept)
        theirs.append(commit_of(bucket, version))

    bucket.proxy.clear()
    live = lambda: harness.run(stream, "live", spark)  # noqa: E731
    record = while_held(bucket, version, Hold(), live, others_commit)
    assert theirs == [commit_of(bucket, version)]
    assert kept.items() <= DeltaTable(bucket.path()).metadata().configuration.items()
    assert (record.status, record.table_commit.version) == ("done", version + 1)
    assert column(bucket, "offset") == [*range(200)]
    assert is_clean(harness, stream)
    assert puts(bucket, version) == [("delta-rs", True, 200), ("delta-rs", True, 412)]
    assert puts(bucket, version + 1) == [("delta-rs", True, 200)]
    print("| after: a run | 412, may only create | commits the next version | no row is gone |")
