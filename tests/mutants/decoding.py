"""Decoding: every raw row is in one of two tables, once, whoever dies, and in the right ones."""

from tests.mutants.mutant import Mutant

CUT_OFF = "tests/integration/test_decoding_cut_off.py"
EXPECT = "tests/spark/test_expectations.py"
PAIRS = "tests/integration/test_decoding.py"
TYPES = "tests/integration/test_event_types.py"
BESIDE = "tests/integration/test_decoding_beside.py"
REFUSED = "tests/spark/test_conditions.py::test_which_are_refused"
RULES = "tests/unit/test_decoding_rules.py"
MUTANTS = (
    Mutant(
        "an empty table takes the place of one whose end was approved",
        "    create_table(run, state.control.ledger_id)\n    seen",
        "    seen",
        "tests/steps/test_gone_raw.py",
    ),
    Mutant(
        "nothing is decoded again from a table that others have changed",
        "    if findings := foreign_changes(run, state)[1]:",
        "    if findings := ():",
        "tests/steps/test_gone_raw.py",
        within="_refuse_changed",
    ),
    Mutant(
        "decoding: a time may be the smallest long",
        "F.when(column.between(-_FAR_MS, _FAR_MS), column)",
        "F.when(F.abs(column) <= _FAR_MS, column)",
        "tests/spark/test_envelopes.py::test_a_time_that_is_too_far_away_breaks_no_record",
    ),
    Mutant(
        "decoding: the rule that Spark fails for is named",
        "_refuse_a_rule(raw, job.plan, error)\n        raise",
        "raise",
        "tests/spark/test_expectations.py::test_what_spark_fails_for_is_told_by_the_rules_name",
    ),
    Mutant(
        "failures: an error of values is no service that is away",
        "found = None if _MAY_PASS.search(text) else _OF_A_VALUE.search(text)",
        "found = None",
        "tests/unit/test_unreadable.py::test_an_error_of_values_is_never_a_service_that_is_away",
    ),
    Mutant(
        "a typed table that asks for another writer is refused before Spark is asked (R13)",
        "for reason in asked_refusals(replace(seen, columns=added)):",
        "for reason in ():",
        "tests/integration/test_decoding.py::"
        "test_a_table_with_column_mapping_is_refused_before_it_is_decoded",
    ),
    Mutant(
        "decode: a table by days is not written without days",
        'if plan.event_date is None and "event_date" in partition_by:',
        "if False:",
        f"{BESIDE}::test_event_time_is_taken_out_of_the_file_of_a_table_by_days",
    ),
    Mutant(
        "decode: rows in another table prove nothing",
        "        refuse_other_tables(run)\n",
        "",
        f"{BESIDE}::test_a_typed_table_is_replaced_before_it_is_verified",
    ),
    Mutant(
        "decode: nobody decodes while the ledger moves",
        '_LEASES = ("live", "backfill", "writer", "decoder")',
        '_LEASES = ("live", "backfill", "writer")',
        f"{BESIDE}::test_nothing_is_decoded_while_the_ledger_moves",
    ),
    Mutant(
        "decode: another program's table is left alone",
        "        elif seen.stream is None:\n            yield f",
        "        elif False:\n            yield f",
        f"{PAIRS}::test_a_foreign_table_is_left_alone",
    ),
    Mutant(
        "decode: two streams do not share a table",
        "elif seen.stream != stream:",
        "elif False:",
        f"{PAIRS}::test_two_streams_cannot_share_a_table",
    ),
    Mutant(
        "decode: two ledgers do not share a table",
        "elif seen.ledger_id != ledger_id:",
        "elif False:",
        f"{PAIRS}::test_two_streams_cannot_share_a_table",
    ),
    Mutant(
        "decode: one other table is refused",
        "if wrong := tuple(strangers(tables, known, token)):",
        "if wrong := ():",
        f"{PAIRS}::test_one_other_table_is_refused",
    ),
    Mutant(
        "decode: tables with rows are no new beginning",
        "table.is_empty and ",
        "",
        f"{PAIRS}::test_two_new_tables_are_a_new_beginning",
    ),
    Mutant(
        "decode: new tables hold nothing that was decoded",
        "coverage=NOWHERE, table_ids=()",
        "table_ids=()",
        f"{PAIRS}::test_two_new_tables_are_a_new_beginning",
    ),
    Mutant(
        "decode: an older plan goes where the tables are now",
        'table_uri="" if types else uris[""]',
        "table_uri=plan.table_uri",
        f"{PAIRS}::test_an_open_plan_is_executed_where_the_tables_are_now",
    ),
    Mutant(
        "decode: another raw table is not decoded",
        "    if seen.table_id != known:\n        raise DecodingHalted(",
        "    if False:\n        raise DecodingHalted(",
        f"{PAIRS}::test_another_raw_table_is_not_decoded",
    ),
    Mutant(
        "decode: a table that has gone is no bug",
        "    if partition_by is None:\n        raise ServiceAway(",
        "    if False:\n        raise ServiceAway(",
        "tests/simulation/test_found.py",
    ),
    Mutant(
        "decode: what an older ledger forgot is undone (R13)",
        "if decoding.token is not None and (known.seen.token or 0) > decoding.token",
        "if False",
        "tests/steps/test_older_typed_tables.py"
        "::test_what_a_ledger_forgot_of_its_typed_tables_is_decoded_again",
    ),
    Mutant(
        "decode: each plan that closes tells how far typed tables are known (R13)",
        "replace(decoding, token=token, in_quarantine=held)",
        "replace(decoding, in_quarantine=held)",
        "tests/steps/test_older_typed_tables.py",
    ),
    Mutant(
        "decode: a stopped run leaves no plan behind (R5)",
        "leases.refuse_lost(state, name, self.holder)",
        "pass",
        f"{CUT_OFF}::test_a_run_that_was_stopped_goes_on_behind_another",
    ),
    Mutant(
        "decode: another run's plan is finished first (R3)",
        "left is not None and left.plan.run_id != run.run_id",
        "False",
        f"{CUT_OFF}::test_a_run_is_cut_off",
    ),
    Mutant(
        "decode: a redrive finishes its own plan",
        "left = finish_open(run)",
        "left = None",
        f"{PAIRS}::test_a_redrive_finishes_its_own_plan",
    ),
    Mutant(
        "decode: nobody is asked about the same records twice",
        ", max_share=1.0",
        "",
        f"{PAIRS}::test_a_decision_for_quarantine_counts_when_the_run_is_cleared",
    ),
    Mutant(
        "decode: more bad records than allowed halt",
        "if share > plan.max_share and",
        "if False and",
        f"{PAIRS}::test_a_decision_for_quarantine_counts_when_the_run_is_cleared",
    ),
    Mutant(
        "decode: rows that fail what halts, halt",
        "if result.halting and not is_settled",
        "if False and not is_settled",
        f"{EXPECT}::test_what_halts_asks_and_a_decision_lets_the_rest_through",
    ),
    Mutant(
        "decode: a decision holds for its own coordinates",
        "and not apart(ranges, finding.ranges)[1]",
        "",
        "tests/unit/test_decoding_rules.py::test_what_a_decision_settles",
    ),
    Mutant(
        "decode: a decision holds for its own rules",
        "set(names) <= set(finding.names) and",
        "",
        "tests/unit/test_decoding_rules.py::test_what_a_decision_settles",
    ),
    Mutant(
        "decode: what came after a decision is no part of what it is about",
        "    ranges = of_decision(ranges, state.decoding)[0] or ranges\n",
        "",
        "tests/integration/test_decoding.py::test_a_cleared_run_decodes_what_was_decided",
    ),
    Mutant(
        "decode: what was decided is decoded by itself",
        "            finish_decided(run)\n",
        "            pass\n",
        f"{EXPECT}::test_a_decision_holds_for_what_it_was_about",
    ),
    Mutant(
        "decode: a clear takes no redrive back",
        "anew, ranges = apart(there, run.ledger.decoded_since(run.run_id))",
        "anew, ranges = (), there",
        f"{EXPECT}::test_what_has_failed_can_be_redriven_after_the_rule_has_changed",
    ),
    Mutant(
        "status: what was never decoded counts as well",
        "is_decoded = bool(decoding.coverage) or is_typed",
        "is_decoded = bool(decoding.coverage)",
        "tests/unit/test_looking.py::test_the_least_headroom_and_the_oldest_record_count",
    ),
    Mutant(
        "metrics: what is not decoded is told",
        "publish(metrics.UNDECODED, left, stream=stream)",
        "pass",
        "tests/dags/test_metrics.py::"
        "test_what_is_landed_and_not_decoded_is_told_from_the_first_offset",
    ),
    Mutant(
        "decode: what is decided does not count for max_share",
        "- no_fault - result.halting",
        "- no_fault",
        f"{EXPECT}::test_what_halts_asks_and_a_decision_lets_the_rest_through",
    ),
    Mutant(
        "decode: a cleared run does not ask again what was decided",
        "replace(e, on_fail=to) if e.on_fail == halting else e",
        "e",
        f"{EXPECT}::test_what_halts_asks_and_a_decision_lets_the_rest_through",
    ),
    Mutant(
        "expectations: null fails",
        'F.lit(rule.on_null == "pass")',
        "F.lit(True)",
        f"{EXPECT}::test_a_row_that_fails_goes_to_quarantine_with_the_names",
    ),
    Mutant(
        "expectations: what cannot be worked out is null",
        'return F.try_add(day, F.expr(sql).cast("int")) == F.lit(_THIRD_DAY)',
        "return F.expr(sql)",
        f"{EXPECT}::test_what_cannot_be_worked_out_is_null",
    ),
    Mutant(
        "expectations: the optimizer takes nothing out of what is tried",
        'F.date_from_unix_date(F.col(_IS_ASKED).cast("int"))',
        "F.lit(date(1970, 1, 2))",
        "tests/spark/test_conditions.py::test_what_cannot_be_worked_out_is_null",
    ),
    Mutant(
        "decoding: a constant that Spark does not take is a rule's",
        'if is_constant or (condition or "").startswith("INVALID_FORMAT"):',
        "if False:",
        f"{EXPECT}::test_what_spark_fails_for_is_told_by_the_rules_name",
    ),
    Mutant(
        "expectations: deletes are not asked",
        "F.col(ERROR_CLASS).isNull() & ~is_gone",
        "F.col(ERROR_CLASS).isNull()",
        "tests/spark/test_envelopes.py::test_what_rows_are_expected_to_meet",
    ),
    Mutant(
        "expectations: what a change did not bring fails nothing",
        "passes if lacks is None else passes | lacks",
        "passes",
        "tests/spark/test_envelopes.py::test_what_rows_are_expected_to_meet",
    ),
    Mutant(
        "expectations: a condition that depends on chance is refused",
        "if not plan.deterministic():",
        "if False:",
        f"{EXPECT}::test_which_conditions_are_refused",
    ),
    Mutant(
        "expectations: now is refused, however it is spelt",
        "if _UNSTEADY.fullmatch(part.name):",
        "if False:",
        REFUSED,
    ),
    Mutant(
        "expectations: a text that Spark takes for now is refused",
        "if part.is_moving:",
        "if False:",
        REFUSED,
    ),
    Mutant(
        "expectations: a literal that the parser takes for now is refused",
        "        if _has_literal_of_now(rows, sql):",
        "        if False:",
        REFUSED,
    ),
    Mutant(
        "expectations: what may take all memory, or wraps, is refused",
        "if part.needs_constants:",
        "if False:",
        REFUSED,
    ),
    Mutant(
        "expectations: what makes other rows is refused",
        "if not plan.child().children().isEmpty():",
        "if False:",
        REFUSED,
    ),
    Mutant(
        "expectations: without columns, now is refused by its name",
        "if not is_resolved and (found",
        "if False and (found",
        "tests/spark/test_conditions.py::test_what_is_refused_without_columns",
    ),
    Mutant(
        "decode: more bad records than allowed halt, also where they were decoded before",
        "if plan.redrives and not plan.is_again:",
        "if plan.redrives:",
        "tests/spark/test_typed_tables.py::test_only_records_from_a_time_on_are_made_anew",
    ),
    Mutant(
        "decode: rows that came out the same are no change",
        'both.filter(~F.col("a").eqNullSafe(F.col("b")))',
        "both",
        "tests/spark/test_typed_tables.py"
        "::test_what_was_decoded_by_other_rules_is_made_anew_and_counted",
    ),
    Mutant(
        "decode: only records from a time on are made anew",
        "pc.greater_equal(times, pa.scalar(since))",
        "pc.is_valid(times)",
        "tests/spark/test_typed_tables.py::test_only_records_from_a_time_on_are_made_anew",
    ),
    Mutant(
        "decode: no offset is left out between two passes",
        "left, start = left - (end - start), end",
        "left, start = left - (end - start), end + 1",
        "tests/unit/test_decoding_rules.py",
    ),
    Mutant(
        "decode: no column comes unasked",
        "    if no_new:\n        brought",
        "    if False:\n        brought",
        f"{PAIRS}::test_a_new_field_halts_if_the_stream_file_says_so",
    ),
    Mutant(
        "decode: a new field halts",
        "    if no_new:\n        halting",
        "    if False:\n        halting",
        f"{PAIRS}::test_a_new_field_halts_if_the_stream_file_says_so",
    ),
    Mutant(
        "decode: an unknown id halts",
        'if may_halt and unknown and _decode(run).on_schema.unknown_id == "halt":',
        "if False:",
        f"{PAIRS}::test_an_unknown_id_halts_if_the_stream_file_says_so",
    ),
    Mutant(
        "decode: a schema is noted by the part's own subject",
        "return None if known is None else replace(known, known_as=name)",
        "return known",
        f"{PAIRS}::test_a_schema_of_two_subjects_is_asked_for_once",
    ),
    Mutant(
        "decode: a lost row is no dropped tombstone (audit)",
        "missing=_all_flaws(without_row(unseen, tombstones, gone)),",
        "missing=(),",
        f"{PAIRS}::test_lost_rows_do_not_pass_for_tombstones",
    ),
    Mutant(
        "decode: Spark's rows are counted before they are committed",
        "        if doubled := sum(held.duplicates for held in written.landed.values()):\n",
        "        if False:\n",
        f"{PAIRS}::test_rows_that_are_lost_or_doubled_while_they_are_decoded",
        within="_commit",
    ),
    Mutant(
        "decode: every raw row is in one of both tables",
        "    if unseen != dropped:",
        "    if False:",
        RULES,
    ),
    Mutant(
        "decode: no record is in both tables",
        "if both := intersect(of_typed, of_quarantine):",
        "if both := ():",
        RULES,
    ),
    Mutant(
        "decode: no row without a raw row",
        "if strange := subtract([*of_typed, *of_quarantine], of_raw):",
        "if strange := ():",
        RULES,
    ),
    Mutant(
        "decode: no row stands twice",
        "        if copies:\n            wrong",
        "        if False:\n            wrong",
        RULES,
        within="reconciled",
    ),
    Mutant(
        "decode: an approved raw table that is gone fails no run",
        "    if state.head.table_id is None and run.table.observe().version is None:",
        "    if False:",
        "tests/integration/test_decoding.py::"
        "test_an_open_plan_of_a_raw_table_that_was_approved_as_gone",
    ),
    Mutant(
        "decode: what a rewind took away is gone",
        "        if any(left):",
        "        if False:",
        RULES,
        within="reconciled",
    ),
    Mutant(
        "types: a type that has a table stays in the file",
        "for name in known_ids.keys() - {table.name for table in tables}:",
        "for name in ():",
        f"{TYPES}::test_a_type_that_has_a_table_stays_in_the_file",
    ),
    Mutant(
        "types: what no type claims is no fault",
        "+ result.classes.get(OTHER_TYPE, 0)",
        "",
        f"{TYPES}::test_ids_that_the_registry_does_not_know_and_no_ids_at_all",
    ),
    Mutant(
        "types: told otherwise, every id is asked for again",
        "    if not is_alike:\n        return replace(part, reader=old.reader)\n",
        "",
        f"{TYPES}::test_records_decoded_again_into_another_table_and_killed",
    ),
    Mutant(
        "types: one that has ended claims nothing",
        'subject="" if is_ended else part.subject',
        "subject=part.subject",
        f"{TYPES}::test_a_type_that_has_ended_keeps_its_table",
    ),
    Mutant(
        "types: a row in two typed tables stands twice",
        "rows[identity] += landed.rows",
        "rows[identity] = landed.rows",
        "tests/unit/test_event_types.py::test_a_coordinate_in_two_tables_stands_twice",
    ),
    Mutant(
        "types: a plan commits to types that came later",
        "if name not in plan.tables and not table.observe().exists:",
        "if name not in plan.tables:",
        f"{TYPES}::test_a_cleared_run_takes_copies_out_of_a_table_that_came_later",
    ),
    Mutant(
        "decode: a listed field that no schema has",
        "            refuse_missing_fields(run, told_parts(attempt.plan))",
        "            pass",
        f"{PAIRS}::test_a_listed_field_that_no_schema_has_is_refused",
    ),
    Mutant(
        "decode: what a list asks for is not new",
        ' and policy.new_field == "halt" and not is_asked',
        ' and policy.new_field == "halt"',
        f"{PAIRS}::test_a_list_that_changes_asks_for_its_columns",
    ),
    Mutant(
        "decode: fields that are not listed may not fit",
        "        wanted = selected(shape, self.paths, known) if self.paths else shape",
        "        wanted = shape",
        f"{PAIRS}::test_a_list_may_leave_out_what_does_not_fit",
    ),
    Mutant(
        "decode: an event's time is a column",
        "    if wanted is not None and wanted not in columns:",
        "    if False:",
        f"{PAIRS}::test_an_event_s_time_is_a_column",
    ),
    Mutant(
        "decode: a listed field's name keeps its type",
        "    refuse_names(run, part, merged.refused)",
        "    pass",
        f"{PAIRS}::test_a_column_s_type_never_changes",
    ),
    Mutant(
        "decode: a cleared run brings no older schemas",
        "    parts = decoding.parts if is_old else record.plan.parts",
        "    parts = record.plan.parts",
        f"{RULES}::test_a_plan_of_long_ago_brings_no_older_schemas",
    ),
    Mutant(
        "decode: nor does one that is cleared",
        "was_decoded = before is not None and before.plan.frozen_at == plan.frozen_at",
        "was_decoded = False",
        "tests/integration/test_decoding.py::test_a_list_of_fields_changes",
    ),
    Mutant(
        "decode: what a rewind has undone is decoded by the file of now",
        "there = state.decoding.coverage.cut(landed)",
        "there = landed",
        "tests/integration/test_decoding.py::test_an_undone_run_decodes_by_the_file_of_now",
    ),
    Mutant(
        "decode: a cleared run leaves what a later run has decoded",
        "            else:\n                found += record.plan.ranges\n",
        "            elif record.plan.redrives:\n                found += record.plan.ranges\n",
        "tests/integration/test_decoding.py"
        "::test_a_cleared_run_leaves_what_a_later_run_has_decoded",
    ),
    Mutant(
        "decode: ids that nobody looked up are told from unknown ones",
        "F.when(is_asked, ",
        "F.when(F.lit(True), ",
        "tests/spark/test_decoding_avro.py"
        "::test_in_the_last_round_ids_that_nobody_has_looked_up_are_told_from_unknown_ones",
    ),
    Mutant(
        "decode: a typed table may do without a topic",
        'if n != "topic"}',
        "}",
        f"{PAIRS}::test_own_columns_of_a_new_table",
    ),
    Mutant(
        "decode: tables without an address lie beside the raw one",
        "value if value is None or raw is None else value.beside(raw.uri)",
        "value",
        "tests/unit/test_stream_files.py::test_one_address_of_two_may_be_named",
        within="_tables_beside_the_raw_one",
    ),
    Mutant(
        "decode: others have not taken rows out of the raw table",
        "if changes := foreign_changes(run, run.ledger.read())[1]:",
        "if changes := ():",
        "tests/steps/test_restored_tables.py"
        "::test_nothing_is_decoded_of_a_raw_table_that_others_put_back",
    ),
)
