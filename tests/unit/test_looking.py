"""What became of a record, and how a stream is doing: every outcome, once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.worlds.build import (
    CLUSTER,
    ID,
    NOW,
    OTHER_ID,
    head,
    observation,
    plan,
    planned,
    position,
    seen,
    topic,
)
from tests.worlds.contract_objects import CLOSED, LOSS, OPEN
from tideline.contract.answers import Statuses
from tideline.model.current import BucketState, Folding, Layout
from tideline.model.decoding import Decoding
from tideline.model.erasures import Erasing
from tideline.model.head import Headroom, KnownCommit
from tideline.model.incident import Finding, Incident
from tideline.model.observation import Gap, PartitionObservation, TopicObservation
from tideline.model.offsets import Beginning, OffsetRange, PartitionIdentity, TopicPartition
from tideline.model.places import Places
from tideline.model.plan import VerifiedRange
from tideline.model.run import RunRecord, TableCommit
from tideline.model.status import CurrentStatus
from tideline.rules.partition_status import partition_statuses
from tideline.rules.positions import mark_named
from tideline.rules.stream_state import doubt, explain_offset, summarize
from tideline.stream.landing import Kafka

LOG = PartitionIdentity(ID, 0, 0)
NEWER = replace(LOG, generation=1)
PLACE = TopicPartition("orders", 0)


def coverage(start, end, identity=LOG):
    return Places({identity: (OffsetRange(start, end),)})


def run(run_id, start, end, *, gaps=(), version=7, lane="live", generation=0, status="done"):
    made = plan(planned(start, end, generation=generation), lane=lane, run_id=run_id)
    verified = (VerifiedRange(made.ranges[0], end - start, gaps),) if status == "done" else ()
    commit = TableCommit(ID, version, 1, 3, 9) if status == "done" else None
    return RunRecord(
        run_id, lane, status, "digest", NOW, plan=made, table_commit=commit, verified=verified
    )


HEAD = head(
    position(100),
    coverage=coverage(0, 80),
    accepted_loss=coverage(2, 4),
)
EMPTY = Folding()
DECODED = Decoding(coverage=coverage(0, 50))
GAP = Gap(OffsetRange(19, 20), "marker")
CLOSED_RUNS = (run("old", 0, 20, gaps=(GAP,)), run("new", 20, 80, version=8))


def explained(
    offset, state=HEAD, open_runs=(), closed_runs=CLOSED_RUNS, incidents=(CLOSED,), erased=()
):
    newest_first = closed_runs[::-1]
    known = (PLACE, offset, state, open_runs, (), DECODED, newest_first, incidents)
    return explain_offset(*known, Erasing().keeping_out(erased))


def test_what_was_erased_by_key_is_neither_landed_nor_lost():
    erased = [planned(20, 21)]
    assert explained(20, erased=erased).outcome == "erased"
    assert explained(21, erased=erased).outcome == "landed"


@pytest.mark.parametrize(
    ("offset", "outcome", "run_id", "version", "decoded"),
    [
        (0, "landed", "old", 7, True),
        (2, "accepted_loss", None, None, True),
        (19, "no_row", "old", 7, True),
        (20, "landed", "new", 8, True),
        (79, "landed", "new", 8, False),
        (80, "gap", None, None, False),
        (99, "gap", None, None, False),
        (100, "unread", None, None, False),
    ],
)
def test_each_offset_has_one_outcome(offset, outcome, run_id, version, decoded):
    """Ends of ranges are exclusive, and a loss counts before the run that read past it."""
    found = explained(offset)
    assert (found.outcome, found.run_id, found.table_version) == (outcome, run_id, version)
    assert (found.decoded, found.next_offset, found.generation) == (decoded, 100, 0)


def test_a_plan_that_is_open_is_named():
    """Its offsets are neither landed nor forgotten, below the next offset or above it."""
    open_run = run("now", 80, 120, status="planned")
    for offset in (80, 119):
        found = explained(offset, open_runs=(open_run,))
        assert (found.outcome, found.run_id) == ("in_flight", "now")
    assert explained(120, open_runs=(open_run,)).outcome == "unread"


def test_a_later_run_that_read_it_again_counts():
    """A backfill has written the row that is there now."""
    again = run("again", 0, 5, version=9, lane="backfill")
    found = explained(1, closed_runs=(*CLOSED_RUNS, again))
    assert (found.run_id, found.table_version) == ("again", 9)
    assert "a backfill" in found.text


def test_what_a_rewind_has_undone_is_landed_by_nobody():
    """A record of a run that was undone still has its ranges; the coverage has not."""
    undone = replace(run("undone", 80, 100), status="superseded", superseded_by="rewind-1 (why)")
    assert explained(90, closed_runs=(*CLOSED_RUNS, undone)).outcome == "gap"
    redone = head(position(100), coverage=coverage(0, 100))
    runs = (*CLOSED_RUNS, run("redone", 80, 100, version=9), undone)
    assert explained(90, redone, closed_runs=runs).run_id == "redone"


def test_a_loss_names_who_accepted_it():
    """The newest decision about that partition that holds the offset."""
    assert explained(2).text == "incident-1: accept_loss by ann: it was meant"
    elsewhere = replace(CLOSED, finding=replace(LOSS, partition=1))
    assert explained(2, incidents=(elsewhere,)).text == "its loss was accepted"


def test_below_a_cut_an_older_generation_is_meant():
    """Its row is that of the older one."""
    cut = head(
        position(30, generation=1),
        coverage=coverage(0, 80) | coverage(20, 30, NEWER),
        beginnings=(Beginning(NEWER, 20),),
    )
    runs = (run("old", 0, 80), run("new", 20, 30, generation=1, version=8))
    assert [explained(o, cut, closed_runs=runs).run_id for o in (19, 20)] == ["old", "new"]
    assert [explained(o, cut, closed_runs=runs).generation for o in (19, 20)] == [0, 1]
    assert explained(30, cut, closed_runs=runs).outcome == "unread"


def test_nothing_is_made_up_where_nothing_is_known():
    """A partition that nobody follows, and a run that history has forgotten."""
    found = explain_offset(TopicPartition("else", 0), 1, HEAD, (), (), DECODED, (), (), Erasing())
    assert (found.outcome, found.topic_id, found.next_offset) == ("not_followed", None, None)
    assert (explained(0, closed_runs=()).outcome, explained(0, closed_runs=()).run_id) == (
        "landed",
        None,
    )
    few = explain_offset(PLACE, 0, HEAD, (), (), DECODED, CLOSED_RUNS[::-1], (), Erasing(), 1)
    assert few.text == "by a run before the newest 1: `tideline explain` names it"


def observed(ends, **facts):
    """Topics as the brokers say them, with these ends."""
    names = sorted({place.topic for place in ends})
    return observation(
        *(
            topic(
                *(seen(0, end, at.partition) for at, end in ends.items() if at.topic == n), name=n
            )
            for n in names
        ),
        **facts,
    )


def status(state=HEAD, incidents=(), ends=None, decoding=DECODED, folding=EMPTY, *, is_typed=False):
    found = None if ends is None else observed(ends)
    stand = partition_statuses(state, found, "read_committed")
    problem = "silence" if found is None else doubt((), state, stand, found, is_newer=True)
    more = {"is_typed": is_typed}
    return summarize("orders", state, decoding, folding, incidents, stand, problem, NOW, **more)


@pytest.mark.parametrize(
    ("state", "incidents", "ends", "expected"),
    [
        (head(), (), None, "never_run"),
        (HEAD, (), {PLACE: 100}, "up_to_date"),
        (HEAD, (), {PLACE: 101}, "behind"),
        (HEAD, (OPEN,), {PLACE: 100}, "halted"),
        (HEAD, (replace(OPEN, asked_in="run-1"),), {PLACE: 100}, "waiting"),
        (HEAD, (replace(CLOSED, closed_at=None),), {PLACE: 100}, "decided"),
        (head(), (OPEN,), None, "halted"),
    ],
)
def test_a_state_says_what_a_person_has_to_know_first(state, incidents, ends, expected):
    """An incident that is decided waits for a run, not for a person."""
    assert status(state, incidents, ends, decoding=Decoding()).state == expected


def test_what_is_not_decoded_is_behind():
    """A decoding that fails each time has no incident."""
    assert status(HEAD, ends={PLACE: 100}).undecoded > 0
    assert status(HEAD, ends={PLACE: 100}, is_typed=True).state == "behind"
    assert status(HEAD, ends={PLACE: 100}, is_typed=False).state == "up_to_date"  # no longer asked


def test_lag_is_the_brokers_or_as_the_last_run_saw_it():
    """Zero is not the same as unknown."""
    last = head(position(100, seen_end=130), position(5, partition=1))
    assert (status(last).offset_lag, status(last).is_measured) == (30, False)
    now = status(last, ends={PLACE: 150, TopicPartition("orders", 1): 5})
    assert (now.offset_lag, now.is_measured) == (50, True)
    assert status(head(position(100))).offset_lag is None
    below = status(HEAD, ends={PLACE: 10})  # a truncated log is detection's, no negative lag
    assert (below.offset_lag, below.is_measured) == (0, True)
    assert below.problem == (
        "topic orders: partition 0: the log ends at 10, below the next offset 100"
    )


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (topic(seen(0, 100)), None),
        (topic(seen(100, 100)), None),
        (topic(name="other"), "topic orders: the brokers were not asked about it yet"),
        (
            TopicObservation("orders", None, refusal="TopicAuthorizationFailedError"),
            "topic orders: TopicAuthorizationFailedError",
        ),
        (TopicObservation("orders", None, fault="LeaderMoved"), "topic orders: LeaderMoved"),
        (TopicObservation("orders", None), "topic orders: there is none in the cluster"),
        (
            topic(seen(0, 500), topic_id=OTHER_ID),
            f"topic orders: created again, its id was {ID} and is {OTHER_ID}",
        ),
        (
            topic(PartitionObservation(0, refusal="NotLeader")),
            "topic orders: partition 0: NotLeader",
        ),
    ],
)
def test_a_topic_that_does_not_answer_is_not_called_measured(said, problem):
    """Otherwise a stream whose topic is gone, or may not be read, would look up to date."""
    state = head(position(100, seen_end=130))
    stand = partition_statuses(state, observation(said), "read_committed")
    why = doubt(["orders"], state, stand, observation(said), is_newer=True)
    found = summarize("orders", state, DECODED, Folding(), (), stand, why, NOW)
    assert found.problem == problem
    if problem is not None:
        assert (found.offset_lag, found.is_measured, found.state) == (30, False, "behind")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (topic(seen(0, 100), seen(0, 5, 1)), "partition 1: no run has read it yet, and the log is"),
        (topic(seen(0, 100), seen(9, 9, 1)), "partition 1: no run has read it yet, and the log is"),
        (topic(seen(0, 100), seen(0, 0, 1)), None),
        (topic(seen(0, 100), seen(0, 60, 2)), "partition 2: retired at 50, and the log ends at 60"),
        (topic(seen(0, 100), seen(0, 50, 2)), None),
    ],
)
def test_records_that_no_lag_counts_are_told(found, told):
    """Of a partition that was added, or that was retired and is there: "up to date" would hide it.

    Not before the first run, and not where an open incident says more.
    """
    state = replace(head(position(100)), retired=(position(50, partition=2),))
    log = observation(found)
    stand = partition_statuses(state, log, "read_committed")
    doubted = partial(doubt, ["orders"], state, stand, log, is_newer=True)
    assert str(doubted()).startswith(f"topic orders: {told}" if told else "None")
    halted = Incident("incident-1", "one", NOW, Finding("x", "", "", "orders", ID, None))
    assert doubted(incidents=[halted]) is None
    assert doubt(["orders"], head(), (), log, is_newer=True) is None


def test_a_topic_that_was_retired_is_not_missed_and_one_of_its_name_is_told():
    """A topic that is created anew begins at its log start; a stream without positions has run."""
    state = replace(head(), retired=(position(100),))
    assert doubt(["orders"], state, (), observation(), is_newer=True) is None
    gone = observation(TopicObservation("orders", None))
    assert doubt(["orders"], state, (), gone, is_newer=True) is None
    for start, told in (0, True), (7, False):
        anew = observation(topic(seen(start, 7), topic_id=OTHER_ID))
        found = doubt(["orders"], state, (), anew, is_newer=True)
        assert ("no run has read it yet" in str(found)) is told
    assert status(state).state == "up_to_date"


def test_records_that_are_gone_before_they_were_read_are_told():
    """The next run will find them lost; until then nothing else says so, and nothing is left."""
    state, expired = head(position(100)), observation(topic(seen(130, 150)))
    stand = partition_statuses(state, expired, "read_committed")
    why = doubt(["orders"], state, stand, expired, is_newer=True)
    assert why == "topic orders: partition 0: the log starts at 130, above the next offset 100"
    measured = (Headroom("orders", 0, 130, NOW, 7_200_000),)
    for known in (state, replace(state, headroom=measured)):
        stand = partition_statuses(known, expired, "read_committed")
        found = summarize("orders", known, DECODED, Folding(), (), stand, why, NOW)
        assert (found.headroom_seconds, found.headroom_estimated) == (0, False)


@pytest.mark.parametrize(
    ("found", "cause", "place"),
    [
        (topic(seen(130, 150)), "retention_loss", 0),
        (topic(seen(0, 50)), "truncation", 0),
        (topic(seen(0, 100), topic_id=OTHER_ID), "topic_recreated", None),
    ],
)
def test_what_an_open_incident_says_is_not_told_again(found, cause, place):
    """A run has checked it: "the next run will check" would be wrong."""
    state, log = head(position(100)), observation(found)
    stand = partition_statuses(state, log, "read_committed")
    doubted = partial(doubt, ["orders"], state, stand, log, is_newer=True)
    assert doubted()
    finding = Finding(cause, "", "", "orders", ID, place)
    assert doubted(incidents=[Incident("incident-1", "one", NOW, finding)]) is None
    elsewhere = replace(finding, partition=7)
    assert doubted(incidents=[Incident("incident-1", "one", NOW, elsewhere)]) == doubted()


def test_headroom_is_estimated_where_no_run_has_measured_it():
    """Of a stream whose Dag is paused, nobody else says when retention reaches it."""
    state, log = head(position(100)), observation(topic(seen(0, 150)))
    guess = (Headroom("orders", 0, 100, NOW, 7_200_000),)
    stand = partition_statuses(state, log, "read_committed", guess)
    found = summarize("orders", state, DECODED, Folding(), (), stand, None, NOW)
    assert (found.headroom_seconds, found.headroom_estimated) == (7_200, True)
    run = (Headroom("orders", 0, 100, NOW, 3_600_000),)
    stand = partition_statuses(replace(state, headroom=run), log, "read_committed", guess)
    found = summarize(
        "orders", replace(state, headroom=run), DECODED, Folding(), (), stand, None, NOW
    )
    assert (found.headroom_seconds, found.headroom_estimated) == (3_600, False)


def test_what_a_backfill_has_landed_past_the_position_is_not_gone():
    """Retention has reached it, and its rows are in the table: detection has no finding either."""
    state = head(position(100), coverage=coverage(0, 130))
    expired = observation(topic(seen(130, 150)))
    stand = partition_statuses(state, expired, "read_committed")
    assert doubt(["orders"], state, stand, expired, is_newer=True) is None
    further = observation(topic(seen(131, 150)))
    stand = partition_statuses(state, further, "read_committed")
    assert "starts at 131" in doubt(["orders"], state, stand, further, is_newer=True)


def test_another_cluster_is_told_before_anything_else():
    """Even if its topic had the same id."""
    state, other = head(position(100)), observation(topic(seen(0, 100)), cluster="other")
    stand = partition_statuses(state, other, "read_committed")
    assert (
        doubt([], state, stand, other, is_newer=True)
        == f"another cluster: its id was {CLUSTER} and is other"
    )
    assert doubt([], head(), (), other, is_newer=True) is None


def test_an_older_observation_cuts_no_log():
    """A run has landed since the brokers were asked: the log went on after them, too."""
    landed = head(position(150))
    before = observation(topic(seen(0, 100)))
    stand = partition_statuses(landed, before, "read_committed")
    assert doubt(["orders"], landed, stand, before, is_newer=False) is None
    assert "ends at 100" in doubt(["orders"], landed, stand, before, is_newer=True)
    other = observation(topic(seen(0, 100), topic_id=OTHER_ID))
    stand = partition_statuses(landed, other, "read_committed")
    told = doubt(["orders"], landed, stand, other, is_newer=False)
    assert told == "the brokers were asked before the ledger's last change"


def test_doubts_are_counted_and_topics_set_aside_have_none():
    """One is told; a set-aside topic may be gone."""
    state = head(position(100), position(1, topic="old", topic_id=OTHER_ID), set_aside=("old",))
    gone = [TopicObservation(name, None) for name in ("orders", "old", "new")]
    found = doubt(["orders", "new"], state, (), observation(*gone), is_newer=True)
    assert found == "topic new: there is none in the cluster and 1 more"


def test_topics_that_are_set_aside_do_not_count():
    """Nobody waits for them."""
    state = head(position(100), position(1, topic="old", topic_id=OTHER_ID), set_aside=("old",))
    found = status(state, ends={PLACE: 110, TopicPartition("old", 0): 500})
    assert (found.partitions, found.offset_lag) == (1, 10)


def test_the_least_headroom_and_the_oldest_record_count():
    """They are of what is unread."""
    written = [NOW - timedelta(hours=h) for h in (1, 3)]
    rooms = tuple(Headroom("orders", n, 5, at, 7_200_000) for n, at in enumerate(written))
    both = (*HEAD.positions, position(5, partition=1))
    state = replace(
        HEAD, positions=both, headroom=rooms, commits=(KnownCommit(8, 1, "plan-2", "new"),)
    )
    found = status(state, ends={PLACE: 101})
    assert (found.oldest_unread_at, found.headroom_seconds) == (written[1], -3600)
    assert (found.last_run, found.last_landed_version, found.undecoded) == ("new", 8, 30)
    read = status(state, ends={PLACE: 100})
    assert (read.oldest_unread_at, read.headroom_seconds) == (None, None)
    assert status(HEAD, decoding=Decoding()).undecoded is None
    assert status(HEAD, decoding=Decoding(in_quarantine=7)).in_quarantine == 7
    first = summarize(
        "orders", HEAD, Decoding(), Folding(), (), (), None, NOW, is_typed=True
    ).undecoded
    assert first == sum(len(r) for _, r in HEAD.coverage.pieces) > 0
    assert found.current is None


def test_the_current_table_in_a_few_numbers():
    """What is decoded and not folded, or folded and decoded again since, is still to fold."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    folding = Folding(
        coverage=coverage(0, 40),
        changed=coverage(10, 15),
        layout=Layout(("id",), 4),
        buckets=(BucketState(0, 5, 1, 7), BucketState(3, 2, 0, 9)),
        folded_at=at,
        unproven_since=at,
    )
    found = status(folding=folding).current
    assert found == CurrentStatus(7, 1, 4, 15, at, at)
    told = Statuses(streams=[status(folding=folding)]).data()["streams"][0]["current"]
    assert (told["unfolded"], told["folded_at"]) == (15, "2026-01-02T00:00:00+00:00")


def test_a_topic_that_the_stream_file_no_longer_names_counts_for_nothing():
    """Before the next run has noted it, too; a pattern is not tried."""
    last = head(
        position(100, seen_end=130), position(1, seen_end=9, topic="old", topic_id=OTHER_ID)
    )
    now = mark_named(last, Kafka(connection="k", topics=["orders"]))
    seen_now = observation(topic(seen(0, 100)))
    stand = partition_statuses(now, seen_now, "read_committed")
    assert doubt(["orders"], now, stand, seen_now, is_newer=True) is None
    found = summarize("orders", now, DECODED, Folding(), (), stand, None, NOW)
    assert (found.offset_lag, found.is_measured, found.partitions) == (0, True, 1)
    endless = Kafka(connection="k", topic_pattern="(a|aa)+")
    named = head(position(1, topic="a" * 60 + "b"))
    assert mark_named(named, endless) is named
