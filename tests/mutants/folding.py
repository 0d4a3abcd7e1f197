"""The fold: which change counts, what is folded again or anew, what is never written."""

from tests.mutants.mutant import Mutant

FOLD = "tests/spark/test_fold.py"
CURRENT = "tests/spark/test_current.py"
DAMAGE = "tests/spark/test_current_damage.py"
SWEEP = "tests/spark/test_sweeping.py"
RULES = "tests/unit/test_fold_rules.py"
ORDER = "tests/spark/test_current_order.py"
INCARNATIONS = "tests/unit/test_incarnations.py"
HASHES = "tests/spark/test_hashes.py"
VIEWS = "tests/spark/test_current_views.py"
ANY = f"{FOLD}::test_any_order_any_portions_again"
MUTANTS = (
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
        'return F.when(text.contains("E"), plain).otherwise(text)',
        "return text",
        f"{HASHES}::test_a_key_has_one_text",
    ),
    Mutant(
        "fold: a row's hash has the nulls inside of values",
        "return F.struct(value.isNotNull(), _content(value, kind))",
        "return F.struct(_content(value, kind))",
        f"{HASHES}::test_rows_that_are_unlike_have_other_sums",
    ),
    Mutant(
        "fold: a row's hash has the ends of lists",
        "return F.struct(F.size(value), F.transform(value, lambda one: _told(one, item)))",
        "return F.struct(F.lit(0), F.transform(value, lambda one: _told(one, item)))",
        f"{HASHES}::test_rows_that_are_unlike_have_other_sums",
    ),
    Mutant(
        "fold: a field that a struct gets later changes no hash",
        "told.append(F.when(field.isNotNull(), said))",
        "told.append(F.struct(field.isNotNull(), said))",
        f"{HASHES}::test_a_field_that_comes_later_changes_no_hash",
    ),
    Mutant(
        "fold: old sums of nested values are made anew",
        "return self.sums != SUMS and (is_nested or is_other)",
        "return False",
        f"{HASHES}::test_rows_without_nested_values_keep_their_sums",
    ),
    Mutant(
        "session: each job has our settings",
        "            settle(spark)\n        for key",
        "            pass\n        for key",
        f"{HASHES}::test_each_job_begins_with_the_settings_that_stored_values_depend_on",
    ),
    Mutant(
        "fold: an older change counts for nothing",
        "later = ~F.col(HAS_OLD) | ~is_after(plan, old, new)",
        "later = F.lit(True)",
        f"{FOLD}::test_older_changes_that_come_later_change_nothing_newer",
    ),
    Mutant(
        "fold: keys that are gone stay as rows",
        "kept = rows.filter(~is_dropped(plan, {n: F.col(n) for n in row_columns(plan)}))",
        "kept = rows.where('NOT is_deleted')",
        f"{FOLD}::test_older_changes_that_come_later_change_nothing_newer {ANY}",
    ),
    Mutant(
        "fold: rows of changes that are no more are folded anew",
        "if orphaned := _orphaned(spark, job, keyed) - anew:",
        "if orphaned := set():",
        f"{FOLD}::test_rows_whose_changes_are_gone_or_others_are_folded_anew",
    ),
    Mutant(
        "fold: filled rows are folded anew where changes are others",
        "found = found.union(rows.filter(F.size(UNAVAILABLE) > 0).select(BUCKET))",
        "pass",
        f"{FOLD}::test_a_value_of_a_change_that_is_gone_goes_as_well",
    ),
    Mutant(
        "fold: an older change of a filled row has its bucket folded anew",
        "is_older & (F.size(old(UNAVAILABLE)) > 0) & ~F.col(IS_GONE), F.lit(False)",
        "F.lit(False), F.lit(False)",
        f"{FOLD}::test_an_older_change_that_comes_later_fills_what_did_not_come",
    ),
    Mutant(
        "fold: a value of before a delete does not come back",
        "return (gone.isNull() | (at > gone)) & ~is_truncated(plan, barrier, at)",
        "return ~is_truncated(plan, barrier, at)",
        ANY,
    ),
    Mutant(
        "fold: a key in two partitions of a batch is told",
        "moved = has_moved(plan) | F.coalesce(in_batch, F.lit(False))",
        "moved = has_moved(plan)",
        f"{FOLD}::test_a_key_in_two_partitions_is_told_and_nothing_is_written",
    ),
    Mutant(
        "fold: a key that has left its row's partition is told",
        "moved = has_moved(plan) | F.coalesce(in_batch, F.lit(False))",
        "moved = F.coalesce(in_batch, F.lit(False))",
        f"{FOLD}::test_a_key_in_two_partitions_is_told_and_nothing_is_written",
    ),
    Mutant(
        "fold: what is taken out of a bucket is taken out of its sum",
        "for sign, states in ((1, all_of), (-1, out), (1, into)):",
        "for sign, states in ((1, all_of), (0, out), (1, into)):",
        ANY,
    ),
    Mutant(
        "fold: a row with a change is copied as it becomes",
        'chosen = {n: F.when(is_merged, F.col(f"{NEW}{n}")).otherwise(rows[n]) for n in names}',
        "chosen = {n: rows[n] for n in names}",
        ANY,
    ),
    Mutant(
        "fold: what is said of all rows is asked of all rows",
        "if not is_small or truncates or plan.is_sweep or plan.is_drop:",
        "if not is_small:",
        f"{FOLD}::test_all_rows_go_at_once"
        f" {SWEEP}::test_what_a_snapshot_has_not_read_again_is_listed_and_swept",
    ),
    Mutant(
        "fold: nothing is written into a bucket that others have changed",
        "if report.refused or differing(job.before_in(touched), report.found):",
        "if report.refused:",
        f"{FOLD}::test_a_bucket_that_was_changed_by_others_is_told_and_nothing_is_written",
    ),
    Mutant(
        "fold: rows of before a truncate are gone",
        "made |= ended | {IS_DELETED: F.col(IS_GONE) | made[IS_DELETED]}",
        "pass",
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
        "fold: a value is part of a row's sum",
        "names = [*own, *(c.name for c in plan.columns)]",
        "names = [*own, *plan.layout.key]",
        f"{DAMAGE}::test_each_is_named",
    ),
    Mutant(
        "fold: a column that comes changes no sum of before",
        "F.nullif(word, F.lit(0)) for word in words",
        "word for word in words",
        f"{FOLD}::test_new_columns_change_no_sum_however_many_there_are",
    ),
    Mutant(
        "fold: a plan whose commit stands is not folded once more",
        "made = table_of(run).find_commit(left.plan.plan_id, left.before_version)",
        "made = None",
        "tests/faults/test_crash_folding.py::test_a_fold_is_killed",
    ),
    Mutant(
        "sweep: a change below the floors is a delete",
        "return _deletes(plan) | is_below(plan, plan.floors, F.col)",
        "return _deletes(plan)",
        f"{SWEEP}::test_what_is_swept_stays_so",
    ),
    Mutant(
        "sweep: a clock that went back within one partition is refused",
        'for log in run.source.behind_newest(before, "snapshot", _WHOLE):',
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
        "swept = is_below(plan, plan.floors, old) & ~old(IS_DELETED)",
        "swept = F.lit(False)",
        f"{SWEEP}::test_what_a_snapshot_has_not_read_again_is_listed_and_swept",
    ),
    Mutant(
        "sweep: every bucket is touched",
        "    if truncates or plan.is_sweep or plan.is_drop:",
        "    if truncates or plan.is_drop:",
        f"{SWEEP}::test_what_a_snapshot_has_not_read_again_is_listed_and_swept",
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
        "    if truncates or plan.is_sweep or plan.is_drop:",
        "    if truncates or plan.is_sweep:",
        f"{CURRENT}::test_rows_of_keys_that_are_gone_need_not_be_kept",
    ),
    Mutant(
        "fold: a row whose place in a declared order is another one is folded anew",
        'same = (*plan.layout.key, *(n for n in placing(plan) if n != "timestamp"))',
        'same = (*plan.layout.key, "topic_id", "generation", "partition", "offset")',
        ANY,
    ),
    Mutant(
        "fold: a change without a place in a declared order is told",
        "found |= F.col(column.name).isNull()",
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
        "return ~is_keyless(plan) & ~F.col(IS_TRUNCATE) & ~F.col(FOLLOWS)",
        "return ~is_keyless(plan) & ~F.col(FOLLOWS)",
        f"{FOLD}::test_a_truncate_with_a_key_is_no_row",
    ),
    Mutant(
        "fold: a tombstone that tells no key is no row",
        "return ~is_keyless(plan) & ~F.col(IS_TRUNCATE) & ~F.col(FOLLOWS)",
        "return ~is_keyless(plan) & ~F.col(IS_TRUNCATE)",
        f"{FOLD}::test_a_record_without_a_value_that_deletes_nothing_is_no_row",
    ),
    Mutant(
        "fold: a delete that lacks a column of the key is told",
        'return found.filter(F.col("stays") & ~F.col("is_told")).select(RECORD_KEY).distinct()',
        "return found.filter(F.lit(False)).select(RECORD_KEY).distinct()",
        f"{FOLD}::test_a_delete_that_lacks_a_column_of_the_key_is_told",
    ),
    Mutant(
        "fold: a delete without a key is told",
        "has_no_key = F.col(DELETES) & is_keyless(plan) & F.lit(not plan.deletes.told)",
        "has_no_key = F.lit(False)",
        f"{FOLD}::test_a_delete_that_has_no_key_at_all_is_told",
    ),
    Mutant(
        "fold: a record without a value alone means a row that stays",
        "return known.filter(F.col(UNTOLD) | F.col(_ALONE))",
        "return known.filter(F.col(UNTOLD))",
        f"{FOLD}::test_a_delete_is_untold_where_a_row_of_its_record_stays",
    ),
    Mutant(
        "fold: a row that comes late is held against deletes of before",
        "suspects = changed if is_late(plan) else suspect_deletes(changed)",
        "suspects = suspect_deletes(changed)",
        f"{FOLD}::test_a_delete_is_untold_where_a_row_of_its_record_stays",
    ),
    Mutant(
        "fold: a renamed column is known by its own name",
        "made[UNAVAILABLE] = F.when(~is_deleted, _renamed(plan))",
        "made[UNAVAILABLE] = F.when(~is_deleted, F.col(UNAVAILABLE))",
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
        "return (gone.isNull() | (at > gone)) & ~is_truncated(plan, barrier, at)",
        "return gone.isNull() | (at > gone)",
        f"{FOLD}::test_a_value_of_before_all_rows_went_fills_nothing",
    ),
    Mutant(
        "fold: a truncate that comes late has filled rows folded anew",
        "if barrier != plan.barrier:",
        "if False:",
        f"{FOLD}::test_a_value_of_before_all_rows_went_fills_nothing",
    ),
    Mutant(
        "fold: a truncate ends nothing in another partition",
        "if plan.barrier is not None:",
        "if False:",
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
        "found = F.when(is_its, n).otherwise(found)",
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
)
