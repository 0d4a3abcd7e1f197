"""What is written to the table, and by whom."""

from tests.mutants.mutant import Mutant

CONTRACT = "tests/integration/test_table_contract.py"
FILES = "tests/integration/test_table_files.py"
FEATURES = "tests/unit/test_table_features.py"
OPENED = "tests/property/test_opened_tables.py"
TABLE_LOG = "tests/integration/test_table_log.py"
MUTANTS = (
    Mutant(
        "an old look is repeated before a commit",
        "is_fresh = self._log is not None and time.monotonic() - self._looked_at < FRESH_SECONDS",
        "is_fresh = self._log is not None",
        f"{TABLE_LOG}::test_only_a_look_of_just_now_at_that_version_counts_before_a_commit",
    ),
    Mutant(
        "what was looked at is the version that is committed on",
        "table if is_fresh and table is not None and table.version() == version else None",
        "table if is_fresh else None",
        f"{TABLE_LOG}::test_only_a_look_of_just_now_at_that_version_counts_before_a_commit",
    ),
    Mutant(
        "whether a commit stands, says a look",
        "        self._looked_at = 0.0\n        if isinstance(table, DeltaTable):",
        "        if isinstance(table, DeltaTable):",
        f"{TABLE_LOG}::test_only_a_look_of_just_now_at_that_version_counts_before_a_commit",
    ),
    Mutant(
        "large checkpoints are for delta-rs",
        'if checkpoint.meta["size"] > _LARGEST:',
        "if False:",
        f"{TABLE_LOG}::test_a_large_checkpoint_is_for_delta_rs",
    ),
    Mutant(
        "a table's partitions are told in its own order",
        "partition = {name: given.get(name) for name in partition_columns}",
        "partition = given",
        OPENED,
    ),
    Mutant(
        "a file that is added once more is described anew",
        "if known is None or known[0] is not action:",
        "if known is None:",
        OPENED,
    ),
    Mutant(
        "an empty commit is refused also where delta-rs would read on",
        "            except DisputedLog as why:\n",
        "            except ZeroDivisionError as why:\n",
        f"{TABLE_LOG}::test_an_empty_commit_below_others_is_refused_by_name",
    ),
    Mutant(
        "an empty commit is not understood",
        "if not lines:  # as a power cut leaves it",
        "if False:  # as a power cut leaves it",
        "tests/unit/test_table_features.py::test_a_disk_that_fails_is_away",
    ),
    Mutant(
        "features that change what a log says are not understood",
        "or not features <= _FEATURES:",
        "or False:",
        "tests/property/test_delta_log.py",
    ),
    Mutant(
        "a file's last bytes are not the whole file",
        "if start >= first:",
        "if True:",
        "tests/integration/test_store_files.py",
    ),
    Mutant(
        "what a table's own log says is not waited for (R13)",
        "is_of_log = text.startswith(_OF_THE_LOG) and not text.startswith(_OF_A_DISK)",
        'is_of_log = "is not supported" in text',
        FEATURES,
    ),
    Mutant(
        "rows without coordinates are named, and nobody's fault of ours",
        "if wrong := [n for n in columns if not _names_all(rows, n)]:",
        "if wrong := []:",
        "tests/integration/test_planted_damage.py",
    ),
    Mutant(
        "a column of another type is no coordinate",
        "return bool(is_right and not data.column(name).null_count)",
        "return not data.column(name).null_count",
        "tests/integration/test_planted_damage.py",
    ),
    Mutant(
        "another type's statistics prove nothing",
        "return value if isinstance(value, int) and not isinstance(value, bool) else None",
        "return value",
        "tests/integration/test_planted_damage.py",
    ),
    Mutant(
        "a text's bounds in others' files prove nothing",
        "(kind is int or is_ours)",
        "True",
        "tests/integration/test_table_files.py"
        "::test_a_topic_id_in_the_statistics_is_proof_in_our_own_files",
    ),
    Mutant(
        "a disk that fails is away, and not unreadable",
        "is_of_log = text.startswith(_OF_THE_LOG) and not text.startswith(_OF_A_DISK)",
        "is_of_log = text.startswith(_OF_THE_LOG)",
        FEATURES,
    ),
    Mutant(
        "a log that seems broken is listed once more",
        "return read()  # the listing of a folder may miss what is just being written",
        "raise",
        FEATURES,
    ),
    Mutant(
        "an older attempt publishes nothing (R5)",
        "if newest is not None and newest >= change.token:",
        "if False:",
        "tests/unit/test_table_commit.py::test_a_newer_attempt_fences",
        within="_refuse_fenced",
    ),
    Mutant(
        "the commit itself looks at the token, too (R5)",
        "if newest is not None and newest >= change.token:",
        "if False:",
        f"{CONTRACT}::test_an_older_or_equal_token_commits_nothing",
        within="commit",
    ),
    Mutant(
        "delta-rs does not try a lost commit again (R2)",
        "max_commit_retries=0,  # a retry would not check the rows of newer commits",
        "max_commit_retries=15,",
        f"{FILES}::test_a_commit_of_others_during_the_transaction_is_a_conflict",
    ),
    Mutant(
        "a commit is valid for the version that was looked at (R2)",
        "if table is None or table.version() != based_on:",
        "if table is None:",
        f"{CONTRACT}::test_a_commit_is_valid_for_one_version_only",
    ),
    Mutant(
        "a commit whose answer was lost is found",
        "            if made := _made(table, change, after_version):  # only the answer was lost\n"
        "                return made\n",
        "",
        "tests/unit/test_table_commit.py::test_a_commit_whose_answer_was_lost_is_found",
    ),
    Mutant(
        "a commit that comes in part is no commit",
        '    if len(body) != meta["size"]:\n',
        "    if False:\n",
        "tests/integration/test_reads_cut_short.py",
    ),
    Mutant(
        "files that went with their table are not called damaged",
        "            self._refuse_moved(table, path)\n",
        "",
        "tests/integration/test_reads_cut_short.py",
    ),
    Mutant(
        "a log whose table was moved is not called broken",
        "if is_of_log and not _GONE_MEANWHILE.search(text):",
        "if is_of_log:",
        "tests/integration/test_reads_cut_short.py",
    ),
    Mutant(
        "the commit itself looks whose table it is (R13)",
        "    if found != own:\n        raise Halted(",
        "    if False:\n        raise Halted(",
        f"{CONTRACT}::test_nothing_is_committed_to_a_table_of_another_ledger",
        within="refuse_other_ledger",
    ),
    Mutant(
        "rows at the coordinates are taken out (R2)",
        "    actions += _taken_out(store, change, active, read)\n",
        "",
        f"{CONTRACT}::test_a_second_landing_replaces_the_first_and_nothing_else",
    ),
    Mutant(
        "a file that holds other rows, too, is written again (R2)",
        "            if inside < sum(map(len, found)):",
        "            if False:",
        f"{CONTRACT}::test_a_file_that_also_holds_other_rows_is_written_again_without",
    ),
    Mutant(
        "how many rows a file holds is not taken from a log that does not say it (R2)",
        "            if inside < sum(map(len, found)):",
        "            if inside < (file.rows or 0):",
        f"{FILES}::test_a_file_without_a_number_of_rows_is_written_again",
    ),
    Mutant(
        "times beyond 2262 survive",
        ', coerce_int96_timestamp_unit="us"',
        "",
        f"{FILES}::test_times_beyond_2262_survive_a_rewriting",
    ),
    Mutant(
        "files of other programs are read in plain types",
        "return rows if plain.equals(rows.schema) else rows.cast(plain)",
        "return rows",
        f"{FILES}::test_what_delta_rs_has_updated_can_be_counted_and_written_again",
    ),
    Mutant(
        "a table that asks for Delta's writer is refused",
        "    if found := tuple(table_refusals(asked_of_writers(table, wanted))):\n",
        "    if found := ():\n",
        f"{FILES}::test_a_table_that_asks_for_delta_s_writer_is_refused_by_name",
        within="refuse_unwritable",
    ),
    Mutant(
        "rows that were not planned are refused",
        "        if elsewhere:\n",
        "        if False:\n",
        f"{CONTRACT}::test_rows_that_were_not_planned_are_refused",
    ),
    Mutant(
        "the commit looks once more at its files (R4)",
        "    _refuse_gone(store, change, holding_rows)\n",
        "",
        f"{FILES}::test_a_file_that_goes_before_the_commit_takes_no_good_one_out",
    ),
    Mutant(
        "statistics of a file that is gone prove nothing",
        "f if unquote(f.path) in there else replace(f, low=None)",
        "f",
        f"{FILES}::test_statistics_of_a_file_that_is_gone_prove_nothing",
    ),
    Mutant(
        "a missing manifest is missed",
        "        if result.rows:\n            raise _refused",
        "        if False:\n            raise _refused",
        f"{CONTRACT}::test_a_missing_manifest_is_missed_where_rows_were_counted",
    ),
    Mutant(
        "a file that is gone is missed",
        "except (FileNotFoundError, pa.ArrowInvalid) as error:",
        "except pa.ArrowInvalid as error:",
        f"{CONTRACT}::test_a_lost_file_is_missed",
    ),
    Mutant(
        "the rows are as many as Spark counted",
        "            refuse_other_count(change, result, footers)\n",
        "",
        f"{CONTRACT}::test_a_lost_file_that_no_manifest_names_is_missed",
    ),
    Mutant(
        "names that begin with _ or . are no data",
        'hidden = any(part.startswith(("_", ".")) for part in path.split("/"))',
        "hidden = False",
        f"{CONTRACT}::test_what_lies_under_a_hidden_name_is_no_data",
    ),
    Mutant(
        "coordinates are read before the commit, whatever statistics say",
        "wanted.proven(file) if trusting else None",
        "wanted.proven(file)",
        f"{CONTRACT}::test_what_an_attempt_wrote_is_told_before_it_is_committed",
    ),
    Mutant(
        "an offset that was read twice is not committed (R2)",
        "    _refuse_copies(landing.change, landing.written.landed)\n",
        "",
        "tests/unit/test_table_commit.py::test_an_offset_that_was_read_twice_is_not_committed",
    ),
    Mutant(
        "footers without statistics prove nothing",
        "all(g is not None and g.has_null_count for g in groups)",
        "all(g is not None for g in groups)",
        "tests/spark/test_large_records.py::test_large_records_under_every_number_of_partition_columns",
    ),
    Mutant(
        "a commit that does not tell its rows stands for all that were planned",
        "rows = sum(len(r.offsets) for r in ranges_in(metadata))",
        "rows = 0",
        f"{FILES}::test_a_commit_that_does_not_tell_its_rows_stands_for_all_that_were_planned",
    ),
    Mutant(
        "bounds say nothing about rows that have none",
        "return action.get(name) if nulls == 0 else None",
        "return action.get(name)",
        f"{FILES}::test_an_offset_that_others_have_emptied_is_not_proven",
    ),
    Mutant(
        "a version that is gone from the log is no table without rows",
        "if table is None and self._opened(None) is not None:",
        "if False:",
        "tests/integration/test_table_files.py",
    ),
)
