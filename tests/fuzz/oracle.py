"""What a current table is, by definition: changes one after the other, a key at a time.

Slow and plain on purpose, and nothing of Tideline: documentation is the only source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

Key = tuple[Any, ...]
Order = Literal["offset", "time", "sequence"]
Verdict = Literal["halts", "may halt", "folds"]


@dataclass(frozen=True)
class Change:
    """A decoded record.

    Args:
        era: Which incarnation of the topic it is of, by the order in which these were followed.
        says: `put`, `delete`, or `truncate`: all rows went.
        key: None for none.
        values: By the current table's columns.
        lacks: Columns whose value did not come.
        sequence: What a declared order asks; None where the change lacks it.
    """

    era: int
    generation: int
    partition: int
    offset: int
    at: datetime
    says: Literal["put", "delete", "truncate"]
    key: Key | None
    values: Mapping[str, Any] = field(default_factory=dict)
    lacks: frozenset[str] = frozenset()
    sequence: datetime | None = None


@dataclass(frozen=True)
class Floor:
    """Where the snapshot of a sweep begins in one log of the newest incarnation of then."""

    era: int
    generation: int
    partition: int
    offset: int


@dataclass(frozen=True)
class Rules:
    """What holds in one table.

    Args:
        order: What the last change is.
        floors: Of a sweep, one a partition; none for no sweep.
    """

    order: Order = "offset"
    floors: tuple[Floor, ...] = ()

    def place(self, c: Change) -> tuple[Any, ...]:
        """A change's place in the one total order."""
        if self.order == "time":
            return (c.era, c.at, c.generation, c.partition, c.offset)
        if self.order == "sequence":
            return (c.sequence, c.era, c.generation, c.partition, c.offset)
        return (c.era, c.generation, c.offset, c.partition)

    def is_swept(self, c: Change) -> bool:
        """Whether a change is below the floors, and so counts as a delete."""
        if not self.floors:
            return False
        era = self.floors[0].era
        at = {f.partition: (f.generation, f.offset) for f in self.floors}
        here = at.get(c.partition, (-1, -1))
        return c.era < era or (c.era == era and (c.generation, c.offset) < here)

    def ends(self, truncate: Change, c: Change) -> bool:
        """Whether a change came before all rows went.

        Offsets order the changes of one partition only: in other partitions of the same incarnation
        nobody knows, and the fold halts.
        """
        if self.order != "offset":
            return self.place(c) < self.place(truncate)
        if c.era != truncate.era:
            return c.era < truncate.era
        places = ((x.generation, x.offset) for x in (c, truncate))
        return c.partition == truncate.partition and next(places) < next(places)


@dataclass(frozen=True)
class Row:
    """What a key's row is after a change.

    Args:
        change: The last one.
        alive: Whether the row is there.
        values: Those that did not come are of before.
        ended: When it was over: at the next change, or when all rows went; None while it lasts.
    """

    change: Change
    alive: bool
    values: Mapping[str, Any]
    ended: datetime | None = None


def lives(changes: Iterable[Change], rules: Rules) -> dict[Key, list[Row]]:
    """Every state of every key's row, in order; a delete is one as well."""
    by_key, truncates = _sorted(changes, rules)
    found = {}
    for key, of_key in by_key.items():
        rows: list[Row] = []
        for c in of_key:
            before = _closed(rows, c, truncates, rules)
            is_gone = c.says == "delete" or rules.is_swept(c)
            values = {} if is_gone else {n: v for n, v in c.values.items() if n not in c.lacks}
            for name in () if is_gone else c.lacks:
                values[name] = None if before is None else before.values.get(name)
            rows.append(Row(c, not is_gone, values))
        _closed(rows, None, truncates, rules)
        found[key] = rows
    return found


def _sorted(
    changes: Iterable[Change], rules: Rules
) -> tuple[dict[Key, list[Change]], list[Change]]:
    by_key: dict[Key, list[Change]] = defaultdict(list)
    truncates = []
    for c in changes:
        if c.says == "truncate":
            truncates.append(c)
        elif c.key is not None:
            by_key[c.key].append(c)
    for of_key in by_key.values():
        of_key.sort(key=rules.place)
    return by_key, sorted(truncates, key=rules.place)


def _closed(
    rows: list[Row], following: Change | None, truncates: Sequence[Change], rules: Rules
) -> Row | None:
    """End the last row where the next change comes; that row, if it is alive right before."""
    if not rows:
        return None
    last = rows[-1]
    between = [
        t
        for t in truncates
        if rules.ends(t, last.change) and (following is None or not rules.ends(t, following))
    ]
    if between:
        rows[-1] = replace(last, ended=between[0].at)
        return None
    if following is not None:
        rows[-1] = replace(last, ended=following.at)
    return last if last.alive else None


def current(changes: Iterable[Change], rules: Rules) -> dict[Key, Row]:
    """The row of each key that has ever had a change; that of a key that is gone is not alive."""
    last = {key: rows[-1] for key, rows in lives(changes, rules).items()}
    return {
        k: row if row.ended is None and row.alive else replace(row, alive=False, values={})
        for k, row in last.items()
    }


def history(changes: Iterable[Change], rules: Rules) -> list[tuple[Key, Row]]:
    """Each row of each time; what was swept ends with its next change only."""
    known = lives(changes, replace(rules, floors=()))
    return [(key, row) for key, rows in known.items() for row in rows if row.alive]


def verdict(changes: Iterable[Change], rules: Rules, partitions: Mapping[int, int]) -> Verdict:
    """Whether these changes can be folded together.

    Args:
        partitions: How many each incarnation of the topic has.
    """
    every = list(changes)
    if rules.order == "time":
        return "folds"
    truncates = [c for c in every if c.says == "truncate"]
    if rules.order == "sequence":
        is_unordered = any(c.sequence is None for c in every if c.key is not None)
        return "halts" if truncates or is_unordered else "folds"
    if any(partitions.get(t.era, 1) > 1 for t in truncates):
        return "halts"  # records of other partitions have no place beside it
    return moved(every)


def moved(changes: Iterable[Change]) -> Verdict:
    """Whether a key has moved: in its newest incarnation, or in one that counts no more."""
    places: dict[Key, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for c in changes:
        if c.key is not None:
            places[c.key][c.era].add(c.partition)
    if any(len(eras[max(eras)]) > 1 for eras in places.values()):
        return "halts"
    return (
        "may halt"
        if any(len(found) > 1 for eras in places.values() for found in eras.values())
        else "folds"
    )
