"""What the page is shown in its tests: answers of its API, built from the contract's models."""

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.browser.page_logs import partition_page, partitions_of
from tideline.contract.page import (
    Action,
    Choice,
    Day,
    Hour,
    IncidentPage,
    ListedStream,
    Look,
    Pace,
    PageRun,
    Quarantine,
    QuarantinedRecord,
    RunPage,
    StreamList,
    StreamPage,
    Trigger,
)
from tideline.contract.parts import Incident, RangeWithRows
from tideline.model.incident import class_entry
from tideline.model.offsets import OffsetRange
from tideline.model.status import CurrentStatus, StreamStatus
from tideline.model.timings import RunSeconds
from tideline.model.verdicts import VERDICTS, valid_choices

WEEK = 7 * 86_400.0
AWAY = "no broker of kafka-1:9092, kafka-2:9092 has answered in 5 s"


def now():
    return datetime.now(UTC).replace(microsecond=0)


def ago(**parts):
    return now() - timedelta(**parts)


def days(rng, level, number=14):
    """Rows and bytes of the last days, today's being a part of one."""
    found = []
    for back in range(number - 1, -1, -1):
        day = now() - timedelta(days=back)
        rows = int(level * rng.uniform(0.75, 1.1) * (0.55 if day.weekday() > 4 else 1))
        rows = rows if back else int(rows * (day.hour + 1) / 24)
        found.append(
            Day(
                day=f"{day:%Y-%m-%d}",
                rows=rows,
                bytes=rows * rng.randint(190, 260),
                unread=rows // rng.randint(2, 20),
                headroom_seconds=rng.uniform(2, 7) * 86_400,
            )
        )
    return tuple(found)


TOOK = RunSeconds(
    run_id="scheduled",
    planning=0.8,
    waiting_for_task=1.4,
    waiting_for_spark=6.2,
    reading=3.9,
    committing=0.4,
    verifying=1.1,
)


def status(name, state, **facts):
    known = {
        "stream": name,
        "state": state,
        "partitions": 12,
        "offset_lag": 0,
        "is_measured": True,
        "problem": None,
        "oldest_unread_at": None,
        "headroom_seconds": None,
        "headroom_estimated": False,
        "last_run": run_of(9),
        "last_landed_version": 4_811,
        "open_incidents": 0,
        "undecoded": None,
        "in_quarantine": None,
        "expectations": {},
        "names": (),
        "current": None,
        "run_seconds": TOOK,
    }
    return StreamStatus(**{**known, **facts})


def listed(name, found, rng=None, level=2_000_000, **facts):
    rng = rng or random.Random(name)
    known = {
        "stream": name,
        "dag_id": name,
        "topics": name,
        "fleet": None,
        "table": f"s3a://lake/raw/{name}",
        "status": found,
        "warning": None,
        "retention_seconds": WEEK,
        "days": days(rng, level) if found and found.last_run else (),
        "ledger": Look(asked_at=ago(seconds=4), problem=None),
        "brokers": Look(asked_at=ago(seconds=4), problem=None),
    }
    return ListedStream(**{**known, **facts})


AREAS = ("billing", "checkout", "clicks", "fleet", "inventory", "ledger", "payments", "search")
PARTS = ("orders", "events", "refunds", "sessions", "prices", "shipments", "audit", "quotes")


def run_of(minutes):
    return f"scheduled__{ago(minutes=minutes):%Y-%m-%dT%H:%M:%S}+00:00"


def many(number):
    """A list of that many streams: most are well, some are not."""
    rng = random.Random(20)
    found = []
    for at in range(number):
        name = f"{AREAS[at % 8]}-{PARTS[at // 8 % 8]}-{at:04d}"
        level = int(10 ** rng.uniform(3, 8))
        unread = {"oldest_unread_at": ago(minutes=rng.randint(1, 300))}
        draw = rng.random()
        if at in (17, 401, 733) or draw < 0.002:
            facts = {"offset_lag": level // 9, "headroom_seconds": rng.uniform(-9e3, 5e4)}
            found.append(
                status(name, "halted", open_incidents=rng.randint(1, 3), **unread, **facts)
            )
        elif draw < 0.006:
            facts = {"offset_lag": level // 20, "headroom_seconds": rng.uniform(2e4, 2e5)}
            found.append(status(name, "waiting", open_incidents=1, **unread, **facts))
        elif draw < 0.12:
            facts = {"offset_lag": level // rng.randint(8, 400), **unread}
            found.append(status(name, "behind", headroom_seconds=rng.uniform(9e4, WEEK), **facts))
        elif draw < 0.14:
            found.append(status(name, "never_run", last_run=None, last_landed_version=None))
        else:
            facts = {"last_run": run_of(rng.randint(1, 70))}
            facts["last_landed_version"] = rng.randint(3, 9_000)
            found.append(status(name, "up_to_date", **facts))
        held = replace(found[-1], in_quarantine=at * 37 % 11 if at % 9 == 1 else 0)
        found[-1] = listed(name, held, rng, level)
    return sorted(found, key=lambda one: one.stream)


def fleets(number):
    """That many streams, of which the clicks and the billing come from fleet files."""
    return [
        one.model_copy(update={"fleet": area if area in ("billing", "clicks") else None})
        for one in many(number)
        for area in [one.stream.partition("-")[0]]
    ]


def incident(number, kind, topic, partition, **facts):
    verdict = VERDICTS[kind]
    known = {
        "id": f"incident-{number}",
        "kind": kind,
        "expected": "log start at or below 4,120,000",
        "actual": "log start 4,268,300",
        "topic": topic,
        "topic_id": "8f14e45f-ceea-467f-9b1c-1f2c7d0a11d2",
        "partition": partition,
        "intervals": (),
        "detail": None,
        "decidable": True,
        "lost_from": None,
        "lost_until": None,
        "backfill": None,
        "cause": verdict.cause,
        "lost_start": None,
        "lost_end": None,
        "offsets_at_stake": None,
        "next_step": verdict.next_step,
        "run_id": f"scheduled__{ago(hours=2):%Y-%m-%dT%H:00:00}+00:00",
        "opened_at": ago(hours=2),
        "plan_id": None,
        "choices": valid_choices(kind),
        "decision": None,
        "decided_by": None,
        "decided_at": None,
        "reason": None,
        "closed_at": None,
        "outcome": None,
        "removed_in_version": None,
        "runbook": class_entry(kind),
    }
    return Incident(**{**known, **facts})


def at_stake():
    return incident(
        31,
        "retention_loss",
        "orders",
        5,
        lost_start=4_120_000,
        lost_end=4_268_300,
        offsets_at_stake=148_300,
        intervals=(OffsetRange(start_offset=4_120_000, end_offset=4_268_300),),
        lost_from=ago(days=7, hours=6),
        lost_until=ago(days=7),
    )


def closed():
    decided = {"decided_by": "dana", "decided_at": ago(days=3), "closed_at": ago(days=3)}
    return (
        incident(
            29,
            "topic_recreated",
            "orders",
            7,
            opened_at=ago(days=3, hours=1),
            expected="topic id 8f14e45f-ceea-467f-9b1c-1f2c7d0a11d2",
            actual="topic id c9f0f895-fb98-4b91-9d3a-54c1f6a2b7e3",
            decision="restart",
            reason="the platform team re-created it with twelve partitions",
            outcome="executed",
            **decided,
        ),
        incident(
            22,
            "log_hole",
            "orders",
            2,
            opened_at=ago(days=20),
            expected="3,000 rows",
            actual="2,200 rows; the log has no record there",
            intervals=(OffsetRange(start_offset=2_610_000, end_offset=2_610_800),),
            offsets_at_stake=800,
            decision="accept_loss",
            reason="broker 3 lost a disk; the producer cannot send them again",
            outcome="executed",
            **{**decided, "decided_at": ago(days=19), "closed_at": ago(days=19)},
        ),
    )


def runs(number, dag="orders"):
    found = []
    for at in range(number):
        lane = "backfill" if at in (4, 9) else "live"
        kind = "planned" if at == 0 else "nothing_to_do" if at % 6 == 5 else "done"
        kind_of_run = "backfill" if lane == "backfill" else "scheduled"
        name = f"{kind_of_run}__{ago(minutes=10 * at + 3):%Y-%m-%dT%H:%M:00}+00:00"
        ranges = tuple(
            RangeWithRows(
                topic="orders",
                topic_id="8f14e45f-ceea-467f-9b1c-1f2c7d0a11d2",
                generation=0,
                partition=p,
                start_offset=4_700_000 - 9_000 * (at + 1) + p,
                end_offset=4_700_000 - 9_000 * at + p,
                rows=None if kind == "planned" else 9_000,
            )
            for p in range(0 if kind == "nothing_to_do" else 4)
        )
        found.append(
            PageRun(
                run_id=name,
                plan_id=f"plan-{4_900 - at}",
                lane=lane,
                status=kind,
                offsets=36_000 if ranges else 0,
                rows=36_000 if kind == "done" else None,
                table_version=4_811 - at if kind == "done" else None,
                finishes=None,
                by="dana" if lane == "backfill" else None,
                ranges=ranges,
                updated_at=ago(minutes=10 * at + 1),
                reason="lost a chunk in May" if lane == "backfill" else None,
                url=f"/dags/{dag}/runs/{name}",
                incidents=(),
            )
        )
    return RunPage(runs=tuple(found), more=True)


def quarantine():
    """Records of two error classes."""
    texts = {"framing": "value: 3 bytes; a frame has 5 and more", "unknown_schema": "id 41"}
    return Quarantine(
        classes={"framing": 1_204, "unknown_schema": 7},
        sample=[
            QuarantinedRecord(
                topic="orders",
                partition=n,
                offset=4_100_000 + n,
                part="value",
                error_class=kind,
                error=text,
            )
            for n, (kind, text) in enumerate(texts.items())
        ],
        counted=1_211,
        more=False,
    )


def pace():
    """Lag that shrinks over a day, and the outlook."""
    hour = now().replace(minute=0, second=0)
    hours = [
        Hour(
            begins_at=hour - timedelta(hours=back),
            runs=6,
            rows=216_000,
            unread=1_200_000 + 90_000 * back,
            seconds=47.0 + back % 5 * 9,
        )
        for back in range(23, -1, -1)
        if back != 9
    ]
    return Pace(hours=hours, caught_up_at=now() + timedelta(hours=14.5), grows=False)


def actions(name):
    """As the page's API words them."""
    to = f"dags/{name}"
    passed = {"topic": name, "partition": 4, "start_offset": 3_300_000, "end_offset": 3_420_000}
    asked = f"{to}/runs/asked/tasks/resolve_reset/required_actions"
    answer = Action(
        title=f"Answer incident-31: {name}-5, retention_loss",
        url=asked,
        fill=None,
        note="The run waits for an answer on Airflow's page",
        incident="incident-31",
    )
    return answer, *(
        Action(title=title, url=url, fill=fill and json.dumps(fill), note=note, trigger=trigger)
        for title, url, fill, note, trigger in (
            ("Run now", to, None, "Lands what is new", Trigger(dag_id=name, conf={})),
            (
                "Backfill a window of time",
                to,
                None,
                "In Airflow: Trigger, Backfill. Each run reads the window of its data interval",
                None,
            ),
            (
                "Backfill skipped offsets",
                to,
                [passed],
                "Lands these offsets, which no run has landed",
                Trigger(dag_id=name, conf={"ranges": [passed]}),
            ),
            (
                "Rewind",
                "dags/tideline_rewind",
                {"stream": name, "to_run": run_of(13), "reason": "", "confirm": name},
                "In Airflow: Trigger. to_run is the last run to keep; rows of later runs go",
                None,
            ),
            (
                "Audit",
                "dags/tideline_audit",
                None,
                "Compares ledger, table and brokers; changes nothing",
                Trigger(dag_id="tideline_audit", conf={"stream": name}),
            ),
        )
    )


def unasked(name, *incidents):
    """The answers to incidents that no run asks about, as the page's API words them."""
    return tuple(
        Action(
            title=f"Answer {one.id}: {name}-{one.partition}, {one.kind}",
            url="dags/tideline_resolve",
            fill=None,
            note="Choose at the incident above, or trigger this Dag",
            command=f"tideline resolve '/srv/data platform/streams/{name}.yaml' --incident {one.id}"
            " --choice accept_loss --reason TEXT",
            incident=one.id,
            choices=[
                Choice(choice=choice, meaning=VERDICTS[one.kind].choices[choice])
                for choice in one.choices
                if choice != "fail"
            ],
        )
        for one in incidents
    )


class World:
    """All answers; a test changes what it needs."""

    def __init__(self):
        self.refreshing = False
        self.refused = {}  # path -> (status, error, message)
        self.tasks = _TASKS
        self.airflows = []  # what Airflow says of runs
        self.paused = set()  # Dags
        self.failed = set()  # Dags whose last run has failed
        self.log = []  # of every task
        self.sent = []  # what the page has had Airflow run
        self.taken = (200, {"dag_run_id": "sent", "state": "queued"})
        self.sent_state = "success"
        self.streams = many(40)
        self.partitions = partitions_of("orders")
        self.page = self.orders()
        self.closed = closed()
        self.quarantine = quarantine()
        self.answered = {}  # (topic, partition, offset) -> Explained

    def orders(self, **facts):
        found = status(
            "orders",
            "waiting",
            offset_lag=1_297_600,
            open_incidents=1,
            undecoded=18_200,
            in_quarantine=1_211,
            expectations={"amount_positive": 12, "known_customer": 3, "has_day": 0},
            current=CurrentStatus(
                rows=5_120_400,
                deleted=88_031,
                buckets=16,
                unfolded=41_200,
                folded_at=ago(minutes=26),
                unproven_since=ago(hours=30),
            ),
            oldest_unread_at=ago(hours=3, minutes=12),
            headroom_seconds=-7_200.0,
        )
        known = listed("orders", found, level=9_400_000).model_dump()
        known |= {
            "refreshing": False,
            "schedule": "*/10 * * * *",
            "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
            "table_version": 4_811,
            "incidents": (at_stake(),),
            "actions": actions("orders"),
            "docs": "https://docs.example/tideline",
        }
        return StreamPage(**{**known, **facts})

    def answer(self, parts, query):
        """The answer to a path below `api/v1/`; None where there is none."""
        if parts == ["streams"]:
            return StreamList(streams=tuple(self.streams), refreshing=self.refreshing)
        if parts[1] != self.page.stream:
            return None
        match parts[2:]:
            case []:
                return self.page
            case ["partitions"]:
                return partition_page(self.partitions, query, self.refreshing)
            case ["runs"]:
                return runs(int(query.get("count", 20)))
            case ["quarantine"]:
                return self.quarantine
            case ["pace"]:
                return pace()
            case ["incidents"]:
                return IncidentPage(incidents=(*self.page.incidents, *self.closed), more=False)
            case ["records", topic, partition, offset]:
                return self.answered.get((topic, int(partition), int(offset)))
        return None


_TASKS = [
    {
        "task_id": task,
        "duration": seconds,
        "state": "success",
        "try_number": tries,
        "map_index": -1,
        "start_date": f"2026-01-01T00:00:{at:02d}Z",
    }
    for at, (task, seconds, tries) in enumerate(
        (
            ("plan_offset_ranges", 1.42, 1),
            ("detect_earliest_reset", 0.88, 1),
            ("resolve_reset", 0.0, 1),
            ("ingest_ranges", 47.3, 2),
            ("verify_ranges", 6.1, 1),
            ("advance_offsets", 0.97, 1),
        )
    )
]
