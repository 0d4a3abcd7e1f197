"""The fold: which change counts, what is folded again or anew, what is never written."""

from tests.mutants.mutant import Mutant

FOLD = "tests/property/test_fold.py"
HERE = "tests/property/test_folding_here.py"
CURRENT = "tests/spark/test_current.py"
DAMAGE = "tests/spark/test_current_damage.py"
SEALED = "tests/steps/test_sealed_folds.py"
SWEEP = "tests/spark/test_sweeping.py"
RULES = "tests/unit/test_fold_rules.py"
ORDER = "tests/spark/test_current_order.py"
INCARNATIONS = "tests/unit/test_incarnations.py"
HASHES = "tests/spark/test_hashes.py"
SUMS = "tests/property/test_sums.py"
UNTOLD = "tests/property/test_folding_untold.py"
VIEWS = "tests/spark/test_current_views.py"
RESTORED = "tests/steps/test_restored_tables.py"
ANY = f"{FOLD}::test_any_order_any_portions_again"
MUTANTS = (
    Mutant(
        "nothing is told again of a fold that a rewind has undone",
        "    return None if folded.rest(record.plan.ranges) else record\n",
        "    return record\n",
        "tests/steps/test_rewind.py",
    ),
    Mutant(
        "a fold that nobody can make is not called nothing",
        "        if decoding.known_tables:\n",
        "        if False:\n",
        "tests/steps/test_gone_raw.py",
        within="plan_fold",
    ),
    Mutant(
        "fold: a key that no tombstone tells is refused",
        "if not (deletes.tombstones and untold and is_needed) or deletes.untold:",
        "if True:",
        f"{RULES}::test_a_key_that_no_tombstone_tells_is_refused",
    ),
    Mutant(
        "fold: a key called as the table's own column is refused",
        "return taken_by_table(key, sequence) or _wrong(key, typed, KEY_TYPES)",
        "return _wrong(key, typed, KEY_TYPES)",
        f"{RULES}::test_a_key_that_is_called_as_a_column_of_the_table_is_refused",
    ),
    Mutant(
        "fold: names of twins are none of another column",
        "(number > 1 and without_case(name) in others)",
        "False",
        f"{RULES}::test_each_column_has_a_name_that_no_other_one_has",
    ),
    Mutant(
        "view: a column that the next fold adds is null",
        'f", NULL AS {q(n)}" for n in self.lacking',
        'f", NULL AS {q(n)}" for n in ()',
        f"{VIEWS}::test_a_column_that_the_table_gets_by_the_next_fold",
    ),
    Mutant(
        "fold: a key's decimal has no exponent",
        'f"{value:f}"',
        "str(value)",
        f"{SUMS}::test_a_key_has_one_text",
        within="text_of",
    ),
    Mutant(
        "fold: a row's hash has the nulls inside of values",
        "add_ints(some, is_valid(items).astype(_U64))",
        "pass",
        f"{SUMS}::test_rows_that_are_unlike_have_other_sums",
    ),
    Mutant(
        "fold: a row's hash has the ends of lists",
        "add_ints(hashes, lengths.astype(_U64))",
        "pass",
        f"{SUMS}::test_rows_that_are_unlike_have_other_sums",
    ),
    Mutant(
        "fold: a field that a struct gets later changes no hash",
        "add_ints(some, np.full(len(rows), number, _U64))",
        "add_ints(hashes, np.full(len(hashes), number, _U64))",
        f"{SUMS}::test_a_field_that_comes_later_changes_no_hash",
    ),
    Mutant(
        "fold: old sums of nested values are made anew",
        "return is_nested or is_other",
        "return False",
        "tests/unit/test_hashes_of_arrow.py::test_tables_whose_sums_would_be_others_are_made_anew",
    ),
    Mutant(
        "fold: sums of a VARIANT's text are made anew",
        "return any(_has_variant(c.type) for c in self.columns)",
        "return False",
        "tests/unit/test_hashes_of_arrow.py::test_tables_whose_sums_would_be_others_are_made_anew",
    ),
    Mutant(
        "session: each job has our settings",
        "            settle(spark)\n        for key",
        "            pass\n        for key",
        f"{HASHES}::test_each_job_begins_with_the_settings_that_stored_values_depend_on",
    ),
    Mutant(
        "fold: keys that are gone stay as rows",
        "found: np.ndarray = flags(rows) & rows_below(shape.plan, shape.plan.drops, rows)",
        "found: np.ndarray = flags(rows)",
        f"{FOLD}::test_older_changes_that_come_later_change_nothing_newer {ANY}",
    ),
    Mutant(
        "fold: rows of changes that are no more are folded anew",
        "if orphaned := self._orphaned() - anew:",
        "if orphaned := set[int]():",
        f"{FOLD}::test_rows_whose_changes_are_gone_or_others_are_folded_anew",
    ),
    Mutant(
        "fold: filled rows are folded anew where changes are others",
        "if is_lost or (plan.has_unavailable and is_filled(rows).any()):",
        "if is_lost:",
        f"{FOLD}::test_a_value_of_a_change_that_is_gone_goes_as_well",
    ),
    Mutant(
        "fold: an older change of a filled row has its bucket folded anew",
        "oldest = is_after(standing, at(every, latest.oldest)) | (barrier != plan.barrier)",
        "oldest = np.zeros(len(new), bool)",
        f"{FOLD}::test_an_older_change_that_comes_later_fills_what_did_not_come",
    ),
    Mutant(
        "fold: a value of before a delete does not come back",
        "is_newer &= (~has_gone | is_after(came, gone)) & ~before_barrier[np.maximum(which, 0)]",
        "is_newer &= ~before_barrier[np.maximum(which, 0)]",
        ANY,
    ),
    Mutant(
        "fold: a key in two partitions of a batch is told",
        "moved |= latest.low != latest.high",
        "pass",
        f"{FOLD}::test_a_key_in_two_partitions_is_told_and_nothing_is_written",
    ),
    Mutant(
        "fold: a key that has left its row's partition is told",
        'moved = is_same & (numbers(rows, "partition") != numbers(new, "partition"))',
        "pass",
        f"{FOLD}::test_a_key_in_two_partitions_is_told_and_nothing_is_written",
    ),
    Mutant(
        "fold: a row with a change is copied as it becomes",
        "order[near[hit]] = size + np.flatnonzero(hit)",
        "pass",
        ANY,
    ),
    Mutant(
        "fold: what is said of all rows is asked of all rows",
        "if says_all and rest.any():",
        "if False:",
        f"{FOLD}::test_all_rows_go_at_once"
        f" {SWEEP}::test_what_a_snapshot_has_not_read_again_is_listed_and_swept",
    ),
    Mutant(
        "fold: a bucket that others have changed is told",
        "if report.refused or differing(job.before_in(touched), report.found):",
        "if report.refused:",
        f"{HERE}::test_a_value_that_others_have_changed_is_found"
        f" {FOLD}::test_a_bucket_that_was_changed_by_others_is_told_and_nothing_is_written",
        within="result",
    ),
    Mutant(
        "fold: rows that no fold has written are counted",
        "self._foreign[bucket] = self._foreign.get(bucket, 0) + count",
        "pass",
        f"{HERE}::test_rows_of_others_in_the_table_are_counted",
    ),
    Mutant(
        "fold: a part of a VARIANT is never null",
        "if kind == VARIANT and any(part.null_count > column.null_count for part in made):",
        "if False:",
        "tests/unit/test_hashes_of_arrow.py::test_values_that_the_table_s_type_does_not_have_are_refused",
    ),
    Mutant(
        "fold: rows are in the order of keys",
        "if len(self.rows) and not (before[1:] > before[:-1]).all():",
        "if False:",
        f"{HERE}::test_a_key_that_stands_twice_is_a_change_of_others",
    ),
    Mutant(
        "fold: of row and change the later counts",
        "takes = ~has_old | ~is_after(standing, coming)",
        "takes = np.ones(len(new), bool)",
        f"{HERE}::test_the_table_is_the_fold_of_its_changes"
        f" {FOLD}::test_older_changes_that_come_later_change_nothing_newer",
    ),
    Mutant(
        "fold: a value that did not come is that of before",
        "        is_kept = stands & is_valid(old)",
        "        is_kept = np.zeros(len(made), bool)",
        f"{HERE}::test_the_table_is_the_fold_of_its_changes",
    ),
    Mutant(
        "fold: a row's hash has all of its values",
        "for name, _ in shape.hashed[3:]:",
        "for name, _ in shape.hashed[3:6]:",
        f"{HERE}::test_a_value_that_others_have_changed_is_found"
        f" {FOLD}::test_a_bucket_that_was_changed_by_others_is_told_and_nothing_is_written",
    ),
    Mutant(
        "fold: a bucket with doubted rows is rebuilt",
        "doubted = has_old & oldest & is_filled(rows) & ~is_gone",
        "pass",
        f"{HERE}::test_the_table_is_the_fold_of_its_changes",
    ),
    Mutant(
        "fold: rows of before a truncate are gone",
        "return ended(rows, is_gone, kept), is_gone",
        "return rows, is_gone",
        f"{FOLD}::test_all_rows_go_at_once",
    ),
    Mutant(
        "fold: the last truncate is kept for changes that come later",
        "barrier=done.barrier,",
        "barrier=None,",
        f"{FOLD}::test_all_rows_go_at_once",
    ),
    Mutant(
        "fold: changes that are decoded again are folded again",
        "folding = state.folding.having_decoded(done.plan.ranges)",
        "folding = state.folding",
        f"{DAMAGE}::test_what_is_decoded_again_has_to_be_folded_first",
    ),
    Mutant(
        "fold: key and buckets stay as they were created",
        "if not wrong and table.seen.layout != text:",
        "if False:",
        f"{CURRENT}::test_what_is_fixed_stays",
    ),
    Mutant(
        "fold: a column that comes changes no sum of before",
        "there = np.flatnonzero(value)",
        "there = np.arange(len(value))",
        f"{FOLD}::test_new_columns_change_no_sum_however_many_there_are",
    ),
    Mutant(
        "fold: a plan whose commit stands is not folded once more",
        "made = table_of(run).find_commit(left.plan.plan_id, left.before_version)",
        "made = None",
        "tests/faults/test_crash_folding.py::test_a_fold_is_killed",
    ),
    Mutant(
        "fold: what a forgotten fold has sealed is learned",
        "    if (learned := recover_folds(run, state)) is not None:",
        "    if (learned := None) is not None:",
        SEALED,
    ),
    Mutant(
        "fold: sums of a column that is gone count no more",
        "if gone := lost_columns(folding.columns, columns):",
        "if gone := ():",
        f"{CURRENT}::test_a_typed_table_without_a_column_of_before_has_all_folded_anew",
    ),
    Mutant(
        "fold: what was swept ends with its event type",
        "if folding.floors and sealed is None and _is_of_other_type(run, layout):",
        "if False:",
        SEALED,
    ),
    Mutant(
        "fold: its commit tells what no change does",
        "by=plan.by, fold=dump(sealed))",
        "by=plan.by)",
        SEALED,
    ),
    Mutant(
        "fold: a table of before tells a new one",
        '        table = run.open_table("current", last.table_uri)',
        "        return None",
        SEALED,
    ),
    Mutant(
        "fold: where a forgotten fold tells nothing the table is unproven",
        "            return replace(self, lost=self.lost | untold)",
        "            return self",
        SEALED,
    ),
    Mutant(
        "fold: a plan that is found open hides nothing that came after it",
        "        or _is_overtaken(run, made)\n",
        "",
        SEALED,
    ),
    Mutant(
        "fold: the token of a closed plan is its own",
        "_closed(state, done, known)).folding",
        "_closed(state, done, replace(known, token=seen.token or 0))).folding",
        SEALED,
    ),
    Mutant(
        "sweep: floors stand while their snapshot is decoded again",
        "floors_still_landed(folding.floors, state.head.coverage)",
        "floors_still_landed(folding.floors, state.decoding.coverage)",
        SEALED,
    ),
    Mutant(
        "sweep: floors that are given up are lost deletes",
        "        return replace(self, floors=(), healed=NOWHERE, lost=self.lost | given_up)",
        "        return replace(self, floors=(), healed=NOWHERE)",
        SEALED,
    ),
    Mutant(
        "sweep: a change below the floors is a delete",
        "is_deleted = says | rows_below(plan, plan.floors, typed)",
        "is_deleted = says",
        f"{HERE}::test_a_sweep_takes_rows_below_the_floors",
    ),
    Mutant(
        "sweep: a clock that went back within one partition is refused",
        'for log in behind_newest(run.source, before, "snapshot", _WHOLE):',
        "for log in ():",
        f"{SWEEP}::test_a_clock_that_went_back_in_one_partition_is_refused",
    ),
    Mutant(
        "sweep: a clock may have gone back a little where nothing shows it",
        "_STEP = timedelta(seconds=30)",
        "_STEP = timedelta(0)",
        f"{SWEEP}::test_a_change_of_a_clock_that_went_back_a_little_stays",
    ),
    Mutant(
        "sweep: rows below the floors go",
        "    is_swept = rows_below(plan, plan.floors, rows) & ~flags(rows)",
        "    is_swept = np.zeros(len(rows), bool)",
        f"{HERE}::test_a_sweep_takes_rows_below_the_floors",
    ),
    Mutant(
        "sweep: every bucket is touched",
        "says_all = bool(counted.truncates) or plan.is_sweep or plan.is_drop",
        "says_all = bool(counted.truncates) or plan.is_drop",
        f"{HERE}::test_a_sweep_takes_rows_below_the_floors",
    ),
    Mutant(
        "fold: a change below what was dropped has all folded anew",
        "if comes_below(work, folding.drops, order):",
        "if False:",
        f"{CURRENT}::test_rows_of_keys_that_are_gone_need_not_be_kept",
    ),
    Mutant(
        "fold: only what was folded before is dropped",
        "Floor(i.topic_id, i.generation, i.partition, folding.coverage[i][-1].end_offset)",
        "Floor(i.topic_id, i.generation, i.partition, folding.coverage[i][-1].end_offset + 1)",
        f"{RULES}::test_rows_that_are_gone_are_dropped_below_what_was_folded",
    ),
    Mutant(
        "fold: a bucket is written where its rows are dropped",
        "says_all = bool(counted.truncates) or plan.is_sweep or plan.is_drop",
        "says_all = bool(counted.truncates) or plan.is_sweep",
        f"{HERE}::test_a_sweep_takes_rows_below_the_floors",
    ),
    Mutant(
        "fold: a row whose place in a declared order is another one is folded anew",
        "for name in (*COORDINATES[1:-1], *(c.name for c in plan.sequence)):",
        "for name in COORDINATES[1:-1]:",
        ANY,
    ),
    Mutant(
        "fold: a change without a place in a declared order is told",
        "lacking |= ~is_valid(rows.column(column.name))",
        "pass",
        f"{FOLD}::test_a_change_without_a_place_in_the_declared_order_is_told",
    ),
    Mutant(
        "sweep: a rewind over the snapshot takes it back",
        "return known if is_there else ()",
        "return known",
        f"{SWEEP}::test_a_rewind_over_the_snapshot_takes_the_sweep_back",
    ),
    Mutant(
        "sweep: a snapshot of an older topic says nothing",
        'times = data["timestamp"].filter(pc.and_(is_its, is_marked))',
        'times = data["timestamp"].filter(is_marked)',
        f"{SWEEP}::test_a_topic_that_was_created_again_sweeps_by_its_own_snapshot",
    ),
    Mutant(
        "sweep: what is in quarantine was read again",
        '("is in quarantine", intersect(whole, set_aside)),',
        "",
        f"{SWEEP}::test_what_nobody_has_decoded_is_no_ghost",
    ),
    Mutant(
        "view: an older change counts for nothing",
        'f"{self._era()} AS {_ERA}", f"0 AS {_STANDS}"]',
        'f"{self._era()} + 1 AS {_ERA}", f"0 AS {_STANDS}"]',
        f"{VIEWS}::test_random_logs",
    ),
    Mutant(
        "view: a row that was filled does not count beside an older change",
        "WHERE {UNAVAILABLE} IS NOT NULL AND {changed}",
        "WHERE FALSE AND {changed}",
        f"{VIEWS}::test_random_logs",
    ),
    Mutant(
        "view: a time stands in no zone",
        '"list_contains", "TIMESTAMPTZ"',
        '"list_contains", "TIMESTAMP"',
        f"{VIEWS}::test_a_truncate_by_kafkas_time",
    ),
    Mutant(
        "fold: a truncate is no row",
        "kept = rows.filter(pa.array(~without_key & ~is_truncate & ~follows))",
        "kept = rows.filter(pa.array(~without_key & ~follows))",
        f"{FOLD}::test_a_truncate_with_a_key_is_no_row",
    ),
    Mutant(
        "fold: a tombstone that tells no key is no row",
        "kept = rows.filter(pa.array(~without_key & ~is_truncate & ~follows))",
        "kept = rows.filter(pa.array(~without_key & ~is_truncate))",
        f"{FOLD}::test_a_record_without_a_value_that_deletes_nothing_is_no_row",
    ),
    Mutant(
        "fold: a delete that lacks a column of the key is told",
        "if is_suspect and (*where,) == place and staying and not last.get(named, (0, False))[1]:",
        "if False:",
        f"{FOLD}::test_a_delete_that_lacks_a_column_of_the_key_is_told",
    ),
    Mutant(
        "fold: a delete without a key is told",
        "lost = without_key & deletes & (not plan.deletes.told)",
        "lost = np.zeros(len(typed), bool)",
        f"{FOLD}::test_a_delete_that_has_no_key_at_all_is_told",
    ),
    Mutant(
        "fold: a record without a value alone means a row that stays",
        "return np.asarray(self.alone | (self.mask(_UNTOLD) & ~self.mask(_TRUNCATES)))",
        "return np.asarray(self.mask(_UNTOLD) & ~self.mask(_TRUNCATES))",
        f"{UNTOLD}::test_whatever_portions_the_changes_of_a_record_come_in",
    ),
    Mutant(
        "fold: a row that comes late is held against deletes of before",
        "self._shape, self._is_late = RowShape(job.plan), is_late(job.plan)",
        "self._shape, self._is_late = RowShape(job.plan), False",
        f"{UNTOLD}::test_whatever_portions_the_changes_of_a_record_come_in",
    ),
    Mutant(
        "fold: a renamed column is known by its own name",
        "nulled(_renamed(plan, typed.column(UNAVAILABLE)), is_deleted)",
        "nulled(typed.column(UNAVAILABLE), is_deleted)",
        f"{FOLD}::test_a_value_that_did_not_come_of_a_column_that_is_renamed",
    ),
    Mutant(
        "sweep: a topic that was created again is refused",
        "if topic.topic_id != topic_id:",
        "if False:",
        f"{SWEEP}::test_a_record_of_before_tells_no_partition_read",
        within="_unread",
    ),
    Mutant(
        "fold: a change event deletes beside a text in a column",
        'found = [("op", "d")] if self.has_truncates else []',
        "found = []",
        f"{FOLD}::test_a_change_event_deletes_beside_a_text_in_a_column",
    ),
    Mutant(
        "fold: other rules of deletes fold all anew",
        "return folding.deletes != deletes",
        "return False",
        f"{RULES}::test_other_deletes_have_all_folded_anew",
    ),
    Mutant(
        "sweep: a partition that is not read to the snapshot's end is refused",
        "if why := _unread(run, floors, snapshot.ended) or _not_read(run, floors, snapshot.began):",
        "if why := _not_read(run, floors, snapshot.began):",
        f"{SWEEP}::test_a_partition_that_is_not_read_to_the_end_is_not_swept",
    ),
    Mutant(
        "view: a value of before a delete does not come back",
        'spell = f"sum(CASE WHEN {IS_DELETED} THEN 1 ELSE 0 END)"',
        'spell = "sum(0)"',
        f"{VIEWS}::test_values_that_did_not_come {VIEWS}::test_random_logs",
    ),
    Mutant(
        "fold: a value of before all rows went does not come back",
        "is_newer &= (~has_gone | is_after(came, gone)) & ~before_barrier[np.maximum(which, 0)]",
        "is_newer &= ~has_gone | is_after(came, gone)",
        f"{FOLD}::test_a_value_of_before_all_rows_went_fills_nothing",
    ),
    Mutant(
        "fold: a truncate that comes late has filled rows folded anew",
        "if plan.has_unavailable and barrier != plan.barrier:",
        "if False:",
        f"{FOLD}::test_a_value_of_before_all_rows_went_fills_nothing",
    ),
    Mutant(
        "fold: a truncate ends nothing in another partition",
        "refused += unplaced(plan, [barrier.topic_id])",
        "pass",
        f"{FOLD}::test_all_rows_of_one_partition_say_nothing_of_another_one",
    ),
    Mutant(
        "fold: partitions count, whether they have records or not",
        "counts = [max(known.get(i, 1), covered.get(i, 1)) for i in sorted(topic_ids)]",
        "counts = [covered.get(i, 1) for i in sorted(topic_ids)]",
        f"{FOLD}::test_all_rows_of_one_partition_say_nothing_of_another_one",
    ),
    Mutant(
        "fold: generations tell an incarnation that has come back",
        "found[is_its] = n",
        "pass",
        f"{FOLD}::test_an_incarnation_that_comes_back_counts_more",
    ),
    Mutant(
        "fold: a table that was folded in another order is folded anew",
        "if are_reordered(folding, order):",
        "if False:",
        f"{ORDER}::test_a_ledger_of_before_learns_the_order_and_folds_anew_once",
    ),
    Mutant(
        "view: a row ends where all rows went",
        "AND {one}.{q('partition')} = {other}.{q('partition')}",
        "AND FALSE",
        f"{VIEWS}::test_a_view_takes_no_value_of_before_all_rows_went",
    ),
    Mutant(
        "view: the history ends where all rows went",
        "coalesce({until}, {_UNTIL}) AS valid_to",
        "{until} AS valid_to",
        f"{VIEWS}::test_the_history_ends_where_all_rows_went_and_lacks_no_value",
    ),
    Mutant(
        "sweep: a snapshot's own records are above its floor",
        "for found in (*marked, *since):",
        "for found in since:",
        f"{SWEEP}::test_a_snapshot_whose_clock_went_back_keeps_what_it_has_read",
    ),
    Mutant(
        "sweep: the earliest time since the snapshot began counts",
        "min(snapshot.began, earliest or snapshot.began)",
        "snapshot.began",
        f"{SWEEP}::test_a_snapshot_whose_clock_went_back_keeps_what_it_has_read",
    ),
    Mutant(
        "incarnations are noted in the order in which they are followed",
        "head = head.having_noted_incarnations()",
        "pass",
        f"{INCARNATIONS}::test_what_is_followed_is_noted_in_its_order",
    ),
    Mutant(
        "no rewind takes the list of incarnations back",
        "incarnations=head.incarnations,",
        "",
        "tests/steps/test_incarnations.py::test_no_rewind_shortens_the_list",
    ),
    Mutant(
        "older incarnations are decoded first",
        "for piece in sorted(pieces, key=lambda r: order.of(r.identity) or 0):",
        "for piece in pieces:",
        f"{INCARNATIONS}::test_older_incarnations_are_decoded_first",
    ),
    Mutant(
        "a ledger that was put back learns which incarnations were followed",
        "head = having_followed(head.having_noted_incarnations(), logs, names)",
        "pass",
        "tests/steps/test_incarnations.py::test_a_ledger_that_was_put_back_learns_the_order",
    ),
    Mutant(
        "fold: what is counted as folded is in the typed table",
        "    _refuse_lacking(run, plan, plan.ranges)\n",
        "",
        f"{RESTORED}::test_a_fold_of_a_typed_table_that_others_put_back_counts_nothing",
    ),
    Mutant(
        "fold: what buckets are rebuilt of is in the typed table",
        "        _refuse_lacking(run, plan, plan.covered)",
        "        pass",
        f"{RESTORED}::test_a_bucket_is_rebuilt_only_where_all_that_is_decoded_is_there",
    ),
    Mutant(
        "fold: quarantined rows count among the decoded ones",
        "    left = _rest(left, run.typed.quarantine, None, there)\n",
        "",
        f"{RESTORED}::test_a_record_in_quarantine_keeps_no_fold",
    ),
    Mutant(
        "sweep: the typed table has all that is decoded",
        'refuse_lacking(run, plan.covered, "Nothing was swept")',
        "pass",
        "tests/spark/test_restored_tables.py"
        "::test_a_sweep_of_a_typed_table_that_was_restored_is_refused",
    ),
    Mutant(
        "fold: others have not put older rows into the current table",
        "is_taken = not is_new and _is_taken(run, state)",
        "is_taken = False",
        f"{RESTORED}::test_a_fold_that_is_asked_for_notices_without_new_changes",
    ),
    Mutant(
        "fold: the commit of the last fold stands where it was made",
        "changes_by_others(seen, known.version, str(seen.ledger_id), (known,))",
        "changes_by_others(seen, known.version, str(seen.ledger_id), ())",
        f"{RESTORED}::test_no_fold_goes_on_over_a_current_table_that_others_put_back",
    ),
    Mutant(
        "fold: others have put nothing back before it is verified",
        "    if taken := taken_since(seen, made):\n        return taken\n",
        "",
        f"{RESTORED}::test_a_fold_is_not_verified_over_what_others_put_back",
    ),
    Mutant(
        "audit: commits of others that take rows of the current table away are named",
        "taken = taken_by_others(run, state)",
        "taken = None",
        f"{RESTORED}::test_no_fold_goes_on_over_a_current_table_that_others_put_back",
        within="count_current",
    ),
    Mutant(
        "view: others have not put older rows into the current table",
        "    refuse_taken(run, state)\n",
        "",
        f"{RESTORED}::test_no_query_is_made_over_what_others_put_back",
        within="view_of",
    ),
)
