"""A ledger changes its location: everything arrives, and never are two locations in charge."""

import itertools
import os
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from devstack.airflow_services import connection_to
from devstack.command_line import finished, tideline
from tests.worlds.ledgers import answers, ledger_in, work
from tideline.documents import dump, load
from tideline.errors import BadInput, LedgerElsewhere, StreamBusy
from tideline.ledger import move as ledger_move
from tideline.ledger.ledger_port import HistoryEntry
from tideline.ledger.move import move_ledger
from tideline.ledger.state import Control
from tideline.model.addresses import LedgerLocation
from tideline.model.run import RunRecord
from tideline.wiring import open_store

FILE = """\
stream: {stream}
kafka: {{topics: [orders]}}
table: {{uri: {folder}/lake/orders}}
ledger: {ledger}
"""
_numbers = itertools.count(1)


both_databases = pytest.mark.parametrize("locations", ["sqlite", "postgres"], indirect=True)
both_directions = pytest.mark.parametrize(
    ("old", "new"), [("delta", "airflow"), ("airflow", "delta")]
)


@pytest.fixture
def locations(request, tmp_path, monkeypatch):
    """The two locations of one stream, by the words of the command line."""
    database = getattr(request, "param", "sqlite")
    url = request.getfixturevalue(f"{database}_tables")
    monkeypatch.setenv("AIRFLOW_CONN_TIDELINE_LEDGER", connection_to(url))
    stream = f"orders{os.getpid()}-{next(_numbers)}"
    (tmp_path / "lake").mkdir()
    for ledger in ("delta", "airflow"):
        text = FILE.format(stream=stream, folder=tmp_path, ledger=ledger)
        (tmp_path / f"{ledger}.yaml").write_text(text)
    return {
        "delta": LedgerLocation("delta", f"{tmp_path}/lake/orders.ledger", stream),
        "airflow": LedgerLocation("airflow", "tideline_ledger", stream),
    }


@both_databases
@both_directions
def test_everything_is_answered_as_before_there_and_back_again(locations, old, new):
    """Whole history included, and nothing of it twice."""
    work(locations[old], 7)
    expected = answers(locations[old])
    assert expected["control"].incidents
    assert expected["closed incidents"]
    move_ledger(locations[old], locations[new], open_store)
    assert answers(locations[new]) == expected
    assert ledger_in(locations[new]).read().control.leases == ()
    for round_trip in range(2):
        for location, other in ((locations[new], locations[old]), (locations[old], locations[new])):
            work(location, 3, first=100 * (round_trip + 1))
            expected = answers(location)
            move_ledger(location, other, open_store)
            assert answers(other) == expected


@both_directions
def test_the_old_location_refuses_and_names_the_new_one(locations, old, new):
    """Whoever kept the old line in the stream file reads which one to write, and who moved it."""
    work(locations[old], 2)
    move_ledger(locations[old], locations[new], open_store, "os:ann")
    for ask in (
        lambda ledger: ledger.read(),
        lambda ledger: ledger.find_run("run-1"),
        lambda ledger: ledger.update(lambda s: s.with_next_token()),
    ):
        with pytest.raises(LedgerElsewhere, match="by os:ann: set") as refused:
            ask(ledger_in(locations[old]))
        assert f"was moved to {locations[new]}" in refused.value.message
        assert f"ledger: {new}" in refused.value.message


@both_directions
@pytest.mark.parametrize(
    ("place", "by"),
    [
        ("move:begun", "old"),
        ("move:copied", "new"),
        ("move:marked", "old"),
        ("move:marked", "new"),
    ],
)
def test_a_killed_move_leaves_at_most_one_location_and_is_completed(
    locations, tmp_path, monkeypatch, place, by, old, new
):
    """By the same command, whether or not the stream file was changed already."""
    monkeypatch.setenv("TIDELINE_LEASE_SECONDS", "1")
    work(locations[old], 5)
    expected = answers(locations[old])
    monkeypatch.setenv("TIDELINE_FAILPOINT", f"{place}:kill")
    status, *_ = finished(tideline("move-ledger", tmp_path / f"{old}.yaml", "--to", new))
    assert status == -9
    monkeypatch.delenv("TIDELINE_FAILPOINT")
    with pytest.raises(LedgerElsewhere, match="unfinished copy"):
        ledger_in(locations[new]).read()
    if place == "move:marked":
        with pytest.raises(LedgerElsewhere, match="was moved to"):
            ledger_in(locations[old]).read()
    else:
        work(locations[old], 3, first=50)  # the old location goes on
        expected = answers(locations[old])
    file = tmp_path / f"{old if by == 'old' else new}.yaml"
    status, answer, errors = finished(tideline("move-ledger", file, "--to", new, "--json"))
    assert (status, answer["moved"]) == (0, True), errors
    assert answer["location"] == str(locations[new])
    assert answers(locations[new]) == expected
    with pytest.raises(LedgerElsewhere, match="was moved to"):
        ledger_in(locations[old]).read()


def test_the_command_says_which_line_to_change_and_may_be_repeated(locations, tmp_path):
    """Exit 0 each time; the last time with the new line."""
    status, answer, _ = finished(
        tideline("move-ledger", tmp_path / "delta.yaml", "--to", "airflow")
    )
    assert (status, "nothing had to be moved" in answer) == (0, True)
    work(locations["delta"], 1)
    for _ in range(2):
        done = finished(tideline("move-ledger", tmp_path / "delta.yaml", "--to", "airflow"))
        assert done[0] == 0
        assert "now set `ledger: airflow` and `ledger_connection: tideline_ledger`" in done[1]
    done = finished(tideline("move-ledger", tmp_path / "airflow.yaml", "--to", "airflow"))
    assert (done[0], "already" in done[1]) == (0, True)
    status, *_, errors = finished(tideline("ledger", tmp_path / "delta.yaml"))
    assert (status, "was moved to tideline_ledger" in errors) == (2, True)
    at = ("--at", str(tmp_path / "lake/orders/inside"))
    status, *_, errors = finished(
        tideline("move-ledger", tmp_path / "airflow.yaml", "--to", "delta", *at)
    )
    assert (status, "inside the other" in errors) == (2, True)


@pytest.mark.parametrize("lease", ["live", "writer", "backfill", "another"])
def test_runs_at_work_keep_the_ledger_where_it_is(locations, lease):
    """Exit 4, and nothing has moved."""
    work(locations["delta"], 1)
    with ledger_in(locations["delta"]).lease(lease), pytest.raises(StreamBusy, match=lease):
        move_ledger(locations["delta"], locations["airflow"], open_store)
    assert open_store(locations["airflow"]).read().version == -1
    ledger_in(locations["delta"]).update(lambda s: s.with_next_token())


def at_place(monkeypatch, place, act):
    """Do something once when the move comes to a place."""
    todo = [act]

    def reach(reached):
        if reached == place and todo:
            todo.pop()()

    monkeypatch.setattr(ledger_move, "reach", reach)


def test_what_is_written_while_it_copies_arrives_too(locations, monkeypatch):
    """Decisions are written without a lease."""
    work(locations["delta"], 2)
    ledger = ledger_in(locations["delta"])
    late = RunRecord("late", "live", "done", "digest", datetime.now(UTC))
    at_place(monkeypatch, "move:copied", lambda: ledger.update(lambda s: s.with_run(late)))
    move_ledger(locations["delta"], locations["airflow"], open_store)
    assert ledger_in(locations["airflow"]).find_run("late") == late


def test_a_move_that_lost_its_leases_gives_up(locations, monkeypatch):
    """Stopped for long and resumed, it finds somebody else at work."""
    work(locations["delta"], 1)
    store = open_store(locations["delta"])

    def take_over():
        base = store.read()
        control = load(Control, base.documents["control"], "here")
        (first, *others) = control.leases
        later = datetime.now(UTC) + timedelta(hours=1)
        taken = replace(first, holder="somebody", expires_at=later)
        leases = (taken, *others)
        store.commit(base, put={"control": dump(replace(control, leases=leases))})

    at_place(monkeypatch, "move:copied", take_over)
    with pytest.raises(StreamBusy, match="held by process"):
        move_ledger(locations["delta"], locations["airflow"], open_store)
    ledger_in(locations["delta"]).read()
    with pytest.raises(LedgerElsewhere, match="unfinished"):
        ledger_in(locations["airflow"]).read()


@both_databases
@pytest.mark.parametrize("place", ["move:begun", "move:copied"])
def test_a_move_that_slept_through_another_brings_nothing_back(locations, monkeypatch, place):
    """It finds that the ledger has gone on."""
    work(locations["delta"], 2)
    leases = ledger_move._all_leases

    def other_move_and_more_work():
        monkeypatch.setattr(ledger_move, "_all_leases", leases)
        move_ledger(locations["delta"], locations["airflow"], open_store)
        work(locations["airflow"], 2, first=20)

    at_place(monkeypatch, place, other_move_and_more_work)
    monkeypatch.setattr(ledger_move, "_all_leases", lambda _: nullcontext())  # run out by then
    with suppress(BadInput):
        move_ledger(locations["delta"], locations["airflow"], open_store)
    assert ledger_in(locations["airflow"]).find_run("run-21") is not None
    assert ledger_in(locations["airflow"]).read().control.token == 4
    with pytest.raises(LedgerElsewhere):
        ledger_in(locations["delta"]).read()


def test_a_target_with_another_ledger_is_refused(locations):
    """One stream, one ledger; nobody's positions are overwritten."""
    work(locations["delta"], 1)
    work(locations["airflow"], 1)
    before = answers(locations["airflow"])
    with pytest.raises(BadInput, match="is not empty"):
        move_ledger(locations["delta"], locations["airflow"], open_store)
    assert answers(locations["airflow"]) == before
    ledger_in(locations["delta"]).read()


def test_a_target_whose_history_went_another_way_is_refused(locations):
    """A copy can only be continued."""
    work(locations["delta"], 2)
    move_ledger(locations["delta"], locations["airflow"], open_store)
    store = open_store(locations["delta"])
    store.commit(store.read(), put={}, history=[HistoryEntry("run", "foreign", "{}")])
    with pytest.raises(BadInput, match="history differs at run foreign"):
        move_ledger(locations["airflow"], locations["delta"], open_store)
    ledger_in(locations["airflow"]).read()


def test_a_location_that_gave_the_ledger_on_is_not_brought_back_to_life(locations, tmp_path):
    """A forgotten first location cannot finish what is long over."""
    third = LedgerLocation("delta", str(tmp_path / "third.ledger"), locations["delta"].stream)
    work(locations["delta"], 2)
    move_ledger(locations["delta"], locations["airflow"], open_store)
    move_ledger(locations["airflow"], third, open_store)
    with pytest.raises(LedgerElsewhere, match=r"third\.ledger"):
        move_ledger(locations["delta"], locations["airflow"], open_store)
    with pytest.raises(LedgerElsewhere, match="tideline_ledger"):
        move_ledger(locations["delta"], third, open_store)
    assert ledger_in(third).read().control.token == 2


def test_a_copy_of_a_third_location_is_not_finished_from_the_first(
    locations, tmp_path, monkeypatch
):
    """Its ledger is still in charge elsewhere."""
    third = LedgerLocation("delta", str(tmp_path / "third.ledger"), locations["delta"].stream)
    work(locations["delta"], 2)
    move_ledger(locations["delta"], locations["airflow"], open_store)
    move_ledger(locations["airflow"], third, open_store)

    def die():
        raise KeyboardInterrupt

    at_place(monkeypatch, "move:copied", die)
    with pytest.raises(KeyboardInterrupt):
        move_ledger(third, locations["airflow"], open_store)
    with pytest.raises(LedgerElsewhere, match=r"unfinished copy of .*third"):
        move_ledger(locations["delta"], locations["airflow"], open_store)
    ledger_in(third).read()
    move_ledger(third, locations["airflow"], open_store)
    assert ledger_in(locations["airflow"]).read().control.token == 2
