"""A history happens over real tables; whatever is not as the definition has it is a problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from devstack.spark_apps import InProcessSpark
from tests.fuzz import keys, oracle
from tests.fuzz.histories import Event, History
from tests.fuzz.lake import Found, Lake
from tests.fuzz.topic import BEGINNING, Place, Topic
from tideline.errors import BadInput, FoldingHalted
from tideline.folding.current_checking import CurrentCheck
from tideline.folding.views import Engine

AT = ("topic_id", "generation", "partition", "offset", "timestamp")
VALUES = (*keys.COLUMNS.values(), "unavailable_columns")


class Diverged(Exception):
    """The table is not what it should be: nothing that follows says anything more."""


@dataclass
class Outcome:
    """How a history went.

    Args:
        problems: What is wrong, each with its class before the first colon.
        events: How many events happened.
        counts: What was compared how often.
    """

    problems: list[str] = field(default_factory=list)
    events: int = 0
    counts: dict[str, int] = field(default_factory=dict)


def play(history: History, spark: InProcessSpark | None, folder: Path) -> Outcome:
    """Have a history happen.

    Args:
        spark: Asked for its views; None leaves them out.
        folder: Empty, or not there yet.
    """
    outcome = Outcome()
    world = _World(history, spark, folder, outcome)
    try:
        for event in history.events:
            world.happens(event)
            outcome.events += 1
    except Diverged as end:
        outcome.problems.append(str(end))
    except Exception as error:  # whatever it is, it is told with the history
        text = f"{type(error).__name__}: {error}"
        outcome.problems.append(f"error: {text[:600]}")
    outcome.counts["folds"] = world.lake.folds
    return outcome


class _World:
    """A topic, its tables, and the rules that hold there."""

    def __init__(
        self, history: History, spark: InProcessSpark | None, folder: Path, outcome: Outcome
    ) -> None:
        options = history.options
        self.topic = Topic(
            history.seed,
            options["key"],
            options["keys"],
            keeps_tombstones=options["order"] != "sequence",
            has_maps=options["maps"],
        )
        self.lake = Lake(spark, folder, self.topic, options)
        self.order: oracle.Order = options["order"]
        self.keeps: bool = options["keeps"]
        self.floors: tuple[oracle.Floor, ...] = ()
        self.outcome = outcome
        self.folded: set[Place] | None = None
        self.saved: Any = None
        self.printed: str | None = None

    def happens(self, event: Event) -> None:
        """One event."""
        name, *arguments = event
        act: Callable[..., None] = getattr(self, f"on_{name}")
        act(*arguments)

    @property
    def rules(self) -> oracle.Rules:
        """What holds now."""
        return oracle.Rules(self.order, self.floors)

    def changes(self) -> list[oracle.Change]:
        """All that is decoded."""
        return self.topic.changes(self.order)

    def verdict(self) -> oracle.Verdict:
        """Whether what is decoded can be folded."""
        said = oracle.verdict(self.changes(), self.rules, self.topic.known)
        return "may halt" if said == "halts" and not self.keeps else said

    def told(self, kind: str, text: str) -> None:
        """A problem after which the table is still what it was."""
        self.outcome.problems.append(f"{kind}: {text}")

    def count(self, name: str) -> None:
        """That something was compared."""
        self.outcome.counts[name] = self.outcome.counts.get(name, 0) + 1

    # ---- the source and the topic

    def on_create(self, partitions: int) -> None:
        self.topic.create(partitions)

    def on_come_back(self, number: int) -> None:
        self.topic.come_back(number)

    def on_forget(self) -> None:
        self.lake.forget()

    def on_grow(self, partitions: int) -> None:
        self.topic.grow(partitions)

    def on_cut(self, partition: int, back: int) -> None:
        self.topic.cut(partition, back)

    def on_time(self, milliseconds: int) -> None:
        self.topic.pass_time(milliseconds)

    def on_put(self, key: int, move: int, op: str, value: int, lacking: list[str]) -> None:
        more: dict[str, Any] = {"source_at": None} if value % 997 == 0 else {}
        at = self.topic.home(key) + move
        self.topic.append(at, op, key, value=value, lacks=tuple(lacking), **more)
        self.topic.alive.add(key % len(self.topic.pool))

    def on_delete(self, key: int, move: int, kind: str) -> None:
        at = self.topic.home(key) + move
        if kind != "tombstone":
            self.topic.append(at, "d", key)
        if kind != "d":
            self.topic.append(at, None, key)
        self.topic.alive.discard(key % len(self.topic.pool))

    def on_truncate(self, partition: int) -> None:
        self.topic.append(partition, "t", None)
        self.topic.alive.clear()

    def on_keyless(self, partition: int) -> None:
        self.topic.append(partition, "u", None)

    def on_lose(self, key: int) -> None:
        """A delete of which nobody tells."""
        self.topic.alive.discard(key % len(self.topic.pool))

    def on_snapshot(self, seed: int, step: int, mark: str) -> None:
        self.topic.snapshot(seed, step, mark)

    # ---- decoding

    def on_garble(self, seed: int, share: float) -> None:
        """Records that cannot be decoded at first."""
        left = self.topic.records.keys() - self.topic.decoded
        for place in self.topic.pick(left, seed, share):
            self.topic.records[place].hidden = True

    def on_decode(self, seed: int, share: float) -> None:
        self.lake.decoded(self.topic.decode(seed, share))

    def on_redrive(self, seed: int, share: float) -> None:
        hidden = [p for p in self.topic.decoded if self.topic.records[p].hidden]
        found = self.topic.pick(hidden, seed, max(share, 0.5))
        for place in found:
            self.topic.records[place].hidden = False
        self.lake.decoded(found)

    def on_again(self, seed: int, share: float) -> None:
        """Decoded otherwise than before: other values, or no row."""
        random, found = Random(seed), self.topic.pick(self.topic.decoded, seed, share)
        for place in sorted(found):
            record = self.topic.records[place]
            record.value = random.randrange(10**6)
            record.lacks = tuple(n for n in record.lacks if random.random() < 0.5)
            record.hidden = random.random() < 0.2
        self.lake.decoded(found)

    def on_other(self, seed: int, share: float) -> None:
        """Decoded otherwise than before: other keys, and deletes that were none."""
        random, found = Random(seed), self.topic.pick(self.topic.decoded, seed, share)
        self.topic.is_told = False
        for place in sorted(found):
            record = self.topic.records[place]
            if record.key is None or record.op not in ("c", "u", "d"):
                continue
            partitions = len(self.topic.eras[place[0]].ends)
            others = [k for k in range(len(self.topic.pool)) if k % partitions == place[2]]
            homes = self.topic.eras[place[0]].homes
            others = [k for k in others if homes.get(k, place[2]) == place[2]]
            record.key = random.choice([record.key, *others])
            record.op = random.choice("cud")
        self.lake.decoded(found)

    def on_rewind(self, seed: int, share: float) -> None:
        """The newest records of some logs are undone, to be decoded once more."""
        random = Random(seed)
        for log in sorted({p[:3] for p in self.topic.decoded}):
            ends = max(p[3] for p in self.topic.decoded if p[:3] == log) + 1
            if random.random() < 0.5:
                start = ends - random.randrange(1, 2 + round(ends * share))
                self.topic.decoded -= {(*log, o) for o in range(start, ends)}
        self.lake.decoded(())

    # ---- folding

    def on_fold(self, decides: int) -> None:
        """A fold of what is due; where it halts rightly, somebody may decide."""
        self._fold(lambda: self.lake.fold(), decides=bool(decides))

    def on_anew(self) -> None:
        """Every bucket is folded anew."""
        self._fold(lambda: self.lake.fold("anew"))

    def on_clear(self, number: int) -> None:
        """A run is cleared: it folds its changes once more."""
        if self.lake.runs:
            name = self.lake.runs[number % len(self.lake.runs)]
            self._fold(lambda: self.lake.fold(None, name))

    def _fold(self, fold: Callable[[], bool], *, decides: bool = False) -> None:
        said = self.verdict()
        try:
            is_folded = fold()
        except FoldingHalted as halted:
            kind = halted.incidents[0].finding.kind
            if kind != "key_moved" or said == "folds":
                raise Diverged(f"halt: {kind}, where nothing is wrong: {halted}") from halted
            self.count("halted")
            if decides:
                self.lake.decide("by_time")
                self.order = "time"
                self._fold(lambda: self.lake.fold())
            return
        if said == "halts" and is_folded:
            lost = self._not_there()
            raise Diverged(f"no halt: {lost} rows are not there as they should be; nobody said so")
        if said != "halts":
            self.folded = set(self.topic.decoded)
            self._set_floors()
            self._compare()

    def _set_floors(self) -> None:
        """A rewind over the snapshot takes a sweep back; everything else keeps it."""
        self.floors = self.lake.floors(self.lake.state.folding.floors)

    def _not_there(self) -> int:
        """How many rows would be there if no other partition had a say."""
        known = {row["key"] for row in self.lake.rows() if not row["is_deleted"]}
        wanted = {k for k, row in oracle.current(self.changes(), self.rules).items() if row.alive}
        return len(wanted - known)

    def _compare(self) -> None:
        """The table against the definition."""
        self.count("tables")
        found: dict[oracle.Key, Found] = {}
        for row in self.lake.rows():
            if row["key"] in found:
                raise Diverged(f"key twice: {row} and {found[row['key']]}")
            found[row["key"]] = row
        wanted = oracle.current(self.changes(), self.rules)
        self._hold("table", found, wanted)
        if self.keeps and (missing := wanted.keys() - found.keys()):
            raise Diverged(f"table: deleted rows are missing: {sorted(map(repr, missing))[:3]}")

    def _hold(
        self, what: str, found: dict[oracle.Key, Found], wanted: dict[oracle.Key, oracle.Row]
    ) -> None:
        for key in sorted({*found, *wanted}, key=repr):
            problem = self._differs(found.get(key), wanted.get(key))
            if problem:
                kind, text = problem
                raise Diverged(f"{what}, {kind}: key {key}: {text}")

    def _differs(self, row: Found | None, wanted: oracle.Row | None) -> tuple[str, str] | None:
        """What is wrong with a row, if anything is."""
        is_there = row is not None and not row.get("is_deleted", False)
        if wanted is None:
            return ("another key", f"found {_text(row)}")
        c = wanted.change
        if is_there != wanted.alive:
            said = "is there" if is_there else "is not there"
            return ("alive", f"{said}, its last change is {_said(c)}; found {_text(row)}")
        if row is None:
            return None
        if not wanted.alive:
            left = {n: row[n] for n in VALUES if row.get(n) is not None}
            return ("deleted", f"has values {left}") if left else None
        at = (self.topic.eras[c.era].topic_id, c.generation, c.partition, c.offset, c.at)
        if at != tuple(row[n] for n in AT):
            return ("another change", f"expected {_said(c)}; found {_text(row)}")
        for name in keys.COLUMNS.values():
            if row[name] != wanted.values.get(name):
                lacks = "which did not come" if name in c.lacks else "which came"
                expected = wanted.values.get(name)
                return (
                    "another value",
                    f"{name}, {lacks} with {_said(c)}: expected {expected!r}; found {row[name]!r}",
                )
        names = {*(row["unavailable_columns"] or ())}
        if names != {*c.lacks}:
            return ("unavailable", f"expected {sorted(c.lacks)}; found {sorted(names)}")
        return None

    def on_check(self) -> None:
        """A look finds nothing wrong, wherever and in whichever portions it was folded."""
        if self.folded is None:
            return
        try:
            found = self.lake.check()
        except BadInput:  # changes are others since they were folded
            return
        if _lacks_order(found) and self.verdict() != "folds":  # partitions were added
            return
        self.count("checks")
        if found.flaws:
            self.told("check", f"a false alarm: {'; '.join(map(str, found.flaws))[:500]}")

    def on_forge(self, kind: str, seed: int) -> None:
        """What others change is found by a look, and halts a fold of these rows."""
        if self.folded is None or not self.lake.rows() or not self.lake.forge(kind, seed):
            return
        try:
            found = self.lake.check()
            is_told = _lacks_order(found) or any(flaw.place == "table" for flaw in found.flaws)
        except BadInput:
            is_told = True
        self.count("forgeries")
        if not is_told:
            self.told(f"forged, {kind}", "no look has found what others have changed")
        self.on_anew()

    # ---- views

    def on_view(self, engine: int) -> None:
        """The view of now is what the next fold makes; one that was printed earlier, too."""
        if self.folded is None or not self._is_ordered():
            return
        wanted = oracle.current(self.changes(), self.rules)
        for kind in _engines(0 if self.lake.spark is None else engine):
            try:
                sql = self.lake.view(kind)
            except BadInput:  # changes are others since they were folded
                return
            self.count("views")
            found: dict[oracle.Key, Found] = {}
            for row in self.lake.ask(kind, sql):
                if row["key"] in found:
                    self.told("view, key twice", f"{kind}: {row} and {found[row['key']]}")
                found[row["key"]] = row
            doubted = self._doubted()
            for key in sorted({*found, *wanted} - doubted, key=repr):
                if problem := self._differs(found.get(key), wanted.get(key)):
                    self.told(f"view, {problem[0]}", f"{kind}: key {key}: {problem[1]}")
                    break

    def _is_ordered(self) -> bool:
        """Whether a query has an answer; one beside a truncate that halts has its rows as well."""
        if self.order == "offset":
            return oracle.moved(self.changes()) == "folds"
        return self.verdict() == "folds"

    def _doubted(self) -> set[oracle.Key]:
        """Keys of which the view says nothing: an older change, below a row that was dropped."""
        assert self.folded is not None
        known, unfolded = [], []
        for (place, _), c in zip(self.topic.typed(), self.changes(), strict=True):
            (known if place in self.folded else unfolded).append(c)
        standing = oracle.current(known, self.rules)
        found = set()
        for c in unfolded:
            row = None if c.key is None else standing.get(c.key)
            if row is None or c.key is None:
                continue
            is_older = self.rules.place(c) < self.rules.place(row.change)
            if is_older and not (row.alive or self.keeps):
                found.add(c.key)
        return found

    def on_history(self, engine: int) -> None:
        """Each row of each time, from when to when it was so."""
        if self.folded is None or not self._is_ordered():
            return
        wanted = oracle.history(self.changes(), self.rules)
        for kind in _engines(0 if self.lake.spark is None else engine):
            try:
                sql = self.lake.view(kind, is_history=True)
            except BadInput:
                return
            self.count("histories")
            rows = {_at(row): row for row in self.lake.ask(kind, sql)}
            if (count := len(rows)) != len(wanted):
                self.told("history, rows", f"{kind}: expected {len(wanted)} rows; found {count}")
                continue
            for key, row in wanted:
                if problem := self._differs_then(rows, key, row):
                    self.told(f"history, {problem[0]}", f"{kind}: key {key}: {problem[1]}")
                    break

    def _differs_then(
        self, rows: dict[tuple[Any, ...], Found], key: oracle.Key, wanted: oracle.Row
    ) -> tuple[str, str] | None:
        c = wanted.change
        at = (self.topic.eras[c.era].topic_id, c.generation, c.partition, c.offset)
        row = rows.get(at)
        if row is None or row["key"] != key:
            return ("missing", f"nothing for {_said(c)}")
        if row["valid_to"] != wanted.ended or row["valid_from"] != c.at:
            return (
                "times",
                f"{_said(c)}: expected until {wanted.ended}; found {row['valid_to']}",
            )
        return self._differs({**row, "timestamp": c.at}, wanted)

    # ---- sweeps

    def on_sweep(self) -> None:
        """What a snapshot has read, or came after it, is never swept."""
        left = self.topic.records.keys() - self.topic.decoded
        if self.folded != self.topic.decoded or left:
            return
        try:
            stale = self.lake.stale_rows()
        except BadInput:  # no whole snapshot, or something since it is in quarantine
            return
        self.count("sweeps")
        before = oracle.current(self.changes(), self.rules)
        was, self.floors = self.floors, self.lake.floors(stale.floors)
        after = oracle.current(self.changes(), self.rules)
        swept = {k for k in before if before[k].alive and not after[k].alive}
        there = {self.topic.pool[n] for n in self.topic.alive}
        if self._tells() and (wrong := swept & there):
            raise Diverged(f"sweep: rows that are at the source: {sorted(map(repr, wrong))[:3]}")
        if stale.rows != len(swept):
            raise Diverged(f"sweep: {stale.rows} are listed, and {len(swept)} are below")
        if self._tells() and (missed := self._vanished(before, there) - swept):
            raise Diverged(f"sweep: not listed: {sorted(map(repr, missed))[:3]}")
        if not stale.rows:
            self.floors = was
            return
        self._fold(lambda: self.lake.sweep(stale.rows) is None)

    def _tells(self) -> bool:
        """Whether the source is known: by time another change may be the last one."""
        return self.topic.is_told and (self.order == "offset" or self.topic.is_monotone)

    def _vanished(self, rows: dict[oracle.Key, oracle.Row], there: set[oracle.Key]) -> set[Any]:
        """Rows whose lost delete the last whole snapshot tells for sure."""
        began = self.topic.snapshot_began
        if began is None or not self.topic.is_monotone:
            return set()
        number = {place: r.number for place, r in self.topic.typed()}
        return {
            k
            for k, row in rows.items()
            if row.alive and k not in there and number[_place(row.change)] < began
        }

    # ---- what befalls table and ledger

    def on_drop(self) -> None:
        """The current table is gone: the next fold makes it anew."""
        self.lake.drop()
        self.folded = None

    def on_misorder(self) -> None:
        """An older version has folded all, and took the order of incarnations for another one."""
        if self.folded is not None and self.verdict() == "folds":
            self.lake.fold_misordered()
            self.folded = None

    def on_save(self) -> None:
        """A backup of the ledger."""
        self.saved = (self.lake.store.copy(), self.order, self.lake.followed)

    def on_put_back(self) -> None:
        """An older ledger takes the place of the newest; decoding finds what it lacks."""
        if self.saved is not None:
            store, self.order, self.lake.followed = self.saved
            self.lake.store.put_back(store)
            self.lake.decoded(self.topic.decoded)
            self.folded = None


def _lacks_order(found: CurrentCheck) -> bool:
    return any(flaw.place == "order" for flaw in found.flaws)


def _engines(number: int) -> Iterable[Engine]:
    return ("duckdb", "spark") if number else ("duckdb",)


def _place(c: oracle.Change) -> Place:
    return (c.era, c.generation, c.partition, c.offset)


def _at(row: Found) -> tuple[Any, ...]:
    return tuple(row[n] for n in AT[:4])


def _said(c: oracle.Change) -> str:
    seconds = (c.at - BEGINNING).total_seconds()
    place = f"{c.says} {c.era}.{c.generation}.{c.partition}@{c.offset}"
    return f"{place} at {seconds} s{' lacking ' + ', '.join(sorted(c.lacks)) if c.lacks else ''}"


def _text(row: Found | None) -> str:
    return "no row" if row is None else json.dumps(row, default=str)[:400]
