"""Logs that Delta in Spark has written: read as delta-rs does, written on, and refused by name."""

import random
from pathlib import Path

import pytest
from deltalake import DeltaTable, Transaction
from pyspark.errors import IllegalArgumentException

from tideline.delta.delta_log import DeltaLog
from tideline.delta.delta_properties import interval_ms
from tideline.model.table_features import table_refusals
from tideline.table.delta_table import TargetTable
from tideline.table.log import NewestTable
from tideline.table.opened import LoggedTable, active_files
from tideline.table.statistics import described_files

COLUMNS = (
    "day STRING, `offset` BIGINT, `timestamp` TIMESTAMP, money DECIMAL(10,2), share DOUBLE,"
    " born DATE, options STRUCT<x: INT, options: STRING>, raw BINARY, so BOOLEAN"
)
VALUES = (
    "concat('a:', id % 2), id, timestamp'2026-01-01 01:02:03.456789', 1.25, 0.1 * id,"
    " date'2026-01-02', struct(int(id) AS x, 'y' AS options), binary('q'), true"
)
STRUCTS = {
    "delta.checkpoint.writeStatsAsJson": "false",
    "delta.checkpoint.writeStatsAsStruct": "true",
}
RESTORED = ("RESTORE TABLE {t} TO VERSION AS OF 2",)
CHANGED = (
    "DELETE FROM {t} WHERE `offset` = 4",
    "OPTIMIZE {t}",
    "RESTORE TABLE {t} TO VERSION AS OF 3",
    "UPDATE {t} SET money = 2 WHERE `offset` = 1",
)
CONDITIONS = (
    "`offset` = 1",
    "timestamp = timestamp'2026-01-01 01:02:03.456789'",
    "money = 1.25",
    "born = date'2026-01-02'",
    "options.x = 2",
    "share > 0.15",
)
"""Rows that a wrong bound would hide."""
UNDERSTOOD = {
    "restored": ({}, RESTORED),
    "changed, merged, restored": ({}, CHANGED),
    "statistics in columns": (STRUCTS, CHANGED),
    "statistics as text": ({"delta.checkpoint.writeStatsAsStruct": "false"}, ()),
    "no statistics": ({"delta.dataSkippingNumIndexedCols": "0"}, ()),
    "breaks in a comment": ({}, ("COMMENT ON TABLE {t} IS 'a\u2028\u0085b'",)),
}
OF_DELTA_RS = {"v2": {"delta.checkpointPolicy": "v2"}, "parts": {}}
"""Checkpoints of other forms: our client leaves these logs to delta-rs."""
REFUSED = {
    "appendOnly": {"delta.appendOnly": "true"},
    "changeDataFeed": {"delta.enableChangeDataFeed": "true"},
    "deletionVectors": {"delta.enableDeletionVectors": "true"},
    "columnMapping": {"delta.columnMapping.mode": "name"},
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    "rowTracking": {"delta.enableRowTracking": "true"},
    "typeWidening": {"delta.enableTypeWidening": "true"},
    "v2Checkpoint": {"delta.checkpointPolicy": "v2"},
    "vacuumProtocolCheck": {"delta.feature.vacuumProtocolCheck": "supported"},
    "domainMetadata": {"delta.feature.domainMetadata": "supported"},
    "allowColumnDefaults": {"delta.feature.allowColumnDefaults": "supported"},
}
"""Properties by a part of the name under which the table is refused."""
OTHERS = {
    "CHECK constraint": "ALTER TABLE {t} ADD CONSTRAINT c CHECK (`offset` >= 0)",
    "clustering": "CREATE TABLE {c} (k BIGINT) USING delta CLUSTER BY (k)",
    "files of another table": "CREATE TABLE {c} SHALLOW CLONE {t}",
}


def some_slow(names, *quick):
    """All of them; those that show the same as a quick one are slow."""
    return [pytest.param(n, marks=[] if n in quick else pytest.mark.slow) for n in names]


class Foreign:
    """A table that Spark makes, with a checkpoint at each third commit."""

    def __init__(self, spark, folder):
        self.sql, self.spark, self.uri = spark.session.sql, spark.session, str(folder)
        self.name = f"delta.`{self.uri}`"

    def made(self, properties, statements=(), *, inserts=True):
        given = {"delta.checkpointInterval": "3"} | properties
        text = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
        self.sql(
            f"CREATE TABLE {self.name} ({COLUMNS}) USING delta PARTITIONED BY (day)"
            f" TBLPROPERTIES ({text})"
        )
        for n in range(4 if inserts else 0):
            self.sql(f"INSERT INTO {self.name} SELECT {VALUES} FROM range({3 * n}, {3 * n + 3})")
        for statement in statements:
            self.sql(statement.format(t=self.name))
        return self

    def offsets(self):
        """As Spark reads them, from a log that it does not know yet."""
        self.spark.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return sorted(r[0] for r in self.sql(f"SELECT `offset` FROM {self.name}").collect())

    def same(self):
        """Our client's table, which says what delta-rs' object says."""
        ours, theirs = NewestTable(self.uri, {}).newest(), DeltaTable(self.uri)
        assert isinstance(ours, LoggedTable)
        assert ours.version() == theirs.version()
        assert {f.path: f for f in active_files(ours)} == {
            f.path: f for f in described_files(theirs)
        }
        return ours

    def forget_commits(self):
        """Only the newest checkpoint is left, and what came after it, and no hint."""
        log = Path(self.uri, "_delta_log")
        newest = max(p.name[:20] for p in log.glob("*.checkpoint.parquet"))
        for path in log.glob("*.json"):
            if path.name[:20] < newest:
                path.unlink()
        (log / "_last_checkpoint").unlink()
        (log / "._last_checkpoint.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("how", some_slow(UNDERSTOOD, "restored"))
def test_a_log_of_spark_is_read_and_written_on(spark, tmp_path, how):
    """The same files as delta-rs; after our checkpoint Spark and delta-rs read the same rows."""
    table = Foreign(spark, tmp_path / "t").made(*UNDERSTOOD[how])
    before = table.offsets()
    ours = table.same()
    kept = NewestTable(table.uri, {})
    assert kept.newest().state == ours.state
    while not kept.newest().state.is_due:
        opened = kept.newest()
        kept.commit(opened, [], "m", Transaction("app", opened.version()))
    newest = Path(table.uri, "_delta_log", f"{kept.newest().version():020d}.checkpoint.parquet")
    assert newest.exists()
    table.forget_commits()
    table.same()
    assert table.offsets() == before
    assert sorted(DeltaTable(table.uri).to_pyarrow_table()["offset"].to_pylist()) == before
    rows = table.spark.read.format("delta").load(table.uri)
    for condition in CONDITIONS:
        skipped, every = (rows.where(c) for c in (condition, f"coalesce({condition}, rand() < 0)"))
        assert skipped.count() == every.count() > 0, condition


@pytest.mark.slow
def test_a_checkpoint_of_a_restored_table_names_no_file_as_gone(spark, tmp_path):
    """A file that came back is part of the table: of both, Spark takes the one for the other."""
    table = Foreign(spark, tmp_path / "t").made({"delta.checkpointInterval": "1000"})
    table.sql(f"DELETE FROM {table.name} WHERE day = 'a:0'")
    table.sql(f"RESTORE TABLE {table.name} TO VERSION AS OF 4")
    for name in ("*checkpoint*", ".*checkpoint*"):
        for path in Path(table.uri, "_delta_log").glob(name):
            path.unlink()
    log = DeltaLog(table.uri, {})
    log.write_checkpoint(log.newest())
    table.forget_commits()
    assert table.offsets() == [*range(12)]
    assert DeltaTable(table.uri).vacuum(0, enforce_retention_duration=False) == []


@pytest.mark.parametrize(
    "how", some_slow(["restored", "statistics in columns", *OF_DELTA_RS], "restored")
)
def test_spark_reads_a_table_whose_log_was_cut(spark, tmp_path, how):
    """Also where the checkpoint of that version, and its sum beside it, are Spark's."""
    properties = OF_DELTA_RS.get(how) or UNDERSTOOD.get(how, ({},))[0]
    if how == "parts":
        spark.session.conf.set("spark.databricks.delta.checkpoint.partSize", "3")
    try:
        table = Foreign(spark, tmp_path / "t").made(properties, RESTORED)
    finally:
        spark.session.conf.unset("spark.databricks.delta.checkpoint.partSize")
    before, kept = table.offsets(), NewestTable(table.uri, {})
    assert isinstance(kept.newest(), DeltaTable) == (how in OF_DELTA_RS)
    assert kept.cut() > 0
    names = {p.name[:20] for p in Path(table.uri, "_delta_log").glob("[0-9]*")}
    assert names == {f"{kept.newest().version():020d}"}
    assert table.offsets() == before


NUMBERS = ("1", "30", "-2", "+ 3", "1.5", ".25", "'3'", "007")
UNITS = ("days", "Day", "week", "HOURS", "minute", "seconds", "milliseconds", "month", "d", ",")


@pytest.mark.slow  # half a minute beside other parts
def test_intervals_are_what_delta_takes_them_for(spark):
    """Delta's own function is the judge of texts put together at random."""
    delta = spark.session.sparkContext._jvm.org.apache.spark.sql.delta.DeltaConfigs
    rng, taken = random.Random(1), 0
    for _ in range(3000):
        parts = [rng.choice(["interval", "INTERVAL", ""])]
        for _ in range(rng.randrange(1, 4)):
            parts += [rng.choice(NUMBERS), rng.choice(UNITS)]
        if rng.random() < 0.2:
            parts.pop(rng.randrange(len(parts)))
        text = rng.choice([" ", "  ", "\t"]).join(parts)
        try:
            found = delta.parseCalendarInterval(text)
            is_valid = delta.isValidIntervalConfigValue(found)
            expected = delta.getMilliSeconds(found) if is_valid else None
        except IllegalArgumentException:
            expected = None
        assert interval_ms(text) == expected, text
        taken += expected is not None
    assert taken > 100


@pytest.mark.parametrize(
    "name", some_slow([*REFUSED, *OTHERS], "deletionVectors", "files of another table")
)
def test_what_matters_is_refused_by_its_name(spark, tmp_path, name):
    """Whoever reads the log, ours or delta-rs, the table is refused, and nothing crashes."""
    table = Foreign(spark, tmp_path / "t")
    if name in REFUSED:
        table.made(REFUSED[name], inserts=False)
        uri = table.uri
    else:
        table.made({}, inserts=name == "files of another table")
        copy = str(tmp_path / "c")
        table.sql(OTHERS[name].format(t=table.name, c=f"delta.`{copy}`"))
        uri = copy if "{c}" in OTHERS[name] else table.uri
    found = TargetTable(uri, {}, {"offset": "BIGINT"}).observe()
    said = [*table_refusals(found)]
    assert any(name.lower() in f"{r.name}".lower() for r in said), said
