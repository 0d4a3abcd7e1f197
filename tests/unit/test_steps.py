"""Steps that are left out would have found nothing to do."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tests.worlds.build import ID, NOW, head, plan, planned, position
from tideline.landing.context import RunContext
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.model.incident import Finding
from tideline.model.offsets import one_interval
from tideline.model.request import read_form
from tideline.model.run import RunRecord
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import ask, resolve_reset
from tideline.pipeline.run_batch import AFTER_DETECTION, run_batch, steps_without_work
from tideline.pipeline.steps import advance_offsets, verify_ranges
from tideline.stream.stream import Stream

STREAM = Stream.model_validate(
    {"stream": "orders", "kafka": {"topics": ["orders"]}, "table": {"uri": "/lake/orders"}}
)
WINDOW = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}
FINDING = Finding("truncation", "e", "a", "orders", ID, 0, one_interval(90, 100))
RESOLVE = ("resolve_reset",)


@pytest.fixture
def ledger(tmp_path):
    found = Ledger(DeltaLedgerStore(str(tmp_path / "ledger")), "orders")
    found.update(lambda state: state.with_head(head(position(100))))
    return found


def record(status, ranges=(), lane="live", **facts):
    request = read_form(WINDOW if lane == "backfill" else {}, datetime.now(UTC))
    frozen = None if status == "proposed" else plan(*ranges, lane=lane, run_id="run")
    return RunRecord("run", lane, status, request.digest, NOW, plan=frozen, **facts)


RANGES = (planned(100, 120),)
KNOWN = {
    "idle": (record("nothing_to_do"), AFTER_DETECTION),
    "an idle backfill": (record("nothing_to_do", lane="backfill"), AFTER_DETECTION),
    "another run took over": (
        record("superseded", RANGES, superseded_by="other"),
        AFTER_DETECTION,
    ),
    "to land": (record("planned", RANGES), RESOLVE),
    "a backfill to land": (record("planned", RANGES, lane="backfill"), RESOLVE),
    "landed": (record("done", RANGES), RESOLVE),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_step_without_work_asks_nobody_and_changes_nothing(ledger, name):
    """Neither cluster nor table, which are missing here; in Airflow it is no process then."""
    known, expected = KNOWN[name]
    ledger.update(lambda state: state.with_run(replace(known, status="planned")))
    ledger.update(lambda state: state.with_run(known))
    before = ledger.read()
    found = steps_without_work(known, before.control.incidents)
    assert found == expected
    run = RunContext(STREAM, "run", _request(known), ledger, _refuse, None, None, can_ask=True)
    does = {
        "resolve_reset": lambda: ask(run) or resolve_reset(run) or None,
        "ingest_ranges": lambda: ingest_ranges(run),
        "verify_ranges": lambda: verify_ranges(run),
        "advance_offsets": lambda: advance_offsets(run).table_commit,
    }
    assert {step: does[step]() for step in found} == dict.fromkeys(found)
    assert ledger.read() == before


@pytest.mark.parametrize(
    ("known", "incidents"),
    [
        (record("proposed"), ()),
        (record("planned", RANGES), (FINDING,)),
        (record("planned", RANGES, resolved=(SimpleNamespace(),)), ()),
        (record("nothing_to_do", resolved=(SimpleNamespace(),)), ()),
        (record("superseded", RANGES, lane="backfill", superseded_by="incident-1"), ()),
    ],
    ids=["undecided", "an incident is open", "resolved", "resolved, then idle", "planned anew"],
)
def test_a_step_that_may_have_work_is_left_in(known, incidents):
    """A decision to carry out or to show, or a run that has to say that it is planned anew."""
    assert steps_without_work(known, incidents) == ()


def test_an_open_incident_keeps_no_process_for_a_run_that_has_nothing_to_execute():
    """With `proceed`, an incident may be open for days, over hundreds of idle runs."""
    assert steps_without_work(record("nothing_to_do"), (FINDING,)) == AFTER_DETECTION


@pytest.mark.parametrize(("name", "left"), [("idle", []), ("to land", list(AFTER_DETECTION[1:]))])
def test_the_command_line_leaves_out_the_same(ledger, monkeypatch, name, left):
    """`tideline run` and a Dag run do the same steps."""
    from tideline.pipeline import run_batch as row

    known, _ = KNOWN[name]
    ledger.update(lambda state: state.with_run(replace(known, status="planned")))
    ledger.update(lambda state: state.with_run(known))
    done = []
    for step in ("plan_offset_ranges", "detect_earliest_reset", *AFTER_DETECTION):
        monkeypatch.setattr(row, step, lambda run, step=step: done.append(step) or known)
    monkeypatch.setattr(row, "hold_lane", lambda run: nullcontext())
    run = RunContext(STREAM, "run", _request(known), ledger, _refuse, None, None)
    assert run_batch(run).run_id == "run"
    assert done == ["plan_offset_ranges", "detect_earliest_reset", *left]


def _request(known):
    return read_form(WINDOW if known.lane == "backfill" else {}, datetime.now(UTC))


def _refuse():
    raise AssertionError("the cluster was asked")
