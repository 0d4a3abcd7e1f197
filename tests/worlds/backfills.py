"""A stream with records in many schedule intervals, and what a backfill of them must come to."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from devstack.airflow_harness import started
from devstack.process import wait_until
from tests.worlds.streams import head, spans, table_rows
from tideline.model.offsets import OffsetRange, overlaps, union
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger

MINUTE = timedelta(minutes=1)
RETRIES = {"retries": 3, "retry_delay_seconds": 2}
"""The first runs of both lanes may find first positions at the same time: one plans again."""

_PER_INTERVAL = 5
_LATER = 20


@dataclass
class Backfilled:
    """A stream that runs every minute and begins behind what was there.

    Args:
        first: Logical date of the first interval to backfill.
        ends: Where the live lane has to get to.
    """

    stream: Stream
    intervals: int
    first: datetime
    ends: dict[tuple[str, int], int]

    @classmethod
    def build(cls, harness, client, name, intervals):
        """Five records an interval in each of two partitions, two hours ago."""
        harness.create(partitions=2, **{"retention.ms": "-1"})
        first = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=2)
        count = _PER_INTERVAL * intervals + _LATER
        for partition in (0, 1):
            times = [first + n * MINUTE / _PER_INTERVAL for n in range(count)]
            harness.send_at(*times, partition=partition)
        stream = started(
            harness, client, name, start="latest", schedule="* * * * *", airflow=RETRIES
        )
        return cls(stream, intervals, first, {(harness.topic(), p): count for p in (0, 1)})

    @property
    def last(self):
        """Logical date of the last interval."""
        return self.first + (self.intervals - 1) * MINUTE

    def follow_live(self, harness, rounds):
        """Records come in, and the schedule's runs land them, beside whatever else runs.

        A round takes up to a minute: the schedule's interval.
        """
        place = (harness.topic(), 0)
        wait_until(lambda: head(self.stream) == self.ends, "no first position", 300, 1)
        for _ in range(rounds):
            harness.send(10)
            self.ends[place] += 10
            wait_until(
                lambda: head(self.stream) == self.ends, "the live lane does not follow", 900, 1
            )

    def assert_tiled(self, harness, client):
        """Every interval once, one copy of each record, the head moved by scheduled runs only."""
        name = self.stream.stream
        runs = [r for r in client.runs(name) if r["dag_run_id"].startswith("backfill__")]
        assert [r["state"] for r in runs] == ["success"] * self.intervals
        ledger = open_ledger(self.stream)
        records = [ledger.find_run(r["dag_run_id"]) for r in runs]
        assert {r.lane for r in records} == {"backfill"}
        for partition in (0, 1):
            found = [OffsetRange(s, e) for r in records for p, s, e in spans(r) if p == partition]
            assert len(found) == self.intervals
            assert overlaps(found) == ()
            assert union(found) == (OffsetRange(0, _PER_INTERVAL * self.intervals),)
        live = [r for r in ledger.closed_runs() if r.lane == "live" and r.verified]
        assert {r.run_id.partition("__")[0] for r in live} == {"scheduled"}
        assert ledger.read().head.live_runs == len(live) > 0
        assert head(self.stream) == self.ends
        rows = table_rows(self.stream)
        assert len(set(rows)) == len(rows)
        audit, findings = harness.audit(self.stream)
        assert (audit.clean, findings) == (True, ())
        return f"{len(runs)} backfill runs, {len(live)} live runs, {len(rows)} rows, audit clean"
