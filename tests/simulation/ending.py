"""How a history ends: what can pass passes, people decide, runs are tried until all is landed.

Every halt must have a way out that ends: a bounded number of runs leads back to landing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from tests.simulation import log_events, run_events, table_events
from tests.simulation.process import Process
from tests.simulation.properties import Watch
from tests.simulation.world import World
from tideline.decoding.decode_rules import has_to_decode
from tideline.errors import BadInput, Halted, LedgerElsewhere, TidelineError
from tideline.model.request import RunRequest

ROUNDS = 12
"""So many live runs may fail at most, each after all open incidents have been decided."""
MOST_RUNS = 200
"""So many may be needed in all: a stream's limits may make each of them small."""
Choose = Callable[[tuple[str, ...]], str]
"""Takes one of the choices that can be carried out."""


def chooser(seed: int, choice: int | None) -> Choose:
    """People choose by chance, or always the one with that number."""
    random = Random(seed)
    if choice is None:
        return random.choice
    return lambda choices: choices[choice % len(choices)]


def heal(world: World) -> None:
    """What can pass has passed: brokers and stores answer, transactions end, time goes by."""
    world.cluster.moods.clear()
    for cluster in world.clusters:
        cluster.hidden -= {"epochs", "ids"}
    log_events.grant(world)
    run_events.put_topics_back(world)
    run_events.put_sections_back(world)
    log_events.end_transactions(world, 1)
    table_events.leave(world)
    world.store.away = world.store.lost_answers = 0
    for table in world.every_table:
        table.lost_answers = 0
    world.spark.loses = world.spark.repeats = world.spark.fails = 0
    for process in world.alive:
        process.go_on()
    run_events.pass_time(world, 300, 0)


def end(world: World, watch: Watch, choose: Choose) -> Iterator[str]:
    """Bring a world to rest; yields what is wrong on the way.

    Args:
        world: Anything may have happened to it.
        watch: Looks at it after each step.
        choose: Which choice a person takes.
    """
    heal(world)
    _create_what_was_never_there(world)
    _send_past_new_tables(world)
    _finish_move(world)
    _finish_rewind(world)
    yield from _land_all(world, watch, choose)
    yield from _finish_backfills(world, watch, choose)
    yield from _land_all(world, watch, choose)
    _decode_anew(world)
    _decode_as_told(world, choose)
    _finish_erasing(world)
    yield from _fold_all(world, watch, choose)


def _decode_anew(world: World) -> None:
    """Whoever has put an older version of a typed table back has its records decoded again."""
    if "typed_restored" in world.facts and world.stream.decode is not None:
        _retried(world, partial(run_events.decode_anew, world, 0))
        if world.processes[-1].error is None:
            world.facts.pop("typed_restored")


def _decode_as_told(world: World, choose: Choose) -> None:
    """Whoever has told event types otherwise has their records decoded again."""
    for _ in range(ROUNDS):
        if "types_retold" not in world.facts or world.stream.decode is None:
            return
        decide_all(world, choose)
        _retried(world, partial(run_events.decode_anew, world, 0))
        if world.processes[-1].error is None:
            world.facts.pop("types_retold")
            world.happened("types_as_told")


def _finish_erasing(world: World) -> None:
    """What was begun and cut off goes on to its end."""
    state = world.state()
    if state is not None and state.erasing.erased:
        _retried(world, partial(run_events.finish_erasing, world))


def _fold_all(world: World, watch: Watch, choose: Choose) -> Iterator[str]:
    """Folds, until nothing is left to fold, and nothing is open."""
    errors: list[str] = []
    while world.stream.current is not None:
        if len(errors) == ROUNDS:
            yield f"STUCK: {ROUNDS} folds did not end: {errors[-3:]}"
            return
        decide_all(world, choose)
        run_events.fold(world, 0)
        error = _through(world.processes[-1])
        yield from watch.problems()
        state = world.state()
        assert state is not None
        if error is None and not state.folding.incidents:
            return
        errors.append(f"{type(error).__name__}: {error}")
        run_events.pass_time(world, 100, 0)


def _land_all(world: World, watch: Watch, choose: Choose) -> Iterator[str]:
    """Live runs, until one of them has nothing to do and nothing is left open."""
    errors: list[str] = []
    for number in itertools.count():
        if len(errors) == ROUNDS or number > MOST_RUNS:
            yield f"STUCK: {number} runs did not lead back to landing: {errors[-3:]}"
            return
        decide_all(world, choose)
        run_id = f"end-{world.number('end')}"
        error = _complete(world, run_id, RunRequest(), as_tasks=number % 3 == 2)
        yield from watch.problems()
        if error is not None:
            errors.append(f"{type(error).__name__}: {error}")
            if isinstance(error, BadInput) and "tables" in error.facts:
                table_events.drop_typed(world, 0)  # they are not those of this ledger
                _send_past_new_tables(world)
            _decode_anew(world)
            continue
        state = world.state()
        record = world.ledger().find_run(run_id)
        # A run that has left a partition out ("unknown") has nothing to do there; the next one has.
        if record is None or record.status != "nothing_to_do" or record.resolved or state is None:
            continue
        if not state.live_incidents() and not state.decoding.incidents:
            if world.stream.decode is None or not has_to_decode(state.head, state.decoding):
                return
            continue  # a run decodes so much only
        errors.append("nothing to do beside open incidents")


def _finish_backfills(world: World, watch: Watch, choose: Choose) -> Iterator[str]:
    """Each backfill that is open still ends, one way or another."""
    for _ in range(4):
        state = world.state()
        assert state is not None
        left = [r for r in state.runs.values() if r.status == "planned"]
        if not left:
            return
        for record in left:
            decide_all(world, choose)
            error = _complete(world, record.run_id, record.request, as_tasks=False)
            yield from watch.problems()
        decide_all(world, choose)
        _complete(world, f"end-{world.number('end')}", RunRequest(), as_tasks=False)
    yield f"STUCK: {left[0].run_id} stays open: {error}"


def _complete(
    world: World, run_id: str, request: RunRequest, *, as_tasks: bool
) -> TidelineError | None:
    """One run with the retries that Airflow gives it; the error that is left."""
    error: TidelineError | None = None
    for _ in range(3):
        process = run_events.ask(world, run_id, request, 0 if as_tasks else None)
        error = _through(process)
        if error is None or not error.retriable:
            return error
        run_events.pass_time(world, 100, 0)
    return error


def _through(process: Process) -> TidelineError | None:
    process.go_on()
    return process.error


def decide_all(world: World, choose: Choose) -> None:
    """A person answers every open incident with something that can be carried out.

    To read once more what Spark cannot read is left to the event `decide`: it ends nothing.
    """
    state = world.state()
    if state is None:
        return
    for incident in state.open_incidents:
        choices = tuple(c for c in incident.finding.executable if c != "retry")
        if choices and not incident.is_decided:
            run_events.decide_so(world, incident.incident_id, choose(choices))


def _create_what_was_never_there(world: World) -> None:
    """A topic of the stream file that no run has ever seen is a mistake of the file."""
    state = world.state()
    head = state.head if state is not None else None
    followed = {p.topic for p in (*head.positions, *head.retired)} if head is not None else set()
    if set(world.topics) - set(world.cluster.topics) - followed:
        log_events.create_topics(world, 1)


def _finish_move(world: World) -> None:
    """An interrupted move of the ledger is finished by the same command."""
    for target in range(3):
        if world.state() is not None:
            return
        _retried(world, partial(run_events.move, world, target))


def _send_past_new_tables(world: World) -> None:
    """Two new typed tables are found by the first run that has something to decode.

    So is a ledger that is older than they are.
    """
    gone = None in {t.table_id for t in world.tables[1:]}
    if world.decode is not None and (gone or world.is_put_back):
        for name, _, number, _ in [*world.live_logs()]:
            world.produce(name, number, 1)


def _finish_rewind(world: World) -> None:
    """An interrupted rewind is finished by the same command, and by what it asks people."""
    for _ in range(4):
        state = world.state()
        if state is None or state.control.rewind is None:
            return
        wanted = state.control.rewind.to_run
        decide_all(world, chooser(0, 0))
        asked = [n for n, a in enumerate(reversed(world.asked)) if a.run_id == wanted]
        _retried(world, partial(run_events.rewind, world, asked[0], 1))


def _retried(world: World, begin: Callable[[], None]) -> None:
    for _ in range(3):
        begin()
        error = _through(world.processes[-1])
        if error is None or isinstance(error, Halted | LedgerElsewhere):
            return
        run_events.pass_time(world, 100, 0)
