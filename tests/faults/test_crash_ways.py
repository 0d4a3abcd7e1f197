"""Row 20, the rare places: where an earlier run left something, or something was found."""

import pytest

from tests.faults.crash import SENT
from tests.faults.killable import Killable
from tests.faults.ledgers import InFiles
from tests.worlds.spark_doubles import HookedSpark, LossySpark
from tests.worlds.streams import decide, folder_of
from tideline.failpoints import PLACES, RARE_PLACES

pytestmark = pytest.mark.slow

ELSEWHERE = ("table:created", "event:ready")
ELSEWHERE += ("rewind:begun", "rewind:removed", "rewind:finished")
ELSEWHERE += ("move:begun", "move:copied", "move:marked", "tidy:written", "tidy:merged")
ELSEWHERE += ("maintain:merged", "maintain:committed", "maintain:vacuuming", "maintain:vacuumed")
ELSEWHERE += ("maintain:let_go_noted", "maintain:let_go")
"""Those of a new table and of Airflow's tasks have tests in other modules here, a rewind's in
`spark/test_rewind.py`; a move's, a tidying's and a maintenance's in `integration`.
"""


def finishing(crash, place):
    """A plan that nobody has read: the next run sets out to finish it, and dies as well."""
    crash.waits()
    crash.dies("detect:frozen")
    crash.dies(place, "two")
    crash.repeat("two")


def superseded(crash, place):
    """A plan that can no longer be read; what it lost is found anew."""
    crash.waits()
    crash.dies("detect:frozen")
    crash.harness.delete_records(before=40)
    crash.dies(place, "two")
    decide_loss(crash)
    crash.forget({r for r in crash.log.acknowledged if r[2] < 40})
    crash.repeat("two")
    assert crash.repeat("one").status == "superseded"


def kept(crash, place):
    """Evidence for an offset without a row."""
    crash.follow()
    crash.log.transact(crash.topic, (SENT, True))
    crash.dies(place)
    crash.repeat()


def halting(crash, place):
    """An incident: opened once, however often somebody comes upon it."""
    retention_loss(crash)
    crash.dies(place, "two")
    decide_loss(crash)
    assert crash.incidents_opened == 1
    crash.repeat("two")


def answering(crash, place):
    """`tideline resolve`: the answer is there, or it is not."""
    retention_loss(crash)
    crash.halts("retention_loss", run_id="two")
    command = ("resolve", crash.file, "--incident", "incident-1", "--choice", "accept_loss")
    with Killable(
        crash.spark, crash.harness.folder, *command, "--reason", "x", point=f"{place}:kill"
    ) as dying:
        assert dying.ended() == -9, dying.said
    crash.verdict = "halted: retention_loss, then one copy"
    crash.repeat("two")


def carrying_out(crash, place):
    """Position, incident and plan move in one step."""
    retention_loss(crash)
    decide_loss(crash)
    crash.dies(place, "two")
    crash.repeat("two")


def accepting(crash, place):
    """Missing offsets of a landed plan, accepted."""
    crash.waits()
    gap(crash)
    decide(crash.stream, "accept_loss")
    crash.dies(place)
    crash.repeat()


def recovering_partly(crash, place):
    """A halted plan is closed with its healthy partition verified."""
    crash.waits(partitions=2, on_incident="proceed")
    gap(crash)
    crash.dies(place, "two")
    crash.repeat("two")
    decide(crash.stream, "accept_loss")
    crash.repeat("three")


def removing(crash, place):
    """R6: rows of another incarnation are removed before the decision takes effect."""
    crash.waits()

    def recreate():
        crash.harness.delete()
        crash.harness.create(partitions=1)
        crash.log.written.clear()
        crash.send(300)

    crash.attempts += 1
    crash.halts("topic_recreated", HookedSpark(crash.spark, before=recreate), run_id="one")
    decide(crash.stream, "restart")
    crash.verdict = "halted: topic_recreated, then one copy"
    crash.dies(place, "two")
    crash.repeat("two")


def taking_the_table(crash, place):
    """An approved delete by others that a frozen plan ran into."""
    crash.waits()
    crash.repeat("zero")
    crash.send(20)
    crash.dies("detect:frozen")
    table = crash.stream.table.uri
    crash.spark.session.sql(f"DELETE FROM delta.`{table}` WHERE offset < 10").collect()
    gone = {r for r in crash.log.acknowledged if r[2] < 10}
    crash.log.acknowledged -= gone
    crash.forget(gone)
    crash.attempts += 1
    crash.halts("table_changed", run_id="one")
    decide(crash.stream, "approve")
    crash.verdict = "halted: table_changed, then one copy"
    crash.dies(place)
    crash.repeat()


def taking_over(crash, place):
    """A backup of the ledger in its place: the table's own commits are taken over."""
    crash.waits()
    crash.repeat("zero")
    ledger = crash.database or InFiles(folder_of(crash.stream.ledger_location.address))
    ledger.save()
    crash.send(20)
    crash.repeat("forgotten")
    ledger.restore()
    crash.attempts += 1
    crash.halts("table_changed", run_id="one")
    decide(crash.stream, "approve")
    crash.verdict = "halted: table_changed, then one copy"
    crash.dies(place, "one")
    crash.repeat("one")


WAYS = {
    "plan:finishing": finishing,
    "plan:superseded": superseded,
    "verify:kept": kept,
    "halt:opening": halting,
    "halt:opened": halting,
    "resolve:answered": answering,
    "resolve:decided": carrying_out,
    "resolve:carried_out": carrying_out,
    "resolve:accepted": accepting,
    "recover:closed_partly": recovering_partly,
    "resolve:removed": removing,
    "resolve:took_table": taking_the_table,
    "resolve:took_over": taking_over,
}


def test_every_rare_place_has_a_way_to_it():
    """A place that nobody is killed at proves nothing."""
    assert sorted({*WAYS, *ELSEWHERE} - set(PLACES)) == sorted(RARE_PLACES)


@pytest.mark.parametrize("place", WAYS)
def test_killed_on_a_rare_way(crash, place):
    """Each step is one compare-and-swap: it has happened once, or not yet."""
    WAYS[place](crash, place)
    crash.judge_crash(f"run killed at {place}")


def retention_loss(crash):
    """Records [100, 130) are gone before they were read."""
    crash.waits()
    crash.repeat("zero")
    crash.send(50)
    crash.harness.delete_records(before=130)
    crash.forget({r for r in crash.log.acknowledged if 100 <= r[2] < 130})


def decide_loss(crash):
    crash.attempts += 1
    crash.halts("retention_loss", run_id="two")
    decide(crash.stream, "accept_loss")
    crash.verdict = "halted: retention_loss, then one copy"


def gap(crash):
    """A reader that drops the last ten records of partition 0 and says nothing."""
    crash.attempts += 1
    crash.halts("unexplained_gap", LossySpark(crash.spark, 10), run_id="one")
    crash.forget({r for r in crash.log.acknowledged if r[1] == 0 and r[2] >= SENT - 10})
    crash.verdict = "halted: unexplained_gap, then one copy"
