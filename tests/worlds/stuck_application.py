"""A Spark application whose tasks sleep; it reads and writes nothing.

Usage: stuck_application.py JOB_FILE
"""

import sys
from functools import partial

from tideline.model.spark_job import SparkJob, SparkResult
from tideline.spark.application import ALONE, run_job
from tideline.spark.failures import failed


def sleeping(spark, _job, tasks=1, milliseconds=600_000):
    """So many tasks, one after the other, each of which sleeps."""
    naps = f"reflect('java.lang.Thread', 'sleep', id * 0 + {milliseconds}L)"
    for _ in range(tasks):
        rows = spark.range(0, 1, 1, 1).selectExpr(naps)
        rows.write.format("noop").mode("overwrite").save()
    return SparkResult(rows=tasks)


def run(job_file, spark=None, host=ALONE, execute=sleeping, **naps):
    """Run the application on a job file, as ours are run."""
    does = partial(execute, **naps) if naps else execute
    return run_job(job_file, (SparkJob, SparkResult), does, failed, spark, host)


if __name__ == "__main__":
    sys.exit(1 if run(sys.argv[1]).error else 0)
