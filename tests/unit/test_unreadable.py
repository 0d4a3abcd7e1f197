"""Records that Spark cannot read: finding them, naming them, reading around them."""

from dataclasses import dataclass, replace

import pytest

from tests.worlds.build import NOW, head, plan, planned, position
from tideline.errors import StreamBusy
from tideline.ledger.state import Control, LedgerState
from tideline.model.incident import Decision, Incident
from tideline.model.offsets import OffsetRange
from tideline.model.places import NOWHERE, Places
from tideline.model.spark_job import Unreadable, readable_groups
from tideline.model.verdicts import POLICIES, valid_choices
from tideline.rules.resolution import accept_gap
from tideline.rules.unreadable import bisect, halves, unreadable_findings, without_rows
from tideline.spark.failures import failed_to_decode, reason_at_a_record

OVERFLOW = "java.lang.ArithmeticException: long overflow"
AROUND = """An error occurred while calling o119.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.
Caused by: {}
\tat java.base/java.lang.Math.multiplyExact(Math.java:1004)
"""


def spans(found):
    return [(u.range.partition, u.range.start_offset, u.range.end_offset) for u in found]


class Log:
    """A log with unreadable offsets, by partition; counts what is read."""

    def __init__(self, *bad, fails=None):
        self.bad, self.fails, self.read, self.parts = set(bad), fails, 0, []

    def __call__(self, part):
        self.parts.append(part)
        self.read += sum(len(r.offsets) for r in part)
        asked = {(r.partition, o) for r in part for o in range(r.start_offset, r.end_offset)}
        if self.fails is not None and len(self.parts) > self.fails:
            return None
        return OVERFLOW if asked & self.bad else None


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        ([(0, 104)], [(0, 104, 105)]),
        ([(0, 100)], [(0, 100, 101)]),
        ([(0, 199)], [(0, 199, 200)]),
        ([(0, 103), (0, 107)], [(0, 103, 104), (0, 107, 108)]),
        ([(0, 104), (0, 105), (0, 106)], [(0, 104, 107)]),
        ([(1, 5), (2, 0)], [(1, 5, 6), (2, 0, 1)]),
    ],
)
def test_exactly_the_offsets_that_fail_are_found(bad, found):
    """At the start, in the middle, at the end, several, adjacent, in other partitions."""
    ranges = [planned(100, 200), planned(0, 50, partition=1), planned(0, 1, partition=2)]
    log = Log(*bad)
    assert spans(bisect(ranges, log, most=100)) == found
    assert log.read <= 2 * 151 + 4 * 8 * len(bad)


@pytest.mark.parametrize("fails", range(12))
def test_a_failure_that_passes_is_none(fails):
    """Also where it passes between the two readings of a single offset."""
    assert bisect([planned(100, 132)], Log((0, 100), fails=fails), most=9) == ()


def test_a_single_offset_has_to_fail_twice():
    """Once may be a fault that passes."""
    log = Log((0, 100), fails=1)
    assert bisect([planned(100, 101)], log, most=9) == ()
    assert len(log.parts) == 2


def test_what_may_pass_is_raised():
    """A broker that is away while the offset is looked for proves nothing."""

    def attempt(part):
        raise TimeoutError

    with pytest.raises(TimeoutError):
        bisect([planned()], attempt, most=9)


def test_looking_ends_in_time():
    """What is found by then is told; a later run finds the rest."""
    everything = {(0, o) for o in range(100, 200)}
    assert spans(bisect([planned(100, 200)], Log(*everything), most=3)) == [(0, 100, 103)]
    assert bisect([planned(100, 200)], Log(*everything), most=3, is_late=lambda: True) == ()


def test_halves_cut_at_most_one_range():
    """Each holds at most one piece of a partition, as Spark's source reads them."""
    first, second = halves([planned(0, 10), planned(0, 30, partition=1)])
    assert [len(r.offsets) for r in (*first, *second)] == [10, 10, 20]
    assert [(r.partition, r.start_offset) for r in second] == [(1, 10)]


@pytest.mark.parametrize(
    "cause",
    [
        OVERFLOW,
        "org.apache.kafka.common.KafkaException: Received exception when fetching the next record"
        " from orders-0. If needed, please seek past the record to continue consumption.",
        "org.apache.kafka.common.errors.CorruptRecordException: Record is corrupt",
        "org.apache.kafka.common.InvalidRecordException: Invalid record size",
        "java.nio.BufferUnderflowException",
        "org.apache.spark.SparkUpgradeException: [INCONSISTENT_BEHAVIOR_CROSS_VERSION]",
    ],
)
def test_what_a_record_s_content_causes_comes_again(cause):
    """Its class and message are told, not Spark's words around it."""
    assert reason_at_a_record(AROUND.format(cause)) == cause[:200]


@pytest.mark.parametrize(
    "cause",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        f"java.lang.OutOfMemoryError: Java heap space\nCaused by: {OVERFLOW}",
        "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired",
        "java.lang.IllegalStateException: Cannot fetch offset 5 (GroupId: g, TopicPartition: o-0)",
        "java.io.IOException: No space left on device",
        "org.apache.spark.ExecutorLostFailure",
        "java.lang.NullPointerException",
    ],
)
def test_everything_else_may_pass(cause):
    """Brokers, stores, memory, executors, and what nobody knows."""
    assert reason_at_a_record(AROUND.format(cause)) is None


OF_A_VALUE = (
    "[INVALID_INDEX_OF_ZERO] The index 0 is invalid. An index shall be either < 0 or > 0 (the first"
    " element has index 1). SQLSTATE: 22003\n== SQL (line 1, position 1) ==\nelement_at(x, n) > 0"
)


@dataclass
class Decodes:
    """All that is asked of a job and its plan."""

    transform: str | None = None

    @property
    def plan(self):
        return self


@pytest.mark.parametrize(
    ("error", "job", "expected", "told"),
    [
        (OF_A_VALUE, Decodes("mine:f"), "BadInput", "decode.transform: mine:f cannot be worked"),
        (OVERFLOW, Decodes(), "TidelineError", OVERFLOW),
        (OF_A_VALUE, Decodes(), "TidelineError", "[INVALID_INDEX_OF_ZERO]"),
        (KeyError("bucket"), Decodes(), "TidelineError", "KeyError: 'bucket'"),
        (OverflowError("too large"), Decodes(), "TidelineError", "OverflowError: too large"),
        (f"OutOfMemoryError\n{OF_A_VALUE}", Decodes(), "ServiceAway", "OutOfMemoryError"),
        ("[FAILED_READ_FILE] SQLSTATE: KD001", Decodes(), "ServiceAway", "FAILED_READ_FILE"),
    ],
)
def test_an_error_of_values_is_never_a_service_that_is_away(error, job, expected, told):
    """It comes again with each run: whose condition it is has to correct it, or it is our bug."""
    raised = error if isinstance(error, Exception) else RuntimeError(AROUND.format(error))
    found = failed_to_decode(None, job, raised)
    assert (found.error, told in found.message) == (expected, True), found.message


def test_what_is_left_is_read_in_layers_of_one_piece_per_partition():
    """Spark's source reads one range per partition."""
    ranges = [planned(0, 10), planned(0, 10, partition=1), planned(0, 1, partition=2)]
    known = Places(
        {
            ranges[0].identity: (OffsetRange(0, 1), OffsetRange(4, 6), OffsetRange(90, 99)),
            ranges[2].identity: (OffsetRange(0, 5),),
            planned(generation=1).identity: (OffsetRange(7, 8),),
        }
    )
    groups = readable_groups(ranges, known.cut(ranges))
    assert [[(r.partition, *r.coordinates[3:]) for r in group] for group in groups] == [
        [(0, 1, 4), (1, 0, 10)],
        [(0, 6, 10)],
    ]
    assert readable_groups(ranges, ()) == (tuple(ranges),)
    assert readable_groups(ranges[2:], known.cut(ranges)) == ()


def incident(choice="accept_loss", lane="live"):
    """An incident about offsets 104 and 107, decided."""
    found = [Unreadable(planned(o, o + 1).as_coordinates, OVERFLOW) for o in (107, 104)]
    (finding,) = unreadable_findings(found, plan(planned(), lane=lane))
    decision = Decision(choice, "ann", NOW, "gone")
    return Incident("incident-1", "run", NOW, finding, unverified=(planned(),), decision=decision)


def test_a_finding_names_partition_offsets_and_reason():
    """One per partition; a backfill's are its own."""
    finding = incident().finding
    assert finding.intervals == (OffsetRange(104, 105), OffsetRange(107, 108))
    assert "orders-0: unreadable_record: Spark cannot read some records" in str(finding)
    assert OVERFLOW in str(finding)
    assert (finding.backfill, incident(lane="backfill").finding.backfill) == (None, "plan-1")
    two = [Unreadable(planned(5, 6, partition=p).as_coordinates, OVERFLOW) for p in (0, 1)]
    assert [f.place for f in unreadable_findings(two, plan())] == ["orders-0", "orders-1"]


def test_an_accepted_loss_is_not_read_again_and_a_retry_records_nothing():
    """Exactly the named offsets."""
    known = head(position())
    lost = Places({planned().identity: (OffsetRange(104, 105), OffsetRange(107, 108))})
    effect = accept_gap(known, incident())
    assert (effect.head.accepted_loss, effect.head.unreadable) == (lost, lost)
    assert effect.head.positions == known.positions
    assert accept_gap(known, incident("retry")).head == known


def test_another_gap_may_be_read_again():
    """Only what Spark cannot read is left out of later plans."""
    gap = replace(incident(), finding=replace(incident().finding, kind="unexplained_gap"))
    effect = accept_gap(head(position()), gap)
    assert (len(effect.head.accepted_loss), effect.head.unreadable) == (1, NOWHERE)


def test_a_decision_covers_the_offsets_that_were_shown():
    """If more turn out to be unreadable, it is asked for again."""
    decided = incident()
    state = LedgerState(0, Control("ledger", "orders", incidents=(decided,)))
    same = state.with_incidents([decided.finding], "again", NOW, plan(planned()))
    assert same.control.incidents[0].decision == decided.decision
    more = replace(decided.finding, intervals=(OffsetRange(104, 110),))
    (known,) = state.with_incidents([more], "again", NOW, plan(planned())).control.incidents
    assert (known.incident_id, known.decision) == ("incident-1", None)


def test_to_try_again_is_a_choice_and_no_policy():
    """As a policy, every run would start Spark in vain."""
    assert valid_choices("unreadable_record") == ("accept_loss", "retry", "fail")
    assert POLICIES["unreadable_record"] == ("fail", "approve", "accept_loss")


def test_offsets_with_a_row_are_not_lost():
    """Of the same log only: another generation's row is another record."""
    ranges = (planned(104, 107), planned(110, 111))
    found = [Unreadable(r.as_coordinates, OVERFLOW) for r in ranges]
    here, newer = planned().identity, planned(generation=1).identity
    assert Places.of(u.range for u in found) == {
        here: (OffsetRange(104, 107), OffsetRange(110, 111)),
    }
    rows = (OffsetRange(105, 106), OffsetRange(110, 120))
    assert spans(without_rows(found, Places({here: rows}))) == [(0, 104, 105), (0, 106, 107)]
    assert without_rows(found, Places({newer: rows})) == tuple(found)
    assert without_rows(found, Places({here: (OffsetRange(0, 200),)})) == ()


def test_a_head_made_of_another_one_never_hides_what_cannot_be_read():
    """Else an offset that this one gave up on would be asked for again, or never again."""
    known = Places({position().identity: (OffsetRange(104, 105),)})
    made_from = head(position(), accepted_loss=known)
    for now in (head(position(), accepted_loss=known, unreadable=known), head(position())):
        state = LedgerState(5, Control("l", "orders"), head=now)
        with pytest.raises(StreamBusy, match="the head moved meanwhile"):
            state.with_head(replace(made_from, live_runs=1), made_from=made_from)
    seen_more = replace(made_from, positions=(position(epoch=4, seen_end=900),))
    state = LedgerState(5, Control("l", "orders"), head=seen_more)
    after = state.with_head(replace(made_from, live_runs=1), made_from=made_from)
    assert after.head == replace(seen_more, live_runs=1).having_noted_incarnations()
