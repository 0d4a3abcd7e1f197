"""The topic with its incarnations, the source behind it, and what is decoded. No Tideline."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.fuzz import keys, oracle

Place = tuple[int, int, int, int]
"""Incarnation, generation, partition, offset."""
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Record:
    """One record of a log, and what decoding makes of it.

    Args:
        number: In the order in which they were produced.
        at: Kafka's time.
        op: As Debezium writes it; None for a tombstone.
        key: Its number in the pool; None for none.
        value: Names the row's values (`keys.row_of`).
        lacks: Columns whose value did not come.
        mark: The snapshot that it is of, as Debezium marks it.
        hidden: Whether it is in quarantine.
        source_at: The database's time; None where it is not told.
    """

    number: int
    at: datetime
    op: str | None
    key: int | None
    value: int = 0
    lacks: tuple[str, ...] = ()
    mark: str = "false"
    hidden: bool = False
    source_at: datetime | None = None


@dataclass
class Incarnation:
    """The topic between two times that it was created.

    Args:
        topic_id: Random, as brokers make it; one that has come back is here again.
        generations: Of each partition's log.
        ends: The next offset of each of these.
        began: Generations with which it was followed first.
        homes: Partitions of keys.
    """

    topic_id: str
    generations: list[int]
    ends: list[int]
    began: list[int]
    homes: dict[int, int] = field(default_factory=dict)


class Topic:
    """What was produced, and what is decoded of it.

    Args:
        seed: Of topic ids.
        key: Kind of keys (`keys.KEYS`).
        count: How many keys there are.
        keeps_tombstones: Whether decoding makes rows of them.
        has_maps: Whether rows have values in a map.
    """

    def __init__(
        self, seed: int, key: str, count: int, *, keeps_tombstones: bool = True, has_maps: bool
    ) -> None:
        self.keeps_tombstones, self.has_maps = keeps_tombstones, has_maps
        self.ids = Random(f"ids {seed}")
        self.key, self.pool = key, keys.pool(key, count)
        self.eras: list[Incarnation] = []
        self.records: dict[Place, Record] = {}
        self.decoded: set[Place] = set()
        self.clock, self.is_monotone = BEGINNING, True
        self.alive: set[int] = set()
        self.is_told = True
        self.snapshot_began: int | None = None

    # ---- what is produced

    def create(self, partitions: int) -> None:
        """The topic, or another incarnation of it."""
        topic_id = str(uuid.UUID(int=self.ids.getrandbits(128), version=4))
        zeros = [0] * partitions
        self.eras.append(Incarnation(topic_id, zeros[:], zeros[:], zeros))
        self.snapshot_began = None

    def come_back(self, number: int) -> None:
        """A cluster is swapped back: the topic of before is followed again, in new generations."""
        before = {era.topic_id: era for era in self.eras[:-1]}
        before.pop(self.eras[-1].topic_id, None)
        if before:
            old = [*before.values()][number % len(before)]
            began = [g + 1 for g in old.generations]
            ends, homes = old.ends[:], dict(old.homes)
            self.eras.append(Incarnation(old.topic_id, began[:], ends, began, homes))
            self.snapshot_began = None

    def grow(self, partitions: int) -> None:
        """The newest incarnation has more partitions."""
        more = max(0, partitions - len(self.eras[-1].ends))
        self.eras[-1].generations += [0] * more
        self.eras[-1].ends += [0] * more

    def cut(self, partition: int, back: int) -> None:
        """A partition's log was cut: what comes now is a new generation of it."""
        era = self.eras[-1]
        partition %= len(era.ends)
        if era.ends[partition]:
            era.generations[partition] += 1
            era.ends[partition] = max(0, era.ends[partition] - back)

    def pass_time(self, milliseconds: int) -> None:
        """The producer's clock goes on, or back."""
        self.clock += timedelta(milliseconds=milliseconds)
        self.is_monotone &= milliseconds > 0

    def append(self, partition: int, op: str | None, key: int | None, **more: Any) -> Place:
        """One record at the end of a log of the newest incarnation."""
        era = self.eras[-1]
        partition %= len(era.ends)
        key = None if key is None else key % len(self.pool)
        place = (len(self.eras) - 1, era.generations[partition], partition, era.ends[partition])
        era.ends[partition] += 1
        more.setdefault("source_at", self.clock.replace(microsecond=0))  # of many one second
        self.records[place] = Record(len(self.records), self.clock, op, key, **more)
        return place

    def home(self, key: int) -> int:
        """The partition that a key's records go to, as a partitioner would say."""
        era, key = self.eras[-1], key % len(self.pool)
        return era.homes.setdefault(key, key % len(era.ends))

    def snapshot(self, seed: int, step: int, mark: str) -> None:
        """Every row of the source is read, in any order.

        Args:
            step: Milliseconds between two records; a clock that goes back is right at the end.
            mark: `whole`, `cut off` before its end, or `incremental`.
        """
        random, rows = Random(seed), sorted(self.alive)
        random.shuffle(rows)
        if mark == "cut off":
            rows = rows[: len(rows) // 2]
        began = len(self.records)
        for n, key in enumerate(rows):
            is_right = step > 0 or n < len(rows) - 1
            self.pass_time(step if is_right else -step * len(rows))
            text = "true"
            if mark == "incremental":
                text = "incremental"
            elif mark == "whole" and n == len(rows) - 1:
                text = "last"
            elif n == 0:
                text = "first"
            value = random.randrange(10**6)
            self.append(self.home(key), "r", key, value=value, mark=text)
        if mark == "whole" and rows:
            self.snapshot_began = began

    # ---- what is decoded

    def decode(self, seed: int, share: float) -> set[Place]:
        """Pieces of logs are decoded, in any order; what is new of it."""
        random = Random(seed)
        left = self.records.keys() - self.decoded
        found: set[Place] = set()
        for log in sorted({p[:3] for p in left}):
            offsets = sorted(p[3] for p in left if p[:3] == log)
            if share >= 1:
                found |= {(*log, o) for o in offsets}
            elif random.random() < 0.8:
                start = random.choice([0, 0, random.randrange(len(offsets))])
                count = max(1, round(share * len(offsets)))
                found |= {(*log, o) for o in offsets[start : start + count]}
        self.decoded |= found
        return found

    def pick(self, places: Iterable[Place], seed: int, share: float) -> set[Place]:
        """Some of these places."""
        random = Random(seed)
        return {place for place in sorted(places) if random.random() < share}

    def typed(self) -> Iterator[tuple[Place, Record]]:
        """What stands in the typed table."""
        for place in sorted(self.decoded):
            record = self.records[place]
            if not record.hidden and (record.op is not None or self.keeps_tombstones):
                yield place, record

    def values(self, record: Record) -> dict[str, Any]:
        """What a record says of the row's columns."""
        return keys.row_of(record.value, has_maps=self.has_maps)

    def changes(self, order: oracle.Order) -> list[oracle.Change]:
        """The typed rows as the definition has them."""
        return [self._change(place, r, order) for place, r in self.typed()]

    def _change(self, place: Place, r: Record, order: oracle.Order) -> oracle.Change:
        era, generation, partition, offset = place
        says = "truncate" if r.op == "t" else "delete" if r.op in (None, "d") else "put"
        values = {keys.COLUMNS[n]: v for n, v in self.values(r).items()}
        return oracle.Change(
            era,
            generation,
            partition,
            offset,
            r.at,
            says,
            None if r.key is None else self.pool[r.key],
            values,
            frozenset(keys.COLUMNS[n] for n in r.lacks),
            r.source_at if order == "sequence" else None,
        )

    @property
    def known(self) -> dict[int, int]:
        """How many partitions of each incarnation runs know.

        Of the one that is followed all; of others those with records.
        """
        found: dict[str, set[int]] = {}
        for era, _, partition, _ in self.records:
            found.setdefault(self.eras[era].topic_id, set()).add(partition)
        newest = self.eras[-1]
        found[newest.topic_id] = {*range(len(newest.ends))}
        return {n: len(found.get(era.topic_id, "1")) for n, era in enumerate(self.eras)}
