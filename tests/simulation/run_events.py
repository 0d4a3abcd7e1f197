"""What people, Airflow and the machine may do: runs, retries, kills, decisions, rewinds, moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import astuple
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from tests.simulation.process import Process
from tests.simulation.table import key_of
from tests.simulation.world import Asked, World
from tideline.decoding.decode_steps import decode_rows, verify_decoded
from tideline.folding.fold_execution import execute_fold
from tideline.folding.fold_planning import plan_fold, plan_recompute
from tideline.folding.fold_rules import due_changes, newest_logs
from tideline.folding.fold_steps import fold_changes, verify_current
from tideline.landing.context import RunContext, hold_lane
from tideline.ledger.move import move_ledger
from tideline.model.current import Floor, FoldRequest
from tideline.model.incident import Decision
from tideline.model.request import RequestedRange, RunRequest, Window
from tideline.operations.erase_finding import AskedKeys
from tideline.operations.erasing import EraseRequest, finish_erasures
from tideline.operations.erasing import erase as erase_records
from tideline.operations.maintaining import Tables, maintain_stream
from tideline.operations.questions import audit_stream, dry_run
from tideline.operations.redrive import decode_again, redrive
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.run_batch import decode_batch, fold_batch, run_batch
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)
from tideline.stream.decode_section import EventType
from tideline.table.table_port import MaintainedTablePort

STEPS: tuple[Callable[..., object], ...] = (
    plan_offset_ranges,
    detect_earliest_reset,
    resolve_reset,
    ingest_ranges,
    verify_ranges,
    advance_offsets,
)
DECODING: tuple[Callable[..., object], ...] = (decode_rows, verify_decoded)
FOLDING: tuple[Callable[..., object], ...] = (fold_changes, verify_current)


def ask(world: World, run_id: str, request: RunRequest, first_step: int | None) -> Process:
    """A process that works on a run.

    Args:
        world: The world.
        run_id: The run's id.
        request: What is requested of it.
        first_step: None: all steps in one process, as `tideline run` does. Otherwise each step from
            that one on is a task of its own, with a lease of its own, as Airflow runs it.
    """
    if first_step is None:
        return world.start(f"run {run_id}", lambda p: run_batch(world.context(p, run_id, request)))

    def tasks(process: Process) -> None:
        for step in steps[first_step:]:
            process.tick("task")
            run = world.context(process, run_id, request)
            with hold_lane(run) if step in STEPS else nullcontext():
                step(run)

    steps = (*STEPS, *(DECODING if world.stream.decode is not None else ()))
    steps += FOLDING if world.stream.current is not None else ()
    first_step %= len(steps)
    return world.start(f"tasks {run_id} from {steps[first_step].__name__}", tasks)


def live(world: World, as_tasks: int) -> None:
    """A live run begins; it stands still at its first boundary."""
    asked = Asked(f"live-{world.number('live')}", RunRequest())
    world.asked.append(asked)
    ask(world, asked.run_id, asked.request, 0 if as_tasks else None)


def backfill(world: World, topic: int, partition: int, start: int, length: int) -> None:
    """A backfill of offsets begins: from a percentage of the log on."""
    logs = list(world.live_logs())
    if not logs:
        return
    name, _, number, log = logs[(topic + partition) % len(logs)]
    first = log.log_start + (log.stable_end - log.log_start) * start // 100
    end = min(first + length, log.stable_end)
    if end > first:
        request = RunRequest(ranges=(RequestedRange(name, number, first, end),))
        asked = Asked(f"backfill-{world.number('backfill')}", request)
        world.asked.append(asked)
        ask(world, asked.run_id, asked.request, None)


def window(world: World, start: int, end: int) -> None:
    """A backfill of a time window begins; both are percentages of the time that has passed."""
    now, passed = world.clock.now(), _passed(world)
    first, last = (now - passed * (100 - percent) / 100 for percent in sorted((start, end)))
    _ask_window(world, first, last)


def next_window(world: World, other: int, before: int, length: int) -> None:
    """A backfill of the window after (0) or before (1) another one: the two share an instant."""
    windows = [asked.request.window for asked in world.asked if asked.request.window is not None]
    if windows:
        known, size = windows[-1 - other % len(windows)], _passed(world) * length / 100
        if before:
            _ask_window(world, known.start - size, known.start)
        else:
            _ask_window(world, known.end, min(known.end + size, world.clock.now()))


def _passed(world: World) -> timedelta:
    return timedelta(milliseconds=world.clock.milliseconds)


def _ask_window(world: World, first: datetime, last: datetime) -> None:
    if last - first > timedelta(milliseconds=1):
        asked = Asked(f"window-{world.number('window')}", RunRequest(window=Window(first, last)))
        world.asked.append(asked)
        ask(world, asked.run_id, asked.request, 0)


def again(world: World, run: int, first_step: int) -> None:
    """A run is tried again, or cleared from a step on; 0: all of it in one process.

    Airflow starts no task before those that come first have succeeded once.
    """
    if world.asked:
        asked = world.asked[-1 - run % len(world.asked)]
        with world.calm():
            state = world.state()
            known = None if state is None else world.ledger().find_run(asked.run_id, state)
        has_plan = known is not None and known.status != "proposed"
        later = first_step if has_plan else 0
        ask(world, asked.run_id, asked.request, None if first_step == 0 else later)


def rewind(world: World, run: int, accept_loss: int) -> None:
    """Somebody rewinds to a run that has been asked for."""
    if world.asked:
        to_run = world.asked[-1 - run % len(world.asked)].run_id
        wanted = RewindRequest(to_run, "simulated", "ann", bool(accept_loss))
        world.start(
            f"rewind to {to_run}",
            lambda p: rewind_stream(world.context(p, "rewind", RunRequest()), wanted),
        )
        world.happened("rewound")


def decode(world: World, run: int) -> None:
    """Somebody decodes what is landed, or what a run has decoded once more."""
    if world.stream.decode is not None and world.asked:
        name = f"decode-{world.number('decode')}"
        name = name if run == 0 else world.asked[-run % len(world.asked)].run_id
        world.start(f"decode {name}", lambda p: decode_batch(world.context(p, name, RunRequest())))


def redrive_again(world: World, again: int) -> None:
    """Somebody has quarantined records decoded again, under a new id or under the last one."""
    if world.stream.decode is not None:
        name = f"redrive-{world.counts['redrive'] if again else world.number('redrive')}"
        world.start(name, lambda p: redrive(world.context(p, name, RunRequest(by="ann"))))


def decode_anew(world: World, again: int) -> None:
    """Somebody has decoded records decoded again, under a new id or under the last one."""
    if world.stream.decode is not None:
        name = f"anew-{world.counts['anew'] if again else world.number('anew')}"
        asked = RunRequest(by="ann")
        world.start(name, lambda p: decode_again(world.context(p, name, asked)))


def edit_decode(world: World) -> None:
    """Somebody takes `decode` out of the stream file, or puts it in again; `current` goes along."""
    if world.decode is not None and world.stream.decode is not None:
        world.stream = world.stream.model_copy(update={"decode": None, "current": None})
    else:
        put_sections_back(world)


def edit_types(world: World, how: int) -> None:
    """Somebody adds an event type (0), ends the second one (1), or lets it go on (2)."""
    decode = world.decode
    if decode is None or not decode.types:
        return
    first, second, *more = decode.types
    if how:
        second = second.model_copy(update={"ended": how == 1})
    elif not more:
        more = [EventType(type="c", subject="c")]
    value = decode.value.model_copy(update={"types": [first, second, *more]})
    world.decode = decode.model_copy(update={"value": value})
    if world.stream.decode is not None:
        world.stream = world.stream.model_copy(update={"decode": world.decode})


def retell_types(world: World) -> None:
    """The first two types are told by each other's subject from now on."""
    decode = world.decode
    if decode is None or not decode.types:
        return
    first, second, *more = decode.types
    swapped = (one.model_copy(update={"subject": s}) for one, s in _crossed(first, second))
    value = decode.value.model_copy(update={"types": [*swapped, *more]})
    world.decode = decode.model_copy(update={"value": value})
    if world.stream.decode is not None:
        world.stream = world.stream.model_copy(update={"decode": world.decode})
    world.happened("types_retold")


def end_first_type(world: World) -> None:
    """Somebody ends the first event type, which may be folded, or lets it go on."""
    decode = world.decode
    if decode is None or not decode.types:
        return
    first, *others = decode.types
    ended = first.model_copy(update={"ended": not first.ended})
    value = decode.value.model_copy(update={"types": [ended, *others]})
    world.decode = decode.model_copy(update={"value": value})
    if world.stream.decode is not None:
        world.stream = world.stream.model_copy(update={"decode": world.decode})
    world.happened("types_retold")


def _crossed(one: EventType, other: EventType) -> tuple[tuple[EventType, str | None], ...]:
    return (one, other.subject), (other, one.subject)


def take_type_out(world: World) -> None:
    """Somebody takes the last event type out of the stream file, or puts it in again."""
    if world.decode is None or world.stream.decode is None or not world.decode.types:
        return
    types = world.decode.types
    if world.stream.decode.types == types:
        types = types[:-1]
    value = world.decode.value.model_copy(update={"types": types})
    decode = world.decode.model_copy(update={"value": value})
    world.stream = world.stream.model_copy(update={"decode": decode})


def rename(world: World) -> None:
    """Somebody names the typed tables by other addresses, which lead to the same tables."""
    if world.stream.decode is not None:
        world.rename()


def fold(world: World, run: int) -> None:
    """Somebody folds what is decoded, or what a run has folded once more."""
    if world.stream.current is not None:
        name = f"fold-{world.number('fold')}"
        name = name if run == 0 or not world.asked else world.asked[-run % len(world.asked)].run_id
        _fold(world, name, "due")


def fold_anew(world: World) -> None:
    """Somebody folds everything anew."""
    if world.stream.current is not None:
        _fold(world, f"fold-{world.number('fold')}", "anew")


def _fold(world: World, name: str, asked: FoldRequest) -> None:
    world.start(
        f"{asked} {name}", lambda p: fold_batch(world.context(p, name, RunRequest()), asked)
    )


def sweep(world: World, percent: int) -> None:
    """Somebody sweeps what is below a part of each log: what a snapshot of then has not read."""
    if world.stream.current is not None:
        name = f"sweep-{world.number('sweep')}"
        of_name = partial(world.context, run_id=name, request=RunRequest())
        world.start(name, lambda p: sweep_below(world, of_name(p), percent))


def sweep_below(world: World, run: RunContext, percent: int) -> None:
    """As `sweeping.sweep` does it, with floors that no snapshot has to tell."""
    if run.stream.current is None:
        return  # somebody has taken it out of the stream file meanwhile
    with run.ledger.lease("decoder"):
        state = run.ledger.read()
        if (
            plan_recompute(run, state) is None
            or due_changes(state.decoding, state.folding, "").is_anything
        ):
            return
        logs = newest_logs(state.decoding.coverage, state.head.order_of_incarnations)
        ends = {log: state.decoding.coverage[log][-1].end_offset for log in logs}
        floors = tuple(Floor(*astuple(i.at(end * percent // 100))) for i, end in ends.items())
        plan = plan_fold(run, state, None, 0.0, sweep=floors)
        assert plan is not None
        world.sweeps[plan.plan_id] = floors
        execute_fold(run, plan)
    verify_current(run)


def edit_current(world: World) -> None:
    """Somebody takes `current` out of the stream file, or puts it in again."""
    if world.stream.decode is not None:
        current = None if world.stream.current is not None else world.folds
        world.stream = world.stream.model_copy(update={"current": current})


def put_sections_back(world: World) -> None:
    """The stream file has its typed tables and its current table again."""
    world.stream = world.stream.model_copy(update={"decode": world.decode, "current": world.folds})


def audit(world: World) -> None:
    """Somebody audits."""
    world.start("audit", lambda p: audit_stream(world.context(p, "audit", RunRequest())))


def maintain(world: World) -> None:
    """Somebody maintains the table."""

    def work(process: Process) -> None:
        run = world.context(process, "maintain", RunRequest())
        maintain_stream(run, {"raw": cast(MaintainedTablePort, run.table)})

    world.start("maintenance", work)


def erase(world: World, key: int, how: int) -> None:
    """Somebody erases the records of a raw key; an odd number refuses later ones, too."""
    raw_key = key_of(key)
    asked = EraseRequest(
        AskedKeys(raw_keys=(raw_key,)), "asked", "ann", bool(how & 1), bool(how & 2), most=1.0
    )
    world.erased_keys.add(raw_key)
    name = f"erase-{world.number('erase')}"

    def work(process: Process) -> None:
        run = world.context(process, name, RunRequest(by="ann"))
        erase_records(run, tables_of(run), asked)

    world.start(name, work)


def erase_changes(world: World, text: int, how: int) -> None:
    """Somebody erases by a column that is no key; an odd number takes all changes of the keys."""
    asked = EraseRequest(
        AskedKeys(({"essay": f"key-{text}"},), whole_keys=bool(how & 1)), "asked", "ann", most=1.0
    )
    if not how & 1:
        world.erased_texts.add(text)
        world.typed_once |= {*world.decoded.rows()}
    else:
        world.erased_keys |= {key_of(n) for n in range(3)}
    name = f"erase-{world.number('erase')}"

    def work(process: Process) -> None:
        run = world.context(process, name, RunRequest(by="ann"))
        erase_records(run, tables_of(run), asked)

    world.start(name, work)


def readdress(world: World) -> None:
    """Somebody gives the typed tables and the current one other addresses."""
    if world.stream.decode is not None:
        world.readdress()


def finish_erasing(world: World) -> None:
    """Somebody goes on with what was cut off."""

    def work(process: Process) -> None:
        run = world.context(process, f"erase-{world.number('erase')}", RunRequest())
        finish_erasures(run, tables_of(run))

    world.start("goes on to erase", work)


def tables_of(run: RunContext) -> Tables:
    """All tables of a run."""
    return cast(Tables, run.tables)


def look(world: World) -> None:
    """Somebody asks what a run would do."""
    world.start("dry run", lambda p: dry_run(world.context(p, "look", RunRequest())))


def move(world: World, to: int) -> None:
    """Somebody moves the ledger, and corrects the stream file afterwards."""
    target = f"/lake/ledger-{1 + to % 3}"

    def work(process: Process) -> None:
        source = world.location
        moved = move_ledger(
            world.locate(source),
            world.locate(target),
            lambda location: world.open_store(location.address, process),
        )
        if not moved.is_empty:
            world.location = target

    world.start(f"move to {target}", work)


def decide(world: World, incident: int, choice: int) -> None:
    """Somebody decides about an open incident, in a shell."""
    state = world.state()
    if state is not None and (there := state.open_incidents):
        known = there[incident % len(there)]
        chosen = known.finding.choices[choice % len(known.finding.choices)]
        decide_so(world, known.incident_id, chosen)


def decide_so(world: World, incident_id: str, choice: str) -> None:
    """`tideline resolve --incident ... --choice ...`."""
    decision = Decision(choice, "ann", world.clock.now(), "simulated")
    with world.calm():
        world.ledger().update(lambda state: state.with_decision(incident_id, decision))


def edit_topics(world: World, topic: int) -> None:
    """Somebody takes a topic out of the stream file, or puts it in again; one always stays."""
    kafka = world.stream.kafka
    if kafka.topics is None:
        return
    name = sorted(world.topics)[topic % len(world.topics)]
    left = [t for t in sorted(world.topics) if (t in kafka.topics) != (t == name)]
    if left:
        _follow(world, left)


def put_topics_back(world: World) -> None:
    """The stream file names every topic again."""
    if world.stream.kafka.topics is not None:
        _follow(world, sorted(world.topics))


def _follow(world: World, topics: list[str]) -> None:
    kafka = world.stream.kafka.model_copy(update={"topics": topics})
    world.stream = world.stream.model_copy(update={"kafka": kafka})


def skew(world: World, process: int, minutes: int) -> None:
    """The clock of a process's host is ahead of the others', or behind them."""
    if alive := world.alive:
        alive[process % len(alive)].clock_ahead = timedelta(minutes=minutes - 10)


def step(world: World, process: int, ticks: int) -> None:
    """One of the processes goes on for that many boundaries."""
    if alive := world.alive:
        alive[process % len(alive)].go_on(ticks)


def finish(world: World, process: int) -> None:
    """One of the processes goes on to its end."""
    if alive := world.alive:
        alive[process % len(alive)].go_on()


def kill(world: World, process: int, is_noticed: int) -> None:
    """One of the processes is killed; others may notice at once (1) or by expiry only (0)."""
    if alive := world.alive:
        alive[process % len(alive)].kill(bool(is_noticed))


def pass_time(world: World, seconds: int, stopped: int) -> None:
    """The clock goes on; processes whose bit is set in `stopped` renew no lease meanwhile."""
    for _ in range(max(1, seconds // 20)):
        world.clock.milliseconds += 1000 * min(seconds, 20)
        _keep_leases(p for n, p in enumerate(world.alive) if not stopped >> n & 1)


def _keep_leases(processes: Iterable[Process]) -> None:
    for process in processes:
        process.keep_leases()
