"""What is read: ranges, first positions, windows, the move of the head."""

from tests.mutants.mutant import Mutant

PLANNING = "tests/unit/test_planning.py"
BACKFILL = "tests/unit/test_backfill.py"
WINDOWS = "tests/property/test_windows.py tests/unit/test_backfill.py"
ADVANCING = "tests/unit/test_advancing.py"
FOLLOWING = "tests/unit/test_following.py"
TAKEN_OUT = "tests/steps/test_topics_taken_out.py"
GENERATIONS = "tests/unit/test_generations.py"
MUTANTS = (
    Mutant(
        "a partition without a leader holds up no other",
        "return may_proceed and is_known and finding.expected == LEADERS_ANSWER",
        "return False",
        "tests/steps/test_halting.py::test_a_partition_without_a_leader_holds_up_no_other_where_runs_may_proceed",
    ),
    Mutant(
        "a new partition without a leader is waited for",
        "return may_proceed and is_known and finding.expected == LEADERS_ANSWER",
        "return may_proceed",
        "tests/steps/test_halting.py::test_a_new_partition_without_a_leader_is_waited_for",
    ),
    Mutant(
        "blocked partitions get no range (R8)",
        "if position.topic_partition in blocked:",
        "if False:",
        PLANNING,
    ),
    Mutant(
        "a new partition of a known topic begins at 0 (R10)",
        "next_offset = 0  # a new partition",
        "next_offset = log_start_of(seen)  # a new partition",
        "tests/unit/test_first_positions.py",
    ),
    Mutant(
        "a topic that the stream file does not name is not followed (R14)",
        "        return topic in self.topics\n\n\nclass Table",
        "        return True\n\n\nclass Table",
        FOLLOWING,
    ),
    Mutant(
        "a pattern means whole names (R14)",
        "return re.fullmatch(self.topic_pattern, topic) is not None\n        return topic in",
        "return re.match(self.topic_pattern, topic) is not None\n        return topic in",
        FOLLOWING,
    ),
    Mutant(
        "an incident of a topic set aside halts nobody (R14)",
        "elif incident.incident_id in set_aside:",
        "elif False:",
        FOLLOWING,
    ),
    Mutant(
        "a topic set aside is told once (R14)",
        "        if topic not in before.set_aside\n",
        "",
        FOLLOWING,
    ),
    Mutant(
        "nothing is asked about a topic set aside (R14)",
        "    head = only_followed(head, kafka)\n    known = ",
        "    known = ",
        TAKEN_OUT,
    ),
    Mutant(
        "nothing is found about a topic set aside (R14)",
        "followed = only_followed(head, run.stream.kafka)\n    findings",
        "followed = head\n    findings",
        TAKEN_OUT,
    ),
    Mutant(
        "a backfill reads no topic set aside (R14)",
        "    head = only_followed(head, run.stream.kafka)\n",
        "",
        TAKEN_OUT,
    ),
    Mutant(
        "the group hears of followed topics only (R14)",
        "followed = only_followed(run.ledger.read().head, run.stream.kafka).positions",
        "followed = run.ledger.read().head.positions",
        "tests/steps/test_topics_taken_out.py::"
        "test_its_rows_stay_and_landing_goes_on_when_it_is_put_back",
    ),
    Mutant(
        "instants stay in order (R11)",
        "offset = min(max(earlier), min(later))",
        "offset = boundary.offset",
        "tests/property/test_windows.py",
    ),
    Mutant(
        "whoever looked an instant up first counts (R11)",
        "added = (b for b in later.boundaries if b.identity not in known)",
        "added = later.boundaries; self = ResolvedTimestamp(self.at)",
        BACKFILL,
    ),
    Mutant(
        "a record from the future is no boundary (R11)",
        "if found.timestamp_ms > (now + CLOCKS_APART).timestamp() * 1000:",
        "if False:",
        BACKFILL,
    ),
    Mutant(
        "what a window has lost is named (R11)",
        "        if lost:\n",
        "        if False:\n",
        WINDOWS,
        within="plan_backfill",
    ),
    Mutant(
        "an expired boundary may have lost records (R11)",
        "expired=0 < start >= found.offset",
        "expired=False",
        WINDOWS,
    ),
    Mutant(
        "covered offsets are not read again (R12)",
        "first = by_generation(replace(planned, end_offset=end), generations)[0]",
        "first = by_generation(planned, generations)[0]",
        PLANNING,
    ),
    Mutant(
        "a live plan stops where a generation begins (R2)",
        "first = by_generation(replace(planned, end_offset=end), generations)[0]",
        "first = replace(planned, end_offset=end)",
        GENERATIONS,
    ),
    Mutant(
        "a backfill is split where a generation begins (R2)",
        "ranges += by_generation(replace(planned, end_offset=wanted.end_offset), generations)",
        "ranges += [replace(planned, end_offset=wanted.end_offset)]",
        GENERATIONS,
    ),
    Mutant(
        "a deeper cut takes generations out of the log (R2)",
        "            if start < end:\n                found.append((identity",
        "            if True:\n                found.append((identity",
        GENERATIONS,
    ),
    Mutant(
        "what an older generation has landed counts (R12)",
        "        return self.of_logs(self.coverage)",
        "        return self.covered",
        GENERATIONS,
    ),
    Mutant(
        "a plan from before a cut does not move the head (advance)",
        "return there is not None and there.holds(item.offsets)",
        "return there is not None",
        GENERATIONS,
    ),
    Mutant(
        "a backfill from before a cut is not frozen (R1)",
        "return all(r.identity in logs and logs[r.identity].holds(r.offsets) for r in ranges)",
        "return all(r.identity in logs for r in ranges)",
        GENERATIONS,
    ),
    Mutant(
        "ranges that do not meet are not read as one (R2)",
        "if lower.end_offset != planned.start_offset:",
        "if False:",
        GENERATIONS,
    ),
    Mutant(
        "the head takes what is seen now over covered offsets (R12)",
        "return moved.having_seen(seen.leader_epoch, seen.high_watermark)",
        "return moved",
        PLANNING,
    ),
    Mutant(
        "a backfill beyond the head leaves what it saw (R12)",
        "if item.end_offset > position.next_offset:",
        "if False:",
        ADVANCING,
    ),
    Mutant("a backfill never moves the head", 'if plan.lane == "live":', "if True:", ADVANCING),
    Mutant(
        "a backfill may have landed a plan's beginning (R12)",
        "first, last = sorted((position.next_offset, item.start_offset))",
        "first, last = position.next_offset, item.start_offset",
        "tests/unit/test_advancing.py",
    ),
    Mutant(
        "a loss that was accepted does not hold up an open plan (R9)",
        "        covered = union(covered, lost)\n",
        "        pass\n",
        ADVANCING,
    ),
    Mutant(
        "the head moves only from the plan's start (advance)",
        "if not _leads_to(position, item, covered, gone):",
        "if False:",
        ADVANCING,
    ),
    Mutant(
        "a plan ends at the last stable offset",
        'if isolation_level == "read_committed":',
        "if False:",
        PLANNING,
    ),
)
