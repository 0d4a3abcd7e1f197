"""Events, and what a seed makes of them: whole numbers only, so that a history can be printed.

A *profile* says what may happen in a history. Each kind of trouble has one in which little else
does; in `anything` all of it meets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fuzz import keys
from tests.fuzz.lake import FORGERIES

Event = tuple[Any, ...]
"""Its name, then its arguments."""


@dataclass(frozen=True)
class Profile:
    """What may happen.

    Args:
        orders: What the last change is.
        partitions: Of an incarnation of the topic, at most.
        eras: How often the topic is created.
        truncates: How likely all rows go, before each fold.
        grows: How likely the topic gets partitions, before each fold.
        moves: How likely a record goes to another partition than its key's.
        skew: How likely the producer's clock goes back.
        snapshots: How likely one is taken, before each fold.
        rewrites: How likely records are decoded otherwise, redriven or rewound, before each fold.
        forges: How likely somebody else changes the table, after each fold.
        kinds: Of keys; none for any.
        drops: How likely the table, or the newest ledger, is gone.
        misorders: How likely an older version has folded in another order of incarnations.
        forgets: Whether rows of keys that are gone may be dropped.
        renames: Whether a column may lack whose name is another in the current table.
        maps: Whether there are values in a map.
        keys: How many there are.
        lacks: How likely a column's value does not come.
        records: Before each fold; fewer than so many.
    """

    orders: tuple[str, ...] = ("offset",)
    partitions: int = 1
    eras: int = 1
    truncates: float = 0
    grows: float = 0
    moves: float = 0
    skew: float = 0
    snapshots: float = 0
    rewrites: float = 0
    forges: float = 0
    kinds: tuple[str, ...] = ()
    drops: float = 0
    misorders: float = 0
    forgets: bool = False
    renames: bool = False
    maps: bool = False
    keys: tuple[int, ...] = (4, 12, 30)
    lacks: tuple[float, ...] = (0, 0.2, 0.5)
    records: int = 40


PROFILES = {
    "plain": Profile(partitions=3, rewrites=0.4, forgets=True, drops=0.1),
    "eras": Profile(partitions=2, eras=5, rewrites=0.2, drops=0.2, misorders=0.3, lacks=(0,)),
    "truncates": Profile(truncates=0.5, rewrites=0.2),
    "growth": Profile(truncates=0.6, grows=0.5, keys=(60,), lacks=(0,)),
    "incarnations": Profile(partitions=2, eras=4, truncates=0.3, grows=0.2, rewrites=0.2),
    "snapshots": Profile(
        partitions=4, skew=0.3, snapshots=0.7, records=12, keys=(8, 16), lacks=(0, 0.2)
    ),
    "keys": Profile(
        partitions=2,
        kinds=("decimal", "decimal+text", "fraction+integer", "whole+date+text"),
        lacks=(0,),
    ),
    "forged": Profile(partitions=2, forges=0.9, lacks=(0,)),
    "time": Profile(
        orders=("time",), partitions=3, truncates=0.3, moves=0.3, skew=0.3, rewrites=0.2
    ),
    "sequence": Profile(orders=("sequence",), partitions=3, moves=0.3, skew=0.3),
    "names": Profile(renames=True),
    "maps": Profile(maps=True),
    "moves": Profile(partitions=3, moves=0.02),
    "anything": Profile(
        orders=("offset", "offset", "time", "sequence"),
        partitions=3,
        eras=3,
        truncates=0.2,
        grows=0.1,
        moves=0.003,
        skew=0.05,
        snapshots=0.2,
        rewrites=0.3,
        forges=0.1,
        drops=0.1,
        forgets=True,
        renames=True,
        maps=True,
    ),
}


@dataclass(frozen=True)
class History:
    """What happens.

    Args:
        seed: What it was drawn from; ids of topics are as well.
        options: Of the stream.
        events: In their order.
    """

    seed: int
    options: dict[str, Any]
    events: tuple[Event, ...]

    def dump(self) -> str:
        """As a file that `python -m tests.fuzz --replay` reads: one event a line."""
        head = {"seed": self.seed, "options": self.options}
        return "\n".join([json.dumps(head), *(json.dumps(e) for e in self.events)]) + "\n"

    @classmethod
    def load(cls, text: str) -> History:
        """What `dump` has written."""
        first, *rest = (json.loads(line) for line in text.splitlines() if line.strip())
        return cls(first["seed"], first["options"], tuple(map(tuple, rest)))


def make_history(seed: int, profile: str, folds: int = 3) -> History:
    """A random history; the same of the same seed and profile.

    Args:
        folds: About so many.
    """
    random, chosen = Random(f"{profile} {seed}"), PROFILES[profile]
    order = random.choice(chosen.orders)
    options = {
        "profile": profile,
        "key": random.choice(chosen.kinds or [*keys.KEYS]),
        "keys": random.choice(chosen.keys),
        "buckets": random.choice([1, 2, 3]),
        "order": order,
        "keeps": not (chosen.forgets and order == "offset" and random.random() < 0.3),
        "lacks": random.choice(chosen.lacks),
        "maps": chosen.maps,
    }
    return History(seed, options, tuple(_Drawing(random, chosen, options, folds).events()))


class _Drawing:
    """One history being drawn.

    Args:
        random: Its chance.
    """

    def __init__(
        self, random: Random, profile: Profile, options: dict[str, Any], folds: int
    ) -> None:
        self.random, self.profile, self.options, self.folds = random, profile, options, folds
        self.eras_left = profile.eras - 1

    def events(self) -> Iterator[Event]:
        """All events."""
        yield self._created()
        yield from self._produced(self.random.randrange(5, 40))
        for _ in range(self.folds):
            yield from self._befallen()
            yield from self._produced(self.random.randrange(self.profile.records))
            yield from self._decoded()
            yield from self._folded()
        yield ("decode", self._seed(), 1)
        yield from self._folded()
        yield ("check",)
        yield ("history", self._engine())
        if self._is(0.3):
            yield ("anew",)

    def _created(self) -> Event:
        return ("create", self.random.randint(1, self.profile.partitions))

    def _befallen(self) -> Iterator[Event]:
        """What happens to the topic before more is produced."""
        p = self.profile
        if self.eras_left and self._is(0.5):
            for _ in range(self.random.randint(1, self.eras_left)):
                self.eras_left -= 1
                yield self._created()
                yield from self._produced(self.random.randrange(1, 25))
        if p.eras > 1 and self._is(0.15):
            yield ("come_back", self.random.randrange(4))
        if self._is(p.truncates):
            yield ("truncate", self.random.randrange(4))
            yield from self._produced(self.random.randrange(6))
        if self._is(p.grows):
            yield ("grow", self.random.randint(2, 4))
        if self._is(0.1):
            yield ("cut", self.random.randrange(4), self.random.randrange(6))
        yield from self._read_again()

    def _read_again(self) -> Iterator[Event]:
        """Deletes of which nobody tells, and a snapshot that may tell what is there."""
        p = self.profile
        if p.snapshots and self._is(0.6):
            for _ in range(self.random.randrange(1, 4)):
                yield ("lose", self._key())
        if self._is(p.snapshots):
            mark = self.random.choice(["whole", "whole", "whole", "cut off", "incremental"])
            step = -self.random.randrange(1, 50) if self._is(2 * p.skew) else self._step()
            yield ("snapshot", self._seed(), step, mark)
            if self._is(p.skew):
                yield ("time", -self.random.randrange(5000))

    def _produced(self, count: int) -> Iterator[Event]:
        """Records as a connector would send them, and some that it would not."""
        options, random = self.options, self.random
        is_sequence = options["order"] == "sequence"
        for _ in range(count):
            yield ("time", self._step())
            key, move = self._key(), random.randrange(1, 4) if self._is(self.profile.moves) else 0
            chance = random.random()
            if chance < 0.22:
                kind = random.choice(["d", "d", "tombstone", "both"])
                yield ("delete", key, move, kind)
            elif chance < 0.24 and not is_sequence:
                yield ("keyless", random.randrange(4))
            else:
                long = [*keys.LONG]
                long += [keys.RENAMED] if self.profile.renames else []
                long += [keys.MAP] if self.profile.maps else []
                lacking = [n for n in long if self._is(options["lacks"])]
                yield ("put", key, move, random.choice("cuuu"), self._seed(), lacking)

    def _decoded(self) -> Iterator[Event]:
        """What becomes of records on their way, and afterwards."""
        p, random = self.profile, self.random
        if self._is(p.rewrites):
            yield ("garble", self._seed(), random.choice([0.05, 0.3]))
        shares = [0.5, 1, 1] if p.snapshots else [0.3, 0.5, 0.9, 1]
        yield ("decode", self._seed(), random.choice(shares))
        if self._is(p.rewrites):
            kind = random.choice(["redrive", "again", "rewind", "other"])
            yield (kind, self._seed(), random.choice([0.05, 0.3]))
        if self._is(p.drops):
            yield (random.choice(["drop", "put_back", "forget"]),)
        if p.misorders and self._is(p.misorders):
            yield ("misorder",)

    def _folded(self) -> Iterator[Event]:
        """A fold, and what one does beside it."""
        p = self.profile
        if self._is(0.4):
            yield ("view", self._engine())
        yield ("fold", int(self._is(0.7)))
        if self._is(p.drops):
            yield ("save",)
        if self._is(0.2):
            yield ("history", self._engine())
        if p.snapshots:
            yield ("sweep",)
        if self._is(p.forges):
            yield ("forge", self.random.choice(FORGERIES), self._seed())
        elif self._is(0.2):
            yield ("check",)
        elif self._is(0.1):
            yield ("clear", self.random.randrange(8))

    def _is(self, chance: float) -> bool:
        return self.random.random() < chance

    def _seed(self) -> int:
        return self.random.randrange(10**6)

    def _key(self) -> int:
        return self.random.randrange(self.options["keys"])

    def _engine(self) -> int:
        """0 for DuckDB, 1 for Spark as well."""
        return int(self._is(0.1))

    def _step(self) -> int:
        """Milliseconds of the producer's clock, to the next record."""
        if self.profile.skew and self._is(self.profile.skew):
            return self.random.choice([0, -1, -self.random.randrange(5000)])
        return self.random.randrange(1, 1500)
