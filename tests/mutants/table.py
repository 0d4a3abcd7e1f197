"""What is written to the table, and by whom."""

from tests.mutants.mutant import Mutant

SECOND_COPY = (
    "tests/spark/test_adding.py::test_rows_that_somebody_put_there_in_between_get_no_second_copy"
)
MUTANTS = (
    Mutant(
        "an older attempt publishes nothing (R5)",
        '.option("txnAppId", job.app_id)',
        '.option("txnAppId", job.plan_id)',
        "tests/spark/test_recovery.py::test_an_older_replay_publishes_nothing",
    ),
    Mutant(
        "an older attempt's files are not added (R5)",
        "if newest is not None and newest >= job.token:",
        "if False:",
        "tests/spark/test_adding.py::test_an_older_attempt_s_files_are_not_added",
    ),
    Mutant(
        "the table is looked at again when others commit (R2)",
        "max_commit_retries=0,",
        "max_commit_retries=15,",
        SECOND_COPY,
    ),
    Mutant(
        "no files are added where rows stand by now (R2)",
        "return version == checked_version or not self.landed(job.ranges, version)",
        "return True",
        SECOND_COPY,
    ),
    Mutant(
        "a table that needs Delta's writer takes no files",
        "if partitions_of_plain(table) != job.partition_by:",
        "if False:",
        "tests/spark/test_adding.py::test_a_table_changed_while_spark_was_writing_takes_no_files",
    ),
    Mutant(
        "rows that were not planned are refused",
        "        _refuse_unplanned(data_file, job)\n",
        "        pass\n",
        "tests/spark/test_adding.py::test_rows_that_were_not_planned_are_refused",
    ),
)
