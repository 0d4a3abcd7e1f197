"""A history: a stream file, and a list of events; played, it ends well or names a breach."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.simulation import clock, ending, oracle
from tests.simulation.events import KINDS, Event, Kind, apply, draw
from tests.simulation.properties import Watch
from tests.simulation.world import World
from tideline.stream.stream import Stream

_OFTEN = 8
"""The weight of a kind of events that an exploration is about."""


@dataclass(frozen=True)
class History:
    """What happens in a world.

    Args:
        seed: What it was drawn from; also decides what people choose in the end.
        topics: Partitions by topic name.
        options: Keys of the stream file.
        events: In their order.
        choice: What people choose in the end, as a number among what can be carried out; None:
            by chance.
    """

    seed: int
    topics: dict[str, int]
    options: dict[str, Any]
    events: tuple[Event, ...]
    choice: int | None = None

    def dump(self) -> str:
        """As a file that `python -m tests.simulation --replay` reads: one event a line."""
        head: dict[str, Any] = {"seed": self.seed, "topics": self.topics, "options": self.options}
        head |= {} if self.choice is None else {"choice": self.choice}
        return "\n".join([json.dumps(head), *(json.dumps(e) for e in self.events)]) + "\n"

    @classmethod
    def load(cls, text: str) -> History:
        """What `dump` has written."""
        first, *rest = (json.loads(line) for line in text.splitlines() if line.strip())
        events = tuple(map(tuple, rest))
        return cls(first["seed"], first["topics"], first["options"], events, first.get("choice"))


@dataclass
class Outcome:
    """How a history went.

    Args:
        problems: What broke; empty if all went well.
        events: How many events happened before that.
        ended: Processes by how they ended.
        incidents: Opened incidents by class.
        world: As it is in the end.
    """

    problems: list[str]
    events: int
    world: World
    ended: Counter[str] = field(default_factory=Counter)
    incidents: Counter[str] = field(default_factory=Counter)


def make_history(seed: int, length: int = 40, often: Collection[str] = ()) -> History:
    """A random history.

    Each seed leaves some kinds of events out, so that the others meet more often ("swarm testing").

    Args:
        seed: The same one gives the same history.
        length: Events in it, at most.
        often: Kinds of events that no seed leaves out, and that are drawn more often.
    """
    random = Random(seed)
    topics = random.choice([{"t": 1}, {"t": 2}, {"t": 1, "u": 1}, {"t": 1}])
    kinds: dict[str, Kind] = {
        name: kind
        for name, kind in KINDS.items()
        if kind.weight >= 4 or (kind.weight and random.random() < 0.5)
    }
    kinds |= {name: replace(KINDS[name], weight=_OFTEN) for name in often}
    events = [draw(random, kinds) for _ in range(random.randint(length // 4, length))]
    options = _options(random, topics)
    if "decode" in options and (several := Random(f"types {seed}")).random() < _SEVERAL:
        _have_types(several, options, events)
    return History(seed, topics, options, tuple(events))


_SEVERAL = 0.3
"""So many of the histories with typed tables have one for each of several event types."""


def _have_types(random: Random, options: dict[str, Any], events: list[Event]) -> None:
    """The topic has several event types, and people change what the stream file says of them."""
    types = [{"type": name, "subject": name} for name in "ab"]
    options["registry"] = {}
    options["decode"]["value"] = {"format": "avro", "types": types}
    options["decode"]["tombstones"] = "drop"
    if "current" in options:
        options["current"]["type"] = "a"
    for _ in range(random.randint(0, 4)):
        events.insert(random.randint(0, len(events)), ("edit_types", random.randint(0, 2)))
    for name in ("retell_types", "end_first_type", "take_type_out", "rename"):
        for _ in range(random.choice((0, 0, 1, 2))):
            events.insert(random.randint(0, len(events)), (name,))


def _options(random: Random, topics: dict[str, int]) -> dict[str, Any]:
    """Keys of a stream file that change what the rules do."""
    kafka: dict[str, Any] = {"topics": sorted(topics)}
    if random.random() < 0.3:
        kafka = {"topic_pattern": "[a-z]"}
    if random.random() < 0.2:
        kafka["isolation_level"] = "read_uncommitted"
    options: dict[str, Any] = {"kafka": kafka, "patience_seconds": 2}
    if random.random() < 0.4:
        options["on_incident"] = "proceed"
    if random.random() < 0.3:
        options["limits"] = {"max_records_per_run": random.randint(2, 12)}
    if random.random() < 0.3:
        options["on_reset"] = random.choice(
            [
                {"retention_loss": "accept_loss"},
                {"truncation": "accept_loss"},
                {"truncation": "restart"},
                {"topic_recreated": "restart"},
                {"unexplained_gap": "accept_loss", "retention_loss": "accept_loss"},
            ]
        )
    if random.random() < 0.1:
        options["start"] = "latest"
    if random.random() < 0.4:
        share = random.choice([0.3, 1.0])
        options["decode"] = {"value": {"format": "json"}, "quarantine": {"max_share": share}}
        if kafka.get("topics") == ["t"] and random.random() < 0.7:
            if random.random() < 0.5:
                options["decode"]["value"]["unavailable_value"] = "?"
            every = random.choice([0, 0, 0.5])
            options["current"] = {"key": ["k"], "table": {"buckets": 2}, "every": every}
            options["current"]["deletes"] = {"tombstone": False}
    return options


def play(history: History) -> Outcome:
    """Have a history happen, bring it to its end, and judge it."""
    stream = Stream.model_validate({"stream": "s", "table": {"uri": "/lake/s"}, **history.options})
    world = World(stream, history.topics)
    watch = Watch(world)
    forgotten: list[oracle.Recorded] = []
    world.put_back_from = lambda state: forgotten.append(oracle.Recorded(world, state))
    with clock.simulated(world.machine()):
        problems, happened = [], 0
        for event in history.events:
            apply(world, event)
            happened += 1
            if problems := watch.problems():
                break
        if not problems:
            chooser = ending.chooser(history.seed, history.choice)
            problems = [*ending.end(world, watch, chooser)]
        if not problems:
            problems = [*oracle.judge(world, watch.first, forgotten)]
        for process in world.alive:
            process.kill()
    outcome = Outcome(problems, happened, world)
    for process in world.processes:
        name = "killed" if process.dead else type(process.error).__name__
        outcome.ended["ended well" if name == "NoneType" else name] += 1
    outcome.incidents.update(watch.incidents.values())
    return outcome
