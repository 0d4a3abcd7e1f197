"""What became of a key: its row, its last change, and the changes before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tideline.errors import BadInput
from tideline.folding.current_tables import table_of
from tideline.folding.fold_planning import plan_recompute
from tideline.landing.context import RunContext
from tideline.model.current import (
    COORDINATES,
    ERA,
    IS_DELETED,
    Folding,
    FoldPlan,
    is_below,
    order_names,
)
from tideline.model.offsets import PartitionIdentity, PlaceInLog
from tideline.model.wording import not_among


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One change of a key.

    Args:
        timestamp: Kafka's time; None for a record without one.
        is_deleted: Whether it says that the row is gone.
        is_folded: Whether the current table has it, or a later one.
        is_swept: Whether it is below the floors: a later snapshot has not read the row again.
        is_truncated: Whether it came before the last change that said that all rows are gone.
        values: The row's columns that it brings, as texts.
    """

    topic_id: str
    generation: int
    partition: int
    offset: int
    timestamp: datetime | None
    is_deleted: bool
    is_folded: bool
    is_swept: bool
    is_truncated: bool
    values: Mapping[str, str | None]

    def __str__(self) -> str:
        gone = "deleted" if self.is_deleted else _text(self.values)
        later = "" if self.is_folded else ", not folded yet"
        later += ", swept" if self.is_swept else ""
        later += ", truncated" if self.is_truncated else ""
        again = f" of generation {self.generation}" if self.generation else ""
        place = f"{self.partition}@{self.offset}{again}"
        at = "no time" if self.timestamp is None else f"{self.timestamp:%Y-%m-%d %H:%M:%S}"
        return f"{place}, {at}: {gone}{later}"


@dataclass(frozen=True, slots=True)
class ExplainedKey:
    """What is known of a key.

    Args:
        row: Its row's columns as texts; None where it has none.
        is_deleted: Whether that row is one of a key that is gone.
        changes: All that are decoded, the last one first.
    """

    key: Mapping[str, str | None]
    row: Mapping[str, str | None] | None
    is_deleted: bool
    changes: tuple[KeyChange, ...]


def explain_key(run: RunContext, key: Mapping[str, str | None]) -> ExplainedKey:
    """Look a key up in the current table and in the typed one; reads the keys of both.

    Args:
        run: This run; its stream has a current table.
        key: Values by column, as texts; None for null.

    Raises:
        BadInput: Nothing is folded, the key has other columns, all of it is null, or a value does
            not fit its column.
        ServiceAway: A store is away.
    """
    state = run.ledger.read()
    plan = plan_recompute(run, state, is_exact=False)
    name = run.stream.stream
    if plan is None:
        raise BadInput(f"stream {name}: no row is folded yet: run tideline fold FILE first")
    for column in key:
        if column not in plan.layout.key:
            raise BadInput(f"--key: {not_among(column, plan.layout.key)}")
    if missing := [column for column in plan.layout.key if column not in key]:
        raise BadInput(f"--key: got no {missing[0]}; the key is {', '.join(plan.layout.key)}")
    if all(value is None for value in key.values()):
        raise BadInput("--key: got null alone; allowed: one value at least, or it is no key")
    names = [c.name for c in plan.columns]
    found = table_of(run).rows_with([key], [*names, *COORDINATES, IS_DELETED])
    row = found[0] if found else None
    marks = ["is_tombstone"] if plan.deletes.tombstones or plan.deletes.passes else []
    marks += [column for column, _ in plan.marks]
    marks += ["op"] if plan.has_truncates else []
    sources = [c.source for c in plan.columns]
    marks += [c.source for c in plan.sequence]
    wanted = [*dict.fromkeys([*sources, *COORDINATES, *marks])]
    typed = [c for c in run.source.rows_with([key], wanted) if _is_of_row(plan, c)]
    typed.sort(key=lambda change: _place(plan, change), reverse=True)
    return ExplainedKey(
        key,
        None if row is None else _texts({n: row[n] for n in names}),
        row is not None and bool(row[IS_DELETED]),
        tuple(_change(plan, state.folding, change) for change in typed),
    )


def _is_of_row(plan: FoldPlan, change: Mapping[str, Any]) -> bool:
    """Whether a change says something of one row; as the fold has it."""
    passes = plan.deletes.passes and change["is_tombstone"]
    return not passes and not (plan.has_truncates and change["op"] == "t")


def _change(plan: FoldPlan, folding: Folding, change: Mapping[str, Any]) -> KeyChange:
    identity = PartitionIdentity(change["topic_id"], change["generation"], change["partition"])
    folded = folding.coverage[identity]
    texts = _texts({column: change[column] for column, _ in plan.marks})
    is_deleted = bool(plan.deletes.tombstones and change["is_tombstone"])
    is_deleted |= any(texts[column] == text for column, text in plan.marks)
    return KeyChange(
        **{name: change[name] for name in COORDINATES},
        is_deleted=is_deleted,
        is_folded=any(r.start_offset <= change["offset"] < r.end_offset for r in folded),
        is_swept=_is_swept(plan, change),
        is_truncated=_is_truncated(plan, folding, change),
        values=_texts({c.name: change[c.source] for c in plan.columns}),
    )


def _is_swept(plan: FoldPlan, change: Mapping[str, Any]) -> bool:
    return is_below(_place_in_log(change), plan.floors, plan.incarnations)


def _is_truncated(plan: FoldPlan, folding: Folding, change: Mapping[str, Any]) -> bool:
    barrier = folding.barrier
    if barrier is None:
        return False
    if plan.order == "time":
        at = {n: getattr(barrier, n) for n in COORDINATES}
        return _place(plan, change) < _place(plan, at)
    return is_below(_place_in_log(change), [barrier], plan.incarnations)


def _place_in_log(change: Mapping[str, Any]) -> PlaceInLog:
    return PlaceInLog(*(change[name] for name in COORDINATES[:-1]))


def _place(plan: FoldPlan, change: Mapping[str, Any]) -> tuple[Any, ...]:
    era = plan.incarnations.of(_place_in_log(change).identity)
    era = len(plan.eras) if era is None else era
    sources = {c.name: c.source for c in plan.sequence}
    at = {n: era if n == ERA else change[sources.get(n, n)] for n in order_names(plan)}
    return tuple((value is not None, value) for value in at.values())


def _texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Values as texts; a boolean as SQL writes it."""
    texts = {n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in values.items()}
    return {n: None if values[n] is None else text for n, text in texts.items()}


def _text(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{n}={'null' if v is None else v}" for n, v in values.items())
