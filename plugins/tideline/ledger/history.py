"""What a ledger has closed: runs, incidents, heads, rewinds, resolved timestamps, schemas.

It only grows. Entries keep the format that they were written in; reading upgrades a copy.
Every method raises `ServiceAway` when the store does not answer, `NewerFormat` for an entry of a
newer version of Tideline, and `UnreadableDocument` for one that is damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import TypeVar

from tideline.documents import dump, load
from tideline.errors import SchemaChanged, StreamBusy
from tideline.ledger.ledger_port import DocKind, HistoryEntry, LedgerStore, Snapshot
from tideline.model.current import FoldRecord
from tideline.model.decoding import DecodeRecord, WriterSchema, free_id
from tideline.model.erasures import Erasure
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.maintenance import ExpiredRows
from tideline.model.offsets import CoordinateRange
from tideline.model.request import ResolvedTimestamp
from tideline.model.run import Closing, Rewind, RunRecord

Value = TypeVar("Value")


def _run_of_plan(record: DecodeRecord | FoldRecord) -> str:
    return record.plan.run_id


def _schema_id(schema: WriterSchema) -> str:
    return str(schema.schema_id)


ENTRIES = (
    DocKind("run", RunRecord, "once more at every replay", "run id", lambda r: r.run_id),
    DocKind("incident", Incident, "", "incident id", lambda i: i.incident_id),
    DocKind("instant", ResolvedTimestamp, "", "UTC time", lambda i: i.key),
    DocKind("head", Head, "as a closing run left it", "hash"),
    DocKind("rewind", Rewind, "begun and finished", "rewind id", lambda r: r.rewind_id),
    DocKind("decode", DecodeRecord, "once more at every repetition", "run id", _run_of_plan),
    DocKind("fold", FoldRecord, "once more at every repetition", "run id", _run_of_plan),
    DocKind("schema", WriterSchema, "as decoding has used it", "id in registry", _schema_id),
    DocKind("let_go", ExpiredRows, "noted before the rows go", "its id", lambda g: g.let_go_id),
    DocKind("erasure", Erasure, "begun, out of the tables, done", "its id", lambda e: e.erasure_id),
)
"""What the history keeps; entries of a kind are read without touching the others."""
KINDS = tuple(kept.name for kept in ENTRIES)
_BY_TYPE = {kept.document: kept for kept in ENTRIES}


def history_entry(value: object) -> HistoryEntry:
    """What a state has closed or noted, as it goes into the history."""
    kept = _BY_TYPE[type(value)]
    return HistoryEntry(kept.name, kept.named(value), dump(value))


class LedgerHistory:
    """The history of one stream's ledger."""

    def __init__(self, store: LedgerStore) -> None:
        self.store = store

    def closed_runs(self) -> Iterator[RunRecord]:
        """Every closed run in the order of closing; reads the whole history."""
        return self._each(RunRecord, "run")

    def recent_runs(self) -> Iterator[RunRecord]:
        """Closed runs as their last closing left them, the newest first.

        Who stops early has read little of the history.
        """
        return self._newest_first(RunRecord, "run")

    def recent_incidents(self) -> Iterator[Incident]:
        """Closed incidents, the newest first; who stops early has read little of the history."""
        return self._newest_first(Incident, "incident")

    def closings(self) -> list[Closing]:
        """Every plan of every run by its first closing, oldest first; reads the whole history."""
        found: dict[tuple[str, str | None], Closing] = {}
        for entry in self.store.history("run"):
            record = self._load(RunRecord, entry)
            plan = (record.run_id, record.plan.plan_id if record.plan is not None else None)
            known = found.get(plan) or Closing(entry.version, record, record)
            found[plan] = replace(known, newest=record)
        return sorted(found.values(), key=lambda c: c.version)

    def kept_head(self, key: str) -> Head:
        """The head that the closing of some run left, by its name in the history.

        Raises:
            StreamBusy: The ledger was put back since that name was read.
        """
        if not (kept := list(self.store.history("head", key))):
            raise StreamBusy(f"the ledger was put back, it has no head {key} any more; run again")
        return self._load(Head, kept[-1])

    def closed_plan(self, run_id: str, plan_id: str) -> RunRecord | None:
        """A run as it was closed with a plan, which may not be its last one; None if it was not."""
        for entry in reversed(list(self.store.history("run", run_id))):
            record = self._load(RunRecord, entry)
            if record.plan is not None and record.plan.plan_id == plan_id:
                return record
        return None

    def rewinds(self) -> list[Rewind]:
        """Every rewind, the unfinished one included, in their order."""
        newest = {e.key: e for e in self.store.history("rewind")}
        return [self._load(Rewind, entry) for entry in newest.values()]

    def closed_incidents(self) -> Iterator[Incident]:
        """Every closed incident in the order of closing; reads the whole history."""
        return self._each(Incident, "incident")

    def resolved_times(self) -> dict[str, ResolvedTimestamp]:
        """What times mean in offsets, as far as they have been resolved (R11), by their keys."""
        newest = {e.key: e for e in self.store.history("instant")}
        return {key: self._load(ResolvedTimestamp, entry) for key, entry in newest.items()}

    def decodings(self) -> list[DecodeRecord]:
        """Every verified decoding, as its last repetition left it, oldest first."""
        return list(self._each(DecodeRecord, "decode"))

    def find_decoding(self, run_id: str) -> DecodeRecord | None:
        """The newest verified decoding of a run; None if it has decoded nothing."""
        return self._last(DecodeRecord, "decode", run_id)

    def find_fold(self, run_id: str) -> FoldRecord | None:
        """The newest verified fold of a run; None if it has folded nothing."""
        return self._last(FoldRecord, "fold", run_id)

    def decode_closings(self) -> Iterator[DecodeRecord]:
        """Every closing of every decoding, oldest first: a plan that is cleared closes again."""
        for entry in self.store.history("decode"):
            yield self._load(DecodeRecord, entry)

    def decoded_since(self, run_id: str) -> list[CoordinateRange]:
        """What other plans have decoded, or decided by a redrive, since a run closed its own."""
        found: list[CoordinateRange] = []
        for record in self.decode_closings():
            if record.plan.run_id == run_id:
                found = []
            else:
                found += record.plan.ranges
        return found

    def fold_closings(self) -> Iterator[FoldRecord]:
        """Every closing of every fold, oldest first."""
        for entry in self.store.history("fold"):
            yield self._load(FoldRecord, entry)

    def expired_rows(self) -> Iterator[ExpiredRows | DecodeRecord]:
        """What was let go of the quarantine, and what was decoded since the first time, in order.

        Nothing but these is read if nothing was let go.
        """
        gone = list(self.store.history("let_go"))
        if not gone:
            return
        first = gone[0].version
        later = [e for e in self.store.history("decode") if e.version > first]
        for entry in sorted((*gone, *later), key=_version):
            if entry.kind == "let_go":
                yield self._load(ExpiredRows, entry)
            else:
                yield self._load(DecodeRecord, entry)

    def erasures(self) -> list[Erasure]:
        """Every erasure, those under way included, in their order."""
        return list(self._each(Erasure, "erasure"))

    def known_schemas(self, ids: Iterable[int]) -> dict[int, WriterSchema]:
        """Schemas of the registry that were noted, by id; those that were not are left out.

        One read of everything that was noted: a stream has few schemas.

        Args:
            ids: Nothing is read if there are none.

        Raises:
            SchemaChanged: An id was noted with two different schemas.
        """
        wanted = {str(schema_id) for schema_id in ids}
        found: dict[int, WriterSchema] = {}
        for entry in self.store.history("schema") if wanted else ():
            if entry.key in wanted:
                schema = self._load(WriterSchema, entry)
                self._refuse_another(found.setdefault(schema.schema_id, schema), schema)
        return found

    def brought(
        self, subject: str, schema_type: str, texts: Iterable[str]
    ) -> tuple[WriterSchema, ...]:
        """Schemas that records bring themselves, each with the id that stands for its text here.

        One that was noted keeps its id, of whatever version; another one gets a free one.

        Args:
            subject: What stands for one, of the part that brings them.
            schema_type: Of all.
            texts: All are different.
        """
        noted = [self._load(WriterSchema, entry) for entry in self.store.history("schema")]
        mine = {s.text: s for s in noted if s.known_as.rpartition(":")[0] == subject}
        taken, found = {s.schema_id for s in noted}, []
        for text in texts:
            known = mine.get(text)
            if known is None:
                number, digest = free_id(text, taken), sha256(text.encode()).hexdigest()
                known_as = f"{subject}:{number}"
                known = WriterSchema(number, text, digest, known_as, schema_type=schema_type)
                taken.add(number)
            found.append(known)
        return tuple(found)

    def new_schemas(self, answered: Iterable[WriterSchema]) -> tuple[WriterSchema, ...]:
        """Those of the registry's answers that are not noted yet, each id once.

        Raises:
            SchemaChanged: The registry gives another schema for an id that was noted.
        """
        schemas = tuple(answered)
        known = self.known_schemas(s.schema_id for s in schemas)
        new: dict[int, WriterSchema] = {}
        for schema in schemas:
            if schema.schema_id in known:
                self._refuse_another(known[schema.schema_id], schema)
            else:
                self._refuse_another(new.setdefault(schema.schema_id, schema), schema)
        return tuple(new.values())

    def _refuse_another(self, known: WriterSchema, answered: WriterSchema) -> None:
        if known.says_the_same(answered):
            return
        first, now = (f"{s.known_as or 'a schema'} (SHA-256 {s.digest})" for s in (known, answered))
        raise SchemaChanged(
            f"ledger {self.store.location}: schema id {known.schema_id} was {first} before, and now"
            f" is {now}. An id never changes: this is another registry, or one that was put back."
            " Nothing was decoded with it. Next: point registry.connection to the registry that the"
            " records were written with",
            schema_id=known.schema_id,
        )

    def _each(self, kind: type[Value], name: str) -> Iterator[Value]:
        """The last entry of each key, in the order of their versions."""
        newest = {e.key: e for e in self.store.history(name)}
        for entry in sorted(newest.values(), key=_version):
            yield self._load(kind, entry)

    def _newest_first(self, kind: type[Value], name: str) -> Iterator[Value]:
        seen: set[str] = set()
        for entry in self.store.recent(name):
            if entry.key not in seen:
                seen.add(entry.key)
                yield self._load(kind, entry)

    def _last(
        self, kind: type[Value], name: str, key: str, at: Snapshot | None = None
    ) -> Value | None:
        entries = list(self.store.history(name, key, at))
        return self._load(kind, entries[-1]) if entries else None

    def _load(self, kind: type[Value], entry: HistoryEntry) -> Value:
        where = f"{entry.kind} {entry.key} in the history, written by version {entry.version}"
        return load(kind, entry.body, f"ledger {self.store.location}: {where}")


def _version(entry: HistoryEntry) -> int:
    return entry.version
