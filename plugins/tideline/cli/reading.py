"""The commands that answer a question and change nothing; and `resolve`, which answers ours."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from tideline.cli.output import (
    CommandOutput,
    first_lines,
    grid,
    grid_of,
    headroom_lines,
    os_user,
    short_run,
)
from tideline.cli.runs import watched_run
from tideline.contract.answers import Explained, Incidents, Resolution, Statuses
from tideline.contract.building import (
    build_audit,
    build_explained_key,
    build_incident,
    build_incident_details,
    build_ledger,
)
from tideline.contract.parts import DriverStatus
from tideline.errors import AuditNotClean, BadInput, Transient
from tideline.kafka.kafka_settings import SHORT_PATIENCE
from tideline.landing.observing import measure_headroom, observe_topics
from tideline.launch.local_driver import WarmDriver, warm_drivers
from tideline.launch.progress import working
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.erasures import untold_text
from tideline.model.head import Headroom
from tideline.model.incident import Decision, Incident
from tideline.model.observation import Observation
from tideline.model.offsets import TopicPartition
from tideline.model.request import RunRequest
from tideline.model.run import RunRecord
from tideline.model.status import CurrentStatus, StreamStatus
from tideline.model.verdicts import VERDICTS
from tideline.model.wording import duration_text, first_few, how_many, size_text
from tideline.operations import questions
from tideline.operations.deciding import closed_line, decide, not_open
from tideline.operations.stream_facts import StreamFacts
from tideline.rules.advance import MOST_MEASURED
from tideline.rules.audit import CurrentAudit, TypedAudit
from tideline.rules.incidents import (
    affected_text,
    affected_versions,
    decided_together,
    how_to_decide,
    where_to_read,
)
from tideline.rules.positions import mark_followed
from tideline.stream.files import contents_in, files_in, streams_folder
from tideline.stream.stream import Stream
from tideline.wiring import Clusters, open_ledger, open_run

_SHOWN = 20
"""How many of the newest runs, closed incidents and rewinds a person is shown."""
_FAIL = "the incident stays open, and nothing is landed there until another decision"
_ASKED = "waiting for the brokers"
_HEADINGS = (
    *("stream", "state", "lag", "oldest unread", "headroom", "last run", "in quarantine"),
    "incidents",
)


def status(options: argparse.Namespace, output: CommandOutput) -> None:
    """Show one line for each stream of the files and folders, or of the streams folder.

    A line has the state (never run, up to date, behind, decided, waiting for a person, halted), the
    lag, the age of the oldest unread record, the headroom (estimated if no run has measured it),
    the last run that landed rows, and the number of open incidents. If the brokers do not answer,
    the lag is a lower bound from the last run, and a line below says why. For a single stream the
    answer also says how long each phase of the last run took. On a terminal the ledgers' answer is
    shown until the brokers have answered. The last lines are this user's warm Spark drivers.
    """
    now = datetime.now(UTC)
    files = [contents_in(file) for file in files_in(options.files)]
    folders = [f for f in options.files or [streams_folder()] if os.path.isdir(f)]
    heading = [f"streams of {first_few(Path(f).resolve() for f in folders)}"] if folders else []
    streams = [stream for contents in files for stream in contents.streams]
    problems = tuple(str(problem) for contents in files for problem in contents.problems)
    states = [open_ledger(stream).read() for stream in streams]
    found = [
        StreamFacts(stream, state, None, unanswered=_ASKED).status(now)
        for stream, state in zip(streams, states, strict=True)
    ]
    with output.meanwhile() as show, ExitStack() as opened:
        brokers = _Brokers(opened)
        for number, (stream, state) in enumerate(zip(streams, states, strict=True)):
            show(*heading, *_shown(found, now))
            observation, problem, estimated = brokers.observed(stream, state)
            facts = StreamFacts(stream, state, observation, estimated, unanswered=problem)
            found[number] = facts.status(now)
    drivers = warm_drivers()
    answer = Statuses(
        streams=found,
        drivers=[DriverStatus.of(d) for d in drivers],
        problems=problems,
    )
    notes = first_lines("", problems, _SHOWN)
    output.answer(answer, *heading, *_shown(found, now), *notes, *map(_driver_line, drivers))


def _driver_line(driver: WarmDriver) -> str:
    idle = f"idle for {duration_text(round(driver.idle_seconds))}"
    work = f"{driver.jobs} at work" if driver.jobs else idle
    return f"warm Spark driver {driver.pid}: {work}, {size_text(driver.bytes)}"


class _Brokers:
    """What brokers say of streams: one client a cluster, and nobody waits twice for silent ones.

    Args:
        opened: Closes the clients.
    """

    def __init__(self, opened: ExitStack) -> None:
        self._clusters = Clusters(opened, SHORT_PATIENCE)
        self._silent: dict[str, str] = {}
        """By connection, what was said of its brokers."""

    def observed(
        self, stream: Stream, state: LedgerState
    ) -> tuple[Observation | None, str | None, tuple[Headroom, ...]]:
        """An observation of a stream's topics, or why there is none; headroom that no run knows."""
        connection = stream.kafka.connection
        if connection in self._silent:
            return None, self._silent[connection], ()
        try:
            cluster = self._clusters.of(connection)
            with open_run(stream, "status", RunRequest(), cluster=cluster) as run:
                head = mark_followed(state.head, stream.kafka)
                found = observe_topics(run, head)
                if head.headroom:
                    return found, None, ()
                return found, None, measure_headroom(run, head, found, MOST_MEASURED)
        except (Transient, BadInput) as error:
            if isinstance(error, Transient):
                self._silent[connection] = error.message
            return None, error.message, ()


def _shown(found: Sequence[StreamStatus], now: datetime) -> list[str | Table]:
    problems = [
        f"{s.stream}: {s.problem}{'' if s.is_measured else '; lag as the last run saw it'}"
        for s in found
        if s.problem
    ]
    lines: list[str | Table] = [grid(_HEADINGS, (_row(s, now) for s in found)), *problems]
    problems = [f"{s.stream}: {n.finding}: {n.text}" for s in found for n in s.names if n.finding]
    lines += problems
    lines += [f"{s.stream}: {untold_text(name)}" for s in found for name in s.untold]
    if len(found) == 1:
        (only,) = found
        lines += [] if only.run_seconds is None else [str(only.run_seconds)]
        if failed := [f"{name} {count:,}" for name, count in only.expectations.items() if count]:
            lines.append(f"expectations not met, newest decoding: {', '.join(failed)}")
        lines += [] if only.current is None else [_current_line(only.current, now)]
    return lines


def _current_line(current: CurrentStatus, now: datetime) -> str:
    """The current table, for people."""
    since, at = current.unproven_since, current.folded_at
    return (
        f"current table: {how_many(current.rows, 'row')}, {current.deleted:,} deleted;"
        f" {how_many(current.unfolded, 'change')} to fold"
        + (f", folded {duration_text((now - at).total_seconds())} ago" if at else "")
        + (f"; unproven since {since:%Y-%m-%d}: a loss was accepted" if since else "")
    )


def _row(status: StreamStatus, now: datetime) -> list[object]:
    unread, lag = status.oldest_unread_at, status.offset_lag
    return [
        status.stream,
        status.state.replace("_", " "),
        None if lag is None else f"{lag:,}" if status.is_measured else f">= {lag:,}",
        None if unread is None else f"{duration_text((now - unread).total_seconds())} ago",
        _headroom(status),
        status.last_run and short_run(status.last_run),
        f"{status.in_quarantine:,}" if status.in_quarantine else None,
        status.open_incidents or None,
    ]


def _headroom(status: StreamStatus) -> str | None:
    left = status.headroom_seconds
    if left is None or left <= 0:
        return None if left is None else "overdue" if left else "0: records are deleted"
    return duration_text(left) + (", estimated" if status.headroom_estimated else "")


def explain_record(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """Say what happened to one record.

    The answer is one of: landed, by which run and in which version of the table; accepted as lost,
    and by whom; no row, and why; at stake in an open incident; in an open run; deleted; or not read
    yet. The brokers are asked only about offsets that no run has landed. With --key the answer is a
    key's row in the current table and all of its decoded changes; a column without = is null.
    """
    if options.key:
        _explain_key(stream, options, output)
        return
    if options.offset is None:
        raise BadInput("explain: got no record; allowed: TOPIC PARTITION OFFSET, or --key")
    place = TopicPartition(options.topic, options.partition)
    if options.partition < 0 or options.offset < 0:
        raise BadInput(
            f"partition, offset: got {options.partition}, {options.offset}; allowed: 0 or more"
        )
    with open_run(stream, "explain", RunRequest()) as run:
        found = questions.explain_record(run, place, options.offset)
    version = "" if found.table_version is None else f", table version {found.table_version}"
    decoded = {None: "", True: ", decoded", False: ", not decoded yet"}[found.decoded]
    line = f"{found.place}: {found.outcome}: {found.text}{version}{decoded}"
    output.answer(Explained.of(found), line)


def _explain_key(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    from tideline.folding.explaining import explain_key  # other commands need none

    if stream.current is None:
        raise BadInput(f"{options.file}: current: got nothing; required for --key")
    if options.topic is not None:
        raise BadInput("--key: got a record as well; allowed: either a key or a record")
    parts = [text.partition("=") for text in options.key]
    key = {column: value if equals else None for column, equals, value in parts}
    if len(key) < len(parts):
        raise BadInput("--key: got a column twice; allowed: one key, each of its columns once")
    doing = working(f"looking for the key in the tables of {stream.stream}")
    with doing, open_run(stream, "explain", RunRequest()) as run:
        found = explain_key(run, key)
    named = ", ".join(f"{n} is null" if v is None else f"{n}={v}" for n, v in key.items())
    what = "no row" if found.row is None else "deleted" if found.is_deleted else "exists"
    rest = len(found.changes) - _SHOWN
    output.answer(
        build_explained_key(found),
        f"{named}: {what}; {how_many(len(found.changes), 'change')}, the newest first",
        *(f"  {change}" for change in found.changes[:_SHOWN]),
        *([f"  and {rest} before"] if rest > 0 else []),
    )


def ledger(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """Show positions, plans, coverage, incidents and rewinds."""
    store = open_ledger(stream)
    state = store.read()
    closed_runs, closed_incidents = list(store.closed_runs()), list(store.closed_incidents())
    rewinds = store.rewinds()
    answer = build_ledger(
        stream.stream, store.store.location, state, closed_runs, closed_incidents, rewinds
    )
    positions = ("topic", "partition", "generation", "next_offset", "leader_epoch", "followed")
    newest = answer.plans[-_SHOWN:]
    runs = ["run_id", "lane", "status", "offsets", "rows", "table_version"]
    runs += ["finishes"] if any(run.finishes for run in newest) else []
    output.answer(
        answer,
        f"ledger {answer.location}, version {answer.version}",
        grid_of(positions, answer.head),
        *headroom_lines(answer.headroom),
        *first_lines("open: ", state.open_incidents),
        *(f"closed: {closed_line(incident)}" for incident in closed_incidents[-_SHOWN:]),
        *(str(rewind) for rewind in rewinds[-_SHOWN:]),
        grid_of(runs, newest),
    )


def audit(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> int:
    """Compare ledger, table and broker.

    The audit reads no values, and no rows of the current table. With --buckets N it also reads all
    rows of N buckets of the current table, other buckets each day, and compares them with their
    changes; while somebody decodes or folds, it then ends with exit status 4.
    """
    if options.buckets < 0:
        raise BadInput(f"--buckets: got {options.buckets}; allowed: 0 or more")
    if options.buckets and stream.current is None:
        raise BadInput(f"{options.file}: current: got nothing; required for --buckets")
    doing = f"reading the tables of {stream.stream}, and asking its brokers"
    with watched_run(stream, "audit", RunRequest(), doing) as run:
        result, findings = questions.audit_stream(run, options.buckets)
    answer = build_audit(result, findings)
    kinds = ("gaps", "overlaps", "duplicates", "missing", "foreign", "unverified")
    flaws = {kind: getattr(answer, kind) for kind in kinds}
    columns = ("topic", "partition", "generation", "start_offset", "end_offset", "offsets")
    rows = [
        [kind, *(getattr(flaw, name) for name in columns)] for kind in kinds for flaw in flaws[kind]
    ]
    counts = ", ".join(f"{len(flaws[kind])} {kind}" for kind in kinds)
    output.answer(
        answer,
        *([grid(("flaw", *columns), rows)] if rows else []),
        *(f"damaged: {file}" for file in result.damaged),
        *_typed_lines(result.typed),
        *_current_lines(result.current),
        *first_lines("", findings),
        f"{'clean' if answer.clean else 'NOT CLEAN'}: {how_many(answer.rows, 'row')}, {counts}",
    )
    return 0 if answer.clean else AuditNotClean.exit_code


def _typed_lines(typed: TypedAudit | None) -> list[str]:
    """The typed tables in a line; and what is wrong there."""
    if typed is None:
        return []
    line = (
        f"typed tables: {how_many(typed.rows, 'row')}, {typed.quarantined} in quarantine,"
        f" {typed.pending} offsets to decode"
        + (f", {typed.let_go} quarantined rows have expired" if typed.let_go else "")
    )
    return [line, *([str(typed)] if not typed.clean else [])]


def _current_lines(current: CurrentAudit | None) -> list[str]:
    """The current table in a line; and what is wrong there."""
    if current is None:
        return []
    line = (
        f"current table: {how_many(current.rows, 'row')}, {current.deleted} deleted,"
        f" {current.unfolded} offsets to fold"
    )
    if current.checked:
        line += f"; all rows of buckets {', '.join(map(str, current.checked))} were read"
    return [line, *map(str, current.wrong)]


def incident(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """Show open incidents, or one incident: what was found, what is at stake, what you can do."""
    ledger = open_ledger(stream)
    shown = ledger.read().open_incidents
    if options.id is not None:
        shown = (_by_id(ledger, options.id),)
    closed_runs = list(ledger.closed_runs()) if shown else []
    details = [build_incident_details(i, affected_versions(closed_runs, i)) for i in shown]
    groups = decided_together(shown)
    lines = [line for group in groups for line in _lines(closed_runs, group)]
    output.answer(Incidents(incidents=details), *(lines or ["no open incident"]))


def _by_id(ledger: Ledger, incident_id: str) -> Incident:
    state = ledger.read()
    for known in (*state.open_incidents, *ledger.closed_incidents()):
        if known.incident_id == incident_id:
            return known
    raise not_open(ledger, state, incident_id)


def _lines(closed_runs: list[RunRecord], group: Sequence[Incident]) -> list[str]:
    """What a person has to know of incidents that are alike, and how to answer them at once."""
    known, finding, count = group[0], group[0].finding, len(group)
    if known.closed_at is not None:
        return [f"closed: {closed_line(known)}", f"{known.incident_id}: {finding.facts}"]
    touched = [affected_text(i, affected_versions(closed_runs, i)) for i in group[:_SHOWN]]
    following = "" if known.is_decided else f" Next: {finding.next_step}."
    lines = [f"{known.incident_id}: {finding.facts}{following}{touched[0]}"]
    if count > 1:
        lines = [
            f"{finding.topic}: {finding.kind}: {how_many(count, 'incident')}: {finding.cause}."
            + following
        ]
        every = zip(group, touched, strict=False)
        lines += [f"  {i.incident_id}: {_at_stake(i)}.{text}" for i, text in every]
        lines += [f"  and {count - _SHOWN} more"] if count > _SHOWN else []
    if known.decision is not None:
        lines.append(f"  decided: {known.decision.choice} by {known.decision.by}")
    meanings = VERDICTS[finding.kind].choices
    lines += [f"  {choice}: {meanings.get(choice, _FAIL)}" for choice in finding.choices]
    if finding.executable:
        lines += [f"  {how_to_decide(known, n)}" for n in sorted({1, count}, reverse=True)]
    return [*lines, f"  {where_to_read(known)}"]


def _at_stake(incident: Incident) -> str:
    finding = incident.finding
    return f"{finding.place}: {finding.at_stake or f'found {finding.actual}'}"


def resolve(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """Decide about an open incident.

    The stream's next run carries the decision out, or the halted run once you clear it.
    """
    ledger = open_ledger(stream)
    by = os_user(options.by)
    decision = Decision(options.choice, by, datetime.now(UTC), options.reason)
    decided = decide(ledger, [options.incident], decision, options.all)
    first = next(i for i in decided if i.incident_id == options.incident)
    effect = _FAIL
    if first.is_decided:
        meaning = VERDICTS[first.finding.kind].choices[options.choice]
        effect = f"{meaning}. The next run carries the decision out, or the halted run if cleared"
    names = first_few((i.incident_id for i in decided), _SHOWN)
    shown = [build_incident(i) for i in decided]
    output.answer(
        Resolution(incident=build_incident(first), incidents=shown),
        f"{names}: {options.choice} by {by}: {effect}",
    )
