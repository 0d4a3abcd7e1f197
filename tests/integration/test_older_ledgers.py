"""A backup of a real ledger, in either location, beside a real table that went on (R13).

There is no broker and no Spark here: `steps/test_older_ledgers.py` reads what has to be read again.
"""

import shutil
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable

from devstack.airflow_services import connection_to
from tests.worlds.lake import Lake, rows
from tests.worlds.ledgers import create_tables
from tideline.errors import ResetDetected
from tideline.landing.proof import find_plan_commit
from tideline.model.incident import Decision
from tideline.operations.questions import require_clean
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges
from tideline.wiring import open_ledger


class InFolder:
    """A Delta table."""

    def __init__(self, lake, folder):
        self.place, self.copy = folder / "lake" / "orders.ledger", folder / "copy"

    def save(self):
        shutil.copytree(self.place, self.copy)

    def restore(self):
        shutil.rmtree(self.place)
        self.copy.rename(self.place)


class InDatabase:
    """Rows in a PostgreSQL."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.url = create_tables(server.create_database(name))

    def save(self):
        self.server.execute(f'CREATE DATABASE "{self.name}-copy" TEMPLATE "{self.name}"')

    def restore(self):
        self.server.execute(f'DROP DATABASE "{self.name}"')
        self.server.execute(f'ALTER DATABASE "{self.name}-copy" RENAME TO "{self.name}"')


@pytest.fixture(params=["delta", "airflow"])
def kept(request, tmp_path, monkeypatch):
    """A stream with two landed runs; its ledger can be put back."""
    lake = Lake(tmp_path)
    if request.param == "delta":
        return lake.build(), InFolder(lake, tmp_path)
    place = InDatabase(request.getfixturevalue("postgres"), f"older-{tmp_path.name}")
    monkeypatch.setenv("AIRFLOW_CONN_TIDELINE_LEDGER", connection_to(place.url))
    changes = {"ledger": "airflow", "ledger_connection": "tideline_ledger"}
    lake.stream = lake.stream.model_validate({**lake.stream.model_dump(), **changes})
    lake.ledger = open_ledger(lake.stream)
    return lake.build(), place


def restored(lake, place):
    place.restore()
    lake.ledger = open_ledger(lake.stream)


def planning(lake, run_id):
    with lake.ledger.lease("live"):
        plan_offset_ranges(lake.open(run_id))
        return detect_earliest_reset(lake.open(run_id))


def takes_over(lake, run_id="later"):
    """The finding's own incident, an approval, and what is planned after it."""
    with pytest.raises(ResetDetected, match="the ledger is older than the table") as found:
        planning(lake, run_id)
    (incident,) = found.value.incidents
    decision = Decision("approve", "ann", datetime.now(UTC), "the newer one is lost")
    lake.ledger.update(lambda s: s.with_decision(incident.incident_id, decision))
    assert planning(lake, run_id).status == "proposed"
    assert resolve_reset(lake.open(run_id))
    record = lake.ledger.find_run(run_id, lake.ledger.read())
    return [(r.partition, r.start_offset, r.end_offset) for r in record.plan.ranges]


def test_what_a_forgotten_rewind_has_removed_is_planned_again(kept):
    """It counts as verified no more."""
    lake, place = kept
    place.save()
    rewind_stream(lake.run, RewindRequest("first", "wrong filter", "ann"))
    restored(lake, place)
    assert takes_over(lake) == [(0, 100, 300), (1, 100, 300)]
    assert require_clean(lake.run).rows == 200


@pytest.mark.parametrize("lane", ["live", "backfill"])
def test_rows_that_were_forgotten_are_known_again(kept, lane):
    """Whoever landed them; the audit is clean, and they are not read again."""
    lake, place = kept
    place.save()
    lake.land("forgotten", 200, 250, lane)
    restored(lake, place)
    assert takes_over(lake) == [(0, 250, 300), (1, 250, 300)]
    assert require_clean(lake.run).rows == 500


def test_a_compaction_is_taken_over_as_well(kept):
    """Files of others' plans, and a commit of ours that moves no row."""
    lake, place = kept
    place.save()
    lake.land("forgotten", 200, 250)
    DeltaTable(lake.uri).optimize.compact()
    lake.append(rows(20, 20, partition=1))
    restored(lake, place)
    takes_over(lake)
    assert require_clean(lake.run).rows == 500


def found_commit(run):
    state, record, _ = run.frozen()
    return find_plan_commit(run, record, state.head)


def test_a_commit_that_the_log_has_forgotten_is_known_by_its_rows(lake):
    """Log cleanup: rows that stand, and that nobody has verified, are the open plan's."""
    assert planning(lake, "dies").status == "planned"
    frozen = lake.open("dies")
    assert found_commit(frozen) is None
    lake.append(rows(200, 300))
    lake.append(rows(200, 300, partition=1))
    for _ in range(2):
        lake.append(rows(0, 0))
    assert found_commit(frozen) is None  # the log has all: it was never landed
    DeltaTable(lake.uri).create_checkpoint()
    for version in range(4):
        lake.commit_file(version).unlink()
    again = lake.open("dies")
    found = found_commit(again)
    assert (found.version, found.rows) == (3, 200)
