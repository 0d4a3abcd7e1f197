"""A run that was undone, or a backfill that could not be read, is planned anew on request."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tests.texts import PLANNED_AGAIN, STAYS
from tests.worlds.build import ID, NOW, head, observation, plan, planned, position, topic
from tests.worlds.build import seen as shown
from tideline.errors import Halted, ReplayUnavailable, RequestConflict, StreamBusy
from tideline.landing.closing import can_be_given_up
from tideline.landing.context import RunContext
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import Control, LedgerState
from tideline.model.incident import Decision, Finding, Incident
from tideline.model.observation import TableObservation
from tideline.model.offsets import OffsetRange, PartitionIdentity, one_interval
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import LandedRange, VerifiedRange, freeze
from tideline.model.request import RunRequest, read_form
from tideline.model.run import Rewind, RunRecord, TableCommit
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.decisions import accept_gaps
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.recovery import recover
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)
from tideline.stream.stream import Stream

IDENTITY = PartitionIdentity(ID, 0, 0)
TABLE = TableObservation(True, "t", 1, "orders", "x")
LANDED = {IDENTITY: LandedRange(IDENTITY, 5, (OffsetRange(20, 25),))}
RANGES = [{"topic": "orders", "partition": 0, "start_offset": 20, "end_offset": 60}]
HOUR = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}
LABEL = Rewind("rewind-1", "a", "wrong (twice)", "ann", NOW, "key").label
STREAM = Stream.model_validate(
    {
        "stream": "orders",
        "kafka": {"connection": "kafka", "topics": ["orders"]},
        "table": {"uri": "/lake/orders"},
    }
)


class Cluster:
    """One partition with 100 records, one a minute."""

    def __init__(self, start=0):
        self.start = start

    def observe(self, topics, epochs):
        seen = observation(topic(shown(start=self.start, end=100)))
        return replace(seen, observed_at=datetime.now(UTC))

    def offsets_at(self, at, places):
        minutes = round((at - datetime(2026, 1, 1, tzinfo=UTC)) / timedelta(minutes=1))
        return {
            p: SimpleNamespace(offset=minutes, timestamp_ms=at.timestamp() * 1000) for p in places
        }

    def retention_ms(self, topics):
        return {}

    def compacted(self, topics):
        return set()


class Table:
    """A table that holds what it is told."""

    uri = "/lake/orders"

    def __init__(self, ledger_id):
        self.now = replace(TABLE, ledger_id=ledger_id)
        self.rows, self.made, self.fences = {}, None, []
        self.quicker = {}

    def observe(self, since=None, at=None):
        return self.now

    def landed(self, ranges, version):
        return self.rows

    def find_commit(self, commit_id, after_version, at=None):
        fence = next((f for f in self.fences if f.commit_id == commit_id), None)
        return self.made if fence is None else TableCommit("t", 2, fence.token, 0, 0)

    def newest_token(self, app_id, at=None):
        return 0

    def commit(self, change, files, based_on):
        assert change.ranges == () == tuple(files)  # no row goes, none comes
        self.fences.append(change)
        self.rows = {**self.rows, **self.quicker}


@pytest.fixture
def ledger(tmp_path):
    """With a head that has landed [0, 100)."""
    found = Ledger(DeltaLedgerStore(str(tmp_path / "ledger")), "orders")
    known = head(
        position(100),
        coverage=Places({IDENTITY: (OffsetRange(0, 100),)}),
        table_id="t",
        table_version=1,
    )
    found.update(lambda state: state.with_head(known))
    return found


def context(ledger, run_id, cluster=None, **form):
    cluster = cluster or Cluster()
    table = Table(ledger.read().control.ledger_id)
    request = read_form(form, datetime.now(UTC))
    connect = lambda: cluster  # noqa: E731
    return RunContext(STREAM, run_id, request, ledger, connect, table, None, first_pause_seconds=0)


def record(run_id, request, status, number=1, **facts):
    frozen = plan(
        planned(20, 60), lane=request.lane, run_id=run_id, plan_id=f"plan-{run_id}-{number}"
    )
    return RunRecord(
        run_id, request.lane, status, request.digest, NOW, plan=frozen, request=request, **facts
    )


def closed(ledger, *records):
    """Records that were open once, closed one after the other."""
    for item in records:
        ledger.update(lambda s, r=item: s.with_run(replace(r, status="planned")))
        ledger.update(lambda s, r=item: s.with_run(r))


@pytest.mark.parametrize(
    ("lane", "status", "superseded_by", "anew"),
    [
        ("live", "superseded", LABEL, True),
        ("backfill", "superseded", LABEL, True),
        ("backfill", "superseded", "replay_unavailable: the log starts at 70", True),
        ("backfill", "superseded", "incident-3, incident-4", True),
        ("live", "superseded", "incident-3", False),
        ("live", "superseded", "manual__2026", False),
        ("live", "done", None, False),
        ("backfill", "planned", None, False),
    ],
)
def test_a_live_run_that_another_took_over_is_not_planned_anew(lane, status, superseded_by, anew):
    """Its offsets are the other one's; nobody else has those of the rest."""
    found = RunRecord("r", lane, status, "d", NOW, superseded_by=superseded_by)
    assert found.is_to_replan == anew


@pytest.mark.parametrize("form", [{"ranges": RANGES}, HOUR, {}], ids=["ranges", "window", "live"])
def test_an_undone_run_asked_for_again_gets_a_plan_of_its_own(ledger, form):
    """With another id than the plan whose rows were removed; a retry in between keeps it so."""
    run = context(ledger, "again", **form)
    if not form:  # what a rewind leaves to the live lane
        ledger.update(
            lambda s: s.with_head(replace(s.head, positions=(position(20),), coverage=NOWHERE))
        )
    undone = record("again", run.request, "superseded", superseded_by=LABEL)
    closed(ledger, undone)
    proposed = plan_offset_ranges(run)
    assert (proposed.status, proposed.replaces) == ("proposed", undone.plan.plan_id)
    assert plan_offset_ranges(run).replaces == undone.plan.plan_id
    ledger.update(lambda s: s.without_proposals(run.request.lane, but=""))
    frozen = detect_earliest_reset(run)
    assert (frozen.status, frozen.replaces) == ("planned", undone.plan.plan_id)
    first = freeze(
        proposed.proposal,
        stream="orders",
        ledger_id=ledger.read().control.ledger_id,
        run_id="again",
        request=run.request,
        table_uri="/lake/orders",
        now=NOW,
    )
    assert frozen.plan.plan_id not in (undone.plan.plan_id, first.plan_id)
    starts = {"ranges": (20, 60), "from": (0, 60), "live": (20, 100)}[next(iter(form), "live")]
    assert [(r.start_offset, r.end_offset) for r in frozen.plan.ranges] == [starts]
    (told,) = frozen.notices
    assert (told.kind, told.topic) == ("planned_anew", "orders")
    assert LABEL in told.text


def test_its_id_still_stands_for_the_same_request(ledger):
    """Whatever became of it (R1)."""
    first = context(ledger, "again", ranges=RANGES)
    closed(ledger, record("again", first.request, "superseded", superseded_by=LABEL))
    with pytest.raises(RequestConflict):
        plan_offset_ranges(context(ledger, "again"))


@pytest.mark.parametrize("step", [ingest_ranges, verify_ranges, advance_offsets])
@pytest.mark.parametrize("form", [{"ranges": RANGES}, {}], ids=["backfill", "live"])
def test_an_undone_run_cleared_from_a_later_step_on_does_not_end_green(ledger, step, form):
    """There is no plan to execute: it says from where to clear."""
    run = context(ledger, "again", **form)
    closed(ledger, record("again", run.request, "superseded", superseded_by=LABEL))
    with pytest.raises(Halted, match=r"rewind-1 .*clear the run from plan_offset_ranges on"):
        step(run)


@pytest.mark.parametrize("step", [ingest_ranges, verify_ranges, advance_offsets])
@pytest.mark.parametrize("known", [False, True], ids=["no record", "proposed"])
def test_a_run_cleared_from_a_later_step_on_without_a_plan_says_what_to_clear(ledger, step, known):
    """Its proposal was replaced, or the plan that it set out to finish was closed: no bug."""
    run = context(ledger, "again")
    if known:
        ledger.update(
            lambda s: s.with_run(RunRecord("again", "live", "proposed", run.request.digest, NOW))
        )
    with pytest.raises(Halted, match=r"no plan.*clear the run from plan_offset_ranges on"):
        step(run)


def test_a_live_run_that_was_superseded_ends_green(ledger):
    """R3: the run that took over has landed it."""
    run = context(ledger, "a")
    closed(ledger, record("a", run.request, "superseded", superseded_by="b"))
    assert plan_offset_ranges(run).status == "superseded"
    assert run.frozen()[2] is None


def test_a_live_run_cleared_from_resolving_on_is_planned_anew(ledger):
    """Also there."""
    run = context(ledger, "again")
    closed(ledger, record("again", run.request, "superseded", superseded_by=LABEL))
    assert resolve_reset(run) is False
    assert run.record_in(ledger.read()).status == "nothing_to_do"


def test_each_plan_of_a_run_closes_by_itself(ledger):
    """A rewind must tell the plan that was undone from the one that came after."""
    request = RunRequest()
    first = record("a", request, "done")
    second = record("a", request, "done", number=2)
    undone = replace(first, status="superseded", superseded_by=LABEL)
    closed(ledger, first, record("b", request, "done"))
    ledger.update(lambda s: s.with_run(undone))
    closed(ledger, second)
    ledger.update(lambda s: s.with_run(replace(second, superseded_by="amended")))
    found = [
        (c.newest.run_id, c.newest.plan.plan_id, c.newest.is_undone) for c in ledger.closings()
    ]
    assert found == [("a", "plan-a-1", True), ("b", "plan-b-1", False), ("a", "plan-a-2", False)]
    assert ledger.closings()[-1].newest.superseded_by == "amended"
    assert [r.plan.plan_id for r in ledger.closed_runs()] == ["plan-b-1", "plan-a-2"]


def test_a_run_that_was_planned_anew_can_be_undone_and_gone_back_to(ledger):
    """As any other run."""
    request = read_form({"ranges": RANGES}, NOW)
    piece = VerifiedRange(planned(20, 60), 40)
    done = TableCommit("t", 1, 1, 40, 400)
    base = record("base", RunRequest(), "done", verified=(piece,), table_commit=done)
    first = record("again", request, "done")
    second = record("again", request, "done", number=2)
    closed(ledger, base, first)
    ledger.update(lambda s: s.with_run(replace(first, status="superseded", superseded_by=LABEL)))
    closed(ledger, second, record("last", RunRequest(), "done"))
    run = context(ledger, "rewind")
    back = rewind_stream(run, RewindRequest("again", "wrong", "ann"))
    assert back.undone_runs == ("last",)
    back = rewind_stream(run, RewindRequest("base", "wrong", "ann"))
    assert back.undone_runs == ("again",)
    newest = ledger.find_run("again")
    assert (newest.plan.plan_id, newest.is_undone) == ("plan-again-2", True)


@pytest.mark.parametrize("status", ["proposed", "planned"])
def test_a_run_that_is_being_planned_anew_is_undone_once(ledger, status):
    """Its closed plan where the new one is not frozen yet; it never loses its plan's id."""
    base = record("base", RunRequest(), "done")
    closed(ledger, base)
    run = context(ledger, "b", ranges=RANGES)
    first = record("b", run.request, "superseded", superseded_by="replay_unavailable: gone")
    closed(ledger, first)
    second = record("b", run.request, status, number=2, replaces=first.plan.plan_id)
    if status == "proposed":
        second = replace(second, plan=None)
    ledger.update(lambda s: s.with_run(second))
    back = rewind_stream(context(ledger, "rewind"), RewindRequest("base", "wrong", "ann"))
    assert back.undone_runs == ("b",)
    ended = ledger.find_run("b")
    assert ended.is_undone
    assert ended.plan.plan_id == {"proposed": "plan-b-1", "planned": "plan-b-2"}[status]


def test_a_backfill_that_cannot_be_read_ends_and_is_planned_anew_from_what_is_left(ledger):
    """It stayed open until somebody rewound the stream."""
    run = context(ledger, "b", Cluster(start=40), ranges=RANGES)
    frozen = record("b", run.request, "planned")
    ledger.update(lambda s: s.with_run(frozen))
    with pytest.raises(ReplayUnavailable, match="the log starts at 40"):
        ingest_ranges(run)
    assert ledger.read().runs == {}
    ended = ledger.find_run("b")
    assert ended.status == "superseded"
    assert ended.superseded_by.startswith("replay_unavailable: orders-0 [20, 60)")
    assert plan_offset_ranges(run).replaces == frozen.plan.plan_id
    again = detect_earliest_reset(run)
    assert [(r.start_offset, r.end_offset) for r in again.plan.ranges] == [(40, 60)]


@pytest.mark.parametrize("case", ["live", "closed", "committed", "halted"])
def test_only_an_open_backfill_without_rows_is_given_up(ledger, case):
    """The live lane recovers its own; rows and incidents need a decision."""
    form = {} if case == "live" else {"ranges": RANGES}
    run = context(ledger, "b", **form)
    status = "done" if case == "closed" else "planned"
    known = record("b", run.request, status)
    ledger.update(lambda s: s.with_run(known))
    if case == "committed":
        ledger.update(lambda s: s.with_head(replace(s.head, coverage=NOWHERE)))
    if case == "halted":
        finding = Finding("log_hole", "e", "a", "orders", ID, 0, one_interval(30, 40))
        ledger.update(lambda s: s.with_incidents([finding], "b", NOW, known.plan))
    assert not can_be_given_up(run, known, LANDED)


def test_before_a_backfill_is_given_up_its_older_attempts_are_fenced(ledger):
    """R5: one of them has perhaps read it, and would land it under a plan that is closed."""
    run = context(ledger, "b", Cluster(start=40), ranges=RANGES)
    ledger.update(lambda s: s.with_run(record("b", run.request, "planned")).with_next_token())
    with pytest.raises(ReplayUnavailable):
        ingest_ranges(run)
    assert [(f.commit_id, f.token) for f in run.table.fences] == [("plan-b-1.fenced", 3)]


def test_a_backfill_that_an_older_attempt_has_landed_meanwhile_stays_open(ledger):
    """Its rows are verified, or decided about."""
    run = context(ledger, "b", Cluster(start=40), ranges=RANGES)
    ledger.update(lambda s: s.with_run(record("b", run.request, "planned")))
    ledger.update(lambda s: s.with_head(replace(s.head, coverage=NOWHERE)))
    run.table.quicker = LANDED
    with pytest.raises(ReplayUnavailable, match=f"5 {STAYS}"):
        ingest_ranges(run)
    assert ledger.read().runs["b"].is_open


@pytest.mark.parametrize("given_out", [0, 1])
def test_before_a_live_plan_is_superseded_its_older_attempts_are_fenced(ledger, given_out):
    """R5: once its loss is recorded, nobody lands it. Without an attempt there is no commit."""
    run = context(ledger, "b", Cluster(start=40))
    ledger.update(lambda s: s.with_run(record("a", run.request, "planned")))
    if given_out:
        ledger.update(lambda s: s.with_next_token())
    assert recover(run, ledger.read()).runs == {}
    assert [f.token for f in run.table.fences] == [2] * given_out


def test_a_live_plan_that_an_older_attempt_has_landed_meanwhile_is_not_superseded(ledger):
    """Nothing of it is lost: the next run verifies it."""
    run = context(ledger, "b", Cluster(start=40))
    ledger.update(lambda s: s.with_run(record("a", run.request, "planned")).with_next_token())
    ledger.update(lambda s: s.with_head(replace(s.head, coverage=NOWHERE)))
    run.table.quicker = LANDED
    run.table.made = TableCommit("t", 2, 1, 40, 400)
    with pytest.raises(StreamBusy, match="run a has landed its plan meanwhile"):
        recover(run, ledger.read())
    assert ledger.read().runs["a"].is_open


@pytest.mark.parametrize("landed", [{}, LANDED], ids=["rows removed", "rows of others"])
def test_a_backfill_whose_rows_a_decision_has_removed_is_given_up(ledger, landed):
    """Its commit is in the table's log for ever; the run stayed open."""
    run = context(ledger, "b", Cluster(start=40), ranges=RANGES)
    ledger.update(lambda s: s.with_run(record("b", run.request, "planned")))
    run.table.made, run.table.rows = TableCommit("t", 2, 1, 40, 400), landed
    with pytest.raises(ReplayUnavailable, match=PLANNED_AGAIN):
        ingest_ranges(run)
    assert ledger.find_run("b").is_to_replan


def test_a_plan_that_lost_rows_and_cannot_be_read_again_is_verified(ledger):
    """What is left of it must not stay undecided (R6): verifying says what is wrong."""
    run = context(ledger, "b", Cluster(start=40), ranges=RANGES)
    ledger.update(lambda s: s.with_head(replace(s.head, coverage=NOWHERE)))
    ledger.update(lambda s: s.with_run(record("b", run.request, "planned")))
    run.table.made, run.table.rows = TableCommit("t", 2, 1, 40, 400), LANDED
    assert ingest_ranges(run) == run.table.made


def test_nobody_sets_out_to_finish_a_plan_that_was_closed_meanwhile(ledger):
    """Its record would stay open for ever if the run then died."""
    owner = record("a", RunRequest(), "planned")
    ledger.update(lambda s: s.with_run(owner))
    stale = ledger.read()
    ledger.update(lambda s: s.with_run(replace(owner, status="done")))
    with pytest.raises(StreamBusy, match="run a was closed meanwhile"):
        recover(context(ledger, "b"), stale)
    assert ledger.read().runs == {}


def test_an_orphan_of_an_earlier_version_is_closed_by_the_next_live_run(ledger):
    """It set out to finish a plan that somebody else has closed."""
    owner = record("a", RunRequest(), "done")
    closed(ledger, owner)
    orphan = replace(record("b", RunRequest(), "planned"), plan=owner.plan, finishes="a")
    ledger.update(lambda s: s.with_run(orphan))
    recover(context(ledger, "c"), ledger.read())
    assert ledger.read().runs == {}
    assert ledger.find_run("b").superseded_by == "a"


GAP = Finding("log_hole", "e", "a", "orders", ID, 0, one_interval(30, 40))
ACCEPT = Decision("accept_loss", "ann", NOW, "because")


@pytest.mark.parametrize("now", [Decision("fail", "bob", NOW, "wait"), "closed"])
def test_a_decision_that_was_changed_while_it_was_carried_out_does_not_count(ledger, now):
    """The newest word is the person's; the run tries again and meets it."""
    state = ledger.update(lambda s: s.with_incidents([GAP], "a", NOW))
    (incident,) = state.control.incidents
    ledger.update(lambda s: s.with_decision(incident.incident_id, ACCEPT))
    (decided,) = ledger.read().control.incidents
    if now == "closed":
        ledger.update(lambda s: s.with_incidents_closed([decided.closed("x", NOW)]))
    else:
        ledger.update(lambda s: s.with_decision(incident.incident_id, now))
    before = ledger.read()
    with pytest.raises(StreamBusy, match="incident-1 was"):
        accept_gaps(context(ledger, "b"), (decided,))
    assert ledger.read() == before


def test_a_policy_s_decision_is_in_no_ledger():
    """Nobody has decided otherwise."""
    open_one = Incident("incident-1", "a", NOW, GAP)
    state = LedgerState(1, Control("l", "orders", incidents=(open_one,)))
    by_policy = replace(open_one, decision=replace(ACCEPT, by="policy"))
    assert state.decided_alike([by_policy]) is state
    answered = state.with_decision("incident-1", ACCEPT)
    assert answered.decided_alike([replace(open_one, decision=ACCEPT)]) is answered
    with pytest.raises(StreamBusy):
        answered.decided_alike([replace(open_one, decision=replace(ACCEPT, choice="fail"))])
