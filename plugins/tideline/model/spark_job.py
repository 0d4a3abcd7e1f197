"""What a run gives Spark to do, and what Spark answers: files between two processes.

    SparkJob    ranges of Kafka     ->  SparkResult
    DecodeJob   rows of a version   ->  DecodeResult

A job holds all that its application needs: the driver may run on another machine, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tideline.model.decoding import DecodePlan
from tideline.model.offsets import CoordinateRange, OffsetRange, TopicPartition, subtract


@dataclass(frozen=True, slots=True)
class SparkJob:
    """One piece of work for the Spark application.

    Args:
        stream, run_id: Name the application.
        plan_id: The plan that lands the rows; a column of each row.
        folder: The attempt's own folder, relative to the table's; data files go there.
        ranges: Coordinates to read; ends are exclusive.
        kafka_options: Options of Spark's Kafka source; secret.
        result_path: Where the driver writes a `SparkResult`.
        unreadable: Coordinates inside the ranges that are not read: their loss is accepted.
        store_options: Properties of the file system that holds the table; not secret.
        erased: Coordinates inside the ranges that were erased: what is read there is left out.
        doubted: Those whose older generation was: left out where the key is one of `hashes`.
        hashes: Of erased keys; `future` those whose records are left out wherever they are.
        secret: Of the hashes.
        in_one_task: Whether one piece is read after the other, for want of memory.
        stall_seconds: For how long nothing may move in Spark; 0 for no limit.
    """

    stream: str
    run_id: str
    plan_id: str
    table_uri: str
    folder: str
    partition_by: tuple[str, ...]
    isolation_level: str
    ranges: tuple[CoordinateRange, ...]
    kafka_options: Mapping[str, str] = field(repr=False)
    result_path: str = ""
    unreadable: tuple[CoordinateRange, ...] = ()
    store_options: Mapping[str, str] = field(default_factory=dict)
    in_one_task: bool = False
    stall_seconds: int = 0
    erased: tuple[CoordinateRange, ...] = ()
    doubted: tuple[CoordinateRange, ...] = ()
    hashes: tuple[str, ...] = ()
    future: tuple[str, ...] = ()
    secret: str = field(default="", repr=False)


def readable_groups(
    ranges: Iterable[CoordinateRange], unreadable: Iterable[CoordinateRange]
) -> tuple[tuple[CoordinateRange, ...], ...]:
    """Ranges without unreadable offsets, in groups with at most one piece per partition.

    Spark's source takes one range per partition, so every group is read by itself.
    """
    left_out: dict[TopicPartition, list[OffsetRange]] = {}
    for skipped in unreadable:
        left_out.setdefault(skipped.topic_partition, []).append(skipped.offsets)
    groups: list[list[CoordinateRange]] = []
    depths: dict[TopicPartition, int] = {}
    for wanted in ranges:
        for piece in subtract([wanted.offsets], left_out.get(wanted.topic_partition, ())):
            depth = depths.get(wanted.topic_partition, 0)
            depths[wanted.topic_partition] = depth + 1
            if depth == len(groups):
                groups.append([])
            groups[depth].append(wanted.at(piece))
    return tuple(map(tuple, groups))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Offsets of one partition that Spark cannot read, and the error that comes again there."""

    range: CoordinateRange
    reason: str

    def __str__(self) -> str:
        return f"{self.range}: {self.reason}"


@dataclass(frozen=True, slots=True)
class SparkResult:
    """How the Spark application ended.

    Args:
        rows: Rows that were counted while they were written, duplicates included.
        error: Class of the error in `tideline.errors`; None after success.
        unreadable: Where the error will come again.
        refused: Records of erased keys that were read and not written, where no coordinate was
            known to be erased.
        began_ms, ended_ms: When the application began with the job and had written all files, in
            milliseconds since 1970; None where it failed.
    """

    rows: int = 0
    error: str | None = None
    message: str = ""
    unreadable: tuple[Unreadable, ...] = ()
    began_ms: int | None = None
    ended_ms: int | None = None
    refused: tuple[CoordinateRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """Where data files of one table go.

    Args:
        folder: The attempt's own folder, relative to the table's.
    """

    uri: str
    folder: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedOutput:
    """Where the rows of one event type go.

    Args:
        files: Data files with what stands there at the plan's coordinates, if the records are
            decoded again; paths relative to the table, not URL-encoded.
    """

    output: Output
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """One piece of work for the Spark application that decodes.

    Args:
        stream, run_id: Name the application.
        raw_files: Its data files that may hold rows at the plan's coordinates, in the version that
            the plan froze: paths relative to the table, not URL-encoded.
        decoded_files, quarantined_files: Data files with what stands at the plan's coordinates, if
            the records are decoded again; as `raw_files`.
        is_last_round: Whether ids that the plan does not name count as unknown, for good.
        store_options: Properties of the file system that holds the tables; not secret.
        result_path: Where the driver writes a `DecodeResult`.
        stall_seconds: As of a `SparkJob`.
        application: Which application the file is for; a `SparkJob` says nothing.
        types: Outputs by event type where there are several; `decoded` is the first one's.
    """

    stream: str
    run_id: str
    raw_uri: str
    raw_files: tuple[str, ...]
    plan: DecodePlan
    decoded: Output
    quarantine: Output
    decoded_files: tuple[str, ...] = ()
    quarantined_files: tuple[str, ...] = ()
    is_last_round: bool = False
    store_options: Mapping[str, str] = field(default_factory=dict)
    result_path: str = ""
    stall_seconds: int = 0
    application: Literal["decode_rows"] = "decode_rows"
    types: Mapping[str, TypedOutput] = field(default_factory=dict)

    def of_type(self, name: str) -> DecodeJob:
        """The job of the records of one event type."""
        to = self.types[name]
        plan = self.plan.of_type(name)
        return replace(self, plan=plan, decoded=to.output, decoded_files=to.files, types={})

    @property
    def files(self) -> int:
        """How many data files it reads."""
        of_types = (to.files for to in self.types.values())
        read = (self.raw_files, self.decoded_files, self.quarantined_files, *of_types)
        return sum(map(len, read))


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """How the application that decodes has ended.

    Args:
        decoded: Rows for the typed table, kept tombstones included.
        quarantined: Rows for the quarantine.
        tombstones: Records without a value, kept or not.
        new_ids: Ids of schemas that records carry and the plan does not name, by part; if there
            are any, nothing else here counts, and the job is to be given again with them.
        new_schemas: Texts of those that records bring themselves, by part; counts as `new_ids`.
        changed, quarantine_changed: Rows of each table that are others than before, new or gone, if
            the records were decoded again.
        unasked: Quarantined records with ids that the plan does not name, in the last round.
        failed: Rows that fail each expectation, wherever they went.
        halting: Rows that fail at least one of those that halt.
        by_type: The rows of `decoded`, by event type where there are several.
        bare_updates: Updates that bring no row of before, if a null may be an untold value there.
        bad_of_types: Rows for the quarantine that are of one of several event types.
        error: Class of the error in `tideline.errors`; None after success.
    """

    decoded: SparkResult = field(default_factory=SparkResult)
    quarantined: SparkResult = field(default_factory=SparkResult)
    raw_rows: int = 0
    tombstones: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    new_ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    new_schemas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    changed: int = 0
    quarantine_changed: int = 0
    unasked: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    halting: int = 0
    by_type: Mapping[str, SparkResult] = field(default_factory=dict)
    bare_updates: int = 0
    bad_of_types: int = 0
    error: str | None = None
    message: str = ""

    @property
    def asks_again(self) -> bool:
        """Whether records have schemas that the plan does not name."""
        return bool(self.new_ids or self.new_schemas)
