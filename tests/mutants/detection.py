"""What is noticed: resets, changes of the table, answers of the brokers."""

from tests.mutants.mutant import Mutant

DETECTION = "tests/unit/test_detection.py"
KAFKA_ANSWERS = "tests/unit/test_kafka_answers.py"
TABLE_WATCH = "tests/unit/test_table_watch.py"
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
        "elif epoch_end is not None and epoch_end < position.proven_end:",
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
        "    if foreign:",
        "    if False:",
        TABLE_WATCH,
        within="_foreign_changes",
    ),
    Mutant("commits that nobody can look at (R13)", "    if unseen:", "    if False:", TABLE_WATCH),
    Mutant(
        "rows beyond the head are not lost (R3, R12)",
        "subtract(expired, coverage.get(position.identity, ()))",
        "subtract(expired, ())",
        DETECTION,
    ),
)
