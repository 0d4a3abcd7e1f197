"""Decoding that ends at any place: in a run, a cleared run and a redrive; whoever comes next."""

import pytest
from deltalake import DeltaTable

from tests.worlds.decoded_lake import DecodedLake, value_of
from tideline.decoding import decode_execution, decode_steps
from tideline.decoding import verifying as decode_verifying
from tideline.errors import AttemptFenced, StreamBusy
from tideline.failpoints import DECODE_PLACES
from tideline.landing import table_commit as commit_loop

ID, TOTAL = ("id", "int"), ("total", "double")
PLACES = [*DECODE_PLACES[1:], "table:committing", "table:committing again"]
"""Those of the lease come before anything is read; both tables are committed to."""


class CutOff(BaseException):
    """Nothing in the package catches it."""


def end():
    raise CutOff


@pytest.fixture
def cut(monkeypatch):
    """`cut(place)` ends what follows there, once; or something else happens there."""

    def at(place, happens=end):
        name, _, again = place.partition(" ")
        left = [name, name] if again else [name]

        def reach(reached):
            if left and reached == left[0]:
                left.pop()
                if not left:
                    happens()

        for module in (commit_loop, decode_execution, decode_execution, decode_verifying):
            monkeypatch.setattr(module, "reach", reach)

    return at


@pytest.fixture
def lake(tmp_path):
    """One row that is decoded, and one of every kind that waits."""
    found = DecodedLake(tmp_path)
    found.first = found.register(ID)
    found.lands(value_of(found.first))
    found.decodes("zero")
    found.lands(value_of(found.first), None, b"nonsense", value_of(found.first + 1))
    return found


def is_exact(lake, *, moved):
    """Every landed row is in one table, once."""
    bad = {3: "framing"} if moved else {3: "framing", 4: "unknown_schema"}
    good = [n for n in range(lake.landed) if n not in bad]
    assert (lake.typed(), dict(lake.bad())) == (good, bad)
    assert len(lake.bad()) == len(bad)
    state = lake.ledger.read()
    assert state.decoding.open is None
    assert state.decoding.coverage == state.head.coverage
    assert lake.audits().clean


def others_come(lake, *, moved):
    lake.lands(value_of(lake.first))
    for run_id in ("two", "one", "zero"):
        lake.decodes(run_id)
    is_exact(lake, moved=moved)


@pytest.mark.parametrize("place", PLACES)
def test_a_run_is_cut_off(lake, cut, place):
    """Another run finishes its plan; cleared later, it changes nothing."""
    cut(place)
    with pytest.raises(CutOff):
        lake.decodes("one")
    others_come(lake, moved=False)


@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_was_stopped_goes_on_behind_another(lake, cut, place):
    """R5: its lease has run out; it changes no table and no note, whatever it was at."""
    seen = []

    def others():
        holders = [x.holder for x in lake.ledger.read().control.leases if x.name == "decoder"]
        lake.ledger.update(lambda s: s.without_lease("decoder", holders[0]))
        lake.lands(value_of(lake.first))
        lake.decodes("behind")
        seen.append((lake.ledger.read().decoding, lake.typed(), lake.bad()))

    cut(place, others)
    if place in ("decode:noted", "decode:closed"):  # nothing is left to be written
        lake.decodes("one")
    else:
        with pytest.raises((StreamBusy, AttemptFenced)):
            lake.decodes("one")
    assert seen == [(lake.ledger.read().decoding, lake.typed(), lake.bad())]
    others_come(lake, moved=False)


@pytest.mark.parametrize("are_there", [True, False])
def test_whoever_finishes_a_decoding_whose_commits_stand_needs_no_spark(
    lake, cut, monkeypatch, are_there
):
    """A run that dies before it verifies has decoded; unless others have taken its rows out."""
    cut("decode:noted")
    with pytest.raises(CutOff):
        lake.decodes("one")
    if not are_there:
        DeltaTable(lake.run("look").typed.by_type[""].uri).delete("offset > 0")
    executed = []
    execute = decode_steps.execute_decoding
    monkeypatch.setattr(
        decode_steps, "execute_decoding", lambda *a: executed.append(1) or execute(*a)
    )
    run = lake.run("two")
    with run.ledger.lease("decoder"):
        decode_steps.finish_open(run)
    assert len(executed) == (not are_there)
    is_exact(lake, moved=False)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_cleared_run_is_cut_off(lake, cut, place):
    """Its rows stand already."""
    lake.decodes("one")
    cut(place)
    with pytest.raises(CutOff):
        lake.decodes("one")
    others_come(lake, moved=False)


@pytest.mark.parametrize("again", ["redrive", pytest.param("run", marks=pytest.mark.slow)])
@pytest.mark.parametrize("place", PLACES)
def test_a_redrive_is_cut_off(lake, cut, place, again):
    """The same redrive goes on with what it has left, or a run does, and a later redrive."""
    lake.decodes("one")
    lake.register(ID, TOTAL)
    cut(place)
    with pytest.raises(CutOff):
        lake.redrives("again")
    assert {*lake.typed(), *dict(lake.bad())} == set(range(lake.landed))
    if again == "run":
        lake.lands(value_of(lake.first))
        lake.decodes("two")
    lake.redrives("again")
    is_exact(lake, moved=True)
