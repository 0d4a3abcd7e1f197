"""What maintenance must never do to rows and files."""

from tests.mutants.mutant import Mutant

TESTS = "tests/integration/test_maintenance.py"
FILES = "tests/integration/test_merged_files.py"
RETENTION = "tests/integration/test_quarantine_retention.py"
MUTANTS = (
    Mutant(
        "maintenance: no row stands twice after another's compaction (R2)",
        "            if gone:\n                raise CommitConflict(",
        "            if False:\n                raise CommitConflict(",
        f"{TESTS}::test_whoever_changed_the_files_first_wins",
        within="_commit",
    ),
    Mutant(
        "maintenance: the commit itself looks for the merged files (R2)",
        "    if gone:\n        raise CommitConflict(",
        "    if False:\n        raise CommitConflict(",
        f"{TESTS}::test_a_merge_of_files_that_are_gone_is_refused",
        within="_exchanged",
    ),
    Mutant(
        "maintenance: no data changes, as Delta's readers hear it",
        "_removal(there[path], changes_data=False)",
        "_removal(there[path])",
        f"{TESTS}::test_small_files_become_one_per_log",
    ),
    Mutant(
        "maintenance: only files of one log are merged",
        "alike[file.partition, file.holds]",
        "alike[file.partition]",
        "tests/unit/test_compaction.py::test_partition_values_and_logs_are_never_mixed",
    ),
    Mutant(
        "maintenance: a file holds as many rows as the log says",
        "        if file.rows is not None and rows != file.rows:",
        "        if False:",
        f"{TESTS}::test_a_file_that_is_not_what_the_log_says_is_not_merged",
    ),
    Mutant(
        "maintenance: nothing is deleted that an old attempt may still commit (R5)",
        "if (table.token or 0) != control.token and table.version is not None:",
        "if False:",
        f"{TESTS}::test_an_attempt_that_was_stopped_cannot_commit_files_that_are_gone",
        within="vacuum",
    ),
    Mutant(
        "maintenance: no file of another stream is deleted (R13)",
        "        self.refuse_other(control.ledger_id)\n",
        "",
        "tests/steps/test_swapped_tables.py::test_no_file_of_another_stream_is_deleted",
        within="vacuum",
    ),
    Mutant(
        "maintenance: what attempts have left is found",
        "            full=True,\n",
        "",
        f"{TESTS}::test_vacuum_takes_what_attempts_have_left_and_nothing_newer",
    ),
    Mutant(
        "maintenance: no raw file goes while a decoding reads",
        'return ("writer",) if run.typed is None else ("writer", "decoder")',
        'return ("writer",)',
        f"{TESTS}::test_nothing_is_deleted_while_a_decoding_reads",
    ),
    Mutant(
        "maintenance: the table's own retention counts",
        "hours if at_once else self.kept_hours(hours)",
        "hours",
        f"{TESTS}::test_replaced_files_stay_until_their_time_has_come",
    ),
    Mutant(
        "maintenance: what is no interval is refused",
        "if (own := kept_ms(properties, DELETED, 0)) is None:",
        "if (own := kept_ms(properties, DELETED, 0) or 0) is None:",
        "tests/integration/test_erasing_tables.py"
        "::test_an_interval_that_nobody_understands_is_refused_by_name",
    ),
    Mutant(
        "maintenance: what an interval adds up is not the first part",
        'total += -us if sign == "-" else us',
        "total = total or us",
        "tests/unit/test_delta_properties.py::test_what_delta_reads_is_read",
    ),
    Mutant(
        "maintenance: a table that has to be decided about is left alone (R13)",
        "        if findings:\n            raise Halted(",
        "        if False:\n            raise Halted(",
        f"{TESTS}::test_a_table_about_which_somebody_has_to_decide_is_left_alone",
        within="checked",
    ),
    Mutant(
        "maintenance: nobody else writes meanwhile",
        "                held.enter_context(run.ledger.lease(name))",
        "                pass",
        f"{TESTS}::test_nothing_is_done_while_somebody_writes",
    ),
    Mutant(
        "maintenance: columns have the table's types",
        "_common_schema(declared, ",
        "_common_schema(pa.schema([]), ",
        f"{FILES}::test_times_as_spark_writes_them",
    ),
    Mutant(
        "retention: the ledger knows first which rows go",
        "    run.ledger.update(lambda state: state.noting(gone))",
        "    pass",
        f"{RETENTION}::test_old_rows_go_and_nobody_misses_them",
    ),
    Mutant(
        "retention: a removal leaves what lies in between",
        "bisect_left(others, start) == bisect_left(others, piece.start_offset)",
        "True",
        "tests/unit/test_retention.py",
    ),
    Mutant(
        "retention: what is decoded again is missed again",
        "                found[identity] = subtract(found[identity], pieces)",
        "                pass",
        f"{RETENTION}::test_a_clear_brings_them_back_and_they_are_missed_again",
    ),
    Mutant(
        "retention: the last closing of a plan counts",
        "max(at, newest.get(record.plan.plan_id, at))",
        "min(at, newest.get(record.plan.plan_id, at))",
        "tests/unit/test_retention.py",
    ),
)
