"""A fleet in the simulated world: a world for each topic, one clock, and the shards of a batch.

Each topic has a ledger, a table and a log of its own, as in a world of one stream, and whatever
happens there happens here as well. Runs of the fleet come on top: the product's own `Batch` lands
a shard's topics under one run id, live or a window, while runs of one topic hold its leases. What
a green task says is held against the logs: a window that was landed is landed, for each topic.

    python -m tests.simulation.fleet --seed 1 --histories 1000
    python -m tests.simulation.fleet --seed 7 --histories 1        that one, shrunk if it fails
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

from tests.simulation import clock, ending, events, oracle, run_events
from tests.simulation.clock import Clock
from tests.simulation.events import Event, Kind
from tests.simulation.histories import History
from tests.simulation.kafka import RECORD
from tests.simulation.process import Process, running
from tests.simulation.properties import Watch
from tests.simulation.shrink import kind_of, shrink
from tests.simulation.world import Asked, World
from tideline.fleet import batch
from tideline.fleet.batch import Batch, StreamRun, gravest, shard_of
from tideline.landing.context import RunContext
from tideline.model.request import RunRequest, Window
from tideline.stream.stream import Stream

NAMES = ("carts", "orders", "stock")
"""The topics' streams: two shards of two and one, three of one, two and none."""
_MOST_TRIES = 12


@dataclass
class Task:
    """What one shard of one run was expanded with, and what it had to land.

    Args:
        shards: How many there were then.
        due: Records that a reader could see when the task began first, by stream: what it is asked
            for. Each with its log and offset.
        process: Its last try.
        tries: So many have begun.
    """

    run_id: str
    request: RunRequest
    shard: int
    shards: int
    due: dict[str, dict[int, tuple[str, int, int]]]
    process: Process | None = None
    tries: int = 0


@dataclass
class Herd:
    """Worlds by stream name.

    Args:
        worlds: One for each topic.
        watches: Of each world.
        shards: As the fleet's file says now.
        tasks: Of all runs so far.
        judged: Green tasks that were held against the logs.
    """

    worlds: dict[str, World]
    watches: dict[str, Watch] = field(default_factory=dict)
    shards: int = 2
    tasks: list[Task] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)

    @property
    def first(self) -> World:
        """Any of them: clock and processes are those of all."""
        return next(iter(self.worlds.values()))

    @contextmanager
    def open_run(
        self, stream: Stream, run_id: str, request: RunRequest, spark: object
    ) -> Iterator[RunContext]:
        """What `tideline.wiring` does for real parts."""
        yield self.worlds[stream.stream].context(running(), run_id, request)


class InTurn:
    """An executor that works on one task after the other, in the greenlet of whoever asks."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """The task, done."""
        future = Future[Any]()
        future.set_result(work(*arguments))
        return future


def run_fleet(herd: Herd, request: RunRequest) -> None:
    """A run of the fleet: a task for each shard, none of which has done anything yet."""
    run_id = f"fleet-{herd.first.number('fleet')}"
    for world in herd.worlds.values():
        world.asked.append(Asked(run_id, request))
    for shard in range(herd.shards):
        names = [n for n, w in herd.worlds.items() if shard_of(w.stream, herd.shards) == shard]
        due = {name: _due(herd.worlds[name], request) for name in names}
        herd.tasks.append(Task(run_id, request, shard, herd.shards, due))
        attempt(herd, herd.tasks[-1])


def attempt(herd: Herd, task: Task) -> None:
    """A try of a task, unless one is at work."""
    if task.process is not None and not task.process.is_over:
        return
    task.tries += 1

    def work(process: Process) -> list[StreamRun]:
        mine = [w.stream for w in herd.worlds.values()]
        mine = [s for s in mine if shard_of(s, task.shards) == task.shard]
        batched = Batch(
            task.run_id, task.request, threads=1, only_left=task.tries > 1, spark=_NO_SPARK
        )
        runs = list(batched.run(mine))
        if (error := gravest(runs)) is not None:
            raise error
        return runs

    name = f"shard {task.shard} of {task.run_id}, try {task.tries}"
    task.process = herd.first.start(name, work)


_NO_SPARK: Any = object()
"""Each world has its own."""


def _due(world: World, request: RunRequest) -> dict[int, tuple[str, int, int]]:
    """Records that are there now, and that the request means."""
    readable, found = world.readable(), {}
    for _, topic, number, log in world.live_logs():
        for offset in range(log.log_start, log.stable_end):
            entry, window = log.entries[offset], request.window
            at = clock.BEGIN + timedelta(milliseconds=entry.written_at - _BEGIN_MS)
            if entry.kind != RECORD or entry.serial not in readable:
                continue
            if window is None or window.start <= at < window.end:
                found[entry.serial] = (topic.topic_id, number, offset)
    return found


_BEGIN_MS = int(clock.BEGIN.timestamp() * 1000)


def green(herd: Herd) -> Iterator[str]:
    """Hold each task that has ended well against the logs, once."""
    for task in herd.tasks:
        process = task.process
        if process is None or not process.is_over or process.dead or process.result is None:
            continue
        runs, process.result = process.result, None
        assert isinstance(runs, list)
        told = {run.stream: run for run in runs}
        for name, due in task.due.items():
            if name not in told:
                yield f"{process}: {name} is left out"
                continue
            herd.judged[f"{task.request.lane}: {told[name].state}"] += 1
            if task.request.window is not None:
                yield from _missing(herd.worlds[name], f"{process}: {name}", due)


def _missing(world: World, who: str, due: dict[int, tuple[str, int, int]]) -> Iterator[str]:
    """What a green window has not landed, and the ledger does not name as lost or erased."""
    state = world.state()
    if state is None or world.is_put_back:
        return
    landed = {row.serial for row in world.table.rows()}
    known = oracle.Recorded(world, state)
    logs = {(topic.topic_id, number): log for _, topic, number, log in world.live_logs()}
    covered = {
        (log.topic_id, log.partition, offset)
        for log, r in state.head.coverage.pieces
        for offset in range(r.start_offset, r.end_offset)
    }
    for serial, place in due.items():
        log = logs.get(place[:2])
        stands = log is not None and log.log_start <= place[2] < log.end
        if not stands or log is None or log.entries[place[2]].serial != serial:
            continue  # it is gone since: what is lost is the oracle's question
        if (
            serial not in landed
            and place not in covered
            and not known.holds(place[:2], place[2], serial)
        ):
            yield f"{who}: green, and record {serial} at {place} is not landed"


# ---- what may happen to a fleet


def _live(herd: Herd) -> None:
    run_fleet(herd, RunRequest())


def _window(herd: Herd, start: int, end: int) -> None:
    now = herd.first.clock.now()
    passed = timedelta(milliseconds=herd.first.clock.milliseconds)
    first, last = (now - passed * (100 - percent) / 100 for percent in sorted((start, end)))
    if last - first > timedelta(milliseconds=1):
        run_fleet(herd, RunRequest(window=Window(first, last)))


def _again(herd: Herd, task: int) -> None:
    if herd.tasks:
        attempt(herd, herd.tasks[-1 - task % len(herd.tasks)])


def _reshard(herd: Herd, shards: int) -> None:
    herd.shards = shards


def _hold(herd: Herd, which: int, kind: int) -> None:
    """A run of one topic stands still while it writes."""
    world = [*herd.worlds.values()][which % len(herd.worlds)]
    before = len(world.processes)
    if kind:
        run_events.live(world, 0)
    else:
        run_events.backfill(world, 0, 0, 0, 12)
    for process in world.processes[before:]:
        while not process.is_over and "writer" not in _held(world):
            process.go_on(1)


def _held(world: World) -> set[str]:
    state = world.state()
    return set() if state is None else {lease.name for lease in state.control.leases}


def _run_ended(herd: Herd) -> None:
    for task in herd.tasks[-herd.shards :]:
        if task.process is not None:
            task.process.go_on()


OF_FLEETS: dict[str, Kind] = {
    "fleet_live": Kind(_live, 6),
    "fleet_window": Kind(_window, 12, ((0, 100), (0, 100))),
    "fleet_again": Kind(_again, 8, ((0, 5),)),
    "hold": Kind(_hold, 5, ((0, 2), (0, 1))),
    "fleet_ends": Kind(_run_ended, 8),
    "reshard": Kind(_reshard, 1, ((1, 4),)),
}
_OTHERS = {"move", "edit_topics", "restore_ledger", "save_ledger", "swap_cluster"}
"""Left out: they change what a run id of the fleet means in one world only."""


def make_history(seed: int, length: int = 40) -> History:
    """A random history of a fleet: events of one topic carry its number as their last argument."""
    random = Random(seed)
    kinds = {
        name: kind
        for name, kind in events.KINDS.items()
        if name not in _OTHERS and (kind.weight >= 4 or (kind.weight and random.random() < 0.4))
    }
    kinds |= OF_FLEETS
    for name, weight in (("produce", 30), ("rewind", 3)):
        kinds[name] = replace(events.KINDS[name], weight=weight)
    # A log's end of a leader that lags is refused by brokers (KIP-207): a window believes it.
    kinds["broker"] = replace(events.KINDS["broker"], bounds=((0, 1), (1, 6)))
    drawn: list[Event] = []
    for _ in range(random.randint(length // 3, length)):
        event = events.draw(random, kinds)
        drawn.append(event if event[0] in OF_FLEETS else (*event, random.randrange(len(NAMES))))
    options: dict[str, Any] = {"patience_seconds": 2}
    if random.random() < 0.5:
        options["start"] = "latest"  # what came before is there for windows
    if random.random() < 0.3:
        options["on_incident"] = "proceed"
    if random.random() < 0.3:
        options["decode"] = {"value": {"format": "json"}, "quarantine": {"max_share": 1.0}}
    begin: tuple[Event, ...] = (("fleet_live",), ("fleet_ends",))
    return History(seed, {"t": random.choice([1, 1, 2])}, options, (*begin, *drawn))


@dataclass
class Played:
    """How a fleet's history went: what broke, and what was held against the logs."""

    problems: list[str]
    events: int
    herd: Herd


def play(history: History) -> Played:
    """Have it happen, bring each topic to its end, and judge."""
    shared, processes = Clock(), list[Process]()
    worlds = {}
    for name in NAMES:
        options = {"kafka": {"topics": ["t"]}, **history.options}
        stream = {"stream": name, "table": {"uri": f"/lake/{name}"}, **options}
        model = Stream.model_validate(stream)
        worlds[name] = World(model, history.topics, clock=shared, processes=processes)
    herd = Herd(worlds)
    herd.watches = {name: Watch(world) for name, world in worlds.items()}
    with _inside(herd):
        problems, happened = _play(herd, history)
        for process in herd.first.alive:
            process.kill()
    return Played(problems, happened, herd)


@contextmanager
def _inside(herd: Herd) -> Iterator[None]:
    real = {"open_run": batch.open_run, "ThreadPoolExecutor": batch.ThreadPoolExecutor}
    batch.open_run, batch.ThreadPoolExecutor = herd.open_run, InTurn  # type: ignore[assignment, misc]
    try:
        with clock.simulated(herd.first.machine()):
            yield
    finally:
        for name, value in real.items():
            setattr(batch, name, value)


def _play(herd: Herd, history: History) -> tuple[list[str], int]:
    worlds = [*herd.worlds.values()]
    for number, (name, *arguments) in enumerate(history.events, 1):
        if name in OF_FLEETS:
            OF_FLEETS[str(name)].act(herd, *arguments)
        else:
            *own, which = arguments
            events.apply(worlds[int(which) % len(worlds)], (name, *own))
        if problems := _problems(herd):
            return problems, number
    return _end(herd, history), len(history.events)


def _problems(herd: Herd) -> list[str]:
    found = [f"{n}: {p}" for n, watch in herd.watches.items() for p in watch.problems()]
    return [*found, *green(herd)]


def _end(herd: Herd, history: History) -> list[str]:
    """Runs of the fleet are tried until they end; then each topic comes to its own end."""
    chooser = ending.chooser(history.seed, history.choice)
    for world in herd.worlds.values():
        ending.heal(world)
    left = _MOST_TRIES
    while left and any(task.process is None or task.process.error for task in herd.tasks):
        left -= 1
        for world in herd.worlds.values():
            ending.decide_all(world, chooser)
        for task in herd.tasks:
            attempt(herd, task)
            assert task.process is not None
            task.process.go_on()
        run_events.pass_time(herd.first, 100, 0)
        if problems := _problems(herd):
            return problems
    for name, world in herd.worlds.items():
        watch = herd.watches[name]
        if found := [*ending.end(world, watch, chooser)] or [*oracle.judge(world, watch.first, [])]:
            return [f"{name}: {problem}" for problem in found]
    return _problems(herd)


def explore(seeds: range, judged: Counter[str]) -> Iterator[tuple[History, Played]]:
    """Play histories; what green tasks said is counted."""
    for seed in seeds:
        history = make_history(seed)
        played = play(history)
        judged.update(played.herd.judged)
        yield history, played


def main() -> int:
    """Explore; the first failure of each kind is shrunk and printed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.fleet")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", type=int, default=500)
    asked = parser.parse_args()
    failed, judged = dict[str, int](), Counter[str]()
    for history, played in explore(range(asked.seed, asked.seed + asked.histories), judged):
        kind = kind_of(played.problems)
        if kind and kind not in failed:
            failed[kind] = history.seed
            short = shrink(history, 400, play)
            again = play(short)
            print(f"---- seed {history.seed}\n{short.dump()}", end="")
            for process in again.herd.first.processes:
                print(f"{process}: {'killed' if process.dead else process.error or 'ended well'}")
            print("!!", *again.problems, sep="\n!! ", flush=True)
    print(f"{asked.histories} histories; green: {dict(judged)}\nfailed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
