"""What proves a run: rows, gaps, replays, audits."""

from tests.mutants.mutant import Mutant

VERIFICATION = "tests/unit/test_verification.py"
GAP_EVIDENCE = "tests/unit/test_gap_evidence.py"
REPLAY = "tests/unit/test_replay.py"
GENERATIONS = "tests/unit/test_generations.py"
MUTANTS = (
    Mutant(
        "a range that verifies as a whole takes the place of its parts",
        "if again.rest([v.planned]))",
        "if v.planned not in [g.planned for g in good])",
        "tests/unit/test_rows_of_a_gap.py tests/simulation/test_found.py",
    ),
    Mutant(
        "a record with a row in two generations is named (audit)",
        "again = (*across, *known.twice)",
        "again = across",
        GENERATIONS,
    ),
    Mutant(
        "a row below its generation is named (audit)",
        "misplaced = subtract(known.below, known.twice)",
        "misplaced = ()",
        GENERATIONS,
    ),
    Mutant(
        "missing offsets of two generations are one finding (R8)",
        "partitions[item.planned.topic_partition].append(item)",
        "partitions[item.planned.identity].append(item)",
        GENERATIONS,
    ),
    Mutant(
        "after the read a partition is asked about once (R7)",
        "last = {r.topic_partition: r for r in sorted(",
        "last = {r.identity: r for r in sorted(",
        GENERATIONS,
    ),
    Mutant(
        "every offset has a row or a reason",
        "open_gaps = tuple(g for g in reasons if g.reason not in ADMITTED)",
        "open_gaps = ()",
        VERIFICATION,
    ),
    Mutant(
        "one row per offset", "if present.duplicates or open_gaps:", "if open_gaps:", VERIFICATION
    ),
    Mutant(
        "what nobody looked at is unexplained",
        '*(Gap(r, "expired") for r in unseen)',
        "*()",
        VERIFICATION,
    ),
    Mutant(
        "an abort marker ends its producer's aborted records",
        "aborting.discard(batch.producer_id)",
        "pass",
        GAP_EVIDENCE,
    ),
    Mutant(
        "only transactional batches are aborted",
        "if batch.is_transactional and batch.producer_id in aborting:",
        "if batch.producer_id in aborting:",
        GAP_EVIDENCE,
    ),
    Mutant(
        "offsets that no batch covers are a hole",
        'gaps += [Gap(r, "hole") for r in subtract(wanted, seen)]',
        'gaps += [Gap(r, "marker") for r in subtract(wanted, seen)]',
        GAP_EVIDENCE,
    ),
    Mutant(
        "a record that is there is no excuse",
        'return "record" if batch.records == len(batch.offsets) else "compacted_batch"',
        'return "marker"',
        GAP_EVIDENCE,
    ),
    Mutant(
        "a replay needs its whole range (R4)",
        "expired = start > planned.start_offset",
        "expired = False",
        REPLAY,
    ),
    Mutant(
        "a log that was cut and has expired is told with both (R4)",
        "    if kept_end < planned.end_offset:",
        "    if kept_end < planned.end_offset and not expired:",
        REPLAY,
    ),
    Mutant(
        "an epoch that is not known is no offset (R4)",
        "if epoch_end == UNDEFINED_EPOCH_END:",
        "if False:",
        REPLAY,
        within="_gone",
    ),
    Mutant(
        "obstacles are compared by what they are (R14)",
        "lambda obstacle: obstacle.key",
        "hash",
        REPLAY,
    ),
    Mutant(
        "rows that were never landed are not promised (R4)",
        "if rows := sum(held.rows for held in landed.values()):",
        "if (rows := sum(held.rows for held in landed.values())) >= 0:",
        REPLAY,
    ),
    Mutant(
        "a replay needs its incarnation (R4)",
        "elif topic.topic_id != planned.topic_id:",
        "elif False:",
        REPLAY,
    ),
    Mutant(
        "a head that closed runs do not bear out",
        "subtract(known.accounted, known.verified), subtract(known.verified, known.accounted)",
        "(), ()",
        "tests/unit/test_audit.py",
    ),
)
