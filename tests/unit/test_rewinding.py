"""What a rewind undoes, and what it leaves."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.worlds.build import CLUSTER, ID, NOW, OTHER_ID, head, plan, planned, position
from tideline.model.incident import Finding, Incident, UnverifiedRows
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.plan import VerifiedRange
from tideline.model.run import Lost, Rewind, RunRecord
from tideline.rules.rewound import (
    amended_later,
    observable_groups,
    rewound_head,
    trimmed_record,
    undone_incidents,
    undone_ranges,
    undone_record,
)

IDENTITY = PartitionIdentity(ID, 0, 0)
REWIND = Rewind("rewind-1", "a", "wrong", "ann", NOW, "key", undone_runs=("b",))
NAMES = {ID: "orders"}


def covered(*offsets, identity=IDENTITY):
    return Places({identity: tuple(OffsetRange(*o) for o in offsets)})


def run(plan_id, *ranges, verified=True, cluster=CLUSTER):
    frozen = replace(plan(*ranges, run_id=plan_id, plan_id=plan_id), cluster_id=cluster)
    done = tuple(VerifiedRange(r, len(r.offsets)) for r in ranges) if verified else ()
    return RunRecord(plan_id, "live", "done", "digest", NOW, plan=frozen, verified=done)


def spans(ranges):
    return [(r.start_offset, r.end_offset, r.leader_epoch) for r in ranges]


THEN = head(position(100), coverage=covered((0, 100)))
TODAY = head(position(300), coverage=covered((0, 300)), table_id="t", table_version=9, live_runs=3)


def test_what_the_head_gained_is_undone_with_the_epochs_that_read_it():
    """Plans of one epoch that meet are one question to the brokers."""
    undone = [run("b", planned(100, 200, epoch=3)), run("c", planned(200, 250, epoch=3))]
    found = undone_ranges(TODAY, THEN, [*undone, run("d", planned(250, 300, epoch=4))], NAMES)
    assert {c: spans(r) for c, r in found.items()} == {CLUSTER: [(100, 250, 3), (250, 300, 4)]}


def test_what_was_landed_before_stays_whoever_read_it_again():
    """A backfill over landed offsets takes nothing away when it is undone."""
    undone = [run("back", planned(50, 120)), run("b", planned(100, 300))]
    (ranges,) = undone_ranges(TODAY, THEN, undone, NAMES).values()
    assert spans(ranges) == [(100, 300, 3)]


def test_an_offset_is_asked_about_with_the_plan_that_verified_it():
    """A superseded plan of a cut epoch never landed: its epoch proves no loss."""
    never = run("never", planned(100, 300, epoch=2), verified=False)
    (ranges,) = undone_ranges(TODAY, THEN, [never, run("b", planned(100, 200))], NAMES).values()
    assert spans(ranges) == [(100, 200, 3), (200, 300, 2)]


def test_coverage_without_a_record_is_undone_as_well():
    """A damaged ledger keeps no row in the table that its head does not hold."""
    (ranges,) = undone_ranges(TODAY, THEN, [], NAMES).values()
    assert spans(ranges) == [(100, 300, None)]
    assert ranges[0].topic == "orders"


def test_clusters_are_asked_apart():
    """A plan of a swapped cluster is not this one's to serve."""
    undone = [run("b", planned(100, 200), cluster="old"), run("c", planned(200, 300))]
    assert set(undone_ranges(TODAY, THEN, undone, NAMES)) == {"old", CLUSTER}


def test_layers_ask_for_one_range_of_a_partition_at_a_time():
    """Brokers answer about one epoch of a partition, and Delta counts one range."""
    ranges = [planned(0, 10), planned(10, 20, epoch=4), planned(0, 5, partition=1)]
    assert [len(group) for group in observable_groups(ranges)] == [2, 1]
    assert list(observable_groups([])) == []


def test_positions_go_back_and_the_table_stays_the_one_that_is_there():
    """Live runs only ever count up."""
    found = rewound_head(TODAY, THEN, REWIND, 11)
    assert [p.next_offset for p in found.positions] == [p.next_offset for p in THEN.positions]
    assert found.coverage == THEN.coverage
    assert (found.table_id, found.table_version, found.live_runs) == ("t", 11, 3)
    today = replace(TODAY, given_up=("t0",))
    assert rewound_head(today, THEN, REWIND, 11).given_up == ("t0",)


def test_excuses_of_what_stays_stay():
    """Somebody removed verified rows since, and that was approved."""
    today = replace(TODAY, accepted_loss=covered((10, 20), (150, 160)))
    assert rewound_head(today, THEN, REWIND, 11).accepted_loss == covered((10, 20))


def test_what_was_found_unreadable_later_is_read_again():
    """In what stays it stays; in what goes a run asks for it once more."""
    today = replace(TODAY, unreadable=covered((10, 20), (150, 160)))
    assert rewound_head(today, THEN, REWIND, 11).unreadable == covered((10, 20))


def test_an_accepted_loss_moves_the_position_over_what_expired():
    """Across epochs and over what is covered; the new epoch reaches that far."""
    then = replace(THEN, coverage=covered((0, 100), (120, 130)))
    gone = [planned(100, 120, epoch=3), planned(130, 150, epoch=4)]
    lost = tuple(Lost(g, 20, True, "expired") for g in gone)
    found = rewound_head(TODAY, then, replace(REWIND, lost=lost), 11)
    assert (found.positions[0].next_offset, found.positions[0].leader_epoch) == (150, 4)
    assert found.accepted_loss == covered((100, 120), (130, 150))


def test_what_was_cut_or_replaced_moves_no_position():
    """Other records may stand there by now: the next run finds out."""
    lost = (Lost(planned(100, 300), 200, False, "truncated"),)
    (found,) = rewound_head(TODAY, THEN, replace(REWIND, lost=lost), 11).positions
    assert (found.next_offset, found.leader_epoch, found.seen_end) == (100, 3, 300)


def test_what_was_seen_of_a_log_is_not_forgotten():
    """Otherwise nobody would miss what is cut of it; an older epoch tells nothing."""
    for epoch, end, kept in ((3, 400, (3, 400)), (4, None, (4, 300)), (2, 400, (3, None))):
        today = replace(TODAY, positions=(position(300, epoch=epoch, seen_end=end),))
        (found,) = rewound_head(today, THEN, REWIND, 11).positions
        assert (found.next_offset, found.leader_epoch, found.seen_end) == (100, *kept)


@pytest.mark.parametrize("known", [0, 3])
def test_no_epoch_takes_the_place_of_a_known_one(known):
    """What an older ledger has taken over may have none."""
    then = replace(THEN, positions=(position(100, epoch=known),))
    today = replace(TODAY, positions=(position(300, epoch=None),))
    assert rewound_head(today, then, REWIND, 11).positions[0].leader_epoch == known
    lost = (Lost(planned(100, 120, epoch=known), 20, True, "expired"),)
    then = replace(THEN, positions=(position(100, epoch=None),))
    (found,) = rewound_head(today, then, replace(REWIND, lost=lost), 11).positions
    assert (found.next_offset, found.leader_epoch) == (120, known)


def test_an_undone_run_covers_nothing_and_names_the_rewind():
    """Cleared later it ends green."""
    found = undone_record(run("b", planned(100, 200)), REWIND, NOW)
    assert (found.status, found.superseded_by) == ("superseded", "rewind-1 (wrong)")
    assert (found.verified, found.table_commit) == ((), None)


def test_what_a_kept_run_verified_later_is_undone_alone():
    """A gap of it was accepted after the state to go back to."""
    kept = run("a", planned(50, 100), planned(100, 150, partition=1))
    then = replace(THEN, coverage=covered((0, 100)))
    assert [v.planned.partition for v in trimmed_record(kept, then).verified] == [0]
    later = amended_later(kept, then)
    assert [v.planned.partition for v in later.verified] == [1]
    assert later.plan.ranges == ()
    untouched = run("x", planned(0, 100))
    assert trimmed_record(untouched, then) is untouched
    assert amended_later(untouched, then) is None


def test_later_incidents_and_those_of_undone_plans_end():
    """Earlier ones stay, and so does a change of the table."""

    def incident(name, after_seconds, kind="retention_loss", plan_runs=()):
        opened = NOW + timedelta(seconds=after_seconds)
        rows = [UnverifiedRows(f"plan of {run}", run, ()) for run in plan_runs]
        return Incident(name, "r", opened, Finding(kind, "e", "a")).of(*rows)

    found = undone_incidents(
        [
            incident("before", -1),
            incident("after", 1),
            incident("of-plan", -1, plan_runs=["b"]),
            incident("also of another plan", -1, plan_runs=["elsewhere", "b"]),
            incident("table", 1, "table_changed"),
        ],
        REWIND,
        NOW,
        12,
    )
    assert [i.incident_id for i in found] == ["after", "of-plan"]
    assert all("rewind-1: wrong" in i.outcome for i in found)


def test_another_incarnation_is_undone_too():
    """A topic re-created since: its rows go, and its name is asked for."""
    other = PartitionIdentity(OTHER_ID, 0, 0)
    today = replace(TODAY, coverage=THEN.coverage | covered((0, 5), identity=other))
    undone = [run("b", planned(0, 5, topic_id=OTHER_ID))]
    (ranges,) = undone_ranges(today, THEN, undone, NAMES).values()
    assert [(r.topic_id, r.end_offset) for r in ranges] == [(OTHER_ID, 5)]
