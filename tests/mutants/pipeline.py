"""What the steps do, in their order."""

from tests.mutants.mutant import Mutant

STABILITY = "tests/unit/test_stability.py"
ANEW = "tests/unit/test_planned_anew.py"
FOUND = "tests/simulation/test_found.py"
UNREADABLE = "tests/unit/test_unreadable.py"
SPARK_UNREADABLE = "tests/spark/test_unreadable.py"
MUTANTS = (
    Mutant(
        "an undone run is planned anew (R3)",
        'if record is None or record.status == "proposed" or record.is_planned_anew:',
        'if record is None or record.status == "proposed":',
        ANEW,
    ),
    Mutant(
        "a plan that was undone keeps its id for itself (R1)",
        "*([] if replaces is None else [replaces])",
        "*[]",
        ANEW,
    ),
    Mutant(
        "an undone run has no plan to execute (R3)",
        "        if record.is_planned_anew:\n            raise self._without_plan(",
        "        if False:\n            raise self._without_plan(",
        ANEW,
    ),
    Mutant(
        "a step without a plan halts, and names what to clear (R3)",
        'raise self._without_plan("it has no plan',
        'raise RequestConflict("it has no plan',
        ANEW,
    ),
    Mutant(
        "a run that was planned anew is undone as any other",
        "plan = (record.run_id, record.plan.plan_id if record.plan is not None else None)",
        "plan = (record.run_id, None)",
        ANEW,
    ),
    Mutant(
        "a rewind undoes plans, not proposals",
        "if record is None or not record.is_open:  # a proposal",
        "if record is None:  # a proposal",
        ANEW,
    ),
    Mutant(
        "a backfill that cannot be read is closed (R3)",
        "closed = give_up_backfill(run, record, gone, landed)",
        "closed = False",
        ANEW,
    ),
    Mutant(
        "rows of a backfill are not given up (R3)",
        "if unverified_rows_stand(state.head, landed) or state.incidents_of_plan(plan.plan_id):",
        "if False:",
        ANEW,
    ),
    Mutant(
        "what is left of a plan that cannot be read is verified (R6)",
        "if commit is None or not obstacles_to(run, plan.on_cluster):",
        "if True:",
        f"{ANEW} {FOUND}",
    ),
    Mutant(
        "a plan of which rows are left is not superseded (R6)",
        "is_rest = commit is None and _rows_are_left(run, state, left_open)",
        "is_rest = False",
        FOUND,
    ),
    Mutant(
        "a backfill that others have landed since is closed (R3)",
        "if _is_of_another_log(run, state, record):",
        "if False:",
        FOUND,
    ),
    Mutant(
        "rows that others have verified are no unverified rows (R3)",
        "subtract(held.offsets, covered.get(i, ()))",
        "held.offsets",
        "tests/unit/test_replay.py",
    ),
    Mutant(
        "a plan of which nothing is there has verified nothing (R3)",
        "verified=(),  # nothing of it is there any more",
        "",
        FOUND,
    ),
    Mutant(
        "rows of records that the log has lost stay (R4)",
        "kept = rows_to_keep(run, plan, missing, landing.left_out) if record.is_open else {}",
        "kept = {}",
        FOUND,
    ),
    Mutant(
        "rows of records that the log still has are no only copies (R4)",
        'union(g.offsets for g in shown if g.reason in ("hole", "compacted_batch"))',
        "union(g.offsets for g in shown)",
        "tests/unit/test_replay.py",
    ),
    Mutant(
        "rows that may be of another log do not stay (R4)",
        "intersect(items, known.get(i, ()))",
        "items",
        "tests/unit/test_replay.py",
    ),
    Mutant(
        "nobody sets out to finish a closed plan (R3)",
        "if owner is None or not owner.is_open:",
        "if False:",
        ANEW,
    ),
    Mutant(
        "a decision that was changed is not carried out (R9)",
        "if known is None or known.decision not in (incident.decision, None):",
        "if known is None:",
        ANEW,
    ),
    Mutant(
        "foreign commits while Spark was writing (R13)",
        "if record.is_open and (foreign := foreign_changes(run, state, plan)[1]):",
        "if record.is_open and (foreign := ()):",
        "tests/spark/test_ways_out.py::test_verifying_itself_notices_a_delete_by_others",
        within="verify_ranges",
    ),
    Mutant(
        "the check after the read (R7)",
        "changed = changes_after_read(run, plan.on_cluster)",
        "changed = ()",
        "tests/spark/test_halting.py::"
        "test_a_topic_that_was_recreated_while_it_was_read_blocks_the_advance",
    ),
    Mutant(
        "two observations agree before a verdict (R14)",
        "if not transient and keys == before:",
        "if not transient:",
        STABILITY,
    ),
    Mutant(
        "a transient fault never becomes a verdict (R14)",
        "if not transient and keys == before:",
        "if keys == before:",
        STABILITY,
    ),
    Mutant(
        "known topics are asked by name (R14)",
        "wanted = known | set(kafka.topics)",
        "wanted = set(kafka.topics)",
        "tests/spark/test_halting.py::test_a_topic_that_a_pattern_no_longer_lists_is_missed",
    ),
    Mutant(
        "evidence is kept before it expires",
        "if (commit, counted.verified) != (record.table_commit, record.verified):",
        "if False:",
        "tests/spark/test_gaps.py::test_evidence_is_kept_when_it_expires_before_the_advance",
    ),
    Mutant(
        "a shorter replay is not committed (R4)",
        "        if not missing:",
        "        if True:",
        "tests/spark/test_decisions.py::test_a_shorter_replay_never_replaces_what_is_there",
    ),
    Mutant(
        "a replay is checked again after it was read (R4)",
        "        refuse_unserved(run, record, plan, landed)  # reading took its time (R4)\n",
        "",
        "tests/spark/test_decisions.py::test_a_replay_is_checked_again_before_it_is_committed",
    ),
    Mutant(
        "what others did while Spark was reading halts before the commit (R13)",
        "        if findings:\n            open_and_halt(run, run.ledger.read(), findings)\n",
        "",
        "tests/spark/test_ways_out.py::test_a_delete_while_spark_was_reading_halts_before_the_commit",
        within="_commit",
    ),
    Mutant(
        "no ledger is begun beside another ledger's table (R13)",
        "    if not table.exists:",
        "    if True:",
        "tests/faults/test_crash_ledger.py::test_the_ledger_is_missing_when_a_run_starts",
        within="_refuse_missing",
    ),
    Mutant(
        "who has lost the lease alarms nobody (R5)",
        '        run.ledger.refuse_lost("writer")  # who took over may have superseded the plan\n',
        "",
        "tests/faults/test_crash_zombies.py::test_a_stopped_run_resumes_after_an_overlapping_range",
    ),
    Mutant(
        "an older ledger gives out no token that was used (R5)",
        "above=known or 0",
        "above=0",
        "tests/faults/test_crash_ledger.py::test_an_older_copy_of_the_ledger",
    ),
    Mutant(
        "unverified rows do not stay (R6)",
        "removed = _remove_unverified(run, state.control.ledger_id, plan, incident.unverified)",
        "removed = None",
        "tests/spark/test_decisions.py::test_unverified_rows_do_not_stay",
    ),
    Mutant(
        "a removal is noted as it was made (R13)",
        "KnownCommit.of(made, change.commit_id, change.run_id, change.ranges)",
        "KnownCommit.of(made, change.commit_id, change.run_id, ())",
        "tests/unit/test_table_commit.py",
    ),
    Mutant(
        "later runs attach to a halted plan (R8)",
        "        _attach(run, state, record)\n",
        "",
        "tests/spark/test_gaps.py::test_a_reader_that_lost_records_is_found_by_counting",
    ),
    Mutant(
        "a commit's rows are counted before it proves a plan (R3)",
        "return commit if rows == distinct >= commit.rows else None",
        "return commit",
        "tests/spark/test_recovery.py::test_a_commit_whose_rows_were_taken_away_proves_nothing",
    ),
    Mutant(
        "nobody freezes over another run's plan (R1)",
        "if winner is None or _is_overtaken(run, latest, state, plan):",
        "if winner is None:",
        "tests/spark/test_recovery.py::test_two_that_looked_at_once_do_not_both_freeze",
    ),
    Mutant(
        "foreign commits between verifying and advancing (R13)",
        "if foreign := foreign_changes(run, state, plan)[1]:",
        "if foreign := ():",
        "tests/spark/test_ways_out.py::test_a_delete_by_others_after_verifying_is_noticed",
        within="advance_offsets",
    ),
    Mutant(
        "a commit that nobody has verified is not advanced",
        "if commit is None or commit != record.table_commit:",
        "if commit is None:",
        "tests/spark/test_ways_out.py::test_a_commit_that_nobody_has_verified_is_not_advanced",
    ),
    Mutant(
        "a failed verification leaves no earlier one standing",
        "if commit is not None or record.is_open:",
        "if commit is not None:",
        "tests/spark/test_ways_out.py::test_a_verification_that_fails_takes_an_earlier_one_back",
    ),
    Mutant(
        "a run that was closed is not opened again",
        "if seen.is_open and seen.run_id not in state.runs:",
        "if False:",
        "tests/unit/test_closing.py",
    ),
    Mutant(
        "the check of the log right before the head moves (R7)",
        "if changed := changes_after_read(run, plan.on_cluster):",
        "if changed := ():",
        "tests/spark/test_halting.py::"
        "test_a_topic_that_was_recreated_after_verifying_blocks_the_advance",
    ),
    Mutant(
        "brokers that refuse Spark are not away",
        "if refusal := refusal_in_java(str(error)):",
        "if False:",
        "tests/unit/test_refusals.py",
    ),
    Mutant(
        "an unreadable offset fails twice",
        "reason = attempt(part) and attempt(part)",
        "reason = attempt(part)",
        UNREADABLE,
    ),
    Mutant(
        "both halves of unreadable ranges are looked at",
        "if attempt(second) is not None:",
        "if False:",
        UNREADABLE,
    ),
    Mutant(
        "an error that may pass is no record's fault",
        "if _MAY_PASS.search(text):",
        "if False:",
        UNREADABLE,
    ),
    Mutant(
        "a decision covers the unreadable offsets that were shown (R9)",
        'if finding.kind == "unreadable_record" and finding.intervals != known.finding.intervals:',
        "if False:",
        UNREADABLE,
    ),
    Mutant(
        "unreadable records halt until somebody has decided (R8)",
        "if len(accepted) < len(incidents):",
        "if False:",
        f"{SPARK_UNREADABLE}::test_the_partitions_beside_it_go_on",
    ),
    Mutant(
        "a row that stands where Spark can read nothing is not lost (R4)",
        "lost = unreadable_without_rows(run, plan, error.unreadable)",
        "lost = error.unreadable",
        FOUND,
    ),
    Mutant(
        "a row that stands where Spark can read nothing stays (R4)",
        "unreadable = by_log(left_out)",
        "unreadable = by_log(())",
        FOUND,
    ),
    Mutant(
        "unreadable offsets are read around",
        "return readable_layers(joined(job.ranges), job.unreadable)",
        "return readable_layers(joined(job.ranges), ())",
        f"{SPARK_UNREADABLE}::test_a_policy_skips_them_at_once",
    ),
    Mutant(
        "a log that is another one now does not pass for a broker that is away",
        "if not changes_after_read(run, record.plan.on_cluster):",
        "if True:",
        "tests/simulation/test_found.py",
        within="_examine",
    ),
)
