"""Take each check out, one at a time: some test must turn red (`make mutants`).

Every mutant is one replacement in a copy of the project, and the tests that should notice. First
those tests pass unchanged; then each mutant has to fail at least one of its own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("plugins", "dags", "spark_jobs", "tests", "docs", "pyproject.toml", "requirements.txt")


@dataclass(frozen=True)
class Mutant:
    """A check taken out.

    Args:
        check: What the check keeps from happening.
        file: Under plugins/tideline.
        old, new: The replacement; `old` stands there exactly once.
        tests: Who should notice.
    """

    check: str
    file: str
    old: str
    new: str
    tests: str


ADDING = "table/delta_table.py"
TWICE = (
    "tests/spark/test_adding.py::test_rows_that_somebody_put_there_in_between_get_no_second_copy"
)
DETECTION, UNIT = "rules/reset_detection.py", "tests/unit/test_detection.py"
MUTANTS = (
    Mutant(
        "another cluster (1)",
        DETECTION,
        "if cluster_id is not None and observation.cluster_id != cluster_id:",
        "if False:",
        UNIT,
    ),
    Mutant("a missing topic (2)", DETECTION, "elif topic.topic_id is None:", "elif False:", UNIT),
    Mutant(
        "a re-created topic, by its id (2)",
        DETECTION,
        "elif topic.topic_id != known_id:",
        "elif False:",
        UNIT,
    ),
    Mutant(
        "a missing partition (3)",
        DETECTION,
        'yield Finding("partition_missing", there, "no such partition")',
        "pass",
        UNIT,
    ),
    Mutant(
        "a stale leader is no verdict (4)",
        DETECTION,
        "epoch < known_epoch:",
        "epoch < known_epoch and False:",
        UNIT,
    ),
    Mutant(
        "truncation, by the epoch's end (5)",
        DETECTION,
        "elif epoch_end is not None and epoch_end < position.proven_end:",
        "elif False:",
        UNIT,
    ),
    Mutant(
        "an unread tail that was cut (5)",
        "model/head.py",
        "return max(self.next_offset, self.seen_end or 0)",
        "return self.next_offset",
        UNIT,
    ),
    Mutant(
        "foreign commits while Spark was writing (R13)",
        "pipeline/verify_ranges.py",
        "if record.is_open and (foreign := foreign_changes(run, state, plan)[1]):",
        "if record.is_open and (foreign := ()):",
        "tests/spark/test_ways_out.py::test_a_delete_by_others_while_spark_was_writing_is_noticed",
    ),
    Mutant(
        "retention loss, by the log start (6)",
        DETECTION,
        "elif lost := lost_to_retention(position, seen.log_start_offset, covered):",
        "elif lost := ():",
        UNIT,
    ),
    Mutant(
        "an end below the position without an epoch",
        DETECTION,
        "elif seen.high_watermark < known and known_epoch is None:",
        "elif False:",
        UNIT,
    ),
    Mutant(
        "a lagging leader is no verdict (7)",
        DETECTION,
        "    elif seen.high_watermark < known:\n",
        "    elif False:\n",
        UNIT,
    ),
    Mutant(
        "a refusal is unknown, not a loss",
        DETECTION,
        "    if topic is not None and topic.refusal is not None:\n",
        "    if False:\n",
        UNIT,
    ),
    Mutant(
        "a partition that did not answer is not passed over",
        DETECTION,
        "        yield from _faults_of_new_partitions(",
        "        () and _faults_of_new_partitions(",
        UNIT,
    ),
    Mutant(
        "after the read a moved log start is no matter (R7)",
        DETECTION,
        'if f.kind != "retention_loss"',
        "if True",
        UNIT,
    ),
    Mutant(
        "the check after the read (R7)",
        "pipeline/landed.py",
        "changed = changes_after_read(run, plan.on_cluster)",
        "changed = ()",
        "tests/spark/test_halting.py::"
        "test_a_topic_that_was_recreated_while_it_was_read_blocks_the_advance",
    ),
    Mutant(
        "two looks agree before a verdict (R14)",
        "pipeline/stability.py",
        "if not transient and keys == before:",
        "if not transient:",
        "tests/unit/test_stability.py",
    ),
    Mutant(
        "what passes never becomes a verdict (R14)",
        "pipeline/stability.py",
        "if not transient and keys == before:",
        "if keys == before:",
        "tests/unit/test_stability.py",
    ),
    Mutant(
        "the topic id is the same before and after a look",
        "kafka_io/responses.py",
        'if before["topic_id"] != after["topic_id"]:',
        "if False:",
        "tests/unit/test_kafka_answers.py",
    ),
    Mutant(
        "transient errors are told from others",
        "kafka_io/responses.py",
        "if all(code in _TRANSIENT_CODES for code in errors):",
        "if False:",
        "tests/unit/test_kafka_answers.py",
    ),
    Mutant(
        "known topics are asked by name (R14)",
        "pipeline/observing.py",
        "wanted = known | set(kafka.topics)",
        "wanted = set(kafka.topics)",
        "tests/spark/test_halting.py::test_a_topic_that_a_pattern_no_longer_lists_is_missed",
    ),
    Mutant(
        "every offset has a row or a reason",
        "rules/verification.py",
        "open_gaps = tuple(g for g in reasons if g.reason not in ADMITTED)",
        "open_gaps = ()",
        "tests/unit/test_verification.py",
    ),
    Mutant(
        "one row per offset",
        "rules/verification.py",
        "if present.duplicates or open_gaps:",
        "if open_gaps:",
        "tests/unit/test_verification.py",
    ),
    Mutant(
        "what nobody looked at is unexplained",
        "rules/verification.py",
        '*(Gap(r, "expired") for r in unseen)',
        "*()",
        "tests/unit/test_verification.py",
    ),
    Mutant(
        "an abort marker ends its producer's aborted records",
        "rules/gaps.py",
        "aborting.discard(batch.producer_id)",
        "pass",
        "tests/unit/test_gap_evidence.py",
    ),
    Mutant(
        "only transactional batches are aborted",
        "rules/gaps.py",
        "if batch.is_transactional and batch.producer_id in aborting:",
        "if batch.producer_id in aborting:",
        "tests/unit/test_gap_evidence.py",
    ),
    Mutant(
        "offsets that no batch covers are a hole",
        "rules/gaps.py",
        'gaps += [Gap(r, "hole") for r in subtract(wanted, seen)]',
        'gaps += [Gap(r, "marker") for r in subtract(wanted, seen)]',
        "tests/unit/test_gap_evidence.py",
    ),
    Mutant(
        "a record that is there is no excuse",
        "rules/gaps.py",
        'return "record" if batch.records == len(batch.offsets) else "compacted_batch"',
        'return "marker"',
        "tests/unit/test_gap_evidence.py",
    ),
    Mutant(
        "evidence is kept before it expires",
        "pipeline/verify_ranges.py",
        "if (commit, counted.verified) != (record.table_commit, record.verified):",
        "if False:",
        "tests/spark/test_gaps.py::test_evidence_is_kept_when_it_expires_before_the_advance",
    ),
    Mutant(
        "a replay needs its whole range (R4)",
        "rules/replay.py",
        "elif start > planned.start_offset:",
        "elif False:",
        "tests/unit/test_replay.py",
    ),
    Mutant(
        "a replay needs its incarnation (R4)",
        "rules/replay.py",
        "elif topic.topic_id != planned.topic_id:",
        "elif False:",
        "tests/unit/test_replay.py",
    ),
    Mutant(
        "a shorter replay is not published (R4)",
        "pipeline/ingest_ranges.py",
        "    if shorter:",
        "    if False:",
        "tests/spark/test_decisions.py::test_a_shorter_replay_never_replaces_what_is_there",
    ),
    Mutant(
        "a replay is checked again after staging (R4)",
        "pipeline/ingest_ranges.py",
        '    reach("ingest:staged")\n    _check_readable(run, plan)',
        '    reach("ingest:staged")',
        "tests/spark/test_decisions.py::test_a_replay_is_checked_again_before_it_is_published",
    ),
    Mutant(
        "an older attempt publishes nothing (R5)",
        "spark/sink.py",
        '.option("txnAppId", job.app_id)',
        '.option("txnAppId", job.plan_id)',
        "tests/spark/test_settling.py::test_an_older_replay_publishes_nothing",
    ),
    Mutant(
        "an older attempt's files are not added (R5)",
        ADDING,
        "if newest is not None and newest >= job.token:",
        "if False:",
        "tests/spark/test_adding.py::test_an_older_attempt_s_files_are_not_added",
    ),
    Mutant(
        "the table is looked at again when others commit (R2)",
        "table/append.py",
        "max_commit_retries=0,",
        "max_commit_retries=15,",
        TWICE,
    ),
    Mutant(
        "no files are added where rows stand by now (R2)",
        ADDING,
        "return version == checked_version or not self.landed(job.ranges, version)",
        "return True",
        TWICE,
    ),
    Mutant(
        "a table that needs Delta's writer takes no files",
        ADDING,
        "if partitions_of_plain(table) != job.partition_by:",
        "if False:",
        "tests/spark/test_adding.py::test_a_table_changed_while_spark_was_writing_takes_no_files",
    ),
    Mutant(
        "rows that were not planned are refused",
        "table/append.py",
        "        _refuse_unplanned(data_file, job)\n",
        "        pass\n",
        "tests/spark/test_adding.py::test_rows_that_were_not_planned_are_refused",
    ),
    Mutant(
        "a lease that others had is lost for good (R5)",
        "ledger/leases.py",
        "    refuse_lost(state, name, holder)\n    return _with_lease",
        "    return _with_lease",
        "tests/integration/test_ledger_contract.py",
    ),
    Mutant(
        "a token is given to the lease's holder only (R5)",
        "ledger/ledger.py",
        "            leases.refuse_lost(state, lease, self.holder)\n",
        "",
        "tests/integration/test_ledger_contract.py",
    ),
    Mutant(
        "a ledger that was there is not begun anew (R13)",
        "ledger/ledger.py",
        "if snapshot.version < self._newest:",
        "if False:",
        "tests/integration/test_ledger_delta.py",
    ),
    Mutant(
        "no ledger is begun beside another ledger's table (R13)",
        "pipeline/lane.py",
        "    if not table.exists:",
        "    if True:",
        "tests/faults/test_crash_ledger.py::test_the_ledger_is_missing_when_a_run_starts",
    ),
    Mutant(
        "who has lost the lease alarms nobody (R5)",
        "pipeline/ingest_ranges.py",
        '        run.ledger.refuse_lost("writer")  # who took over may have superseded the plan\n',
        "",
        "tests/faults/test_crash_zombies.py::test_a_stopped_run_resumes_after_an_overlapping_range",
    ),
    Mutant(
        "an older ledger gives out no token that was used (R5)",
        "pipeline/attempts.py",
        "above=known or 0",
        "above=0",
        "tests/faults/test_crash_ledger.py::test_an_older_copy_of_the_ledger",
    ),
    Mutant(
        "unverified rows do not stay (R6)",
        "pipeline/decisions.py",
        "head, _remove_unverified(run, state.control.ledger_id, plan, incident.unverified)",
        "head",
        "tests/spark/test_decisions.py::test_unverified_rows_do_not_stay",
    ),
    Mutant(
        "later runs attach to a halted plan (R8)",
        "pipeline/detect_earliest_reset.py",
        "        _attach(run, state, record)\n",
        "",
        "tests/spark/test_gaps.py::test_a_reader_that_lost_records_is_found_by_counting",
    ),
    Mutant(
        "only narrow incidents may be left open (R8)",
        "rules/triage.py",
        "elif proceed and incident.finding.is_narrow and",
        "elif proceed and",
        "tests/unit/test_incidents.py",
    ),
    Mutant(
        "the finder halts, whoever may proceed (R8)",
        "rules/triage.py",
        "and incident.run_id != run_id:",
        "and True:",
        "tests/unit/test_incidents.py",
    ),
    Mutant(
        "blocked partitions get no range (R8)",
        "rules/planning.py",
        "if position.topic_partition in blocked:",
        "if False:",
        "tests/unit/test_planning.py",
    ),
    Mutant(
        "fail is no way on (R9)",
        "model/incident.py",
        'return tuple(choice for choice in self.choices if choice != "fail")',
        "return self.choices",
        "tests/unit/test_incidents.py",
    ),
    Mutant(
        "a cut log goes on in a new generation (R9)",
        "rules/resolution.py",
        "return max(same) + 1 if same else 0",
        "return max(same) if same else 0",
        "tests/unit/test_decisions.py",
    ),
    Mutant(
        "an accepted loss is on record (R9)",
        "rules/resolution.py",
        "accepted_loss = add_coverage(head.accepted_loss, ((position.identity, r) for r in lost))",
        "accepted_loss = head.accepted_loss",
        "tests/unit/test_decisions.py",
    ),
    Mutant(
        "a choice has to be valid for its class (R9)",
        "airflow/approval.py",
        "if choice not in by_kind.get(kind, ()) or kind in chosen:",
        "if False:",
        "tests/unit/test_approval.py",
    ),
    Mutant(
        "a new partition of a known topic begins at 0 (R10)",
        "rules/start_positions.py",
        "next_offset = 0  # a new partition",
        "next_offset = log_start_of(seen)  # a new partition",
        "tests/unit/test_first_positions.py",
    ),
    Mutant(
        "a table of another ledger (R13)",
        "rules/table_watch.py",
        "elif table.ledger_id != ledger_id:",
        "elif False:",
        UNIT,
    ),
    Mutant(
        "a table of another stream (R13)",
        "rules/table_watch.py",
        "elif table.stream != stream:",
        "elif False:",
        UNIT,
    ),
    Mutant(
        "a replaced table (R13)",
        "rules/table_watch.py",
        "elif known_id is not None and table.table_id != known_id:",
        "elif False:",
        UNIT,
    ),
    Mutant(
        "foreign removals (R13)",
        "rules/table_watch.py",
        "    if foreign:",
        "    if False:",
        "tests/unit/test_table_watch.py",
    ),
    Mutant(
        "commits that nobody can look at (R13)",
        "rules/table_watch.py",
        "    if unseen:",
        "    if False:",
        "tests/unit/test_table_watch.py",
    ),
    Mutant(
        "a commit's rows are counted before it proves a plan (R3)",
        "pipeline/landed.py",
        "return commit if rows == distinct >= commit.rows else None",
        "return commit",
        "tests/spark/test_settling.py::test_a_commit_whose_rows_were_taken_away_proves_nothing",
    ),
    Mutant(
        "nobody freezes over another run's plan (R1)",
        "pipeline/freezing.py",
        "if winner is None or _is_overtaken(run, latest, state, plan):",
        "if winner is None:",
        "tests/spark/test_settling.py::test_two_that_looked_at_once_do_not_both_freeze",
    ),
    Mutant(
        "instants stay in order (R11)",
        "rules/windows.py",
        "offset = min(max(earlier), min(later))",
        "offset = boundary.offset",
        "tests/property/test_windows.py",
    ),
    Mutant(
        "whoever looked an instant up first counts (R11)",
        "model/window.py",
        "added = (b for b in later.boundaries if b.identity not in known)",
        "added = later.boundaries; self = ResolvedTimestamp(self.at)",
        "tests/unit/test_backfill.py",
    ),
    Mutant(
        "a record from the future is no boundary (R11)",
        "rules/windows.py",
        "if found.timestamp_ms > now.timestamp() * 1000:",
        "if False:",
        "tests/unit/test_backfill.py",
    ),
    Mutant(
        "what a window has lost is named (R11)",
        "rules/backfill.py",
        "        if lost:\n",
        "        if False:\n",
        "tests/property/test_windows.py tests/unit/test_backfill.py",
    ),
    Mutant(
        "an expired boundary may have lost records (R11)",
        "rules/windows.py",
        "expired=0 < start >= found.offset",
        "expired=False",
        "tests/property/test_windows.py tests/unit/test_backfill.py",
    ),
    Mutant(
        "covered offsets are not read again (R12)",
        "rules/planning.py",
        "            if end < planned.end_offset:",
        "            if False:",
        "tests/unit/test_planning.py",
    ),
    Mutant(
        "the head takes what is seen now over covered offsets (R12)",
        "rules/planning.py",
        "                leader_epoch=seen.leader_epoch,\n                seen_end",
        "                seen_end",
        "tests/unit/test_planning.py",
    ),
    Mutant(
        "a backfill beyond the head leaves what it saw (R12)",
        "rules/advance.py",
        "if item.end_offset > position.next_offset:",
        "if False:",
        "tests/unit/test_advancing.py",
    ),
    Mutant(
        "rows beyond the head are not lost (R3, R12)",
        DETECTION,
        "subtract(expired, coverage.get(position.identity, ()))",
        "subtract(expired, ())",
        "tests/unit/test_detection.py",
    ),
    Mutant(
        "a backfill never moves the head",
        "rules/advance.py",
        'if plan.lane == "live":',
        "if True:",
        "tests/unit/test_advancing.py",
    ),
    Mutant(
        "the head moves only from the plan's start (advance)",
        "rules/advance.py",
        "if item.start_offset not in (position.next_offset, reached):",
        "if False:",
        "tests/unit/test_advancing.py",
    ),
    Mutant(
        "the swap is of the version that was read (ledger in a database)",
        "ledger/sql_store.py",
        ".where(LEDGERS.c.name == self._name, LEDGERS.c.version == base)",
        ".where(LEDGERS.c.name == self._name)",
        "tests/integration/test_ledger_contract.py",
    ),
    Mutant(
        "a swap that met another version writes nothing",
        "ledger/sql_store.py",
        "if connection.execute(swap).rowcount != 1:",
        "if connection.execute(swap).rowcount > 1:",
        "tests/integration/test_ledger_contract.py",
    ),
    Mutant(
        "a stopped writer holds nobody up for ever",
        "ledger/sql_store.py",
        "            _limit_waiting(connection)\n",
        "",
        "tests/integration/test_ledger_sql.py::test_the_server_ends_a_stopped_writer_s_transaction",
    ),
    Mutant(
        "a moved ledger is left at the version that was copied",
        "ledger/move.py",
        "self.leaving.commit(base, put={MARKER: dump(marker)})",
        "self.leaving.commit(self.leaving.read(), put={MARKER: dump(marker)})",
        "tests/integration/test_ledger_move.py::test_what_is_written_while_it_copies_arrives_too",
    ),
    Mutant(
        "a copy of a third home is finished from there only",
        "ledger/move.py",
        'if marker.state != "unfinished" or marker.other != self.source:',
        'if marker.state != "unfinished":',
        "tests/integration/test_ledger_move.py::"
        "test_a_copy_of_a_third_location_is_not_finished_from_the_first",
    ),
    Mutant(
        "a location without its ledger is not opened",
        "ledger/snapshots.py",
        "if marker is not None:",
        "if False:",
        "tests/integration/test_ledger_move.py::test_the_old_location_refuses_and_names_the_new_one",
    ),
    Mutant(
        "a document of a newer format is not guessed at",
        "documents.py",
        "if number > FORMAT:",
        "if False:",
        "tests/unit/test_documents.py",
    ),
    Mutant(
        "an unknown field is not dropped in silence",
        "documents.py",
        'ConfigDict(extra="forbid")',
        "ConfigDict()",
        "tests/unit/test_documents.py",
    ),
    Mutant(
        "a move copies no history of a newer format",
        "ledger/move.py",
        "refuse_newer_formats(store, store.read(), history=True)",
        "refuse_newer_formats(store, store.read())",
        "tests/integration/test_old_ledgers.py::test_an_entry_of_the_future_stops_who_reads_it_and_a_move",
    ),
    Mutant(
        "a commit of a newer version is not taken for somebody else's",
        "table/schema.py",
        "if number > COMMIT_FORMAT:",
        "if False:",
        "tests/unit/test_table.py",
    ),
    Mutant(
        "a plan ends at the last stable offset",
        "model/observation.py",
        'if isolation_level == "read_committed":',
        "if False:",
        "tests/unit/test_planning.py",
    ),
    Mutant(
        "a write by somebody whom a rewind has overtaken",
        "ledger/ledger.py",
        "if self._rewinds is not None and state.control.rewinds != self._rewinds:",
        "if False:",
        "tests/integration/test_ledger_contract.py",
    ),
    Mutant(
        "a run during an unfinished rewind",
        "ledger/leases.py",
        "    if rewind is None:",
        "    if True:",
        "tests/integration/test_ledger_contract.py",
    ),
    Mutant(
        "removal of what was landed before, by a rewind",
        "rules/rewind.py",
        "claimed = dict(kept)",
        "claimed: dict[PartitionIdentity, Intervals] = {}",
        "tests/unit/test_rewinding.py",
    ),
    Mutant(
        "coverage by an undone run",
        "rules/rewind.py",
        "        verified=(),\n",
        "",
        "tests/unit/test_rewinding.py",
    ),
    Mutant(
        "a head that closed runs do not bear out",
        "rules/audit.py",
        "subtract(known.accounted, known.verified), subtract(known.verified, known.accounted)",
        "(), ()",
        "tests/unit/test_audit.py",
    ),
)


def main() -> int:
    """Run all mutants, or those whose check contains a word given on the command line."""
    words = sys.argv[1:]
    chosen = [m for m in MUTANTS if not words or any(w in m.check for w in words)]
    with tempfile.TemporaryDirectory(prefix="tideline-mutants-") as folder:
        began = time.monotonic()
        tests = sorted({t for m in chosen for t in m.tests.split()})
        clean = _copy(Path(folder, "clean"))
        if failed := _first_failure(clean, tests):
            print(f"unchanged, the tests do not pass: {failed}")
            return 1
        with ThreadPoolExecutor(max_workers=2) as pool:
            results = list(pool.map(lambda m: _noticed_by(m, Path(folder)), chosen))
    survivors = 0
    for mutant, by in zip(chosen, results, strict=True):
        print(f"{'noticed ' if by else 'SURVIVED'}  {mutant.check:58} {by or mutant.tests}")
        survivors += not by
    seconds = time.monotonic() - began
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants noticed in {seconds:.0f} s")
    return 1 if survivors else 0


def _noticed_by(mutant: Mutant, folder: Path) -> str | None:
    """The test that turned red, None if none did."""
    root = _copy(folder / f"mutant-{MUTANTS.index(mutant)}")
    file = root / "plugins/tideline" / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.check}: {mutant.old!r} is not in {mutant.file} exactly once")
    file.write_text(text.replace(mutant.old, mutant.new))
    failed = _first_failure(root, mutant.tests.split())
    shutil.rmtree(root, ignore_errors=True)
    return failed


def _copy(target: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)
    return target


def _first_failure(root: Path, tests: list[str]) -> str | None:
    """The first test that fails, None if all pass; anything else proves nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *tests], cwd=root, capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode == 0:
        return None
    failed = re.search(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or failed is None:
        raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return failed[1]


if __name__ == "__main__":
    sys.exit(main())
