"""A Spark cluster of two executors writes an attempt's files; a test meddles with them meanwhile.

Usage: cluster_write.py TABLE TOLD FAULT

The first attempt of the second task writes some rows. Then it notes the process of its executor in
TOLD/executor, and goes on when TOLD/go is there; with the FAULT `fails` it fails at once. The
result goes to TOLD/result, and the cluster ends when TOLD/end is there.
"""

import os
import sys
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import functions as F

from devstack.process import wait_until
from tideline.documents import dump
from tideline.model.spark_job import SparkJob
from tideline.spark.raw_rows import write_files
from tideline.spark.session import build_session

BATCH, ROWS = 10_000, 30_000
"""Rows in one go between Spark and Python, and of each task. When the third batch is asked for, the
first one is written."""
SECONDS = 240


def executor() -> int:
    """The JVM that has started this worker: the parent of the daemon that forked it."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])


def held_up(told: Path, fault: str):
    """Passes rows on, and stands still, or fails, in the second task's first attempt."""

    def pass_on(batches):
        task = TaskContext.get()
        is_first = task.partitionId() == 1 and task.attemptNumber() == 0
        for number, batch in enumerate(batches):
            if is_first and number == 2:
                if fault == "fails":
                    raise ValueError("a fault of this task")
                (told / "draft").write_text(str(executor()))
                (told / "draft").rename(told / "executor")
                wait_until((told / "go").exists, "nobody lets go", SECONDS)
            yield batch

    return pass_on


def main(table: str, told: Path, fault: str) -> None:
    spark = build_session("cluster")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH))
    job = SparkJob("s", "r", "p", table, "landed-p-1", ("topic_id",), "read_committed", (), {})
    rows = spark.range(0, 2 * ROWS, 1, 2).mapInPandas(held_up(told, fault), "id long")
    columns = {
        "topic_id": F.lit("11111111-1111-4111-8111-111111111111"),
        "generation": F.lit(0),
        "topic": F.lit("orders"),
        "partition": F.lit(0),
        "offset": F.col("id"),
        "timestamp": F.current_timestamp(),
        "timestamp_type": F.lit(0),
        "key": F.lit(None).cast("binary"),
        "value": F.sha2(F.col("id").cast("string"), 512).cast("binary"),
        "headers": F.lit(None).cast("array<struct<key: string, value: binary>>"),
        "plan_id": F.lit("p"),
    }
    result = write_files(rows.select(*(c.alias(name) for name, c in columns.items())), job)
    (told / "draft-result").write_text(dump(result))
    (told / "draft-result").rename(told / "result")
    wait_until((told / "end").exists, "nobody ends it", SECONDS)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
