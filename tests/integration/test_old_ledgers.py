"""Ledgers that an earlier version wrote are read, written on, moved and gone back in."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from devstack.command_line import finished, tideline
from tests.worlds.ledgers import MANIFEST, RICH, Recorded
from tideline.documents import FORMAT, dump
from tideline.errors import LedgerElsewhere, NewerFormat, UnreadableDocument
from tideline.ledger.history import KINDS
from tideline.ledger.ledger_port import HistoryEntry
from tideline.ledger.move import move_ledger
from tideline.model.addresses import LedgerLocation, RelocationMarker
from tideline.model.incident import Decision
from tideline.model.run import RunRecord
from tideline.rules.rewound import rewound_head
from tideline.wiring import open_store

OTHER = {"delta": "airflow", "sql": "delta"}
HERE = {"delta": "delta", "sql": "airflow"}
MOVES = {
    "moved": ("delta", "airflow"),
    "unfinished": ("delta", "airflow"),
    "marked": ("delta", "airflow"),
    "unfinished-delta": ("airflow", "delta"),
}


@pytest.fixture(params=RICH)
def recorded(request, tmp_path):
    """A ledger with everything in it, of each location."""
    found = Recorded(request.param, tmp_path)
    found.name = request.param
    return found


def answers(ledger):
    """Everything that can be asked."""
    state = ledger.read()
    return {
        "control": replace(state.control, leases=()),
        "head": state.head,
        "runs": dict(state.runs),
        "closed runs": list(ledger.closed_runs()),
        "closings": ledger.closings(),
        "closed incidents": list(ledger.closed_incidents()),
        "rewinds": ledger.rewinds(),
        "instants": ledger.resolved_times(),
        "heads": [ledger.kept_head(e.key) for e in ledger.store.history("head")],
        "history": bodies(ledger.store),
    }


def bodies(store):
    """The raw history."""
    return [(e.kind, e.key, e.version, e.body) for k in KINDS for e in store.history(k)]


def formats(documents):
    """Numbers of formats by key; 1 where there is none."""
    return {key: json.loads(body).get("format", 1) for key, body in documents.items()}


def test_the_recording_is_of_the_first_format(recorded):
    """Otherwise the tests below prove nothing."""
    store = recorded.ledger().store
    assert set(formats(store.read().documents).values()) == {1}
    history = bodies(store)
    assert {kind for kind, *_ in history} == set(READERS)
    assert not any("format" in json.loads(body) for *_, body in history)
    old = "".join([*store.read().documents.values(), *(body for *_, body in history)])
    for name in ("landing", "excused", "doubtful"):
        assert f'"{name}":' in old


def test_everything_is_read_as_it_was_answered_then(recorded):
    """Head, plans, incidents, rewinds, and every kind of the history."""
    (then,) = MANIFEST[recorded.name]["answers"].values()
    ledger = recorded.ledger()
    state = ledger.read()
    keys = then["ledger"]["head"][0].keys()
    head = [{k: getattr(p, k) for k in keys} for p in state.head.positions]
    assert head == then["ledger"]["head"]
    runs = {r.run_id: r for r in (*ledger.closed_runs(), *state.runs.values())}
    plans = [run for run in runs.values() if run.plan is not None]
    told = {p["run_id"]: (p["plan_id"], p["status"], p["table_version"]) for p in plans_of(then)}
    assert told == {
        r.run_id: (r.plan.plan_id, r.status, r.table_commit and r.table_commit.version)
        for r in plans
    }
    assert {i["id"] for i in then["incident"]["incidents"]} >= {
        i.incident_id for i in state.control.incidents
    }
    found = answers(ledger)
    assert [i.decision.choice for i in found["closed incidents"] if i.decision] == ["accept_loss"]
    assert found["head"].accepted_loss
    assert [(r.rewind_id, r.to_run) for r in found["rewinds"]] == [("rewind-1", "live-6")]
    assert len(found["instants"]) == 2
    assert any(r.resolved for r in found["closed runs"])
    assert any(r.evidence for r in found["closed runs"])
    assert not state.runs.keys() & {r.run_id for r in found["closed runs"]}


def plans_of(then):
    return [p for p in then["ledger"]["plans"] if p["plan_id"] is not None]


def test_reading_writes_nothing(recorded):
    """Whoever goes back to the earlier version finds it as it was."""
    before, history = recorded.ledger().store.read(), bodies(recorded.ledger().store)
    answers(recorded.ledger())
    recorded.ledger().update(lambda state: state)
    assert recorded.ledger().store.read() == before
    assert bodies(recorded.ledger().store) == history


def test_a_write_brings_documents_up_to_date_and_leaves_the_history(recorded):
    """New entries stand beside old ones, and all are read."""
    ledger = recorded.ledger()
    before = answers(ledger)
    record = RunRecord("new", "live", "proposed", "digest", datetime.now(UTC))
    ledger.update(lambda s: s.with_run(record).with_next_token())
    assert set(formats(ledger.store.read().documents).values()) == {FORMAT}
    assert bodies(ledger.store) == before["history"]
    ledger.update(lambda s: s.with_run(replace(record, status="done")))
    after = answers(recorded.ledger())
    added = [e for e in after["history"] if e not in before["history"]]
    assert sorted((kind, json.loads(body)["format"]) for kind, *_, body in added) == [
        ("head", FORMAT),
        ("run", FORMAT),
    ]
    assert after["closed runs"][:-1] == before["closed runs"]
    assert after["head"] == before["head"]
    assert after["runs"] == before["runs"]
    assert recorded.ledger().find_run("new").status == "done"
    assert recorded.ledger().find_run("live-1") == before["closed runs"][0]
    key = after["closed runs"][-1].head_key
    assert recorded.ledger().kept_head(key) == replace(before["head"], headroom=())


def test_an_incident_is_decided_and_closed(recorded):
    """With what it kept from being verified."""
    ledger = recorded.ledger()
    incident = ledger.read().open_incident("incident-3")
    decision = Decision("accept_loss", "ann", datetime.now(UTC), "test")
    ledger.update(lambda s: s.with_decision("incident-3", decision))
    decided = recorded.ledger().read().open_incident("incident-3")
    assert decided == replace(incident, decision=decision)
    ended = decided.closed("accepted", datetime.now(UTC))
    ledger.update(lambda s: s.with_incidents_closed([ended]))
    assert list(recorded.ledger().closed_incidents())[-1] == ended


def test_every_head_that_a_rewind_may_go_to_is_there(recorded):
    """By the name in the run's first closing."""
    ledger = recorded.ledger()
    (rewind,) = ledger.rewinds()
    head = ledger.read().head
    closings = {c.first.run_id: c for c in ledger.closings()}
    assert [c.version for c in closings.values()] == sorted(c.version for c in closings.values())
    for run_id in ("live-1", "live-2", "live-5", "live-6", "live-8"):
        then = ledger.kept_head(closings[run_id].first.head_key)
        assert then.positions
        rewound_head(head, then, rewind, None)
    assert ledger.kept_head(closings["live-5"].first.head_key).accepted_loss


def test_it_moves_to_the_other_location_as_it_is(recorded):
    """Bodies of the history are copied byte by byte; the answers stay."""
    before = answers(recorded.ledger())
    here, there = HERE[recorded.name], OTHER[recorded.name]
    move_ledger(recorded.location(here), recorded.location(there), open_store)
    assert answers(recorded.ledger(there)) == before
    with pytest.raises(LedgerElsewhere, match="was moved to"):
        recorded.ledger(here).read()
    move_ledger(recorded.location(there), recorded.location(here), open_store)
    assert answers(recorded.ledger(here)) == before


@pytest.mark.parametrize("name", MOVES)
def test_an_interrupted_move_is_finished(name, tmp_path):
    """Markers of the first format are understood in both locations."""
    old, new = MOVES[name]
    recorded = Recorded(name, tmp_path)
    if name in ("moved", "marked"):
        with pytest.raises(LedgerElsewhere, match="was moved to"):
            recorded.ledger(old).read()
    if name != "moved":
        with pytest.raises(LedgerElsewhere, match="unfinished copy"):
            recorded.ledger(new).read()
    move_ledger(recorded.location(old), recorded.location(new), open_store)
    ledger = recorded.ledger(new)
    assert [r.run_id for r in ledger.closed_runs()] == ["live-1", "live-2", "live-3-idle"]
    assert ledger.update(lambda s: s.with_next_token()).control.token == 3
    with pytest.raises(LedgerElsewhere, match="was moved to"):
        recorded.ledger(old).read()


def spoil(store, key, change):
    """Change the JSON of a document behind the ledger's back."""
    base = store.read()
    marker = RelocationMarker("moved_to", "id", LedgerLocation("airflow", "elsewhere", "s"))
    body = json.loads(base.documents[key] if key != "mark" else dump(marker))
    store.commit(base, put={key: json.dumps(change(body))})


def newer(body):
    return {**body, "format": FORMAT + 1}


def surprised(body):
    return {**body, "surprise": 1}


@pytest.mark.parametrize("key", ["control", "head", "run:live-11-open", "mark"])
@pytest.mark.parametrize(
    ("change", "error"), [(newer, NewerFormat), (surprised, UnreadableDocument)]
)
def test_a_document_of_the_future_stops_everything(recorded, key, change, error):
    """Reading, writing, leases and moves, before anything is written; exit status 2."""
    spoil(recorded.ledger().store, key, change)
    before = recorded.ledger().store.read()
    here, there = (recorded.location(k[recorded.name]) for k in (HERE, OTHER))
    location = recorded.ledger().store.location
    where = f"ledger {location}: document {key} "
    for ask in (
        lambda: recorded.ledger().read(),
        lambda: recorded.ledger().find_run("live-1"),
        lambda: recorded.ledger().update(lambda s: s.with_next_token()),
        lambda: recorded.ledger().lease("live").__enter__(),
        lambda: move_ledger(here, there, open_store),
    ):
        with pytest.raises(error) as refused:
            ask()
        assert refused.value.message.startswith(where)
    assert recorded.ledger().store.read() == before
    assert open_store(there).read().version == -1


# Kinds of the first format; decodings and schemas came later.
READERS = {
    "run": lambda ledger, key: ledger.find_run(key),
    "incident": lambda ledger, key: list(ledger.closed_incidents()),
    "instant": lambda ledger, key: ledger.resolved_times(),
    "head": lambda ledger, key: ledger.kept_head(key),
    "rewind": lambda ledger, key: ledger.rewinds(),
}


@pytest.mark.parametrize("kind", READERS)
def test_an_entry_of_the_future_stops_who_reads_it_and_a_move(recorded, kind):
    """The state alone can still be read: it is complete."""
    store = recorded.ledger().store
    old = next(iter(store.history(kind)))
    for change, error in ((newer, NewerFormat), (surprised, UnreadableDocument)):
        body = json.dumps(change(json.loads(old.body)))
        store.commit(store.read(), put={}, history=[HistoryEntry(kind, old.key, body)])
        ledger = recorded.ledger()
        ledger.read()
        with pytest.raises(error, match=f": {kind} .* in the history, written by version"):
            READERS[kind](ledger, old.key)
        if error is NewerFormat:
            here, there = (recorded.location(k[recorded.name]) for k in (HERE, OTHER))
            with pytest.raises(NewerFormat, match=f": {kind} .* in the history"):
                move_ledger(here, there, open_store)
            assert open_store(there).read().version == -1
            assert not recorded.ledger().read().control.leases[2:]


def test_a_target_of_the_future_is_left_alone(recorded):
    """A location that the ledger once left, written to by a newer version since."""
    here, there = (recorded.location(k[recorded.name]) for k in (HERE, OTHER))
    move_ledger(here, there, open_store)
    spoil(open_store(here), "head", newer)
    before = open_store(here).read()
    source = open_store(there).read()
    with pytest.raises(NewerFormat, match="document head has format"):
        move_ledger(there, here, open_store)
    assert open_store(here).read() == before
    assert open_store(there).read() == source


def test_an_unfinished_target_of_the_future_is_not_finished(tmp_path):
    """Its marker would be taken away."""
    recorded = Recorded("marked", tmp_path)
    target = open_store(recorded.location("airflow"))
    spoil(target, "control", newer)
    before = target.read()
    with pytest.raises(NewerFormat, match="document control has format"):
        move_ledger(recorded.location("delta"), recorded.location("airflow"), open_store)
    assert target.read() == before


def test_unknown_and_missing_documents_are_refused(recorded):
    """The next write would remove the one, and begin the other anew."""
    store = recorded.ledger().store
    store.commit(store.read(), put={"secret:plan": "{}"})
    with pytest.raises(UnreadableDocument, match="unknown document 'secret:plan'; allowed"):
        recorded.ledger().update(lambda s: s.with_next_token())
    store.commit(store.read(), put={}, drop=["secret:plan", "control"])
    with pytest.raises(UnreadableDocument, match="document control is missing at version"):
        recorded.ledger().update(lambda s: s.with_next_token())
    assert "head" in store.read().documents


def test_the_command_line_says_so_and_exits_with_2(recorded):
    """No traceback, one sentence, and what to do."""
    file = recorded.folder / f"{recorded.stream_name}.yaml"
    assert finished(tideline("ledger", file))[0] == 0
    spoil(recorded.ledger().store, "head", newer)
    status, _, errors = finished(tideline("ledger", file))
    assert status == 2
    assert "upgrade Tideline here; nothing was changed" in errors
    assert "Traceback" not in errors
