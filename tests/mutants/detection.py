"""What is noticed: resets, changes of the table, answers of the brokers."""

from tests.mutants.mutant import Mutant

DETECTION = "tests/unit/test_detection.py"
KAFKA_ANSWERS = "tests/unit/test_kafka_answers.py"
TABLE_WATCH = "tests/unit/test_table_watch.py"
TABLE_FEATURES = "tests/unit/test_table_features.py"
APPROVALS = "tests/integration/test_table_approvals.py"
MUTANTS = (
    Mutant(
        "another cluster (1)",
        "if cluster_id is not None and observation.cluster_id != cluster_id:",
        "if False:",
        DETECTION,
    ),
    Mutant(
        "a missing topic (2)",
        "elif topic.topic_id is None:",
        "elif False:",
        DETECTION,
        within="_topic_findings",
    ),
    Mutant(
        "a re-created topic, by its id (2)",
        "elif topic.topic_id != known_id:",
        "elif False:",
        DETECTION,
    ),
    Mutant(
        "a missing partition (3)",
        'yield Finding("partition_missing", there, "no such partition")',
        "pass",
        DETECTION,
    ),
    Mutant(
        "a stale leader is no verdict (4)",
        "epoch < known_epoch:",
        "epoch < known_epoch and False:",
        DETECTION,
    ),
    Mutant(
        "truncation, by the epoch's end (5)",
        "elif epoch_end is not None and is_cut(position, seen):",
        "elif False:",
        DETECTION,
    ),
    Mutant(
        "an unread tail that was cut (5)",
        "return max(self.next_offset, self.seen_end or 0)",
        "return self.next_offset",
        DETECTION,
    ),
    Mutant(
        "retention loss, by the log start (6)",
        "elif lost := lost_to_retention(position, seen.log_start_offset, covered):",
        "elif lost := ():",
        DETECTION,
    ),
    Mutant(
        "an end below the position without an epoch",
        "elif seen.high_watermark < known and known_epoch is None:",
        "elif False:",
        DETECTION,
    ),
    Mutant(
        "a lagging leader is no verdict (7)",
        "    elif seen.high_watermark < known:\n",
        "    elif False:\n",
        DETECTION,
    ),
    Mutant(
        "a refusal is unknown, not a loss",
        "    if topic is not None and topic.refusal is not None:\n",
        "    if False:\n",
        DETECTION,
    ),
    Mutant(
        "a partition that did not answer is not passed over",
        "        yield from _faults_of_new_partitions(",
        "        () and _faults_of_new_partitions(",
        DETECTION,
    ),
    Mutant(
        "after the read a moved log start is no matter (R7)",
        'if f.kind != "retention_loss"',
        "if True",
        DETECTION,
        within="find_resets_after_read",
    ),
    Mutant(
        "the topic id is the same before and after a look",
        'if before["topic_id"] != after["topic_id"]:',
        "if False:",
        KAFKA_ANSWERS,
    ),
    Mutant(
        "transient errors are told from others",
        "if all(code in _TRANSIENT_CODES for code in errors):",
        "if False:",
        KAFKA_ANSWERS,
    ),
    Mutant(
        "a table of another ledger (R13)",
        "elif table.ledger_id != ledger_id:",
        "elif False:",
        DETECTION,
    ),
    Mutant(
        "a table of another stream (R13)", "elif table.stream != stream:", "elif False:", DETECTION
    ),
    Mutant(
        "a replaced table (R13)",
        "elif known_id is not None and table.table_id != known_id:",
        "elif False:",
        DETECTION,
    ),
    Mutant(
        "foreign removals (R13)",
        "    elif foreign:",
        "    elif False:",
        TABLE_WATCH,
        within="changes_by_others",
    ),
    Mutant(
        "commits that nobody can look at (R13)", "    elif unseen:", "    elif False:", TABLE_WATCH
    ),
    Mutant(
        "a commit is what its actions do (R13)",
        "return bool(removed and (changed or not added))",
        'return operation == "DELETE"',
        TABLE_WATCH,
    ),
    Mutant(
        "a restore that brings rows back (R13)",
        'if operation == "RESTORE":',
        "if False:",
        TABLE_WATCH,
    ),
    Mutant(
        "every foreign removal is in the finding (R9)",
        "{first_few(texts, _SHOWN, '; ')}{last}",
        "{first_few(list(texts)[:_SHOWN])}",
        TABLE_WATCH,
    ),
    Mutant(
        "a table that cannot be written to is refused up front (R13)",
        "elif any(table_refusals(table)):",
        "elif False:",
        TABLE_FEATURES,
    ),
    Mutant(
        "an unknown feature is refused (R13)",
        "if name not in _WITHOUT_EFFECT:",
        "if name in _FEATURES:",
        TABLE_FEATURES,
    ),
    Mutant(
        "a commit of ours that vanished, by its version (R13)",
        "logged[c.version] != (table.ledger_id, c.commit_id, c.token)",
        "False",
        f"{APPROVALS}::test_a_vanished_commit_is_noticed_at_the_next_planning",
    ),
    Mutant(
        "a commit of ours that vanished, by its token (R13)",
        "else newest < c.token",
        "else False",
        f"{APPROVALS}::test_a_token_that_the_table_no_longer_knows_is_noticed",
    ),
    Mutant(
        "commits are looked at although the ledger knows their version (R13)",
        "return min([self.table_version, *(c.version - 1 for c in self.commits)])",
        "return self.table_version",
        f"{APPROVALS}::test_a_vanished_commit_is_noticed_at_the_next_planning",
    ),
    Mutant(
        "a table that changed again is another incident (R9)",
        "return self.shown != known.shown",
        "return False",
        f"{APPROVALS}::test_a_further_change_after_the_decision_is_another_incident",
    ),
    Mutant(
        "a frozen plan takes the table as it was shown (R9)",
        "if incident.finding.shown not in {f.shown for f in findings}:",
        "if False:",
        f"{APPROVALS}::test_the_table_is_looked_at_once_more_before_it_is_taken",
    ),
    Mutant(
        "an approval is not granted for the next change (R9)",
        'if i.decision is not None and i.finding.kind != "table_changed"',
        "if i.decision is not None",
        f"{APPROVALS}::test_a_change_after_the_last_look_is_not_carried_out_along",
    ),
    Mutant(
        "the known version goes no further than what was approved (R9)",
        "table_version=finding.table_version,",
        "table_version=table.version,",
        "tests/unit/test_decisions.py::test_an_approved_table_is_taken_as_it_was_shown",
    ),
    Mutant(
        "rows removed since the look are not lost by its approval (R9)",
        "else run.table.stored(version)",
        "else run.table.stored()",
        f"{APPROVALS}::test_a_change_after_the_last_look_is_not_carried_out_along",
    ),
    Mutant(
        "rows beyond the head are not lost (R3, R12)",
        "subtract(expired, coverage.get(position.identity, ()))",
        "subtract(expired, ())",
        DETECTION,
    ),
    Mutant(
        "an offset that is not told is no offset",
        "any(a is not None and a.offset < 0 for a in answers)",
        "False",
        f"{KAFKA_ANSWERS}::test_an_offset_that_is_not_told_is_no_offset",
    ),
    Mutant(
        "a log without an epoch is refused",
        "if ends[at].leader_epoch < 0 and ends[at].offset > starts[at].offset:",
        "if False:",
        f"{KAFKA_ANSWERS}::test_a_log_without_an_epoch_is_refused",
    ),
    Mutant(
        "an epoch's end that is not told is not left unasked",
        "if unsaid := epochs.keys() - found.keys():",
        "if unsaid := set():",
        f"{KAFKA_ANSWERS}::test_an_epoch_whose_end_is_not_told_is_no_intact_one",
    ),
    Mutant(
        "unknown cleanup counts as compaction",
        '(known.get(name) or "compact")',
        '(known.get(name) or "")',
        f"{KAFKA_ANSWERS}::test_a_topic_of_unknown_cleanup_policy_counts_as_compacted",
    ),
    Mutant(
        "what one run saw before a cut is not forgotten by another",
        "        if made.head.parts_from(latest.head, since=state.head):",
        "        if False:",
        "tests/steps/test_identities_of_logs.py::test_a_cut_between_what_two_runs_saw_is_told",
    ),
)
