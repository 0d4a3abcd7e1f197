"""Kafka's records to files of the raw table: source, columns, sink. `DataFrame -> DataFrame`.

Exactly the planned offsets are read as a batch, in tasks of similar size, with native functions
only. Rows are counted while plain data files are written; the run names and commits these (R2).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from math import ceil
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tideline.errors import VerificationFailed
from tideline.failpoints import reach
from tideline.model.erasures import OF_KEY, OF_RECORD
from tideline.model.offsets import CoordinateRange, OffsetRange, TopicPartition, intersect
from tideline.model.spark_job import Output, SparkJob, SparkResult, readable_groups
from tideline.spark.coordinates import Transform, marked
from tideline.table.schema import COLUMNS

_ERASED, _DOUBTED = "_tideline_erased", "_tideline_doubted"
_BY_KEY, _SALT = "_tideline_by_key", "_tideline_salt"
"""Columns while a job runs: whether a row is at such coordinates."""

READER_OPTIONS = {
    # Spark's consumer looks up both ends of the log after every poll, so few large polls are best.
    "kafka.max.poll.records": "20000",
    # Spark keeps consumers, and the records that they fetched past the end of a range. With 16 MiB,
    # five million records in twelve pieces did not fit into a heap of 1 GiB.
    "kafka.max.partition.fetch.bytes": str(4 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(16 * 1024 * 1024),
    "kafka.receive.buffer.bytes": str(1024 * 1024),
    # A fetch at the log's end waits for more records, and delays the look-up of the log's ends.
    "kafka.fetch.max.wait.ms": "10",
    "kafka.allow.auto.create.topics": "false",
    "kafkaConsumer.pollTimeoutMs": "60000",
}
"""Defaults; the options of a job override them."""
_WRITER = {f"parquet.{part}.size.row.check.min": "1" for part in ("page", "block")}
"""Otherwise a writer keeps a hundred rows before it looks at their size: gigabytes, with large
records."""
_LONGEST = 2_000_000
"""Offsets. A longer range is split; otherwise one large partition keeps one core busy, and the
others idle."""
_SHORTEST, _MOST_PARTITIONS, _FEW_TASKS = 50_000, 50, 4
"""Short ranges share a task, up to so many offsets and partitions; so few tasks are not merged."""
_A_FILE_EACH, _PACKED = str(1024**3), "4194304"
"""What Spark reckons that opening a file costs, in bytes: more than a task reads (128 MiB), so that
no task reads two files; and Spark's default."""


_NO_TIMESTAMP = -1


def read_ranges(spark: SparkSession, job: SparkJob) -> DataFrame:
    """The records of the planned ranges and no others, in Kafka's columns.

    `assign` names exactly the planned partitions. `failOnDataLoss` is on, but guarantees nothing
    (see the faults catalogue), so verification counts the rows after the commit.

    Unreadable offsets are read around: the source takes one range per partition, so what lies
    behind them is another read.
    """
    wanted = groups_to_read(job)
    if not wanted:  # a frame without rows still has to have the columns
        return _read_group(spark, job, job.ranges[:1]).limit(0)
    rows = reduce(DataFrame.unionAll, (_read_group(spark, job, group) for group in wanted))
    counts = [len(piece.offsets) for group in wanted for piece in group]
    pieces, tasks = split_and_packed(counts)
    tasks = 1 if job.in_one_task else tasks
    return rows.coalesce(tasks) if tasks < pieces else rows


def groups_to_read(job: SparkJob) -> tuple[tuple[CoordinateRange, ...], ...]:
    """What is read: the ranges without unreadable offsets, at most one piece per partition each."""
    return readable_groups(one_range_each(job.ranges), job.unreadable)


def _read_group(spark: SparkSession, job: SparkJob, group: Sequence[CoordinateRange]) -> DataFrame:
    reader = spark.read.format("kafka").options(**READER_OPTIONS).options(**job.kafka_options)
    return (
        reader.option("assign", _by_topic(group, None))
        .option("startingOffsets", _by_topic(group, "start_offset"))
        .option("endingOffsets", _by_topic(group, "end_offset"))
        .option("maxRecordsPerPartition", str(_LONGEST))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", job.isolation_level)
        .load()
        .select(
            "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"
        )
    )


def _by_topic(ranges: Sequence[CoordinateRange], bound: str | None) -> str:
    if bound is None:
        numbers = defaultdict(list)
        for planned in ranges:
            numbers[planned.topic].append(planned.partition)
        return json.dumps(numbers)
    offsets: dict[str, dict[str, int]] = defaultdict(dict)
    for planned in ranges:
        offsets[planned.topic][str(planned.partition)] = getattr(planned, bound)
    return json.dumps(offsets)


def one_range_each(ranges: Sequence[CoordinateRange]) -> list[CoordinateRange]:
    """One range per topic partition: Spark reads each once, whatever the generations are.

    Raises:
        VerificationFailed: Two ranges of a partition are not adjacent, so that Spark would read
            offsets that nobody planned.
    """
    found: dict[TopicPartition, CoordinateRange] = {}
    for planned in sorted(ranges, key=lambda r: (r.topic_partition, r.start_offset)):
        lower = found.setdefault(planned.topic_partition, planned)
        if lower is planned:
            continue
        if lower.end_offset != planned.start_offset:
            raise VerificationFailed(
                f"{lower} and {planned} are not adjacent: a plan holds one range of a partition,"
                " split only where a generation begins; nothing was read"
            )
        found[planned.topic_partition] = replace(lower, end_offset=planned.end_offset)
    return list(found.values())


def split_and_packed(counts: Sequence[int]) -> tuple[int, int]:
    """Into how many pieces the ranges are split, and how many tasks read them.

    A task writes one data file per topic, so the number of tasks limits the number of files.

    Args:
        counts: Number of offsets in each range.
    """
    pieces = sum(ceil(count / _LONGEST) for count in counts)
    by_size, by_number = ceil(sum(counts) / _SHORTEST), ceil(len(counts) / _MOST_PARTITIONS)
    return pieces, min(pieces, max(by_size, by_number, _FEW_TASKS))


def pack_files(spark: SparkSession, *, files: int, offsets: int) -> None:
    """Have a task read one data file, or several where these are many and small.

    What a task writes then holds one partition of a topic where the data file does, and its
    statistics prove its offsets: nobody has to read them again.

    Args:
        spark: The job's session, which may serve one job after the other.
        files: How many data files the job reads.
        offsets: How many offsets it reads in all.
    """
    is_alone = files <= _FEW_TASKS or offsets >= files * _SHORTEST
    spark.conf.set("spark.sql.files.openCostInBytes", _A_FILE_EACH if is_alone else _PACKED)


def to_table_rows(ranges: Sequence[CoordinateRange], plan_id: str) -> Transform:
    """Add topic id, generation and plan id, and select the table's columns in their order.

    Kafka's columns already have the table's types. Its NO_TIMESTAMP (-1, in
    `org.apache.kafka.common.record.RecordBatch`) is no time of 1969: such a row has none.

    Args:
        ranges: The plan's ranges; they give topic id and generation of each partition.
    """

    def transform(records: DataFrame) -> DataFrame:
        made = {
            "timestamp": F.when(F.unix_millis("timestamp") != _NO_TIMESTAMP, F.col("timestamp")),
            "timestamp_type": F.col("timestampType"),
            "topic_id": _topic_ids(ranges),
            "generation": _generations(ranges),
            "plan_id": F.lit(plan_id),
        }
        return records.select(*(made[n].alias(n) if n in made else n for n in COLUMNS))

    return transform


def _topic_ids(ranges: Sequence[CoordinateRange]) -> Column:
    ids = {planned.topic: planned.topic_id for planned in ranges}
    if len(ids) == 1:
        return F.lit(next(iter(ids.values())))
    return _lookup(ids, F.col("topic"))


def _generations(ranges: Sequence[CoordinateRange]) -> Column:
    """By partition, and by offset where a generation begins inside a partition's ranges."""
    if len({p.generation for p in ranges}) == 1:
        return F.lit(ranges[0].generation)
    place = F.concat_ws("/", F.col("topic"), F.col("partition"))
    lowest, *later = groups_by_offset(ranges)
    column = _lookup({name: p.generation for name, p in lowest.items()}, place)
    for group in later:
        begins = _lookup({name: p.start_offset for name, p in group.items()}, place)
        generation = _lookup({name: p.generation for name, p in group.items()}, place)
        column = F.when(F.col("offset") >= begins, generation).otherwise(column)
    return column


def groups_by_offset(ranges: Sequence[CoordinateRange]) -> list[dict[str, CoordinateRange]]:
    """The lowest range of each partition by `topic/partition`, then the next ones, and so on."""
    found: list[dict[str, CoordinateRange]] = []
    for planned in sorted(ranges, key=lambda r: r.start_offset):
        name = f"{planned.topic}/{planned.partition}"
        depth = sum(name in group for group in found)
        if depth == len(found):
            found.append({})
        found[depth][name] = planned
    return found


def _lookup(values: dict[str, str] | dict[str, int], key: Column) -> Column:
    literals = chain.from_iterable((F.lit(k), F.lit(v)) for k, v in values.items())
    return F.create_map(*literals)[key]


def write_files(rows: DataFrame, job: SparkJob) -> SparkResult:
    """Write the rows into the attempt's own folder, and report how many there were.

    They are counted while they pass: so a file that is lost afterwards is missed by the run, which
    holds the footers against this number. What was erased by key is not written (`erased_keys`).
    """
    rows = rows.transform(marked(_ERASED, job.erased)).where(~F.col(_ERASED)).drop(_ERASED)
    rows = rows.transform(marked(_DOUBTED, job.doubted))
    by_key = F.col(_BY_KEY) if job.future or (job.doubted and job.hashes) else None
    counts = [F.count(F.lit(1)).alias("rows")]
    if by_key is not None:
        rows = rows.transform(erased_keys(job))
        place = F.concat_ws("/", "topic", "partition", "offset")
        counts = [
            F.count_if(~by_key).alias("rows"),
            F.concat_ws(" ", F.collect_list(F.when(by_key, place))).alias("refused"),
        ]
    seen = Observation("written")
    kept = rows.observe(seen, *counts)
    kept = kept.where(~by_key) if by_key is not None else kept
    write_rows(kept.drop(_DOUBTED, _BY_KEY), Output(job.table_uri, job.folder, job.partition_by))
    found = observed(seen, rows, counts)
    refused = _refused(str(found.get("refused") or ""), job.ranges)
    return SparkResult(rows=int(found["rows"]), refused=refused)


def erased_keys(job: SparkJob) -> Transform:
    """Mark the rows that a job leaves out, and reports: those of an erased key.

    The hashes and their secret are in small tables. Spark shows the literals of a plan on its page
    and in its event log, and no rows.
    """
    by_name: dict[str, dict[str, bool]] = defaultdict(dict)
    for found in (*job.hashes, *job.future):
        name, _, digest = found.rpartition(":")
        by_name[name][digest] = found in {*job.future}

    def transform(rows: DataFrame) -> DataFrame:
        names, is_told = rows.columns, F.lit(False)
        make = rows.sparkSession.createDataFrame
        salt = make([(bytes.fromhex(job.secret),)], f"{_SALT} BINARY", verifySchema=False)
        rows = rows.crossJoin(F.broadcast(salt))
        for name, digests in by_name.items():
            digest, is_future = f"{_SALT}_{name}_is", f"{_SALT}_{name}_future"
            ddl = f"{digest} STRING, {is_future} BOOLEAN"
            erased = make([*digests.items()], ddl, verifySchema=False)
            wanted = F.lit(True) if any(digests.values()) else F.col(_DOUBTED)
            made = F.when(wanted, F.sha2(F.concat(F.col(_SALT), _hashed(name)), 256))
            rows = rows.join(F.broadcast(erased), made == F.col(digest), "left_outer")
            is_told |= F.col(digest).isNotNull() & (F.col(_DOUBTED) | F.col(is_future))
        return rows.select(*names, is_told.alias(_BY_KEY))

    return transform


def _hashed(name: str) -> Column:
    """What a hash of that name is of (`raw_key_hash`, `record_hash`)."""
    if name == OF_KEY:
        return F.col("key")
    if name == OF_RECORD:
        both = (F.coalesce(F.sha2(part, 256), F.lit("-")) for part in ("key", "value"))
        return F.concat(*both).cast("binary")
    return F.coalesce("key", "value", F.lit(b""))  # of an earlier version


def _refused(places: str, ranges: Sequence[CoordinateRange]) -> tuple[CoordinateRange, ...]:
    """What `write_files` has observed, as coordinates of the ranges that hold it."""
    found: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for place in places.split():
        topic, partition, offset = place.rsplit("/", 2)
        at = int(offset)
        found[TopicPartition(topic, int(partition))].append(OffsetRange(at, at + 1))
    return tuple(
        r.at(part) for r in ranges for part in intersect(found[r.topic_partition], [r.offsets])
    )


def observed(seen: Observation, rows: DataFrame, metrics: Sequence[Column]) -> Mapping[str, Any]:
    """What was observed while rows were written; counted again if that got lost.

    Spark Connect's server does not wait for it: while it is slow, it may answer without.

    Args:
        rows: The rows without the observation, to be read again.
        metrics: What to count.
    """
    (counted,) = [seen.get] if seen.get else [r.asDict() for r in rows.agg(*metrics).collect()]
    return counted


def write_rows(rows: DataFrame, output: Output) -> None:
    """Write rows into an attempt's folder of a table; a manifest there names the files."""
    target = f"{output.uri.rstrip('/')}/{output.folder}"
    reach("spark:writing")
    rows.write.options(**_WRITER).partitionBy(*output.partition_by).parquet(target)
    reach("spark:written")
