"""The current table: one row a key, folded from the typed table.

    Layout          what is fixed when the table is created
    FoldPlan        the frozen input of one fold: coordinates, typed version, columns, order
    BucketState     what one bucket holds, as a fold has left it
    FoldRecord      that plan, and what it came to
    Folding         the fold's own head: what is folded, the plan that is open, the buckets

A *change* is a typed row: a record that says what a key's row is now, or that it is gone. Of all
changes of a key the last one in one total order counts, so folding is idempotent, commutative and
associative: in any order, in any portions, again, the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from tideline.model.decoding import without_case
from tideline.model.head import KnownCommit
from tideline.model.incident import Incident
from tideline.model.offsets import (
    CoordinateRange,
    Incarnations,
    OffsetRange,
    PartitionIdentity,
    PlaceInLog,
)
from tideline.model.places import NOWHERE, Places

Order = Literal["offset", "sequence", "time"]
"""By offset within a key's partition; by declared columns; or, where a decision says so, by Kafka's
time."""
FoldRequest = Literal["due", "anew"]
"""To fold what is due; or every bucket anew: what stands in the table counts for nothing."""
HASH = "xxhash64"
"""Of Spark, over the key's canonical text. Others never compute it: the bucket is a column."""
OLD_SUMS, _SUMS_OF_TEXTS, SUMS = "xxhash64", "xxhash64-parts", "xxhash64-bytes"
"""What the sums of buckets are of: a row's hash. The oldest one passed over nulls and ends of lists
inside a value; the second one hashed a VARIANT's JSON text in place of its bytes. Of a row without
such values all are the same. Between the first two was one, in no release, that a new field inside
of a value changed."""
COORDINATES = ("topic_id", "generation", "partition", "offset", "timestamp")
"""Of a row's last change."""
IS_DELETED, BUCKET = "is_deleted", "bucket"
INNER = "_tideline_"
"""How the names begin that a fold uses beside the table's columns."""


def taken_by_table(key: Sequence[str], sequence: Sequence[str]) -> str | None:
    """What is wrong with a key whose columns are called as the table's own, in words."""
    own = {*COORDINATES, IS_DELETED, BUCKET, *(f"sequence_{n}" for n, _ in enumerate(sequence, 1))}
    for name in key:
        if (folded := without_case(name)) in own or folded.startswith(INNER):
            return (
                f"the current table has a column {folded} of its own. Give the field another one in"
                f" fields of decode.key or decode.value: {{field: {name}, as: ANOTHER}}"
            )
    return None


@dataclass(frozen=True, slots=True)
class Layout:
    """What is fixed when the table is created; another one is another table.

    Args:
        key: The typed table's columns that make a key.
        buckets: How many there are; a key is in the one that its hash names.
        hash: Which hash.
        sequence: The typed table's columns that order a key's changes; none for offsets.
        type: The event type whose typed table is folded; empty where there is one typed table.
    """

    key: tuple[str, ...]
    buckets: int
    hash: str = HASH
    sequence: tuple[str, ...] = ()
    type: str = ""


def _has_variant(kind: object) -> bool:
    """Whether a type is VARIANT, or has one in it; as Delta and Spark write it in JSON."""
    if isinstance(kind, Mapping):
        parts = [kind.get(name) for name in ("elementType", "keyType", "valueType")]
        return any(map(_has_variant, (*parts, *(f["type"] for f in kind.get("fields", ())))))
    return kind == "variant"


@dataclass(frozen=True, slots=True)
class CurrentColumn:
    """A column of the current table.

    Args:
        name: Its name.
        source: The typed table's column that it is.
        type: As Delta and Spark write it in JSON.
    """

    name: str
    source: str
    type: object


@dataclass(frozen=True, slots=True)
class Deletes:
    """Which changes say that a key's row is gone.

    Args:
        tombstones: Records without a value do.
        column, equals: So does a change with that text in a typed column; None for no such rule.
        untold: Columns of the table's key that the record's key does not tell: a change event that
            deletes may lack their values, and the record without a value behind it has none.
        told: Columns of the record's key, where there are such.
        passes: Whether records without a value are there, and are of no row.
    """

    tombstones: bool
    column: str | None = None
    equals: str = ""
    untold: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    passes: bool = False


@dataclass(frozen=True, slots=True)
class Barrier(PlaceInLog):
    """The last record that said that all rows are gone (`op` `t`): older changes count no more.

    Rows that it has ended stay at their own last changes. By offsets it speaks of its own
    partition, and of older incarnations of the topic.
    """

    timestamp: datetime


@dataclass(frozen=True, slots=True)
class Floor(PlaceInLog):
    """Where a snapshot begins in one log: rows whose last change is below are not at the source.

    The offset is the first one (inclusive) that the snapshot, or what came after it, may have.
    """


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """The frozen input of one fold. Every retry, clear and recovery executes exactly this.

    Args:
        plan_id: Derived from the run that froze it, and the fold's number.
        run_id: That run.
        frozen_at: When, UTC-aware.
        typed_table_id: Delta's id of the typed table, when the plan was frozen.
        typed_version: Version of the typed table that is read.
        ranges: Coordinates whose changes are folded; ends are exclusive.
        again: Coordinates that were folded before, whose changes are others now, or gone.
        covered: All coordinates that are decoded: a bucket that is folded anew is made of these.
        is_anew: Whether every bucket is folded anew; what stands there counts for nothing.
        layout: Key and buckets.
        columns: The key's, then the row's.
        has_unavailable: Whether changes may lack values of columns.
        has_truncates: Whether the rows are of change events: one with `op` `t` says that all rows
            are gone, one with `op` `d` deletes.
        deletes: Which changes delete besides.
        eras: Ids of the topic and of those that it has replaced, oldest first.
        returns: As of `Incarnations`, of topic ids that have come back.
        partitions: Of each topic id how many partitions it has, with and without records.
        order: What the last change is.
        barrier: The last one that is folded; None for none.
        table_uri: The current table.
        by: Who has asked for it; None for a schedule.
        floors: A change below them counts as a delete; one for each partition, or none.
        is_sweep: Whether these are new, and rows below them go.
        sequence: What orders a key's changes before their coordinates do, if anything does.
        drops: Deleted rows below them are dropped; one for each partition, or none.
        is_drop: Whether every bucket is summed and written: these are new, or others have taken
            rows away since the last fold.
        unproven_since: When the first such plan was frozen after deletes were lost; None for none.
        sums: Which hash of a row the buckets' sums are of.
    """

    plan_id: str
    run_id: str
    frozen_at: datetime
    typed_table_id: str
    typed_version: int
    ranges: tuple[CoordinateRange, ...]
    again: tuple[CoordinateRange, ...]
    covered: tuple[CoordinateRange, ...]
    is_anew: bool
    layout: Layout
    columns: tuple[CurrentColumn, ...]
    has_unavailable: bool
    has_truncates: bool
    deletes: Deletes
    eras: tuple[str, ...]
    order: Order
    barrier: Barrier | None
    table_uri: str
    by: str | None = None
    floors: tuple[Floor, ...] = ()
    is_sweep: bool = False
    sequence: tuple[CurrentColumn, ...] = ()
    drops: tuple[Floor, ...] = ()
    is_drop: bool = False
    unproven_since: datetime | None = None
    returns: tuple[PartitionIdentity, ...] = ()
    partitions: tuple[tuple[str, int], ...] = ()
    sums: str = OLD_SUMS

    @property
    def marks(self) -> tuple[tuple[str, str], ...]:
        """Typed columns, each with the text by which a change deletes."""
        found = [("op", "d")] if self.has_truncates else []
        if self.deletes.column is not None:
            found.append((self.deletes.column, self.deletes.equals))
        return tuple(dict.fromkeys(found))

    @property
    def renamed(self) -> dict[str, str]:
        """Names in the table by those in the typed table, where they differ."""
        return {c.source: c.name for c in self.columns if c.name != c.source}

    @property
    def incarnations(self) -> Incarnations:
        """The topic's incarnations, oldest first."""
        return Incarnations(self.eras, self.returns)


@dataclass(frozen=True, slots=True, order=True)
class BucketState:
    """What one bucket holds.

    Args:
        bucket: From 0.
        live, deleted: Rows that are there, and rows of keys that are gone.
        checksum: The sum of a hash of each row, modulo 2**64: in any order the same.
    """

    bucket: int
    live: int
    deleted: int
    checksum: int

    @property
    def rows(self) -> int:
        """All of its rows."""
        return self.live + self.deleted


def is_below(place: PlaceInLog, floors: Iterable[PlaceInLog], incarnations: Incarnations) -> bool:
    """Whether a change is below floors: in an older incarnation than theirs, or in its own log.

    Nothing is below a floor of another partition.

    Args:
        floors: All of one incarnation, at most one for each partition.
    """
    known = tuple(floors)
    if not known:
        return False
    mine, theirs = (incarnations.of(p.identity) for p in (place, known[0]))
    if mine is not None and theirs is not None and mine < theirs:
        return True
    return any(place.shares_log(floor) and place.is_before(floor) for floor in known)


def all_below(places: Places, floors: Iterable[PlaceInLog], incarnations: Incarnations) -> Places:
    """The part of `places` that `is_below` floors."""
    known = tuple(floors)
    return Places(
        {
            log: tuple(
                replace(r, end_offset=end)
                for r in ranges
                if (end := _end_below(log, r, known, incarnations)) > r.start_offset
            )
            for log, ranges in places.items()
        }
    )


def _end_below(
    log: PartitionIdentity,
    offsets: OffsetRange,
    floors: tuple[PlaceInLog, ...],
    incarnations: Incarnations,
) -> int:
    """Where the part of a log's offsets that is below floors ends; the start if nothing is."""
    if is_below(log.at(offsets.end_offset - 1), floors, incarnations):
        return offsets.end_offset
    return next((f.offset for f in floors if f.identity == log), offsets.start_offset)


ERA = "era"
"""Which incarnation of the topic a change is of, in an order: a later one counts more."""


def order_names(plan: FoldPlan) -> tuple[str, ...]:
    """What orders the changes of a key, the first one first: columns, and `ERA`."""
    if plan.order == "time":
        return (ERA, "timestamp", "generation", "partition", "offset")
    if plan.order == "sequence":
        return (*(c.name for c in plan.sequence), ERA, "generation", "partition", "offset")
    return (ERA, "generation", "offset", "partition")


@dataclass(frozen=True, slots=True)
class FoldRefusal:
    """Changes that have no place in the table.

    Args:
        why: `moved`, a key's changes are in two partitions of one incarnation; `unordered`, a
            change has none in the declared order; `truncated`, nobody knows what came before one
            that says that all rows are gone; `untold`, a delete may name another key than its
            row's.
        what: The key, or the topic.
    """

    why: Literal["moved", "unordered", "truncated", "untold"]
    what: str


def differing(
    expected: Iterable[BucketState], found: Iterable[BucketState]
) -> dict[int, tuple[BucketState | None, BucketState | None]]:
    """Buckets that hold something else than they should, with both; None for no rows."""
    one, other = ({b.bucket: b for b in states} for states in (expected, found))
    both = {n: (one.get(n), other.get(n)) for n in sorted({*one, *other})}
    return {n: pair for n, pair in both.items() if pair[0] != pair[1]}


@dataclass(frozen=True, slots=True)
class FoldRecord:
    """A plan to fold, and how far it has come.

    Args:
        plan: Frozen.
        status: `planned` until its rows are verified.
        before_version: The current table's version that it was made of.
        table_version: Its commit; None before.
        changes: Typed rows that were folded, those without a key among them.
        keyless: Changes whose key is null, but TRUNCATE: they are in no row.
        buckets: What it leaves in the buckets that it has rewritten.
        anew: Buckets among them that were folded anew.
        barrier: The last change that said that all rows are gone; None for none.
        closed_at: When it was verified, UTC-aware.
    """

    plan: FoldPlan
    status: Literal["planned", "done"] = "planned"
    before_version: int | None = None
    table_version: int | None = None
    changes: int = 0
    keyless: int = 0
    buckets: tuple[BucketState, ...] = ()
    anew: tuple[int, ...] = ()
    barrier: Barrier | None = None
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SealedFold:
    """What the commit of a fold tells that no change does: a ledger that was put back learns it.

    Args:
        order, floors, unproven_since: As of its plan.
        healed: As of a `Folding`.
        lost: All lost deletes that the ledger knew.
    """

    order: Order
    floors: tuple[Floor, ...]
    unproven_since: datetime | None
    healed: Places
    lost: Places


@dataclass(frozen=True, slots=True)
class Folding:
    """The fold's own head, in coordinates. Neither landing nor decoding waits for it.

    Args:
        coverage: Coordinates whose changes are in the table.
        changed: Coordinates whose changes were decoded again since they were folded.
        open: The plan that is under way.
        incidents: What halted folding, until a decision has been executed.
        table_id: Delta's id of the current table; None before the first fold.
        token: The newest fencing token of the table when a plan was last closed.
        known: The commit that the last fold has made, which the table has to show for good; or the
            one to which its log was cut since. None before the first fold that noted it.
        layout: Of the table; None before the first fold.
        columns: Of the table.
        buckets: What each bucket holds.
        eras, returns: As of a plan.
        order: As of a plan.
        barrier: As of a plan.
        folds: How many were ever closed; the next one's number.
        folded_at: When the last one was closed, UTC-aware.
        unproven_since: When the first fold was frozen after a loss of records was accepted, or a
            compacted topic was read late: a delete among them never comes. None where none was.
        floors: As of a plan.
        healed: Lost deletes of before rows were swept: a later snapshot has told what they had
            taken.
        drops: As of a plan.
        sums: As of a plan.
        deletes: As of a plan; None before the first fold that noted them.
        lost: Where deletes may have been lost that nothing else in the ledger tells: a table's own
            commits did, or floors that had told what they took were given up.
    """

    coverage: Places = NOWHERE
    changed: Places = NOWHERE
    open: FoldRecord | None = None
    incidents: tuple[Incident, ...] = ()
    table_id: str | None = None
    token: int | None = None
    layout: Layout | None = None
    columns: tuple[CurrentColumn, ...] = ()
    buckets: tuple[BucketState, ...] = ()
    eras: tuple[str, ...] = ()
    order: Order = "offset"
    barrier: Barrier | None = None
    folds: int = 0
    folded_at: datetime | None = None
    unproven_since: datetime | None = None
    floors: tuple[Floor, ...] = ()
    healed: Places = NOWHERE
    drops: tuple[Floor, ...] = ()
    returns: tuple[PartitionIdentity, ...] = ()
    sums: str = OLD_SUMS
    deletes: Deletes | None = None
    known: KnownCommit | None = None
    lost: Places = NOWHERE

    @property
    def live(self) -> int:
        """Rows of keys that are there."""
        return sum(b.live for b in self.buckets)

    @property
    def deleted(self) -> int:
        """Rows of keys that are gone."""
        return sum(b.deleted for b in self.buckets)

    @property
    def has_old_sums(self) -> bool:
        """Whether the sums would be others today: then a fold makes every bucket anew, once."""
        if self.sums == SUMS:
            return False
        if self.sums == _SUMS_OF_TEXTS:
            return any(_has_variant(c.type) for c in self.columns)
        is_nested = any(not isinstance(c.type, str) or c.type == "variant" for c in self.columns)
        # rows stood at the record that had ended them, and columns were named as in the typed table
        is_other = self.barrier is not None or any(c.name != c.source for c in self.columns)
        return is_nested or is_other

    def unfolded(self, decoded: Places) -> int:
        """How many decoded offsets have changes that are not in it yet, or are others by now."""
        return (decoded - (self.coverage - self.changed)).offsets

    def of_new_table(self, table_id: str | None = None) -> Folding:
        """The head of a table in which nothing is folded yet; what was swept stays so."""
        return Folding(
            table_id=table_id,
            incidents=self.incidents,
            order=self.order,
            folds=self.folds,
            floors=self.floors,
            healed=self.healed,
            lost=self.lost,
        )

    def having_learned(self, sealed: SealedFold | None, untold: Places) -> Folding:
        """The head that knows what the newest fold has sealed that the ledger has forgotten.

        Args:
            sealed: None where its commit tells nothing: rows may have been swept.
            untold: What counts as lost then; the next sweep heals it.
        """
        if sealed is None:
            return replace(self, lost=self.lost | untold)
        return replace(
            self,
            order=sealed.order,
            floors=sealed.floors,
            healed=sealed.healed,
            lost=self.lost | sealed.lost,
            unproven_since=sealed.unproven_since,
        )

    def without_floors(self, decoded: Places, incarnations: Incarnations) -> Folding:
        """The head that sweeps no more: what floors had told to be gone is a lost delete again.

        Args:
            decoded: Of which changes the table is made.
        """
        given_up = all_below(decoded, self.floors, incarnations)
        return replace(self, floors=(), healed=NOWHERE, lost=self.lost | given_up)

    def having_decoded(self, ranges: Iterable[CoordinateRange]) -> Folding:
        """The head after changes were decoded: those that were folded are folded once more."""
        claimed = self.coverage | Places.of(() if self.open is None else self.open.plan.ranges)
        changed = claimed & Places.of(ranges)
        return replace(self, changed=self.changed | changed) if changed else self

    def not_by_time(self) -> Folding:
        """The head before somebody decided for times: all that is folded is folded once more."""
        return replace(self, order="offset", changed=self.changed | self.coverage)

    def opened(self, record: FoldRecord) -> Folding:
        """The head with a plan under way; what is decoded again from here on is for another one."""
        plan = record.plan
        mine = Places.of(plan.again, plan.ranges)
        return replace(
            self,
            open=record,
            coverage=self.coverage - mine,
            changed=self.changed - mine,
        )

    def closed(self, done: FoldRecord, known: KnownCommit) -> Folding:
        """The head after a plan was verified that a commit has carried out."""
        plan = done.plan
        buckets = {b.bucket: b for b in (() if plan.is_anew else self.buckets)}
        buckets |= {b.bucket: b for b in done.buckets}
        kept = NOWHERE if plan.is_anew else self.coverage
        before = self
        if self.floors and not plan.floors:
            before = self.without_floors(Places.of(plan.covered), plan.incarnations)
        return replace(
            before,
            coverage=kept | Places.of(plan.ranges),
            open=None,
            token=known.token,
            known=known,
            layout=plan.layout,
            columns=plan.columns,
            buckets=tuple(buckets[n] for n in sorted(buckets) if buckets[n].rows),
            eras=plan.eras,
            returns=plan.returns,
            order=plan.order,
            barrier=done.barrier,
            floors=plan.floors,
            drops=plan.drops,
            sums=plan.sums,
            deletes=plan.deletes,
            folds=self.folds + 1,
            folded_at=done.closed_at,
        )
