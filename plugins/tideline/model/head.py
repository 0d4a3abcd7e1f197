"""The head: what a live plan starts from, first of all the next offset in each partition.

Headroom is the time until retention reaches that offset. Retention deletes a segment when its
newest record is older than `retention.ms` (Kafka's topic configuration), so the age of the oldest
unread record gives a lower bound of the time left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from tideline.model.catalog import NamedTable
from tideline.model.observation import PartitionObservation
from tideline.model.offsets import (
    Beginning,
    CoordinateRange,
    Generations,
    Incarnations,
    OffsetRange,
    PartitionIdentity,
    TopicPartition,
    checked_topic_id,
)
from tideline.model.places import NOWHERE, Places
from tideline.model.timings import Timings
from tideline.model.wording import duration_text

_RANGES_SHOWN = 5
_COMMITS_KEPT = 3
_DAYS_KEPT = 14


def reaches_text(topic: str, partition: int, next_offset: int, seconds_left: float | None) -> str:
    """When retention may reach an offset, for people.

    Args:
        seconds_left: Seconds until then; below 0 if overdue, None if not known.
    """
    place = f"{topic}-{partition}: retention"
    if seconds_left is None:
        return f"{place} reaches offset {next_offset} at an unknown time"
    if seconds_left <= 0:
        overdue = duration_text(-seconds_left)
        return f"{place} may delete offset {next_offset} at any time, for {overdue} now"
    return f"{place} reaches offset {next_offset} in {duration_text(seconds_left)}"


@dataclass(frozen=True, slots=True)
class Headroom:
    """When retention may reach the oldest unread record of one partition.

    Args:
        topic: Topic name.
        partition: Partition number.
        next_offset: The oldest unread offset that is readable.
        written_at: Timestamp of the first record in the batch there, UTC-aware; None if unknown.
        retention_ms: The topic's `retention.ms`, in milliseconds; None if time deletes nothing.
    """

    topic: str
    partition: int
    next_offset: int
    written_at: datetime | None
    retention_ms: int | None

    @property
    def expires_at(self) -> datetime | None:
        """The earliest time at which the record may be deleted; None if unknown or never."""
        if self.written_at is None or self.retention_ms is None:
            return None
        try:
            return self.written_at + timedelta(milliseconds=self.retention_ms)
        except OverflowError:  # the retention ends after the year 9999
            return None

    def seconds_left(self, now: datetime) -> float | None:
        """Seconds from `now` (UTC-aware) to `expires_at`; below 0 if overdue, None if not known."""
        return None if self.expires_at is None else (self.expires_at - now).total_seconds()


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The live lane's position in one partition.

    Args:
        topic: Topic name.
        topic_id: UUID of the topic that `next_offset` belongs to (KIP-516).
        generation: Which filling of the partition, from 0, counted by Tideline.
        partition: Partition number.
        next_offset: First offset not yet ingested.
        leader_epoch: Leader epoch observed when `next_offset` was planned (KIP-101); None for an
            empty log.
        seen_end: High watermark (exclusive) observed together with that epoch; None if unknown.

    Raises:
        ValueError: The topic id is no UUID, or zero.
    """

    topic: str
    topic_id: str
    generation: int
    partition: int
    next_offset: int
    leader_epoch: int | None = None
    seen_end: int | None = None

    def __post_init__(self) -> None:
        checked_topic_id(self.topic_id)

    @property
    def proven_end(self) -> int:
        """The offset (exclusive) that the known epoch has to reach: the log reached it once."""
        return max(self.next_offset, self.seen_end or 0)

    @property
    def identity(self) -> PartitionIdentity:
        """The log that the position belongs to."""
        return PartitionIdentity(self.topic_id, self.generation, self.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic name and partition number, as brokers know it."""
        return TopicPartition(self.topic, self.partition)

    def moved(self, next_offset: int, seen: PartitionObservation) -> PartitionPosition:
        """Moved in the same log, with what is seen of it now."""
        moved = replace(self, next_offset=next_offset)
        return moved.having_seen(seen.leader_epoch, seen.high_watermark)

    def having_seen(self, leader_epoch: int | None, seen_end: int | None) -> PartitionPosition:
        """With the newer of both epochs, and the furthest end of the log observed in it.

        Args:
            leader_epoch: Of the same log, which has shown no sign of a cut; None if it has none.
            seen_end: High watermark (exclusive) observed with it; None if unknown.
        """
        known = (-1 if self.leader_epoch is None else self.leader_epoch, self.proven_end)
        epoch, end = max(known, (-1 if leader_epoch is None else leader_epoch, seen_end or 0))
        if seen_end is None or ((epoch, end) == known and self.seen_end is not None):
            return self
        return replace(self, leader_epoch=None if epoch < 0 else epoch, seen_end=end)

    def __str__(self) -> str:
        return str(self.topic_partition)


@dataclass(frozen=True, slots=True)
class KnownCommit:
    """A commit of this ledger that the table has to show for good: a landing or a removal.

    Args:
        version: The version that it made.
        token: Fencing token of its attempt.
        commit_id: The plan's id, or the removal's.
        run_id: The run that runs again to land its rows once more, or that removed them.
        ranges: Its first ranges, for people; the run's record has all of them.
        more: How many further ranges there are.
        erasure, fold: What the commit of a removal, or of a fold, tells a ledger that was put back,
            as a document; kept nowhere.
    """

    version: int
    token: int
    commit_id: str
    run_id: str
    ranges: tuple[CoordinateRange, ...] = ()
    more: int = 0
    erasure: str = ""
    fold: str = ""

    @classmethod
    def of(
        cls,
        version: int,
        token: int,
        commit_id: str,
        run_id: str,
        ranges: Iterable[CoordinateRange],
    ) -> KnownCommit:
        """The commit as the head keeps it."""
        every = tuple(r.as_coordinates for r in ranges)
        shown = every[:_RANGES_SHOWN]
        return cls(version, token, commit_id, run_id, shown, len(every) - len(shown))

    def __str__(self) -> str:
        places = ", ".join(map(str, self.ranges))
        more = f" and {self.more} more" if self.more else ""
        return (
            f"version {self.version} ({self.commit_id}, run {self.run_id}, token {self.token}:"
            f" {places}{more})"
        )


@dataclass(frozen=True, slots=True)
class LandedDay:
    """What runs landed on one day.

    Args:
        day: In UTC, when the runs closed.
        rows: Verified rows; those of a replay were counted before, and are not again.
        bytes: Size of their data files, in bytes.
        unread: The most that one of these live runs has found unread when it planned.
        headroom_seconds: The least that retention had left of it then; below 0 if overdue, None if
            unknown.
    """

    day: date
    rows: int
    bytes: int
    unread: int = 0
    headroom_seconds: float | None = None

    def with_run(self, rows: int, size: int, unread: int, left: float | None) -> LandedDay:
        """The day with what one more run has landed; arguments as of the day."""
        known = [seconds for seconds in (self.headroom_seconds, left) if seconds is not None]
        return LandedDay(
            self.day,
            self.rows + rows,
            self.bytes + size,
            max(self.unread, unread),
            min(known, default=None),
        )


@dataclass(frozen=True, slots=True)
class Head:
    """Everything that a live plan starts from. A new head replaces the old one as a whole.

    Args:
        cluster_id: The cluster that the positions belong to; None before the first observation.
        start: The stream file's `start` when the first positions were resolved; None before.
        positions: One per followed partition.
        coverage: Verified offsets of both lanes, one entry per partition identity.
        table_id: Delta's id of the table that holds the rows; None before a commit was verified,
            or a plan frozen beside a table.
        table_version: Newest version known to hold only what the ledger knows; None before that.
        live_runs: How many live runs have advanced.
        bytes_per_record: Bytes of data files per landed row, in the last run; None before the
            first.
        accepted_loss: Offsets without a row whose loss a decision has accepted.
        retired: Positions of topics and partitions that are no longer followed.
        unreadable: Accepted losses at offsets that Spark cannot read: no run asks for them again.
        headroom: The partitions that retention reaches first, as last measured; at most 200.
        set_aside: Topics with positions that the stream file did not mean when a run last planned;
            whoever sees them first tells it.
        beginnings: Where generations above 0 begin, at most one entry per partition identity.
        commits: The newest commits of this ledger that a run has relied on, oldest first; at most
            three. Whoever overwrites a commit does it within moments.
        given_up: Ids of tables that were approved as gone or replaced: what a plan that was frozen
            before knows of them counts no more.
        backfilled: Those of the verified offsets that backfills have landed first.
        days: What was landed on the newest days on which anything was, oldest first; at most 14.
        given: The highest generation that a topic id and partition was ever given, if it is above
            0. No rewind takes it back: a number names one log for good.
        timings: Of the live run that closed a plan last; None before the first.
        read_late: Offsets of a compacted topic that were read so late that deletes among them may
            have been gone already; kept for streams with a current table.
        names: What a catalog has said of the stream's tables.
        incarnations: Of each topic name the topic ids that were ever followed, oldest first: it
            only grows, and no rewind takes it back. An older version has not written it.
        left_behind: Where logs were left: what came there, seen or not, is never read.

    Raises:
        ValueError: Two positions have one identity.
    """

    cluster_id: str | None = None
    start: str | None = None
    positions: tuple[PartitionPosition, ...] = ()
    coverage: Places = NOWHERE
    table_id: str | None = None
    table_version: int | None = None
    live_runs: int = 0
    bytes_per_record: float | None = None
    accepted_loss: Places = NOWHERE
    retired: tuple[PartitionPosition, ...] = ()
    headroom: tuple[Headroom, ...] = ()
    set_aside: tuple[str, ...] = ()
    beginnings: tuple[Beginning, ...] = ()
    commits: tuple[KnownCommit, ...] = ()
    unreadable: Places = NOWHERE
    given_up: tuple[str, ...] = ()
    backfilled: Places = NOWHERE
    days: tuple[LandedDay, ...] = ()
    given: tuple[PartitionIdentity, ...] = ()
    timings: Timings | None = None
    read_late: Places = NOWHERE
    names: tuple[NamedTable, ...] = ()
    incarnations: tuple[Incarnations, ...] = ()
    left_behind: Places = NOWHERE

    def __post_init__(self) -> None:
        seen: dict[tuple[str, int, int], PartitionPosition] = {}
        for position in self.positions:
            key = (position.topic_id, position.generation, position.partition)
            if (other := seen.setdefault(key, position)) is not position:
                raise ValueError(f"positions of {other} and {position} have one identity: {key}")

    def with_rows_of(
        self, day: date, rows: int, size: int, unread: int = 0, left: float | None = None
    ) -> Head:
        """The head that counts what a run has landed on a day; unchanged for nothing.

        Args:
            day: In UTC.
            rows: Verified rows.
            size: Bytes of their files.
            unread, left: As of a `LandedDay`.
        """
        if not rows:
            return self
        known = {d.day: d for d in self.days}
        before = known.get(day, LandedDay(day, 0, 0))
        known[day] = before.with_run(rows, size, unread, left)
        return replace(self, days=tuple(known[d] for d in sorted(known))[-_DAYS_KEPT:])

    def with_commits(self, *commits: KnownCommit) -> Head:
        """The head after further commits of this ledger; only the newest are kept."""
        every = sorted({*self.commits, *commits}, key=lambda c: (c.version, c.token))
        return replace(self, commits=tuple(every[-_COMMITS_KEPT:]))

    @property
    def waits_for_table(self) -> bool:
        """Whether the end of the table was approved, and the next one is not known yet.

        Ledgers of before have no ids of such tables, but what was landed there.
        """
        return self.table_id is None and bool(self.given_up or self.coverage)

    def that_knows(self, table_id: str | None, version: int | None) -> Head:
        """The head that knows a plan's table, if it knew none: what any run misses, all miss."""
        if self.table_id is not None or table_id is None or table_id in self.given_up:
            return self
        return replace(self, table_id=table_id, table_version=version)

    def that_uses(self, table_id: str | None, version: int | None) -> Head:
        """The head that knows the table after one whose end was approved: also that one, back."""
        if not self.waits_for_table:
            return self
        return replace(self, table_id=table_id, table_version=version)

    @property
    def listed_after(self) -> int:
        """The table version after which (exclusive) commits are looked at; -1 for all of them."""
        if self.table_version is None:
            return -1
        # the kept commits once more: one that somebody has overwritten since is missed (R13)
        return min([self.table_version, *(c.version - 1 for c in self.commits)])

    @property
    def digest(self) -> str:
        """A fingerprint of what is moved and known; a proposal with another one is stale."""
        moving = (self.cluster_id, self.positions, self.retired, self.accepted_loss)
        return hashlib.sha256(repr(moving).encode()).hexdigest()

    def stands_at(self, other: Head) -> bool:
        """Whether no decision and no run lies between both heads, whatever was seen meanwhile."""
        one, another = (
            (
                h.cluster_id,
                {(p.topic, p.identity, p.next_offset) for p in h.positions},
                {(p.topic, p.identity, p.next_offset) for p in h.retired},
                h.accepted_loss,
                h.unreadable,
            )
            for h in (self, other)
        )
        return one == another

    def having_seen(self, other: Head) -> Head:
        """The head with what another one has seen of the same logs."""
        seen = {p.identity: p for p in other.positions}
        return replace(
            self,
            positions=tuple(
                p
                if (newer := seen.get(p.identity)) is None
                else p.having_seen(newer.leader_epoch, newer.seen_end)
                for p in self.positions
            ),
        )

    def parts_from(self, other: Head, since: Head) -> bool:
        """Whether both have learned of one log since a third, and know it by different epochs.

        What one of them saw may have been cut before the other looked, who could not tell.
        """
        mine, theirs, then = ({p.identity: p for p in h.positions} for h in (self, other, since))
        return any(
            mine[log].leader_epoch != theirs[log].leader_epoch
            and then[log] not in (mine[log], theirs[log])
            for log in mine.keys() & theirs.keys() & then.keys()
        )

    @property
    def topics(self) -> dict[str, list[PartitionPosition]]:
        """Positions by topic name, partitions in order."""
        return by_topic(self.positions)

    @property
    def topic_names(self) -> dict[str, str]:
        """Topic names by topic id, also of what is no longer followed."""
        return {p.topic_id: p.topic for p in (*self.retired, *self.positions)}

    @property
    def order_of_incarnations(self) -> Incarnations:
        """All topic ids that the stream has followed, oldest first."""
        return Incarnations(
            tuple(i for known in self.incarnations for i in known.ids),
            tuple(r for known in self.incarnations for r in known.returns),
        )

    def having_followed(
        self, stays: Iterable[tuple[str, str, Iterable[PartitionIdentity]]]
    ) -> Head:
        """The head that has followed topic ids, one after the other.

        Args:
            stays: Topic, topic id, and the logs that were followed; these count where the topic id
                has come back. What is followed already is no new stay.
        """
        known = {i.topic: i for i in self.incarnations}
        for topic, topic_id, logs in stays:
            of_topic = known.get(topic, Incarnations(topic=topic))
            if of_topic.ids[-1:] != (topic_id,):
                known[topic] = of_topic.following(topic_id, logs)
        found = tuple(known.values())
        return self if found == self.incarnations else replace(self, incarnations=found)

    def having_learned(self, topic: str, order: Sequence[str]) -> Head:
        """The head that knows older incarnations of a topic, which an older version has not noted.

        Args:
            order: Topic ids in the order in which records of them were landed first.
        """
        known = {i.topic: i for i in self.incarnations}
        ids = [*known.get(topic, Incarnations()).ids]
        for n, topic_id in reversed([*enumerate(order)]):
            if topic_id not in ids:
                later = [ids.index(i) for i in order[n + 1 :] if i in ids]
                ids.insert(min(later, default=max(len(ids) - 1, 0)), topic_id)
        of_topic = known.get(topic, Incarnations(topic=topic))
        known[topic] = replace(of_topic, ids=tuple(ids))
        return replace(self, incarnations=tuple(known.values()))

    def having_noted_incarnations(self) -> Head:
        """The head in which the topic id of each followed topic is the newest incarnation."""
        newest = {i.topic: i.ids[-1] for i in self.incarnations}
        if all(newest.get(p.topic) == p.topic_id for p in self.positions):  # as nearly always
            return self
        return self.having_followed(
            (topic, positions[0].topic_id, [p.identity for p in positions])
            for topic, positions in self.topics.items()
        )

    @property
    def generations(self) -> Generations:
        """Which offsets belong to which generation."""
        return Generations({b.identity: b.offset for b in self.beginnings})

    @property
    def logs(self) -> dict[PartitionIdentity, OffsetRange]:
        """The offsets of today's logs by generation; the newest generation has no upper end."""
        generations = self.generations
        return dict(part for p in self.positions for part in generations.pieces(p.identity))

    @property
    def lost_deletes(self) -> Places:
        """Where deletes may have been that never come, by a decision or since time had passed."""
        return self.accepted_loss | self.read_late | self.left_behind

    def having_left(self, before: Head) -> Head:
        """The head that notes which logs of one before it are followed no more, and from where on.

        Whatever the decision was: nobody reads on there, nor knows what was still to come.
        """
        logs = {(p.topic_id, p.partition): p.identity for p in self.positions}
        begun = {b.identity: b.offset for b in self.beginnings}
        left = []
        for p in before.positions:
            now = logs.get((p.topic_id, p.partition))
            if now != p.identity:
                start = p.next_offset if now is None else max(p.next_offset, begun.get(now, 0))
                left.append((p.identity, OffsetRange(start, max(p.proven_end, start + 1))))
        if not left:
            return self
        return replace(self, left_behind=self.left_behind | Places.of_pieces(left))

    @property
    def landed(self) -> Places:
        """Verified offsets of today's logs, by the identity of each position.

        A log that was truncated keeps what lies below the cut: that is landed, too, in an older
        generation.
        """
        return self.of_logs(self.coverage)

    def of_logs(self, known: Places) -> Places:
        """The offsets of `known` that are in today's logs, by the identity of each position."""
        return Places(self.generations.joined((p.identity for p in self.positions), known))

    def without_rows(self, newest: PartitionIdentity, lost: Iterable[OffsetRange]) -> Head:
        """The head with accepted losses in a log, each in the generation that it belongs to."""
        added = self.generations.split(newest, lost)
        return replace(self, accepted_loss=self.accepted_loss | Places.of_pieces(added))

    def next_generation(self, identity: PartitionIdentity) -> int:
        """The lowest generation above all that this topic id and partition were ever given.

        Args:
            identity: Its generation does not count.
        """
        log = (identity.topic_id, identity.partition)
        given = (i for i in (*self.identities, *self.given) if (i.topic_id, i.partition) == log)
        return max((i.generation for i in given), default=-1) + 1

    def having_given(self, identities: Iterable[PartitionIdentity]) -> Head:
        """The head that never gives these generations again, nor lower ones."""
        highest = {(i.topic_id, i.partition): i for i in sorted((*self.given, *identities))}
        return replace(self, given=tuple(sorted(highest.values())))

    def begun(self, beginnings: Iterable[Beginning]) -> Head:
        """The head with generations that begin; generation 0 needs no entry.

        A number that was given and undone holds no offset: it begins where the new one does.
        """
        known = {b.identity: b for b in self.beginnings}
        new = [b for b in beginnings if b.identity.generation]
        for identity, offset in ((b.identity, b.offset) for b in new):
            lower = (replace(identity, generation=g) for g in range(1, identity.generation))
            undone = {i for i in lower if i not in known and i not in self.identities}
            known |= {i: Beginning(i, offset) for i in (*undone, identity)}
        after = self.having_given(b.identity for b in new)
        return replace(after, beginnings=tuple(known[identity] for identity in sorted(known)))

    @property
    def identities(self) -> set[PartitionIdentity]:
        """Every log that has, or had, a position or rows."""
        followed = (p.identity for p in (*self.positions, *self.retired))
        return {*followed, *self.coverage}


def by_topic(positions: Iterable[PartitionPosition]) -> dict[str, list[PartitionPosition]]:
    """Positions by topic name, partitions in order."""
    grouped: dict[str, list[PartitionPosition]] = {}
    for position in sorted(positions, key=lambda p: p.topic_partition):
        grouped.setdefault(position.topic, []).append(position)
    return grouped
