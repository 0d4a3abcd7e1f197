"""What the ledger holds at one version, and the pure changes of it.

A change may be made again on a newer state, when another writer was first: it asks nothing but the
state, and what it is given. First changes of runs and of the head, then leases and rewinds, then
incidents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tideline.errors import StreamBusy
from tideline.model.current import Folding, FoldRecord, all_below
from tideline.model.decoding import DecodePlan, DecodeRecord, Decoding, WriterSchema
from tideline.model.erasures import Erasing, Erasure, ToldErasure
from tideline.model.head import Head, KnownCommit
from tideline.model.incident import Decision, Finding, Incident, UnverifiedRows, incident_key
from tideline.model.maintenance import ExpiredRows
from tideline.model.offsets import CoordinateRange, PlannedRange, intersect
from tideline.model.places import Places
from tideline.model.plan import BatchPlan
from tideline.model.request import ResolvedTimestamp
from tideline.model.run import Rewind, RunRecord

_LEASES_KEPT = timedelta(days=1)
"""After its end: a lease is its holder's until somebody else takes it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Somebody's right to work on a lane or to write the table, until it expires.

    Args:
        name: What is leased: `live`, `backfill:` and a run id, or `writer`.
        holder: The attempt that holds it.
        host, pid, process_started: Where it runs, and in which namespace, so that its end can be
            noticed there.
        expires_at: When others may take it.
    """

    name: str
    holder: str
    host: str
    pid: int
    process_started: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Control:
    """The small, often changed part: tokens, leases, open incidents.

    Args:
        ledger_id: Written into the table's properties; ties the two together.
        token: The last fencing token given out (R5).
        incidents_opened: How many there ever were; the next one's number.
        kept_head: Names the newest head in the history; a run that changes nothing keeps no copy.
        rewinds: How many were ever begun; the next one's number.
        rewind: The one under way; until it is finished nobody else may work.
        recounts: How often rows went beside open runs: what was counted before counts no more.
    """

    ledger_id: str
    stream: str
    token: int = 0
    leases: tuple[Lease, ...] = ()
    incidents: tuple[Incident, ...] = ()
    incidents_opened: int = 0
    kept_head: str = ""
    rewinds: int = 0
    rewind: Rewind | None = None
    recounts: int = 0


Noted = (
    RunRecord
    | Incident
    | ResolvedTimestamp
    | Rewind
    | DecodeRecord
    | FoldRecord
    | WriterSchema
    | ExpiredRows
    | Erasure
)
"""What goes into the history; runs that close go there by themselves, with their head."""


@dataclass(frozen=True, slots=True)
class LedgerState:
    """Everything a run needs to know, O(partitions) and free of history.

    Args:
        version: Version of the store that this was read from; -1 before the first write.
        runs: Records that are not closed yet, by run id.
        decoding: The head of the typed tables; empty where the stream has none.
        folding: The head of the current table; empty where the stream has none.
        erasing: What was erased by key, and is kept out.
        noted: What was closed or noted, on its way into the history; see `history.ENTRIES`.
    """

    version: int
    control: Control
    head: Head = field(default_factory=Head)
    runs: Mapping[str, RunRecord] = field(default_factory=dict)
    decoding: Decoding = field(default_factory=Decoding)
    folding: Folding = field(default_factory=Folding)
    erasing: Erasing = field(default_factory=Erasing)
    noted: tuple[Noted, ...] = ()

    def noting(self, *values: Noted) -> LedgerState:
        """The state with what goes into the history when it is written; unchanged without any."""
        return replace(self, noted=(*self.noted, *values)) if values else self

    def open_live_run(self) -> RunRecord | None:
        """The live run whose frozen plan is not closed yet (R3), None if there is none."""
        live = (r for r in self.runs.values() if r.is_open and r.lane == "live")
        return next((r for r in live if r.finishes is None), None)

    def orphans(self) -> tuple[RunRecord, ...]:
        """Open records of runs that set out to finish a plan which is closed by now."""
        return tuple(
            r
            for r in self.runs.values()
            if r.is_open
            and r.finishes is not None
            and (r.finishes not in self.runs or not self.runs[r.finishes].is_open)
        )

    def without_orphans(self, now: datetime) -> LedgerState:
        """The state with these records closed: somebody else has finished the plan."""
        ended = {
            r.run_id: replace(r, status="superseded", superseded_by=r.finishes, updated_at=now)
            for r in self.orphans()
        }
        return replace(self, runs={**self.runs, **ended})

    def with_run(self, record: RunRecord) -> LedgerState:
        """The state with a record added or replaced."""
        return replace(self, runs={**self.runs, record.run_id: record})

    def with_plan_closed(self, plan_id: str, **outcome: object) -> LedgerState:
        """Close every run that executes a plan: its own, and those that set out to finish it."""
        closed = {
            run_id: replace(record, **outcome)  # type: ignore[arg-type]
            for run_id, record in self.runs.items()
            if record.plan is not None and record.plan.plan_id == plan_id
        }
        return replace(self, runs={**self.runs, **closed})

    def without_proposals(self, lane: str, but: str) -> LedgerState:
        """Drop proposals of other runs in a lane: cleared, they are planned anew (R1)."""
        kept = {
            run_id: record
            for run_id, record in self.runs.items()
            if record.status != "proposed" or record.lane != lane or run_id == but
        }
        return self if len(kept) == len(self.runs) else replace(self, runs=kept)

    def without_verifications(self) -> LedgerState:
        """Open runs forget what they verified: the table was changed, or rows of it are to go."""
        forgotten = {
            run_id: replace(record, table_commit=None, verified=())
            for run_id, record in self.runs.items()
            if record.is_open
        }
        control = replace(self.control, recounts=self.control.recounts + 1)
        return replace(self, control=control, runs={**self.runs, **forgotten})

    def with_removal_begun(self, incident_id: str) -> LedgerState:
        """The state in which an incident's unverified rows are about to go, until it is closed."""
        open_now = tuple(
            replace(i, removing=True) if i.incident_id == incident_id else i
            for i in self.control.incidents
        )
        return self._control(incidents=open_now).without_verifications()

    def refuse_recounted(self, seen: LedgerState, ranges: Iterable[PlannedRange]) -> None:
        """Make sure that rows which were counted by an earlier state are there still, and stay.

        Args:
            ranges: Where they stand.

        Raises:
            StreamBusy: Rows may have gone since, or are about to.
        """
        doubted = [
            r for i in self.control.incidents if i.removing for rows in i.plans for r in rows.ranges
        ]
        goes = any(
            r.identity == d.identity and intersect([r.offsets], [d.offsets])
            for r in ranges
            for d in doubted
        )
        if goes or self.control.recounts != seen.control.recounts:
            raise StreamBusy("rows were removed while this run counted its own; run again")

    def with_head(self, head: Head, *, made_from: Head | None = None) -> LedgerState:
        """The state with another head: the one place where the live lane's positions are written.

        Beside a run that holds the live lane only coverage, the table's version, and what was seen
        of the logs grow; all are kept.

        Args:
            made_from: The head that it was made from, where that is not this state's own.

        Raises:
            StreamBusy: Positions have moved since; nothing is written.
        """
        head = head.having_noted_incarnations()
        if made_from is None or made_from == self.head:
            return replace(self, head=head)
        if not self.head.stands_at(made_from):
            raise StreamBusy("the head moved meanwhile; nothing was written, run again")
        table_id, newest = head.table_id, head.table_version
        if table_id == made_from.table_id:  # unless the change is about the table itself
            table_id = self.head.table_id
            versions = [v for v in (newest, self.head.table_version) if v is not None]
            newest = max(versions, default=None)
        given_up = tuple(sorted({*head.given_up, *self.head.given_up}))
        merged = replace(
            head,
            coverage=head.coverage | self.head.coverage,
            table_id=table_id,
            table_version=newest,
            given_up=given_up,
            backfilled=head.backfilled | self.head.backfilled,
            days=self.head.days,
            names=self.head.names,
        )
        if table_id == made_from.table_id:
            merged = merged.with_commits(*self.head.commits)
        return replace(self, head=merged.having_seen(self.head))

    def with_in_quarantine(self, rows: int | None) -> LedgerState:
        """The state with how many rows the quarantine has; of one that it knows."""
        if not self.decoding.table_ids or rows == self.decoding.in_quarantine:
            return self
        return replace(self, decoding=replace(self.decoding, in_quarantine=rows))

    def with_erasure_begun(self, erasure: Erasure, hashes: Iterable[str]) -> LedgerState:
        """The state that keeps an erasure's records out; who has counted some counts again."""
        after = replace(self, erasing=self.erasing.begin(erasure, hashes))
        return after.without_verifications().noting(erasure)

    def with_erasure(self, erasure: Erasure) -> LedgerState:
        """The state with an erasure as it is now, in the history as well.

        Once rows are out of what the current table is made of, that has to follow.
        """
        is_out = erasure.status != "begun"
        light = replace(erasure, ranges=(), hashes=()) if is_out else erasure
        after = replace(self, erasing=self.erasing.with_open(light))
        if erasure.removed_at is not None and not is_out:
            after = replace(after, folding=self.folding.having_decoded(erasure.ranges))
        return after.noting(erasure)

    def with_secret(self, new: str) -> LedgerState:
        """The state with a secret for the hashes of erasures; one that it has stays."""
        if self.erasing.secret:
            return self
        return replace(self, erasing=replace(self.erasing, secret=new))

    def with_erasures_told(self, erasures: Iterable[ToldErasure]) -> LedgerState:
        """The state that has learned of erasures from a table's commits; they are finished anew."""
        after = self
        for one in erasures:
            before, after = after, replace(after, erasing=after.erasing.learning(one))
            for begun in after.erasing.open[len(before.erasing.open) :]:
                after = after.noting(begun)
        return after

    def with_erasures_settled(self, names: tuple[str, ...]) -> LedgerState:
        """The state after somebody has looked once more for keys that no table tells of."""
        return replace(self, erasing=self.erasing.settled(names)) if names else self

    def with_lease(self, lease: Lease) -> LedgerState:
        """The state with a lease taken or renewed; those that ran out long ago are dropped."""
        forgotten = lease.expires_at - _LEASES_KEPT
        others = tuple(
            held
            for held in self.control.leases
            if held.name != lease.name and held.expires_at > forgotten
        )
        return self._control(leases=(*others, lease))

    def without_lease(self, name: str, holder: str) -> LedgerState:
        """The state with a lease given back; unchanged if somebody else has it by now."""
        leases = self.control.leases
        kept = tuple(held for held in leases if held.name != name or held.holder != holder)
        return self if len(kept) == len(leases) else self._control(leases=kept)

    def with_next_token(self, above: int = 0) -> LedgerState:
        """The state after giving out a token larger than all before; it is `control.token`."""
        return self._control(token=max(self.control.token, above) + 1)

    def with_rewind_begun(self, rewind: Rewind, holder: str) -> LedgerState:
        """The state with a rewind under way: who else had a lease has lost it from here on."""
        own = tuple(held for held in self.control.leases if held.holder == holder)
        after = self._control(rewind=rewind, rewinds=self.control.rewinds + 1, leases=own)
        return after.noting(rewind)

    def with_undecoded(self, ranges: Iterable[CoordinateRange]) -> LedgerState:
        """The state in which coordinates are decoded no more: again, or gone without a raw row."""
        decoding = self.decoding.having_undone(ranges)
        return self if decoding == self.decoding else replace(self, decoding=decoding)

    def with_rewind_finished(self, rewind: Rewind, head: Head) -> LedgerState:
        """The state with the head that a rewind restores, the way free, and no proposals.

        What is to be undone in the typed tables is on record from here on, whatever lands there.
        """
        runs = {k: r for k, r in self.runs.items() if r.status != "proposed"}
        after = replace(self._control(rewind=None), runs=runs).with_undecoded(rewind.removes)
        return after.with_head(head).noting(rewind)

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        """All open incidents: those of the landing, of the decoding, of the fold."""
        return (*self.control.incidents, *self.decoding.incidents, *self.folding.incidents)

    def open_incident(self, incident_id: str) -> Incident | None:
        """The open incident of that id, None if there is none."""
        return next((i for i in self.open_incidents if i.incident_id == incident_id), None)

    def live_incidents(self) -> tuple[Incident, ...]:
        """Open incidents but for those of a backfill that has its plan still.

        Nobody else carries out what was decided once that plan was closed.
        """
        owned = {r.plan.plan_id for r in self.runs.values() if r.is_open and r.plan is not None}
        return tuple(i for i in self.control.incidents if i.finding.backfill not in owned)

    def incidents_of_table(self) -> tuple[Incident, ...]:
        """Open incidents that keep anybody from writing to the table."""
        return tuple(i for i in self.control.incidents if i.finding.kind == "table_changed")

    def incidents_of_plan(self, plan_id: str) -> tuple[Incident, ...]:
        """Open incidents that keep a landed plan from being verified."""
        return tuple(
            i for i in self.control.incidents if any(p.plan_id == plan_id for p in i.plans)
        )

    def with_incidents(
        self,
        findings: Iterable[Finding],
        run_id: str,
        now: datetime,
        plan: BatchPlan | None = None,
    ) -> LedgerState:
        """Open an incident per finding; one that is open already learns what is at stake now.

        A table that changed once more is another incident, and so is another cluster, another
        topic id, a topic that came or went, or a log that was cut below: whoever decided, or is
        about to, has seen the first change only (R9).

        A plan is the landed one whose ranges the findings put in doubt, if there is one.
        """
        incidents = {i.key: i for i in self.control.incidents}
        opened = self.control.incidents_opened
        overtaken: list[Incident] = []
        for finding in findings:
            known = incidents.get(incident_key(finding))
            unverified = () if plan is None else _in_scope(plan, finding)
            doubted, is_table = tuple[UnverifiedRows, ...](), finding.kind == "table_changed"
            before = known or incidents.get(incident_key(finding.instead))
            is_free = before is not None and (is_table or not before.removing)
            if before is not None and is_free and finding.is_beyond(before.finding):
                what, doubted = ("the table", ()) if is_table else (finding.place, before.plans)
                outcome = f"{what} has changed again: incident-{opened + 1}"
                overtaken.append(incidents.pop(before.key).closed(outcome, now))
                known = None
            if known is None:
                opened += 1
                known = Incident(f"incident-{opened}", run_id, now, finding).of(*doubted)
            if unverified and plan is not None:
                newest = UnverifiedRows(plan.plan_id, plan.run_id, unverified)
                known = known.of(*known.plans_but(plan.plan_id), newest)
            if finding.kind == "unreadable_record" and finding.intervals != known.finding.intervals:
                known = replace(known, decision=None, asked_in=None)  # about other offsets
            incidents[known.key] = replace(known, finding=finding)
        after = tuple(incidents.values())
        if after == self.control.incidents:
            return self
        return self._control(incidents=after, incidents_opened=opened).noting(*overtaken)

    def with_question(self, incidents: Iterable[Incident], run_id: str) -> LedgerState:
        """The state with a run's form asking about incidents."""
        asked = {i.incident_id for i in incidents}
        return self._control(
            incidents=tuple(
                replace(i, asked_in=run_id) if i.incident_id in asked else i
                for i in self.control.incidents
            )
        )

    def with_decision(self, incident_id: str, decision: Decision) -> LedgerState:
        """The state with an answer to an open incident; a later answer replaces it."""

        def answered(incidents: tuple[Incident, ...]) -> tuple[Incident, ...]:
            return tuple(
                replace(i, decision=decision) if i.incident_id == incident_id else i
                for i in incidents
            )

        decoding = replace(self.decoding, incidents=answered(self.decoding.incidents))
        folding = replace(self.folding, incidents=answered(self.folding.incidents))
        after = self._control(incidents=answered(self.control.incidents))
        return replace(after, decoding=decoding, folding=folding)

    def decided_alike(self, decided: Iterable[Incident]) -> LedgerState:
        """This state, if nobody has answered otherwise, or closed one, since decisions were read.

        Args:
            decided: As they are carried out; a policy's decision is not in the ledger.

        Raises:
            StreamBusy: One of them has another decision by now, or is closed.
        """
        for incident in decided:
            known = self.open_incident(incident.incident_id)
            if known is None or known.decision not in (incident.decision, None):
                now = "closed" if known is None else "decided otherwise"
                raise StreamBusy(
                    f"{incident.incident_id} was {now} while its decision was carried out; run"
                    " again"
                )
        return self

    def with_rows_verified(self, plan_id: str, outcome: str, now: datetime) -> LedgerState:
        """The state after a plan's rows were verified after all: nothing puts them in doubt.

        An incident that has rows of other plans in doubt stays open for those.
        """
        held = self.incidents_of_plan(plan_id)
        left = {i.incident_id: i.of(*i.plans_but(plan_id)) for i in held if i.plans_but(plan_id)}
        kept = tuple(left.get(i.incident_id, i) for i in self.control.incidents)
        gone = [i.closed(outcome, now) for i in held if i.incident_id not in left]
        return self._control(incidents=kept).with_incidents_closed(gone)

    def with_incidents_closed(self, closed: Iterable[Incident]) -> LedgerState:
        """Move incidents, as they ended, into the history; others stay open."""
        ended = {i.incident_id: i for i in closed}
        if not ended:
            return self

        def left(incidents: tuple[Incident, ...]) -> tuple[Incident, ...]:
            return tuple(i for i in incidents if i.incident_id not in ended)

        after = replace(
            self._control(incidents=left(self.control.incidents)),
            decoding=replace(self.decoding, incidents=left(self.decoding.incidents)),
            folding=replace(self.folding, incidents=left(self.folding.incidents)),
        )
        return after.noting(*ended.values())

    def with_decoding_halted(self, finding: Finding, run_id: str, now: datetime) -> LedgerState:
        """Open an incident that halts the decoding and not the landing; an older one is closed."""
        after, incidents = self._found_again(self.decoding.incidents, finding, run_id, now)
        return replace(after, decoding=replace(self.decoding, incidents=incidents))

    def with_folding_halted(self, finding: Finding, run_id: str, now: datetime) -> LedgerState:
        """Open an incident that halts the fold only; an older one is closed."""
        after, incidents = self._found_again(self.folding.incidents, finding, run_id, now)
        return replace(after, folding=replace(self.folding, incidents=incidents))

    def _found_again(
        self, known: tuple[Incident, ...], finding: Finding, run_id: str, now: datetime
    ) -> tuple[LedgerState, tuple[Incident, ...]]:
        """The state with an incident counted, and the open ones with it, the newest last."""
        opened = self.control.incidents_opened + 1
        incident = Incident(f"incident-{opened}", run_id, now, finding)
        same = [i for i in known if i.finding.is_found_again(finding)]
        others = tuple(i for i in known if i not in same)
        ended = [i.closed(f"found again as {incident.incident_id}", now) for i in same]
        return self._control(incidents_opened=opened).noting(*ended), (*others, incident)

    def with_decoding_resumed(
        self, plan: DecodePlan, now: datetime, *, was_decoded: bool = False
    ) -> LedgerState:
        """Close what halted the decoding: its decisions are carried out, or it found nothing.

        What is about records that the plan has not decoded stays, with its decision.

        Args:
            plan: It is decoded.
            was_decoded: Whether its run had decoded it before.
        """
        is_judged = bool(plan.ranges) and (plan.is_again or not (plan.redrives or was_decoded))
        kept, ended = list[Incident](), list[Incident]()
        for incident in self.decoding.incidents:
            about = Places.of(incident.finding.ranges)
            left = (about & self.head.coverage) - Places.of(plan.ranges)
            if incident.has_chosen("retry"):
                left -= self.decoding.coverage  # whoever has asked for it once more may ask again
            if left:
                kept.append(incident.about(left.ranges(self.head.topic_names)))
            elif not about and not is_judged:  # nobody has looked at the schemas of new records
                kept.append(incident)
            else:
                ended.append(incident.closed(f"run {plan.run_id} has decoded", now))
        decoding = replace(self.decoding, incidents=tuple(kept))
        return replace(self, decoding=decoding).noting(*ended)

    def with_fold_closed(self, done: FoldRecord, known: KnownCommit, now: datetime) -> LedgerState:
        """The state after a fold was verified; what had halted folding is carried out."""
        outcome = f"run {done.plan.run_id} has folded"
        ended = [i.closed(outcome, now) for i in self.folding.incidents]
        closed, since = self.folding.closed(done, known), done.plan.unproven_since
        healed, plan = closed.healed, done.plan
        if plan.is_sweep:  # losses may have come since the plan was frozen
            lost = self.head.lost_deletes | self.folding.lost | self.erasing.erased
            healed = all_below(lost, plan.floors, plan.incarnations)
        folding = replace(closed, incidents=(), unproven_since=since, healed=healed)
        return replace(self, folding=folding).noting(done, *ended)

    def _control(self, **changes: object) -> LedgerState:
        return replace(self, control=replace(self.control, **changes))  # type: ignore[arg-type]


def _in_scope(plan: BatchPlan, finding: Finding) -> tuple[PlannedRange, ...]:
    return tuple(r for r in plan.ranges if finding.concerns(r.topic_partition))
