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
from tideline.folding.current_tables import refuse_taken
from tideline.folding.fold_planning import plan_recompute
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
from tideline.model.places import Places
from tideline.table.schema import current_columns

Engine = Literal["spark", "duckdb", "trino"]
_ERA, _LAST, _TRUNCATES = "tideline_era", "tideline_last", "tideline_truncates"
_LIFE, _SPELL, _UNTIL = "tideline_life", "tideline_spell", "tideline_until"
_FILLED, _CAME = "tideline_filled_", "tideline_came_"
_OF_ROW, _STANDS = "tideline_of_row", "tideline_stands"
"""Names that no table has."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes what the three write in different ways.

    Args:
        quote: Around a name.
        text: The type of texts.
        contains: The function that looks for a value in an array.
        instant: The type of times that stand in no zone.
        mapped: A list with something else in the place of each `x` in it.
        table: A table at an address; None where the engine knows tables by names only.
    """

    quote: str
    text: str
    contains: str
    instant: str
    mapped: str
    table: str | None

    def name(self, name: str) -> str:
        """A column's name."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def literal(self, text: str) -> str:
        """A text."""
        doubled = text.replace("\\", "\\\\") if self.quote == "`" else text
        return "'" + doubled.replace("'", "\\'" if self.quote == "`" else "''") + "'"


_LAMBDA = "transform({}, x -> {})"
DIALECTS: Mapping[Engine, Dialect] = {
    "spark": Dialect("`", "STRING", "array_contains", "TIMESTAMP", _LAMBDA, "delta.`{}`"),
    "duckdb": Dialect(
        '"', "VARCHAR", "list_contains", "TIMESTAMPTZ", "[{1} FOR x IN {0}]", "delta_scan('{}')"
    ),
    "trino": Dialect('"', "VARCHAR", "contains", "TIMESTAMP", _LAMBDA, None),
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
        BadInput: Nothing is folded, or changes are others since, or others have changed the table;
            or the engine needs names.
        ServiceAway: A store is away.
    """
    state = run.ledger.read()
    plan = plan_recompute(run, state)
    if plan is None:
        raise BadInput(
            f"stream {run.stream.stream}: no row is folded yet: run tideline fold FILE first"
        )
    refuse_taken(run, state)
    dialect = DIALECTS[engine]
    assert run.stream.decode is not None
    if names is None:
        if dialect.table is None:
            raise BadInput(
                f"--names: got nothing; {engine} knows tables by names only: give the current"
                " table's and the typed table's"
            )
        current, typed = plan.table_uri, run.stream.source.table.uri
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

    def now(self, folded: Places, barrier: Barrier | None) -> str:
        """One row for each key that is there."""
        q = self.dialect.name
        named = ", ".join(q(n) for n in self._columns())
        filled = {n: f"l.{q(_FILLED + n)} AS {q(n)}" for n in self._fillable()}
        rows = ", ".join(filled.get(n, f"l.{q(n)}") for n in self._columns())
        both = ", ".join([*map(q, self._merged()), _ERA, _STANDS])
        stays = self._stays("u") if self._truncates else ""
        added = "".join(f", NULL AS {q(n)}" for n in self.lacking)
        return f"""WITH unfolded AS (
  SELECT {", ".join(self._of_typed(self._below()))}
  FROM {self.typed}
  WHERE NOT ({self._folded(folded)})
),
{self._truncated("unfolded", barrier)}newer AS (
  SELECT {both} FROM unfolded AS u WHERE {_OF_ROW}{stays}
),
standing AS (
  SELECT u.* FROM (
    SELECT *, {self._era()} AS {_ERA}, 1 AS {_STANDS}{added} FROM {self.current}
  ) AS u WHERE TRUE{stays}
),
{self._living(both, folded)}
{self._lives((), f"row_number() OVER ({self._of_key(())} {self._descending()}) AS {_LAST}")}
united AS (
  SELECT {named}, {IS_DELETED} FROM standing AS c
  WHERE NOT EXISTS (SELECT 1 FROM newer AS l WHERE {self._same_key()})
  UNION ALL
  SELECT {rows}, l.{IS_DELETED} FROM filled AS l WHERE l.{_LAST} = 1
)
SELECT {named} FROM united WHERE NOT {IS_DELETED}
"""

    def _living(self, both: str, folded: Places) -> str:
        """`living`: of each key that has changes these, and its row of the table.

        A row that was filled, of a change whose place nobody knows, does not count where an older
        change has come since: all changes of its key do. The fold makes its bucket anew then.
        """
        changed = f"EXISTS (SELECT 1 FROM newer AS l WHERE {self._same_key()}"
        if not self._fillable():
            rest = f"  SELECT {both} FROM standing AS c WHERE {changed})"
            return f"living AS (\n  SELECT * FROM newer\n  UNION ALL\n{rest}\n),"
        stays = self._stays("c") if self._truncates else ""
        return f"""doubted AS (
  SELECT {self._names(self.plan.layout.key)} FROM standing AS c
  WHERE {UNAVAILABLE} IS NOT NULL AND {changed} AND {self._is_before("l", "c")})
),
living AS (
  SELECT * FROM newer
  UNION ALL
  SELECT {both} FROM standing AS c
  WHERE {changed}) AND NOT EXISTS (SELECT 1 FROM doubted AS l WHERE {self._same_key()})
  UNION ALL
  SELECT {both} FROM (
    SELECT {", ".join(self._of_typed(self._below()))}
    FROM {self.typed} WHERE {self._folded(folded)}
  ) AS c
  WHERE {_OF_ROW}{stays} AND EXISTS (SELECT 1 FROM doubted AS l WHERE {self._same_key()})
),"""

    def history(self) -> str:
        """Each row of each key, from when to when it was so; `valid_to` is exclusive."""
        q, at = self.dialect.name, self.dialect.name("timestamp")
        names = [n for n in self._columns() if n != "timestamp"]
        named = ", ".join(
            f"{q(_FILLED + n)} AS {q(n)}" if n in self._fillable() else q(n) for n in names
        )
        until = f"lead({at}) OVER ({self._of_key((_LIFE,))} {self._ascending()})"
        if not self._truncates:
            return f"""WITH living AS (
  SELECT *, 0 AS {_LIFE} FROM (SELECT {", ".join(self._of_typed(()))} FROM {self.typed}) AS u
  WHERE {_OF_ROW}
),
{self._lives((_LIFE,), f"{until} AS valid_to").rstrip(",")}
SELECT {named}, {at} AS valid_from, valid_to FROM filled WHERE NOT {IS_DELETED}
"""
        place = [q(n) for n in COORDINATES[:-1]]
        same = " AND ".join(f"u.{n} = e.{n}" for n in place)
        ended = ", ".join(f"u.{n}" for n in place)
        return f"""WITH changed AS (
  SELECT {", ".join(self._of_typed(()))} FROM {self.typed}
),
truncated AS (
  SELECT {self._names(self._place())}, {at} AS {_UNTIL},
    row_number() OVER (ORDER BY {self._ascending()}) AS {_LIFE}
  FROM changed WHERE {_TRUNCATES}
),
ended AS (
  SELECT {ended}, min(t.{_LIFE}) AS {_LIFE}
  FROM changed AS u JOIN truncated AS t ON {self._is_truncated("u", "t")} GROUP BY {ended}
),
living AS (
  SELECT u.*, coalesce(e.{_LIFE}, 0) AS {_LIFE}, t.{_UNTIL} FROM changed AS u
  LEFT JOIN (SELECT {", ".join(place)}, {_LIFE} FROM ended) AS e ON {same}
  LEFT JOIN (SELECT {_LIFE} AS {_LAST}, {_UNTIL} FROM truncated) AS t ON t.{_LAST} = e.{_LIFE}
  WHERE {_OF_ROW}
),
{self._lives((_LIFE,), f"coalesce({until}, {_UNTIL}) AS valid_to").rstrip(",")}
SELECT {named}, {at} AS valid_from, valid_to FROM filled WHERE NOT {IS_DELETED}
"""

    def _lives(self, life: tuple[str, ...], more: str) -> str:
        """`filled`: the changes of `living`, each with the values that it did not bring.

        A key's life ends with a delete, and with a change that says that all rows are gone: values
        come from changes of the same life only.

        Args:
            life: The column that tells lives apart which a truncate has ended, if there is one.
            more: One more column.
        """
        q, names = self.dialect.name, self._fillable()
        over = "ROWS UNBOUNDED PRECEDING) AS"
        spell = f"sum(CASE WHEN {IS_DELETED} THEN 1 ELSE 0 END)"
        came = [
            f"sum(CASE WHEN {IS_DELETED} OR {self._lacks(n)} THEN 0 ELSE 1 END) OVER"
            f" ({self._of_key((*life, _SPELL))} {self._ascending()} {over} {q(_CAME + n)}"
            for n in names
        ]
        filled = [
            f"first_value(CASE WHEN {q(_CAME + n)} > 0 THEN {q(n)} END) OVER"
            f" ({self._of_key((*life, _SPELL, q(_CAME + n)))} {self._ascending()}"
            f" {over} {q(_FILLED + n)}"
            for n in names
        ]
        return f"""spells AS (
  SELECT *, {spell} OVER ({self._of_key(life)} {self._ascending()} {over} {_SPELL}, {more}
  FROM living
),
came AS (
  SELECT {", ".join(["*", *came])} FROM spells
),
filled AS (
  SELECT {", ".join(["*", *filled])} FROM came
),"""

    def _of_key(self, more: tuple[str, ...]) -> str:
        keys = self._names(self.plan.layout.key)
        return f"PARTITION BY {', '.join([keys, *more])} ORDER BY"

    def _columns(self) -> list[str]:
        """The view's columns: the table's, without those of deleted rows and buckets."""
        every = (str(field["name"]) for field in current_columns(self.plan))
        hidden = (IS_DELETED, BUCKET, *(c.name for c in self.plan.sequence))
        return [name for name in every if name not in hidden]

    def _merged(self) -> list[str]:
        """What a change and a row of the table both have."""
        own = [UNAVAILABLE] if self.plan.has_unavailable else []
        rows = (c.name for c in (*self.plan.columns, *self.plan.sequence))
        return [*rows, *COORDINATES, *own, IS_DELETED]

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
        text, cases = self.dialect.literal, list[str]()
        for topic_id, partition, generation, n in reversed(self.plan.incarnations.conditions):
            of_log = f" AND {self.dialect.name('partition')} = {partition}"
            of_log += f" AND generation >= {generation}"
            is_its = f"topic_id = {text(topic_id)}{'' if partition is None else of_log}"
            cases.append(f"WHEN {is_its} THEN {n}")
        return f"CASE {' '.join(cases)} ELSE {len(self.plan.eras)} END"

    def _of_typed(self, also: Sequence[str]) -> list[str]:
        """The view's columns of a typed row, whether it deletes, and where it stands.

        Args:
            also: More conditions under which it does.
        """
        q, plan = self.dialect.name, self.plan
        parts = [f"{q(c.source)} AS {q(c.name)}" for c in (*plan.columns, *plan.sequence)]
        parts += [q(name) for name in COORDINATES]
        parts += [f"{self._renamed()} AS {UNAVAILABLE}"] if plan.has_unavailable else []
        parts += [f"op = 't' AS {_TRUNCATES}"] if plan.has_truncates else []
        deletes = ["is_tombstone"] if plan.deletes.tombstones else []
        for column, mark in plan.marks:
            text = f"CAST({q(column)} AS {self.dialect.text})"
            deletes.append(f"coalesce({text} = {self.dialect.literal(mark)}, FALSE)")
        parts.append(f"({' OR '.join([*deletes, *also]) or 'FALSE'}) AS {IS_DELETED}")
        parts.append(f"({self._is_of_row()}) AS {_OF_ROW}")
        return [*parts, f"{self._era()} AS {_ERA}", f"0 AS {_STANDS}"]

    def _renamed(self) -> str:
        """The columns whose values did not come, by their names in the table."""
        names, text = self.plan.renamed, self.dialect.literal
        if not names:
            return UNAVAILABLE
        cases = " ".join(f"WHEN {text(old)} THEN {text(new)}" for old, new in names.items())
        return self.dialect.mapped.format(UNAVAILABLE, f"CASE x {cases} ELSE x END")

    def _is_of_row(self) -> str:
        """Whether a typed row says something of one row; as the fold has it."""
        key = " OR ".join(f"{self.dialect.name(n)} IS NOT NULL" for n in self.plan.layout.key)
        found = [f"({key})"]
        if self.plan.has_truncates:
            found.append("coalesce(op <> 't', TRUE)")
        if self.plan.deletes.passes:
            found.append("coalesce(NOT is_tombstone, TRUE)")
        return " AND ".join(found)

    def _below(self) -> list[str]:
        """Whether a change is below the floors; as the fold has it."""
        q, text = self.dialect.name, self.dialect.literal
        return [
            *(
                f"{self._era()} < {self.plan.incarnations.of(floor.identity)}"
                for floor in self.plan.floors[:1]
            ),
            *(
                f"(topic_id = {text(f.topic_id)} AND {q('partition')} = {f.partition} AND"
                f" (generation < {f.generation} OR generation = {f.generation}"
                f" AND {q('offset')} < {f.offset}))"
                for f in self.plan.floors
            ),
        ]

    def _folded(self, coverage: Places) -> str:
        """Whether a typed row's change was in the table when the view was made."""
        q, text = self.dialect.name, self.dialect.literal
        ranges = [
            f"(topic_id = {text(log.topic_id)} AND generation = {log.generation}"
            f" AND {q('partition')} = {log.partition} AND {q('offset')} >= {r.start_offset}"
            f" AND {q('offset')} < {r.end_offset})"
            for log, r in coverage.pieces
        ]
        return " OR ".join(ranges) or "FALSE"

    def _lacks(self, name: str) -> str:
        """Whether a value did not come; a row of the table may name one that it was filled with."""
        q, named = self.dialect.name(name), self.dialect.literal(name)
        return f"({q} IS NULL AND coalesce({self.dialect.contains}({UNAVAILABLE}, {named}), FALSE))"

    def _same_key(self) -> str:
        keys = [self.dialect.name(n) for n in self.plan.layout.key]
        if len(keys) == 1:
            return f"l.{keys[0]} = c.{keys[0]}"
        return " AND ".join(f"l.{k} IS NOT DISTINCT FROM c.{k}" for k in keys)

    def _is_before(self, one: str, other: str) -> str:
        """Whether a row is before another one, column by column."""
        found = "FALSE"
        for name in reversed(self._place()):
            mine, its = (self._ordering(name, f"{row}.") for row in (one, other))
            found = f"({mine} < {its} OR ({mine} = {its} AND {found}))"
        return found

    def _ordering(self, name: str, row: str = "") -> str:
        """A column of the order, as the fold has it; a record without a time is before others."""
        column = f"{row}{self.dialect.name(name)}"
        if name != "timestamp":
            return column
        return f"coalesce({column}, {self.dialect.instant} '0001-01-01 00:00:00+00:00')"

    @property
    def _truncates(self) -> bool:
        """Whether a change may say that all rows are gone: by a declared order none can."""
        return self.plan.has_truncates and self.plan.order != "sequence"

    def _truncated(self, changes: str, folded: Barrier | None) -> str:
        """Where the changes stand that say that all rows are gone, folded or not."""
        if not self._truncates:
            return ""
        names = [self.dialect.name(n) for n in self._place()]
        found = f"SELECT {', '.join(names)} FROM {changes} WHERE {_TRUNCATES}"
        if folded is not None:
            at = f"{self.dialect.instant} {self.dialect.literal(folded.timestamp.isoformat(' '))}"
            known = {_ERA: self.plan.incarnations.of(folded.identity), "timestamp": at} | {
                n: getattr(folded, n) for n in ("generation", "partition", "offset")
            }
            literal = ", ".join(f"{known[n]} AS {self.dialect.name(n)}" for n in self._place())
            found += f" UNION ALL SELECT {literal}"
        return f"truncated AS (\n  {found}\n),\n"

    def _stays(self, row: str) -> str:
        """Whether no truncate has ended a row."""
        ended = self._is_truncated(row, "t")
        return f" AND NOT EXISTS (SELECT 1 FROM truncated AS t WHERE {ended})"

    def _is_truncated(self, row: str, truncate: str) -> str:
        """Whether a truncate has ended a row; as the fold has it.

        By offsets one speaks of its own partition and of older incarnations.
        """
        if self.plan.order == "time":
            return self._is_before(row, truncate)
        q, one, other = self.dialect.name, row, truncate
        place, generation = q("offset"), "generation"
        return (
            f"({one}.{_ERA} < {other}.{_ERA} OR ({one}.{_ERA} = {other}.{_ERA}"
            f" AND {one}.{q('partition')} = {other}.{q('partition')}"
            f" AND ({one}.{generation} < {other}.{generation}"
            f" OR ({one}.{generation} = {other}.{generation}"
            f" AND {one}.{place} < {other}.{place}))))"
        )

    def _ascending(self) -> str:
        """Of one place the table's row is the later: a fold may have made it of that change."""
        return ", ".join(map(self._ordering, (*self._place(), _STANDS)))

    def _descending(self) -> str:
        return ", ".join(f"{self._ordering(n)} DESC" for n in (*self._place(), _STANDS))
