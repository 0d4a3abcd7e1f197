"""From what is known of streams to what the page's API answers. Asks nobody, changes nothing.

What people can do, they do in Airflow: an `Action` says where its form is, and what to fill in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from shlex import quote as shell_quoted
from typing import Any
from urllib.parse import quote

from tideline.contract import page, parts
from tideline.contract.building import build_incident, build_summary
from tideline.contract.page import Action
from tideline.ledger.state import LedgerState
from tideline.model.head import Headroom
from tideline.model.incident import Incident
from tideline.model.run import RunRecord
from tideline.model.status import LogBands, PartitionStatus
from tideline.model.verdicts import VERDICTS
from tideline.page import docs
from tideline.page.bands import PageFacts, StreamView, lag_spread
from tideline.stream.files import StreamFile
from tideline.stream.stream import Stream

_SHELL = "os:"
"""How the name of somebody begins who gave a command in a shell: Airflow has no such run."""
QUARANTINED = ("topic", "part", "error_class", "error")
"""Columns of the quarantine that are read beside coordinates."""
_COUNTED = 20_000
"""Rows of a quarantine that are looked at."""
_OF_EACH = 3
"""So many records of each error class are shown."""
_LONGEST = 300
"""Characters of an error."""
_NO_HEADROOM = float("inf")
"""Sorts partitions whose headroom is unknown behind all others."""


def build_list(views: Iterable[StreamView]) -> page.StreamList:
    """The streams at a glance."""
    shown = list(views)
    return page.StreamList(
        streams=[page.ListedStream(**_facts(view)) for view in shown],
        refreshing=any(view.is_pending for view in shown),
    )


def build_stream(view: StreamView) -> page.StreamPage:
    """One stream."""
    state = view.ledger.value
    head = state.head if state is not None else None
    return page.StreamPage(
        **_facts(view),
        refreshing=view.is_pending,
        schedule=view.stream.schedule,
        cluster_id=head.cluster_id if head is not None else None,
        table_version=head.table_version if head is not None else None,
        incidents=[build_incident(i) for i in state.open_incidents] if state is not None else (),
        actions=() if view.facts is None else _actions_for(view.facts, view.file),
        docs=docs.site(),
    )


def _facts(view: StreamView) -> dict[str, Any]:
    """The fields of `ListedStream`."""
    stream, state, now = view.stream, view.ledger.value, datetime.now(UTC)
    head = state.head if state is not None else None
    return {
        "stream": stream.stream,
        "dag_id": view.file.dag_id,
        "topics": ", ".join(stream.kafka.topics) or f"matching {stream.kafka.topic_pattern}",
        "table": stream.table.uri,
        "status": None if view.facts is None else view.facts.status(now),
        "warning": view.file.warning,
        "fleet": view.file.fleet.fleet if view.file.fleet is not None else None,
        "retention_seconds": None if view.facts is None else _retention(view.facts.headroom, now),
        "days": () if head is None else [page.Day.of(d, day=d.day.isoformat()) for d in head.days],
        "ledger": page.Look.of(view.ledger),
        "brokers": page.Look.of(view.brokers),
    }


def _retention(known: Iterable[Headroom], now: datetime) -> float | None:
    """How long the topic keeps records that retention reaches first, in seconds."""
    timed = [(left, h) for h in known if (left := h.seconds_left(now)) is not None]
    if not timed:
        return None
    _, first = min(timed, key=lambda item: item[0])
    return None if first.retention_ms is None else first.retention_ms / 1000


def build_partitions(
    view: StreamView, *, sort: str, first: int, count: int, topic: str | None
) -> page.PartitionPage:
    """Some partitions with their bands, and how unevenly the lag is spread over all of them.

    `sort` by `lag`, the largest first, by `headroom`, the least first, or by `partition`: topic and
    number. `first` are left out. `topic` None means all topics.
    """
    facts = view.facts
    if facts is None:
        return page.PartitionPage(partitions=(), total=0, skew=None, refreshing=view.is_pending)
    chosen = [s for s in facts.partitions if topic is None or s.topic == topic]
    spread = lag_spread(s.lag for s in chosen)
    chosen = _sorted(chosen, sort)
    # Bands are painted for what is shown alone: a stream may have thousands of partitions.
    return page.PartitionPage(
        partitions=[_partition(s, facts.painter.paint(s)) for s in chosen[first : first + count]],
        total=len(chosen),
        skew=None
        if spread is None
        else page.Skew(total=spread[0], largest=spread[1], median=spread[2], p99=spread[3]),
        refreshing=view.is_pending,
    )


def _sorted(chosen: Sequence[PartitionStatus], sort: str) -> list[PartitionStatus]:
    if sort == "lag":
        return sorted(chosen, key=lambda s: -(s.lag or 0))
    if sort == "headroom":
        return sorted(chosen, key=_expires)
    return list(chosen)


def _expires(status: PartitionStatus) -> float:
    left = status.seconds_left(datetime.now(UTC))
    return _NO_HEADROOM if left is None else left


def _partition(status: PartitionStatus, logs: Iterable[LogBands]) -> page.PagePartition:
    now, known = datetime.now(UTC), status.headroom
    if known is None and status.is_expired and status.topic is not None:
        known = Headroom(status.topic, status.partition, status.next_offset or 0, None, None)
    left = status.seconds_left(now)
    return page.PagePartition.of(
        status,
        headroom=None if known is None else parts.Headroom.of(known, seconds_left=left),
        logs=[_log(log) for log in logs],
    )


def _log(log: LogBands) -> page.Log:
    bands = [page.Band.of(band, band.offsets) for band in log.bands]
    return page.Log.of(
        log.identity,
        current=log.is_current,
        start_offset=bands[0].start_offset if bands else 0,
        end_offset=bands[-1].end_offset if bands else 0,
        bands=bands,
    )


def build_quarantine(rows: Iterable[Mapping[str, Any]]) -> page.Quarantine:
    """What the quarantine holds, of so many rows that nobody waits long.

    Args:
        rows: Each with coordinates and `QUARANTINED`.
    """
    classes: Counter[str] = Counter()
    sample, more = [], False
    for row in rows:
        if classes.total() == _COUNTED:
            more = True
            break
        kind = str(row["error_class"])
        classes[kind] += 1
        if classes[kind] <= _OF_EACH:
            text = row["error"] or ""
            shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\u2026"
            sample.append(page.QuarantinedRecord(**{**row, "error_class": kind, "error": shown}))
    return page.Quarantine(
        classes=dict(classes.most_common()), sample=sample, counted=classes.total(), more=more
    )


def build_page_run(file: StreamFile, record: RunRecord, state: LedgerState) -> page.PageRun:
    """A run, what keeps it from going on, and where Airflow shows it."""
    return page.PageRun.of(
        build_summary(record),
        record,
        record.request,
        url=_run_url(file.dag_id, record),
        incidents=[i.incident_id for i in _holding(file.stream, record, state)],
    )


def _holding(stream: Stream, record: RunRecord, state: LedgerState) -> Iterable[Incident]:
    """The open incidents that a run halts at (R8)."""
    if record.status == "planned" and record.plan is not None:
        return state.incidents_of_plan(record.plan.plan_id)
    if record.status != "proposed" or record.lane != "live":
        return ()
    return [
        i
        for i in state.live_incidents()
        if record.run_id in (i.run_id, i.asked_in)
        or stream.on_incident == "halt"
        or not i.finding.is_of_one_topic
    ]


def _run_url(stream: str, record: RunRecord) -> str | None:
    """Where Airflow shows a run, relative to its root; None where it has none."""
    by = record.request.by
    return None if by is not None and by.startswith(_SHELL) else _run_page(stream, record.run_id)


def _actions_for(facts: PageFacts, file: StreamFile) -> list[Action]:
    """What a person can do about a stream now, the most urgent first."""
    asked = (i for i in facts.state.open_incidents if not i.is_decided and i.finding.executable)
    return [*(_answer(file, i) for i in asked), *_readings(facts, file), *_operations(facts, file)]


def _command(name: str, file: StreamFile, *more: str) -> str:
    """A command about a stream as a shell takes it."""
    which = () if file.fleet is None else ("--stream", file.stream.stream)
    return " ".join(["tideline", name, *map(shell_quoted, (str(file.path), *which, *more))])


def _answer(file: StreamFile, incident: Incident) -> Action:
    finding = incident.finding
    title = f"Answer {incident.incident_id}: {finding.place}, {finding.kind}"
    if incident.asked_in is not None:
        asked_in = _run_page(file.dag_id, incident.asked_in)
        return Action(
            title=title,
            url=f"{asked_in}/tasks/resolve_reset/required_actions",
            fill=None,
            note="The run waits for an answer on Airflow's page",
            incident=incident.incident_id,
        )
    # Its policy is not `approve`: no run waits with a form.
    texts = VERDICTS[finding.kind].choices
    return Action(
        title=title,
        url="dags/tideline_resolve",
        fill=None,
        note="Choose at the incident above, or trigger this Dag",
        command=_command("resolve", file, "--incident", incident.incident_id)
        + f" --choice {finding.executable[0]} --reason TEXT",
        incident=incident.incident_id,
        choices=[page.Choice(choice=c, meaning=texts[c]) for c in finding.executable],
    )


def _readings(facts: PageFacts, file: StreamFile) -> Iterator[Action]:
    dag = f"dags/{_quoted(file.dag_id)}"
    yield Action(
        title="Run now",
        url=dag,
        fill=None,
        note="Lands what is new",
        trigger=page.Trigger(dag_id=file.dag_id, conf={}),
    )
    yield Action(
        title="Backfill a window of time",
        url=dag,
        fill=None,
        note="In Airflow: Trigger, Backfill. Each run reads the window of its data interval",
    )
    ranges = [asdict(r) for r in facts.not_landed]
    as_json = json.dumps(ranges, separators=(",", ":"))
    if ranges and _has_own_dag(file):
        yield Action(
            title="Backfill skipped offsets",
            url=dag,
            fill=as_json,
            note="Lands these offsets, which no run has landed",
            trigger=page.Trigger(dag_id=file.dag_id, conf={"ranges": ranges}),
        )
    elif ranges:
        yield Action(
            title="Backfill skipped offsets",
            url=dag,
            fill=None,
            note="The Dag of a fleet takes no ranges: in a shell",
            command=_command("run", file, "--ranges", as_json),
        )


def _has_own_dag(file: StreamFile) -> bool:
    return file.dag_id == file.stream.stream


def _operations(facts: PageFacts, file: StreamFile) -> Iterator[Action]:
    stream, head = facts.stream, facts.state.head
    if head.commits:
        newest = head.commits[-1].run_id
        again = "In Airflow: clear this task. It reads the same offsets, and one copy stays"
        if _has_own_dag(file):
            yield Action(
                title="Read the newest run again",
                url=f"{_run_page(file.dag_id, newest)}/tasks/ingest_ranges",
                fill=None,
                note=again,
            )
        else:
            yield Action(
                title="Read the newest run again",
                url=f"dags/{_quoted(file.dag_id)}",
                fill=None,
                note="Clearing the task of a fleet lands only what is not closed: in a shell",
                command=_command("run", file, "--run-id", newest),
            )
        yield Action(
            title="Rewind",
            url="dags/tideline_rewind",
            fill=_form(stream=stream.stream, to_run=newest, reason="", confirm=stream.stream),
            note="In Airflow: Trigger. to_run is the last run to keep; rows of later runs go",
        )
    yield Action(
        title="Audit",
        url="dags/tideline_audit",
        fill=None,
        note="Compares ledger, table and brokers; changes nothing",
        trigger=page.Trigger(dag_id="tideline_audit", conf={"stream": stream.stream}),
    )


def _form(**values: object) -> str:
    return json.dumps(values, separators=(",", ":"))


def _run_page(stream: str, run_id: str) -> str:
    return f"dags/{_quoted(stream)}/runs/{_quoted(run_id)}"


def _quoted(text: str) -> str:
    return quote(text, safe="")
