"""From raw files to the files of the typed table and of the quarantine, whatever the format is."""

from datetime import UTC, date, datetime

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

import decode_rows
from tests.worlds.build import ID, OTHER_ID
from tests.worlds.raw_tables import (
    avro,
    avro_part,
    decode_job,
    decode_plan,
    decoded,
    framing,
    job_of,
    named_files,
    planned,
)
from tests.worlds.rows import AT, raw_row, write_files
from tideline.documents import dump, load
from tideline.errors import BadInput, VerificationFailed
from tideline.model.decoding import EventDate
from tideline.model.spark_job import DecodeJob, DecodeResult
from tideline.spark.failures import failed_to_decode

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
    ],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
VALUE = avro_part({1: ORDER}, ORDER, {"id": "long", "at": "timestamp"})
OWN = "tests.worlds.own_transforms"
KEYS = avro_part({9: KEY}, KEY, {"id": "long"}, part="key")


def order(number, at=AT):
    return avro(ORDER, {"id": number, "at": at}, 1)


def key(number):
    return avro(KEY, {"id": number}, 9)


def decode(spark, tmp_path, rows, parts=(VALUE,), **others):
    return decoded(spark, job_of(tmp_path, rows, parts, offsets=10_000, **others))


KEPT = ["topic_id", "generation", "topic", "partition", "offset", "timestamp"]


def test_the_quarantine_keeps_the_record_as_it_was(spark, tmp_path):
    """With its headers, and where it stands."""
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    row = raw_row(7, b"\x01", key=b"k", headers=headers, partition=3, generation=2)
    ranges = [planned(0, 10, partition=3, generation=2)]
    result, _, (bad,) = decode(spark, tmp_path, [row], ranges=ranges)
    assert {name: bad[name] for name in (*KEPT, "key", "value", "headers")} == {
        name: row[name] for name in (*KEPT, "key", "value", "headers")
    }
    told = ["part", "schema_id", "error_class", "error", "decode_plan_id"]
    assert list(bad) == [*KEPT, "key", "value", "headers", *told]
    assert (bad["part"], bad["error_class"], bad["decode_plan_id"]) == (
        "value",
        "framing",
        "decodes",
    )
    assert (dict(result.classes), result.raw_rows) == ({"framing": 1}, 1)


@pytest.mark.parametrize("tombstones", ["keep", "drop"])
def test_tombstones(spark, tmp_path, tombstones):
    """A record without a value is no bad one, and is not one whose fields are null."""
    rows = [raw_row(0, order(1), key=key(1)), raw_row(1, None, key=key(2)), raw_row(2, None)]
    parts = (VALUE, KEYS)
    result, typed, bad = decode(spark, tmp_path, rows, parts, tombstones=tombstones)
    assert (result.tombstones, result.raw_rows, bad) == (2, 3, [])
    kept = [(0, False, 1, 1), (1, True, None, 2), (2, True, None, None)]
    found = [(r["offset"], r["is_tombstone"], r["id"], r["key_id"]) for r in typed]
    assert found == (kept if tombstones == "keep" else kept[:1])


@pytest.mark.parametrize(
    ("partitions", "offsets", "alone"), [(3, 10, 3), (6, 10, 0), (6, 50_000, 6)]
)
def test_what_one_partition_has_landed_is_decoded_by_a_task_of_its_own(
    spark, tmp_path, partitions, offsets, alone
):
    """So that the typed file's statistics prove its offsets; not where files are small and many."""
    rows = [raw_row(0, order(n), partition=n) for n in range(partitions)]
    files = write_files(tmp_path / "raw", "landed-a", rows, ("topic_id", "partition"))
    ranges = [planned(0, offsets, partition=n) for n in range(partitions)]
    job = decode_job(tmp_path / "raw", files, decode_plan(tmp_path / "raw", ranges, [VALUE]))
    assert decode_rows.execute(spark.session, job).decoded.rows == partitions
    sizes = [pq.ParquetFile(file).metadata.num_rows for file in named_files(job.decoded)]
    assert sum(sizes) == partitions
    assert sizes.count(1) == alone


def test_keys_and_values(spark, tmp_path):
    """One bad part is enough; of two, the value's error is told."""
    rows = [
        raw_row(0, order(1), key=key(10)),
        raw_row(1, order(2), key=b"bad"),
        raw_row(2, b"bad", key=key(12)),
        raw_row(3, b"bad", key=key(13) + b"more"),
        raw_row(4, order(5), key=None),
        raw_row(5, None, key=key(15) + b"more"),
    ]
    result, typed, bad = decode(spark, tmp_path, rows, (KEYS, VALUE))
    assert [(r["offset"], r["id"], r["key_id"]) for r in typed] == [(0, 1, 10), (4, 5, None)]
    assert list(typed[0])[-4:] == ["id", "at", "key_id", "decode_plan_id"]
    assert [(r["offset"], r["part"], r["error_class"], r["schema_id"]) for r in bad] == [
        (1, "key", "framing", None),
        (2, "value", "framing", None),
        (3, "value", "framing", None),
        (5, "key", "trailing_bytes", 9),
    ]
    assert (result.decoded.rows, result.quarantined.rows, result.tombstones) == (2, 4, 0)


def test_keys_only(spark, tmp_path):
    """Values stay as they are; what has none is a tombstone all the same."""
    rows = [raw_row(0, b"any", key=key(1)), raw_row(1, None, key=key(2)), raw_row(2, b"", key=b"?")]
    result, typed, bad = decode(spark, tmp_path, rows, (KEYS,))
    found = [(r["key_id"], r["schema_id"], r["is_tombstone"]) for r in typed]
    assert found == [(1, 9, False), (2, 9, True)]
    assert [(r["part"], r["offset"]) for r in bad] == [("key", 2)]
    assert result.tombstones == 1


def test_ids_that_the_plan_does_not_name(spark, tmp_path):
    """They are told by part, and nothing else is."""
    rows = [raw_row(n, framing(n) + b"x", key=framing(100 - n)) for n in range(1, 6)]
    result, _, _ = decode(spark, tmp_path, rows, (VALUE, KEYS))
    assert result == DecodeResult(new_ids={"value": (2, 3, 4, 5), "key": (95, 96, 97, 98, 99)})


WINDOW = (date(2026, 1, 1), date(2026, 12, 31))


@pytest.mark.parametrize("outside", ["quarantine", "catch_all"])
def test_the_window_of_event_dates(spark, tmp_path, outside):
    """Both days belong to it. A tombstone has the day of Kafka's time."""
    days = [(2025, 12, 31), (2026, 1, 1), (2026, 12, 31), (2027, 1, 1), (9999, 1, 1)]
    times = [datetime(*day, 23, 59, tzinfo=UTC) for day in days]
    rows = [raw_row(n, order(n, at)) for n, at in enumerate(times)]
    rows += [raw_row(5, None), raw_row(6, None, timestamp=times[0])]
    window = EventDate("at", *WINDOW, outside)
    partition_by = ("event_date", "topic_id")
    result, typed, bad = decode(spark, tmp_path, rows, event_date=window, partition_by=partition_by)
    dates = {r["offset"]: r["event_date"] for r in typed}
    none = "__HIVE_DEFAULT_PARTITION__"
    inside = {1: "2026-01-01", 2: "2026-12-31", 5: "2026-03-04", 6: none}
    late = [0, 3, 4]
    if outside == "quarantine":
        assert (dates, [r["offset"] for r in bad]) == (inside, late)
        assert dict(result.classes) == {"event_time": 3}
        assert "2025-12-31" in bad[0]["error"]
    else:
        assert (dates, bad) == (inside | dict.fromkeys(late, none), [])
    assert all("topic_id" in r and r["is_tombstone"] == (r["offset"] > 4) for r in typed)


def test_kafka_s_time_as_the_event_s(spark, tmp_path):
    """Without a field; the column stands before the fields."""
    late = raw_row(1, order(1), timestamp=datetime(2030, 1, 1, tzinfo=UTC))
    window = EventDate(None, *WINDOW, "quarantine")
    _, (row,), (bad,) = decode(spark, tmp_path, [raw_row(0, order(0)), late], event_date=window)
    assert (row["event_date"], bad["error_class"]) == (date(2026, 3, 4), "event_time")
    assert list(row)[7:10] == ["schema_id", "event_date", "id"]


def test_thousands_of_ranges(spark, tmp_path):
    """Every second pair of offsets in two partitions, and one generation of two."""
    rows = [
        raw_row(n, order(n), partition=p, generation=g)
        for n in range(4_000)
        for p in (0, 1)
        for g in (0, 1)
    ]
    ranges = [
        planned(n, n + 2, partition=p, generation=1) for n in range(0, 4_000, 4) for p in (0, 1)
    ]
    result, typed, _ = decode(spark, tmp_path, rows, ranges=ranges)
    wanted = [(p, n) for p in (0, 1) for n in range(4_000) if n % 4 < 2]
    assert [(r["partition"], r["offset"]) for r in typed] == wanted
    assert {r["generation"] for r in typed} == {1}
    assert result.raw_rows == 4_000


PARTITIONED = [(), ("topic_id",), ("topic_id", "generation", "partition"), ("topic",)]


@pytest.mark.parametrize("partition_by", PARTITIONED, ids="/".join)
def test_raw_files_of_several_attempts(spark, tmp_path, partition_by):
    """Folders' names are the values of the raw table's partition columns."""
    raw, files, rows = tmp_path / "raw", [], []
    for number, (topic, topic_id) in enumerate((("orders", ID), ("a.b_c-d", OTHER_ID)) * 2):
        some = [
            raw_row(n, order(n), topic=topic, topic_id=topic_id, partition=p)
            for n in range(10 * number, 10 * number + 3)
            for p in (0, 1)
        ]
        files += write_files(raw, f"landed-{number}", some, partition_by)
        rows += some
    names = {r["topic_id"]: r["topic"] for r in rows}
    ranges = [planned(1, 32, p, 0, i, t) for i, t in names.items() for p in (0, 1)]
    plan = decode_plan(raw, ranges, [VALUE])
    _, typed, _ = decoded(spark, decode_job(raw, files, plan, ("topic_id",)))
    names = ("topic_id", "generation", "topic", "partition", "offset")
    found = sorted(tuple(r[n] for n in names) for r in typed)
    assert found == sorted(tuple(r[n] for n in names) for r in rows if r["offset"] not in (0, 32))


def test_no_raw_files(spark, tmp_path):
    """Nothing stands at the coordinates; so nothing is written."""
    plan = decode_plan(tmp_path / "raw", [planned(0, 10)], [VALUE])
    result, _, _ = decoded(spark, decode_job(tmp_path / "raw", [], plan))
    assert result == DecodeResult()


def test_a_plan_that_spark_will_never_take_is_bad_input(spark):
    """Such as two columns that it takes for one: running again changes nothing."""
    with pytest.raises(AnalysisException) as refused:
        spark.session.sql("SELECT a FROM (SELECT 1 AS a, 2 AS A)").collect()
    result = failed_to_decode(None, None, refused.value)
    assert result.error == BadInput.__name__
    assert "AMBIGUOUS_REFERENCE" in result.message


def test_a_failed_job_says_so(spark, tmp_path):
    """A raw file is gone: the result has the error, in a class that may pass."""
    plan = decode_plan(tmp_path / "raw", [planned(0, 10)], [VALUE])
    job = decode_job(tmp_path / "raw", ["landed/gone.parquet"], plan)
    (tmp_path / "job.json").write_text(dump(job))
    result = decode_rows.run(str(tmp_path / "job.json"), spark.session)
    assert load(DecodeResult, (tmp_path / "result.json").read_bytes(), "result") == result
    assert (result.error, "PATH_NOT_FOUND" in result.message) == ("ServiceAway", True)


def test_a_job_file_survives_its_journey(tmp_path):
    """What is written is what is read, with the application that it is for."""
    job = decode_job(tmp_path, ["a"], decode_plan(tmp_path, [planned(0, 1)], [VALUE, KEYS]))
    assert load(DecodeJob, dump(job), "job") == job
    assert '"application":"decode_rows"' in dump(job)


def test_a_stream_s_own_transform(spark, tmp_path):
    """It changes values of good rows; what it may not do is refused by name."""
    rows = [raw_row(n, order(n)) for n in range(4)] + [raw_row(4, b"bad")]
    with_own = {"transform": f"{OWN}:doubled"}
    _, typed, bad = decode(spark, tmp_path / "doubled", rows, **with_own)
    assert ([r["id"] for r in typed], len(bad)) == ([0, 2, 4, 6], 1)
    refused = {
        f"{OWN}:dropping": (VerificationFailed, "has made 2 rows of 4"),
        f"{OWN}:widening": (BadInput, "none missing or of another type, more too"),
        f"{OWN}:renaming": (BadInput, "id bigint missing"),
        f"{OWN}:absent": (BadInput, "cannot be imported"),
        "no_such_module:f": (BadInput, "cannot be imported"),
    }
    for name, (error, text) in refused.items():
        with pytest.raises(error, match=text):
            decode(spark, tmp_path / name.replace(":", "_"), rows, transform=name)
