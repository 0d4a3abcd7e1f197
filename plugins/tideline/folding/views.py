"""SQL over the tables, for three engines: the rows of now between two folds, and their history.

The view of now is the table, and over it the changes that it does not have yet. Which these are is
told by the coordinates that were folded when the view was made. Folds that come later make it no
less right: a change that is in the table by then is the last one of its key in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tideline.errors import BadInput
from tideline.folding.planning import plan_look
from tideline.landing.context import RunContext
from tideline.model.current import (
    BUCKET,
    COORDINATES,
    ERA,
    IS_DELETED,
    Barrier,
    FoldPlan,
    order_names,
)
from tideline.model.decoding import UNAVAILABLE
from tideline.model.offsets import Coverage
from tideline.table.schema import current_columns

Engine = Literal["spark", "duckdb", "trino"]
_ERA, _RANK, _LAST = "tideline_era", "tideline_rank", "tideline_last"
_GONE, _TRUNCATES = "tideline_gone", "tideline_truncates"
_FILLED, _CAME = "tideline_filled_", "tideline_came_"
"""Names that no table has."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes what the three write in different ways.

    Args:
        quote: Around a name.
        text: The type of texts.
        contains: The function that looks for a value in an array.
        table: A table at an address; None where the engine knows tables by names only.
    """

    quote: str
    text: str
    contains: str
    table: str | None

    def name(self, name: str) -> str:
        """A column's name."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def literal(self, text: str) -> str:
        """A text."""
        doubled = text.replace("\\", "\\\\") if self.quote == "`" else text
        return "'" + doubled.replace("'", "\\'" if self.quote == "`" else "''") + "'"


DIALECTS: Mapping[Engine, Dialect] = {
    "spark": Dialect("`", "STRING", "array_contains", "delta.`{}`"),
    "duckdb": Dialect('"', "VARCHAR", "list_contains", "delta_scan('{}')"),
    "trino": Dialect('"', "VARCHAR", "contains", None),
}


def view_of(
    run: RunContext, engine: Engine, names: tuple[str, str] | None, *, is_history: bool
) -> str:
    """A query over the current table and the typed one.

    Args:
        run: This run; its stream has a current table.
        engine: Whose SQL it is.
        names: What the engine calls the current table and the typed one; None: their addresses.
        is_history: Whether each row of each time is wanted, with `valid_from` and `valid_to`.

    Raises:
        BadInput: Nothing is folded, or changes are others since; or the engine needs names.
        ServiceAway: A store is away.
    """
    state = run.ledger.read()
    plan = plan_look(run, state)
    if plan is None:
        raise BadInput(
            f"stream {run.stream.stream}: nothing is folded yet: tideline fold FILE first"
        )
    dialect = DIALECTS[engine]
    assert run.stream.decode is not None
    if names is None:
        if dialect.table is None:
            raise BadInput(
                f"--names: got nothing; {engine} knows tables by names only: give the current"
                " table's and the typed table's"
            )
        current, typed = plan.table_uri, run.stream.decode.table.uri
        if engine == "duckdb":  # it knows no Hadoop
            current, typed = (uri.replace("s3a://", "s3://", 1) for uri in (current, typed))
        names = (dialect.table.format(current), dialect.table.format(typed))
    assert run.current is not None
    there = {c["name"] for c in run.current.columns()}
    lacking = tuple(str(f["name"]) for f in current_columns(plan) if f["name"] not in there)
    query = Query(plan, dialect, *names, lacking)
    if is_history:
        return query.history()
    return query.now(state.folding.coverage, state.folding.barrier)


@dataclass(frozen=True, slots=True)
class Query:
    """The parts of one query.

    Args:
        plan: What the columns are, and how they are ordered.
        current, typed: The tables, in the engine's words.
        lacking: Columns that the next fold adds to the current table.
    """

    plan: FoldPlan
    dialect: Dialect
    current: str
    typed: str
    lacking: tuple[str, ...] = ()

    def now(self, folded: tuple[Coverage, ...], barrier: Barrier | None) -> str:
        """One row for each key that is there."""
        q, keys = self.dialect.name, self._names(self.plan.layout.key)
        named = [q(n) for n in self._columns()]
        of_key = f"PARTITION BY {keys} ORDER BY"
        came = {n: f"({_RANK} > {_GONE} AND NOT {self._lacks(n)})" for n in self._fillable()}
        filled = [
            part
            for n, has in came.items()
            for part in (
                f"first_value(CASE WHEN {has} THEN {q(n)} END) OVER ({of_key} CASE WHEN {has}"
                f" THEN 0 ELSE 1 END, {_RANK} DESC) AS {q(_FILLED + n)}",
                f"max(CASE WHEN {has} THEN 1 ELSE 0 END) OVER (PARTITION BY {keys})"
                f" AS {q(_CAME + n)}",
            )
        ]
        gone = f"max(CASE WHEN {IS_DELETED} THEN {_RANK} ELSE 0 END) OVER (PARTITION BY {keys})"
        place = ", ".join(q(n) for n in self._place())
        rows = ", ".join(self._value(n) for n in self._columns())
        since = self._after_barrier("b", barrier)
        added = "".join(f", NULL AS {q(n)}" for n in self.lacking)
        is_key = " OR ".join(f"{q(n)} IS NOT NULL" for n in self.plan.layout.key)
        return f"""WITH unfolded AS (
  SELECT {", ".join(self._of_typed(self._below()))}
  FROM {self.typed}
  WHERE NOT ({self._folded(folded)})
),
{self._truncated()}numbered AS (
  SELECT *, row_number() OVER ({of_key} {place}) AS {_RANK},
    row_number() OVER ({of_key} {", ".join(f"{q(n)} DESC" for n in self._place())}) AS {_LAST}
  FROM unfolded WHERE ({is_key})
),
changed AS (
  SELECT *, {gone} AS {_GONE} FROM numbered
),
latest AS (
  SELECT {", ".join(["*", *filled])} FROM changed
),
standing AS (
  SELECT *, {self._era()} AS {_ERA}{added} FROM {self.current}
),
united AS (
  SELECT {", ".join(named)}, {_ERA}, {IS_DELETED} FROM standing AS c
  WHERE NOT EXISTS (SELECT 1 FROM latest AS l WHERE {self._same_key()})
  UNION ALL
  SELECT {rows}, CASE WHEN {self._takes()} THEN l.{_ERA} ELSE c.{_ERA} END AS {_ERA},
    CASE WHEN {self._takes()} THEN l.{IS_DELETED} ELSE c.{IS_DELETED} END AS {IS_DELETED}
  FROM latest AS l LEFT JOIN standing AS c ON {self._same_key()} WHERE l.{_LAST} = 1
)
SELECT {", ".join(named)} FROM united AS b WHERE NOT {IS_DELETED}{since}
"""

    def history(self) -> str:
        """Each row of each key, from when to when it was so; `valid_to` is exclusive."""
        q, keys = self.dialect.name, self._names(self.plan.layout.key)
        place = ", ".join(q(n) for n in self._place())
        over = f"OVER (PARTITION BY {keys} ORDER BY {place})"
        at = q("timestamp")
        named = ", ".join(q(n) for n in self._columns() if n != "timestamp")
        is_key = " OR ".join(f"{q(n)} IS NOT NULL" for n in self.plan.layout.key)
        return f"""WITH changed AS (
  SELECT {", ".join(self._of_typed(()))} FROM {self.typed}
),
numbered AS (
  SELECT *, lead({at}) {over} AS valid_to FROM changed WHERE ({is_key})
)
SELECT {named}, {at} AS valid_from, valid_to FROM numbered WHERE NOT {IS_DELETED}
"""

    def _columns(self) -> list[str]:
        """The view's columns: the table's, without those of deleted rows and buckets."""
        every = (str(field["name"]) for field in current_columns(self.plan))
        hidden = (IS_DELETED, BUCKET, *(c.name for c in self.plan.sequence))
        return [name for name in every if name not in hidden]

    def _names(self, names: tuple[str, ...]) -> str:
        return ", ".join(map(self.dialect.name, names))

    def _place(self) -> tuple[str, ...]:
        return tuple(_ERA if n == ERA else n for n in order_names(self.plan))

    def _fillable(self) -> list[str]:
        if not self.plan.has_unavailable:
            return []
        return [c.name for c in self.plan.columns if c.name not in self.plan.layout.key]

    def _era(self) -> str:
        """A later incarnation of the topic counts more; one that nobody knows yet the most."""
        known = self.plan.eras
        cases = " ".join(f"WHEN {self.dialect.literal(t)} THEN {n}" for n, t in enumerate(known))
        return f"CASE topic_id {cases} ELSE {len(known)} END"

    def _of_typed(self, also: Sequence[str]) -> list[str]:
        """The view's columns of a typed row, whether it deletes, and its incarnation.

        Args:
            also: More conditions under which it does.
        """
        q, plan = self.dialect.name, self.plan
        parts = [f"{q(c.source)} AS {q(c.name)}" for c in (*plan.columns, *plan.sequence)]
        parts += [q(name) for name in COORDINATES]
        parts += [UNAVAILABLE] if plan.has_unavailable else []
        parts += [f"op = 't' AS {_TRUNCATES}"] if plan.has_truncates else []
        deletes = ["is_tombstone"] if plan.deletes.tombstones else []
        if plan.deletes.column is not None:
            text = f"CAST({q(plan.deletes.column)} AS {self.dialect.text})"
            deletes.append(f"coalesce({text} = {self.dialect.literal(plan.deletes.equals)}, FALSE)")
        parts.append(f"({' OR '.join([*deletes, *also]) or 'FALSE'}) AS {IS_DELETED}")
        return [*parts, f"{self._era()} AS {_ERA}"]

    def _below(self) -> list[str]:
        """Whether a change is below the floors; as the fold has it."""
        q, text = self.dialect.name, self.dialect.literal
        return [
            *(f"topic_id = {text(t)}" for t in self.plan.eras_below(self.plan.floors)),
            *(
                f"(topic_id = {text(f.topic_id)} AND {q('partition')} = {f.partition} AND"
                f" (generation < {f.generation} OR generation = {f.generation}"
                f" AND {q('offset')} < {f.offset}))"
                for f in self.plan.floors
            ),
        ]

    def _folded(self, coverage: tuple[Coverage, ...]) -> str:
        """Whether a typed row's change was in the table when the view was made."""
        q, text = self.dialect.name, self.dialect.literal
        return " OR ".join(
            f"(topic_id = {text(c.identity.topic_id)} AND generation = {c.identity.generation}"
            f" AND {q('partition')} = {c.identity.partition} AND {q('offset')} >= {r.start_offset}"
            f" AND {q('offset')} < {r.end_offset})"
            for c in coverage
            for r in c.intervals
        )

    def _lacks(self, name: str, of: str = "") -> str:
        return (
            f"coalesce({self.dialect.contains}({of}{UNAVAILABLE},"
            f" {self.dialect.literal(name)}), FALSE)"
        )

    def _same_key(self) -> str:
        keys = [self.dialect.name(n) for n in self.plan.layout.key]
        if len(keys) == 1:
            return f"l.{keys[0]} = c.{keys[0]}"
        return " AND ".join(f"l.{k} IS NOT DISTINCT FROM c.{k}" for k in keys)

    def _takes(self) -> str:
        """Whether a change counts, and not the row that stands there."""
        return f"(c.{_ERA} IS NULL OR NOT {self._is_before('l', 'c')})"

    def _is_before(self, one: str, other: str) -> str:
        """Whether a row is before another one, column by column."""
        found = "FALSE"
        for name in map(self.dialect.name, reversed(self._place())):
            less, same = f"{one}.{name} < {other}.{name}", f"{one}.{name} = {other}.{name}"
            found = f"({less} OR ({same} AND {found}))"
        return found

    def _value(self, name: str) -> str:
        """A column of a key with changes: of the change that counts, or of what came before it."""
        q = self.dialect.name(name)
        value = f"l.{q}"
        if name in self._fillable():
            earlier = f"CASE WHEN l.{_GONE} = 0 AND NOT c.{IS_DELETED} THEN c.{q} END"
            came = self.dialect.name(_CAME + name)
            filled = self.dialect.name(_FILLED + name)
            value = (
                f"CASE WHEN NOT {self._lacks(name, 'l.')} THEN {value}"
                f" WHEN l.{came} = 1 THEN l.{filled} ELSE {earlier} END"
            )
        return f"CASE WHEN {self._takes()} THEN {value} ELSE c.{q} END AS {q}"

    def _truncated(self) -> str:
        """Where the last change stands that says that all rows are gone."""
        if not self._truncates:
            return ""
        place = ", ".join(self.dialect.name(n) for n in self._place())
        return f"""truncated AS (
  SELECT {place} FROM (
    SELECT {place}, row_number() OVER (ORDER BY {self._descending()}) AS {_LAST}
    FROM unfolded WHERE {_TRUNCATES}
  ) AS t WHERE {_LAST} = 1
),
"""

    @property
    def _truncates(self) -> bool:
        """Whether a change may say that all rows are gone: by a declared order none can."""
        return self.plan.has_truncates and self.plan.order != "sequence"

    def _descending(self) -> str:
        return ", ".join(f"{self.dialect.name(n)} DESC" for n in self._place())

    def _after_barrier(self, row: str, folded: Barrier | None) -> str:
        if not self._truncates:
            return ""
        is_gone = f"EXISTS (SELECT 1 FROM truncated AS t WHERE {self._is_before(row, 't')})"
        if folded is None:
            return f" AND NOT {is_gone}"
        q = self.dialect.name
        era = self.plan.eras.index(folded.topic_id)
        at = f"TIMESTAMP {self.dialect.literal(folded.timestamp.isoformat(' '))}"
        known = {_ERA: era, "timestamp": at} | {
            n: getattr(folded, n) for n in ("generation", "partition", "offset")
        }
        literal = ", ".join(f"{known[n]} AS {q(n)}" for n in self._place())
        also = f"EXISTS (SELECT 1 FROM (SELECT {literal}) AS t WHERE {self._is_before(row, 't')})"
        return f" AND NOT {is_gone} AND NOT {also}"
