"""An approval covers what was shown, a vanished commit is noticed, a refused table halts (R9, R13).

There is no broker and no Spark here.
"""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.worlds.lake import hide_rows, map_columns, overwrite_commit, replace_table, rows
from tideline.errors import AuditNotClean, ResetDetected, UnreadableTable
from tideline.landing.halting import open_incidents, triage_incidents
from tideline.landing.proof import foreign_changes
from tideline.model.incident import Decision
from tideline.model.request import RequestedRange
from tideline.operations.questions import dry_run, require_clean
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline import decisions
from tideline.pipeline import resolve_reset as steps
from tideline.pipeline.decisions import rows_removed_by_others, take_decided_table
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges


def delete(lake, offset):
    DeltaTable(lake.uri).delete(f"partition = 0 AND offset = {offset}")


def planning(lake, run_id="later"):
    run = lake.open(run_id)
    plan_offset_ranges(run)
    return detect_earliest_reset(run)


def halted(lake, run_id="later"):
    """The incident at which a run halts before anything is read."""
    with pytest.raises(ResetDetected) as found:
        planning(lake, run_id)
    (incident,) = found.value.incidents
    assert incident == lake.ledger.read().open_incident(incident.incident_id)
    return incident


def approve(lake, incident):
    decision = Decision("approve", "ann", datetime.now(UTC), "it was meant")
    lake.ledger.update(lambda s: s.with_decision(incident.incident_id, decision))


def carry_out(lake, run_id="later"):
    """The steps that carry a decision out; the ledger's head after them."""
    assert planning(lake, run_id).status == "proposed"
    assert resolve_reset(lake.open(run_id))
    return lake.ledger.read().head


def lost(head):
    """Accepted losses as (partition, start, end)."""
    return [(log.partition, r.start_offset, r.end_offset) for log, r in head.accepted_loss.pieces]


def put_back(lake, copy):
    """An older copy of the table in place of today's."""
    shutil.rmtree(lake.uri)
    shutil.copytree(copy, lake.uri)


CHANGES = {
    "rows removed": (partial(delete, offset=50), partial(delete, offset=60)),
    "a commit overwritten": (overwrite_commit, partial(delete, offset=60)),
    "another table": (replace_table, replace_table),
    "an older table": (
        lambda lake: lake.commit_file(2).unlink(),
        lambda lake: lake.commit_file(1).unlink(),
    ),
    "no table": (lambda lake: shutil.rmtree(lake.uri), lambda lake: replace_table(lake)),
    "a log that was cut": (
        lambda lake: (delete(lake, 50), delete(lake, 60), cut(lake, 3)),
        partial(delete, offset=70),
    ),
}


def cut(lake, version):
    """Log cleanup: a checkpoint, and an older commit gone."""
    DeltaTable(lake.uri).create_checkpoint()
    lake.commit_file(version).unlink()


@pytest.mark.parametrize("kind", CHANGES)
def test_a_further_change_after_the_decision_is_another_incident(lake, kind):
    """What was approved is no more what is there: nothing is carried out, whatever the lane."""
    first, further = CHANGES[kind]
    first(lake)
    shown = halted(lake)
    approve(lake, shown)
    before = lake.ledger.read().head
    further(lake)
    again = halted(lake)
    assert again.incident_id != shown.incident_id
    assert again.decision is None
    assert lake.ledger.read().head == before
    closed = {i.incident_id: i.outcome for i in lake.ledger.closed_incidents()}
    assert closed == {shown.incident_id: f"the table has changed again: {again.incident_id}"}
    approve(lake, again)
    head = carry_out(lake)
    assert lake.ledger.read().control.incidents == ()
    assert lost(head)


def test_an_append_after_the_decision_is_no_further_change(lake):
    """The approval counts, and the known version goes no further than what was shown."""
    delete(lake, 50)
    approve(lake, halted(lake))
    lake.append(rows(0, 3, partition=9))
    assert carry_out(lake).table_version == 3


def test_a_change_after_the_last_look_is_not_carried_out_along(lake, monkeypatch):
    """The decision goes by what the observation shows; the next look finds what came after it."""
    delete(lake, 50)
    approve(lake, halted(lake))
    assert planning(lake).status == "proposed"
    heads = []

    def meanwhile(run, head, version):
        delete(lake, 60)
        removed = rows_removed_by_others(run, head, version)
        heads.append((version, [str(r) for _, r in removed.pieces]))
        return removed

    monkeypatch.setattr(steps, "rows_removed_by_others", meanwhile)
    with pytest.raises(ResetDetected, match="version 4: DELETE"):
        resolve_reset(lake.open("later"))
    assert heads == [(3, ["[50, 51)"])]
    head = lake.ledger.read().head
    assert (head.table_version, lost(head)) == (3, [(0, 50, 51)])


def frozen(lake):
    """A run whose plan was frozen before the table changed."""
    assert planning(lake, "frozen").status == "planned"
    run = lake.open("frozen")
    return run, run.frozen()[2]


@pytest.mark.parametrize("kind", CHANGES)
def test_a_frozen_plan_takes_the_table_as_it_was_shown_only(lake, kind):
    """The same under a plan that cannot be planned anew."""
    first, further = CHANGES[kind]
    run, plan = frozen(lake)
    first(lake)
    state = lake.ledger.read()
    (shown,) = open_incidents(run, state, foreign_changes(run, state, plan)[1])
    approve(lake, shown)
    further(lake)
    after = take_decided_table(run, lake.ledger.read(), plan)
    assert after.head == state.head
    (again,) = after.control.incidents
    assert (again.incident_id, again.decision) == ("incident-2", None)
    approve(lake, again)
    after = take_decided_table(run, lake.ledger.read(), plan)
    assert after.control.incidents == ()
    assert lost(after.head)


def test_the_table_is_looked_at_once_more_before_it_is_taken(lake, monkeypatch):
    """It changed between the two looks of one step."""
    run, plan = frozen(lake)
    delete(lake, 50)
    state = lake.ledger.read()
    (shown,) = open_incidents(run, state, foreign_changes(run, state, plan)[1])
    approve(lake, shown)

    def meanwhile(run, incidents):
        delete(lake, 60)
        return triage_incidents(run, incidents)

    monkeypatch.setattr(decisions, "triage_incidents", meanwhile)
    after = take_decided_table(run, lake.ledger.read(), plan)
    assert after.head == state.head
    assert [i.incident_id for i in after.control.incidents] == [shown.incident_id]


@pytest.mark.parametrize("lane", ["live", "backfill"])
@pytest.mark.parametrize("later", [0, 1, 2])
def test_a_vanished_commit_is_noticed_at_the_next_planning(lake, lane, later):
    """By its version, also where commits with newer tokens stand after it."""
    lake.land("third", 200, 220, lane)
    for n in range(later):
        lake.land(f"later-{n}", 220 + n, 221 + n, "backfill")
    lake.append(rows(0, 1, partition=9))
    foreign = lake.log(4 + later)
    lake.write_log(3, *foreign)
    lake.commit_file(4 + later).unlink()
    incident = halted(lake)
    assert "have vanished" in incident.finding.cause
    assert "plan-third, run third" in incident.finding.expected
    assert "(third)" in incident.finding.next_step
    approve(lake, incident)
    head = carry_out(lake)
    assert lost(head) == [(0, 200, 220), (1, 200, 220)]
    assert "third" not in [c.run_id for c in head.commits]
    assert planning(lake, "after").status in ("planned", "nothing_to_do")


def test_a_token_that_the_table_no_longer_knows_is_noticed(lake):
    """The log has been cleaned up past the commit, so only the token can tell."""
    DeltaTable(lake.uri).create_checkpoint()
    for version in range(3):
        lake.commit_file(version).unlink()
    state = lake.ledger.read()
    assert foreign_changes(lake.run, state)[1] == ()
    *_, newest = state.head.commits
    ahead = replace(newest, token=newest.token + 1)
    lake.ledger.update(lambda s: s.with_head(replace(s.head, commits=(ahead,))))
    assert "have vanished" in halted(lake).finding.cause


def test_a_vanished_commit_halts_a_backfill_and_a_rewind(lake):
    """Every lane asks before it writes."""
    overwrite_commit(lake)
    asked = RequestedRange("orders", 0, 250, 260)
    run = lake.open("backfill", ranges=(asked,))
    plan_offset_ranges(run)
    with pytest.raises(ResetDetected, match="have vanished"):
        detect_earliest_reset(run)
    with pytest.raises(ResetDetected, match="have vanished"):
        rewind_stream(lake.run, RewindRequest("first", "because", "ann"))


def test_a_table_with_deletion_vectors_halts_everybody_and_closes_itself(lake):
    """Up front, by name; when the feature is gone, the stream goes on without a decision."""
    add = next(a["add"] for a in lake.log(1) if "add" in a)
    hide_rows(lake)
    incident = halted(lake)
    assert "deletionVectors" in incident.finding.cause
    assert incident.finding.choices == ("fail",)
    assert dry_run(lake.open("look")).halts
    with pytest.raises(ResetDetected, match="deletionVectors"):
        rewind_stream(lake.run, RewindRequest("first", "because", "ann"))
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    lake.write_log(3, {"commitInfo": {"operation": "DROP FEATURE"}}, protocol)
    assert Path(lake.uri, add["path"]).exists()
    assert planning(lake).status == "planned"
    assert lake.ledger.read().control.incidents == ()
    require_clean(lake.run)


def test_upkeep_and_appends_by_others_keep_no_run_from_planning(lake):
    """A constraint that came and went, a further column, an append elsewhere."""
    table = DeltaTable(lake.uri)
    table.alter.add_constraint({"low": "offset >= 0"})
    assert "CHECK constraint low" in halted(lake).finding.cause
    DeltaTable(lake.uri).alter.drop_constraint("low")
    lake.append(rows(0, 1, partition=9))
    DeltaTable(lake.uri).optimize.compact()
    assert planning(lake).status == "planned"
    assert lake.ledger.read().control.incidents == ()


def test_a_table_that_a_catalog_takes_over_halts_until_it_is_given_back(lake):
    """No position moves, and nobody waits for its store."""
    names = ["catalogManaged"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": names, "writerFeatures": [*names, "inCommitTimestamp"]}
    version = DeltaTable(lake.uri).version() + 1
    taken = Path(lake.uri, "_delta_log", f"{version:020d}.json")
    taken.write_text(json.dumps({"protocol": protocol}))
    incident = halted(lake)
    assert "catalog-managed" in incident.finding.actual
    assert incident.finding.choices == ("fail",)
    with pytest.raises(UnreadableTable, match="catalog-managed"):
        require_clean(lake.open("audit"))
    taken.unlink()
    assert planning(lake).status == "planned"


@pytest.mark.parametrize("renamed", [None, "value", "offset"])
def test_column_mapping_halts_by_name_at_the_look(lake, renamed):
    """Nothing is written to such a table, and the finding stands in the audit."""
    map_columns(lake.uri, renamed)
    incident = halted(lake)
    assert "columnMapping" in incident.finding.cause
    if renamed is not None:
        assert f"column {renamed} (missing)" in incident.finding.cause
    assert incident.finding.choices == ("fail",)
    with pytest.raises(AuditNotClean, match="columnMapping"):
        require_clean(lake.open("audit"))
