"""What is erased stays out, and nobody else's record goes with it."""

import json
from argparse import Namespace
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from tests.simulation.clock import simulated
from tests.simulation.run_events import tables_of
from tests.simulation.table import Row, TableState, key_of
from tests.simulation.table_events import drop_table, move_away, move_back
from tests.texts import NOT_REACHED
from tests.worlds.dying import dying
from tests.worlds.memory import Memory, spans
from tideline.cli import doctor, erase_commands, reading
from tideline.cli.output import CommandOutput
from tideline.contract.building import build_erasure
from tideline.errors import BadInput, Halted, ServiceAway, StreamBusy
from tideline.failpoints import ERASE_PLACES
from tideline.ledger.ledger import Ledger
from tideline.model.offsets import TopicPartition
from tideline.operations.erase_finding import AskedKeys
from tideline.operations.erasing import EraseRequest, erase, finish_erasures, plan_erasure
from tideline.operations.questions import explain_record
from tideline.operations.redrive import decode_again

KEY = key_of(1)
"""Of the records at the offsets 0, 3, 6 and so on: every third has it."""


def erased(world, way=erase, **asked):
    """Erase the key's records, or plan that; the erasure."""
    run = world.open("erase")
    request = EraseRequest(AskedKeys(raw_keys=(KEY,)), "asked", "ann", most=1.0, **asked)
    return way(run, tables_of(run), request).erasure


def goes_on(world):
    run = world.open("goes on")
    return finish_erasures(run, tables_of(run))


def test_rows_go_and_a_replay_and_a_backfill_leave_them_out(landed):
    made = erased(landed)
    assert (made.status, made.records, made.audit) == ("removed", 34, "clean")
    kept = [o for o in range(100) if o % 3]
    landed.run("lands")
    landed.run(
        "backfill",
        ranges=[{"topic": "orders", "partition": 0, "start_offset": 0, "end_offset": 60}],
    )
    assert landed.offsets() == kept
    audit, findings = landed.audit()
    assert (audit.clean, audit.erased, findings) == (True, 34, ())
    landed.send(6)
    landed.run("later")
    assert landed.offsets()[-6:] == [*range(100, 106)]  # nobody has asked about later ones


def test_later_records_are_refused_where_somebody_asked_for_it(landed):
    erased(landed, is_future=True)
    landed.send(9)
    landed.run("later")
    assert landed.offsets()[-6:] == [o for o in range(100, 109) if o % 3]
    assert landed.ledger().read().erasing.refused == 3
    landed.run("later")
    assert landed.ledger().read().erasing.refused == 3
    assert landed.is_clean()


def test_a_log_that_is_read_again_in_a_new_generation_is_told_by_its_keys(landed):
    """Below the cut are the same records; above it others, at offsets that were erased."""
    erased(landed)
    landed.log().elect(50)
    landed.send(200)
    assert landed.halts() == ["truncation"]
    landed.decide("restart")
    landed.run("later")
    again = [o for *_, o in landed.rows(generation=1)]
    start = min(again)
    assert again == [o for o in range(start, 250) if o >= 50 or o % 3]
    assert landed.is_clean()


def test_a_ledger_that_was_put_back_learns_from_its_table(landed):
    landed.save_ledger()
    erased(landed)
    landed.restore_ledger()
    landed.send(5)
    assert landed.halts() == ["table_changed"]
    landed.decide("approve")
    assert spans(landed.run("later")) == [(0, 100, 105)]  # nothing is read again
    landed.run("lands")
    assert not [o for o in landed.offsets() if o < 100 and not o % 3]
    assert landed.is_clean()


def test_a_ledger_that_was_put_back_knows_the_erasure_again(landed):
    """What is refused, what tells a key in a new generation, what is due, the next one's number."""
    landed.save_ledger()
    made = erased(landed, is_future=True)
    landed.restore_ledger()
    landed.send(9)
    assert landed.halts() == ["table_changed"]
    assert not landed.is_clean()
    landed.decide("approve")
    landed.run("later")
    known = landed.ledger().read().erasing
    assert (known.begun, known.refused, known.untold) == (1, 3, ())
    assert [(e.erasure_id, e.reason, e.is_future) for e in known.open] == [
        ("erase-1", made.reason, True)
    ]
    assert "erase-1" in landed.closed[-1].outcome
    assert landed.offsets()[-6:] == [o for o in range(100, 109) if o % 3]
    landed.log().elect(50)
    landed.send(200)
    assert landed.halts("cut") == ["truncation"]
    landed.decide("restart")
    landed.run("again")
    assert landed.rows(generation=1)
    assert KEY not in {key_of(row.serial) for row in landed.table.rows()}
    landed.clock.milliseconds += 169 * 3_600_000
    assert [e.status for e in goes_on(landed)] == ["removed"]
    assert landed.is_clean()


def test_a_table_that_tells_coordinates_only_keeps_the_audit_from_being_clean(landed):
    """As one whose erasure an earlier version has made, until the keys are erased once more."""
    landed.save_ledger()
    erased(landed)
    landed.table.versions[-1] = replace(landed.table.versions[-1], erasure="")
    landed.restore_ledger()
    landed.send(1)
    assert landed.halts() == ["table_changed"]
    landed.decide("approve")
    landed.run("later")
    audit, _ = landed.audit()
    assert "erase-1: only its coordinates are known, from a table" in str(audit)
    assert erased(landed) is None
    run = landed.open("of somebody else")
    other = AskedKeys(raw_keys=(key_of(2),))
    assert erase(run, tables_of(run), EraseRequest(other, "asked", "bob", most=1.0)).erasure
    assert landed.ledger().read().erasing.untold == ("erase-1",)  # nobody has said whose they were
    with pytest.raises(BadInput, match=r"--settles: got 'erase-2'.* allowed: erase-1"):
        erased(landed, settles=("erase-2",))
    assert erased(landed, settles=("erase-1",)) is None
    assert landed.is_clean()


def test_an_erasure_that_is_not_settled_is_named_wherever_somebody_looks(
    landed, monkeypatch, capsys
):
    landed.ledger().update(lambda s: replace(s, erasing=replace(s.erasing, untold=("erase-1",))))
    for command in (reading, erase_commands, doctor):
        monkeypatch.setattr(command, "open_ledger", lambda _: landed.ledger())
    found = Namespace(streams=(landed.stream,), problems=())
    monkeypatch.setattr(reading, "contents_in", lambda _: found)
    monkeypatch.setattr(reading._Brokers, "observed", lambda *_: (None, None, ()))
    asked = Namespace(files=["s.yaml"], id=None)
    for command in (reading.status, partial(erase_commands.erasures, landed.stream)):
        command(asked, CommandOutput(False))
        assert "with --settles erase-1" in " ".join(capsys.readouterr().out.split())
        command(asked, CommandOutput(True))
        said = json.loads(capsys.readouterr().out)
        assert said.get("streams", [said])[0]["untold"] == ["erase-1"]
    with pytest.raises(doctor.Warned, match="with --settles erase-1"):
        doctor._ledger(landed.stream)


@pytest.mark.parametrize("place", ERASE_PLACES)
def test_who_is_overtaken_says_what_the_other_has_made_of_it(landed, place, monkeypatch):
    """And never that the ledger was put back."""
    others = []

    def overtaken(at):
        if at == place and not others:
            others.append(at)
            landed.clock.milliseconds += 999_000  # whoever stands still has lost its leases
            others.extend(goes_on(landed))

    monkeypatch.setattr("tideline.operations.erasing.reach", overtaken)
    made = erased(landed, is_now=True)
    assert (made.status, made.audit) == ("done", "clean")
    assert others
    assert landed.is_clean()


def test_nothing_is_called_erased_while_the_raw_table_is_away(landed):
    """It is renamed and back: who had asked meanwhile was told that no table has the key."""
    move_away(landed)
    for way in (erase, plan_erasure):
        with pytest.raises(ServiceAway, match=r"/lake/s is gone.*nothing more was erased"):
            erased(landed, way)
    move_back(landed)
    assert erased(landed).records == 34
    assert landed.is_clean()


def test_an_erasure_that_was_cut_off_waits_for_a_table_that_is_away(landed, monkeypatch):
    with dying(monkeypatch, "tideline.operations.erasing", "erase:begun"):
        erased(landed)
    move_away(landed)
    with pytest.raises(ServiceAway, match="/lake/s is gone"):
        goes_on(landed)
    move_back(landed)
    assert [(e.status, e.audit) for e in goes_on(landed)] == [("removed", "clean")]
    assert len(landed.rows()) == 66


def test_an_erasure_goes_on_where_the_end_of_the_raw_table_was_approved(landed, monkeypatch):
    with dying(monkeypatch, "tideline.operations.erasing", "erase:begun"):
        erased(landed)
    drop_table(landed)
    landed.halts()
    landed.decide("approve")
    landed.run("approved")
    assert [e.status for e in goes_on(landed)] == ["removed"]


@pytest.mark.parametrize("place", ERASE_PLACES[:-1])
def test_an_erasure_that_was_cut_off_is_not_told_as_done(landed, monkeypatch, place):
    """Its rows may stand, and nobody is told otherwise; doctor tells after a day, as the gauge."""
    with dying(monkeypatch, "tideline.operations.erasing", place):
        erased(landed)
    monkeypatch.setattr(doctor, "open_ledger", lambda stream: landed.ledger())
    for at in (0, 3):
        found = explain_record(landed.open("look"), TopicPartition("orders", 0), at)
        is_told = "erase-1 erases it by key, and is not finished" in found.text
        assert (found.outcome, is_told) == ("erased", place != "erase:removed")
    assert explain_record(landed.open("look"), TopicPartition("orders", 0), 1).outcome == "landed"
    assert doctor._ledger(landed.stream).startswith("version")
    landed.clock.milliseconds += 90_000_000
    if place == "erase:removed":
        assert doctor._ledger(landed.stream).startswith("version")
    else:
        with pytest.raises(doctor.Warned, match=r"erase-1: begun.*tideline erase FILE goes on"):
            doctor._ledger(landed.stream)
    goes_on(landed)
    found = explain_record(landed.open("look"), TopicPartition("orders", 0), 3)
    assert found.text == "it was erased by key, and is kept out: tideline erasures FILE"


EVERY = AskedKeys(tuple({"essay": f"key-{n}"} for n in range(5)))
DECODE = {"value": {"format": "json"}, "quarantine": {"max_share": 1}}


@pytest.fixture
def typed(memory):
    """With 20 records, of which some are in quarantine; a text of the typed table is also a key."""
    memory.configure(decode=DECODE)
    memory.decode = memory.stream.decode
    memory.spark.garbled |= {4, 7, 9}  # of the raw keys 1, 1, 0
    memory.send(20)
    memory.run("lands")
    return memory


def by_text(world, *, text="key-1", plans=False, future=False, **words):
    run = world.open("erase")
    keys = AskedKeys(({"essay": text},), **words)
    asked = EraseRequest(keys, "asked", "ann", is_future=future, most=1.0)
    return (plan_erasure if plans else erase)(run, tables_of(run), asked)


def cut_off_at(place, world, monkeypatch):
    """An erasure by text that dies there."""
    with dying(monkeypatch, "tideline.operations.erasing", place):
        by_text(world)


def test_a_key_among_a_records_bytes_proves_nothing(typed):
    """Such records are listed and stay, also below a hundred; an explicit word takes them."""
    plan = by_text(typed, plans=True)
    assert [r.offsets.start_offset for r in plan.found.undecided] == [3, 6]
    assert plan.found.unknown == {"quarantine": 3, "raw": 0}
    made = by_text(typed).erasure
    assert made.records == 4  # 1, 6, 11, 16
    assert {3, 6, 8} <= {*typed.offsets()}
    assert made.undecided == plan.found.undecided
    assert typed.ledger().read().decoding.in_quarantine == 3
    assert by_text(typed, by_bytes=True).erasure.records == 2
    assert typed.ledger().read().decoding.in_quarantine == 1
    assert typed.is_clean()


def test_a_raw_key_proves_nothing_of_a_record_that_was_never_read(typed):
    """All decoded records of its raw key are meant; the columns are not made of that."""
    run = typed.open("erase")
    made = erase(run, tables_of(run), EraseRequest(EVERY, "asked", "ann", most=1.0))
    assert made.erasure.records == 17
    assert typed.offsets() == [3, 6, 8]


@pytest.mark.parametrize(("garbled", "left"), [(set(), []), ({5}, [4, 13])])
def test_a_tombstone_stays_with_records_of_its_raw_key_that_stay(memory, garbled, left):
    """It is the end of what waits in quarantine: decoded later, that would live."""
    memory.configure(decode={**DECODE, "tombstones": "drop"})
    memory.decode = memory.stream.decode
    memory.spark.garbled |= garbled  # of the raw key 2, as the tombstone 14
    memory.send(20)
    memory.run("lands")
    run = memory.open("erase")
    erase(run, tables_of(run), EraseRequest(EVERY, "asked", "ann", most=1.0))
    assert memory.offsets() == left
    assert memory.is_clean()


def test_later_records_are_not_refused_by_a_key_that_somebody_else_has(typed):
    """Also where that one's record was never read: it stays, and its later ones come."""
    run = typed.open("erase")
    with pytest.raises(BadInput, match="other records share"):
        plan_erasure(run, tables_of(run), EraseRequest(EVERY, "asked", "ann", is_future=True))


def begins_again(world, cut):
    """The log is cut there and goes on with others' records; a new generation reads all of it."""
    world.log().elect(cut)
    world.send(10)
    assert world.halts("cut") == ["truncation"]
    world.decide("restart")
    world.run("again")
    return [offset for *_, offset in world.rows(generation=1)]


def test_a_new_generation_leaves_out_records_whose_key_others_have_as_well(typed):
    """Each is told by all of it, as is one that only its bytes tell; nobody else's is."""
    made = by_text(typed, by_bytes=True).erasure
    assert [n for r in made.ranges for n in range(*r.coordinates[3:])] == [0, 3, 5, 6, 10, 15]
    assert begins_again(typed, 12) == [1, 2, 4, 7, 8, 9, *range(11, 22)]
    assert typed.is_clean()


def test_later_records_are_not_refused_where_one_has_no_key_of_kafkas(typed, monkeypatch):
    own = "tests.simulation.table.key_of"
    monkeypatch.setattr(own, lambda serial: None if serial == 6 else b"own-%d" % serial)
    with pytest.raises(BadInput, match="1 of these records have no key of Kafka's"):
        by_text(typed, future=True)
    assert by_text(typed, text="key-2", future=True).erasure.is_future


CURRENT = {"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}}


@pytest.mark.parametrize("name", ["table", "decoded", "quarantine", "current"])
def test_an_erasure_is_not_through_while_a_table_is_away(typed, name):
    """Its files of older versions have the records, and its log tells of them."""
    typed.configure(decode=DECODE, current=CURRENT)
    typed.run("folds")
    assert by_text(typed).erasure.status == "removed"
    typed.clock.milliseconds += 169 * 3_600_000
    state = getattr(typed, name)
    table_id, state.table_id = state.table_id, None
    with pytest.raises(ServiceAway, match="is gone, and its rows and files with it"):
        goes_on(typed)
    state.table_id = table_id
    (done,) = goes_on(typed)
    assert (done.status, done.audit) == ("done", "clean")
    assert all(part.vacuumed is not None for part in done.tables)


def test_an_older_ledger_learns_that_an_erasure_has_kept_older_changes(typed):
    """A current table that is made later of these shows what stood before, so it is unproven."""
    typed.ledger().update(lambda state: state.with_secret("00" * 32))
    typed.save_ledger()
    by_text(typed)
    typed.restore_ledger()
    typed.send(5)
    assert typed.halts() == ["table_changed"]
    typed.decide("approve")
    typed.run("later")
    typed.configure(decode=DECODE, current=CURRENT)
    typed.run("folds")
    assert typed.ledger().read().folding.unproven_since is not None


def by_key(world, key="0-1"):
    """Erase the records of a key of the current table."""
    run = world.open("erase")
    asked = EraseRequest(AskedKeys(({"k": key},)), "asked", "ann", most=1.0)
    return erase(run, tables_of(run), asked).erasure


@pytest.mark.parametrize(
    ("asked", "is_proven"), [(by_text, False), (erased, False), (by_key, True)]
)
def test_a_current_table_made_later_of_keys_that_keep_older_changes_is_unproven(
    typed, asked, is_proven
):
    """Its own key decides: a part of a value, or Kafka's key, does not find all of its changes."""
    asked(typed)
    typed.configure(decode=DECODE, current=CURRENT)
    typed.run("folds")
    folding = typed.ledger().read().folding
    assert folding.live
    assert (folding.unproven_since is None) == is_proven


def test_a_later_table_by_another_key_is_unproven(typed):
    """The erasure was by the key of the table that was there, which found all changes of it."""
    typed.configure(decode=DECODE, current=CURRENT)
    typed.decode, typed.folds = typed.stream.decode, typed.stream.current
    typed.run("folds")
    assert by_key(typed).whole == ("k",)
    assert typed.ledger().read().folding.unproven_since is None
    typed.readdress()
    folds = typed.folds.model_copy(update={"key": ["essay"]})
    typed.stream, typed.folds = typed.stream.model_copy(update={"current": folds}), folds
    typed.send(1)
    typed.run("by another key")
    assert typed.ledger().read().folding.unproven_since is not None


@pytest.fixture(params=[None, b"null"], ids=["no value", "bytes that count as none"])
def retold(request, memory, monkeypatch):
    """Keys of the current table whose records have several raw keys, some without a value.

    By serial: 1, 4 and 7 are of one key, 2 and 5 of another one. 7 has nothing but the raw key of 4
    to tell whose it is, and 2 that of 1.
    """
    memory.configure(decode=DECODE, current=CURRENT)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    raw, bare = {7: 4, 2: 1}, (2, 7)
    says = memory._says
    monkeypatch.setattr(memory, "_says", lambda r: {**says(r), "is_tombstone": r.serial in bare})
    monkeypatch.setattr("tests.simulation.table.key_of", lambda n: b"raw-%d" % raw.get(n, n))
    monkeypatch.setattr(
        "tests.simulation.table.value_of",
        lambda n: request.param if n in bare else b"value-%d" % n,
    )
    memory.send(7)
    memory.run("lands")
    return memory


def test_no_row_rises_by_a_record_that_only_its_raw_key_tells(retold):
    """It is the last change of a key, and goes with the record that the erasure is about."""
    with pytest.raises(BadInput, match=r"1 keys keep older changes, .* 1 would have a row again"):
        by_text(retold, text="key-4")
    assert len(retold.offsets()) == 7


def test_whole_keys_are_looked_for_until_nothing_is_added(retold):
    """A change of the first key shares its raw key with one of another key."""
    assert by_text(retold, text="key-4", whole_keys=True).erasure.records == 5
    assert [r.serial for r in retold.table.rows()] == [3, 6]
    assert retold.is_clean()


def test_rows_that_no_run_has_verified_are_not_erased(landed):
    """Their coordinates may be another record's, once their run is settled."""
    landed.send(9)
    landed.commit("cut off")
    with pytest.raises(StreamBusy, match="3 of these records stand in rows that no run has"):
        erased(landed)
    landed.run("later")
    assert erased(landed).records == 37


def test_a_table_of_before_that_is_away_when_an_erasure_goes_on_is_named(typed, monkeypatch):
    first = typed.decoded
    typed.readdress()
    typed.send(1)
    typed.run("elsewhere")
    cut_off_at("erase:begun", typed, monkeypatch)
    first.table_id = None
    (made,) = goes_on(typed)
    assert "the former decoded table at /lake/s_decoded: nothing is there" in str(made.unreached)


def test_a_table_that_a_dead_attempt_has_written_to_is_erased_from_as_well(memory, monkeypatch):
    """Its plan is finished at the new address, and remembers the other one."""
    memory.configure(decode=DECODE)
    memory.decode = memory.stream.decode
    memory.send(6)

    with dying(monkeypatch, "tideline.decoding.verifying", "decode:closing"):
        memory.run("dies")
    first = memory.decoded
    memory.readdress()
    memory.run("elsewhere")
    assert len(first.rows()) == len(memory.decoded.rows()) == 6
    by_text(memory)
    assert sorted(r.serial for r in first.rows()) == [2, 3, 4, 5]
    assert memory.is_clean()


def test_a_record_that_is_in_no_table_any_more_is_undecided_as_well(typed):
    """A dropped tombstone whose key no decoded record has; or one that was let go."""
    typed.decoded.add_foreign(
        [r for r in typed.decoded.rows() if r.serial % 3 != 2], "DELETE", removes_rows=True
    )
    plan = by_text(typed, text="key-2", plans=True)
    assert [r.offsets.start_offset for r in plan.found.undecided] == [1, 4, 7, 10, 13, 16, 19]
    assert plan.found.unknown == {"quarantine": 3, "raw": 7}


def test_tables_at_former_addresses(typed):
    """Their rows go as well; what was erased before is looked for there, too, and a restore."""
    first = typed.decoded
    typed.readdress()
    typed.send(1)
    typed.run("elsewhere")
    assert by_text(typed).erasure.records == 5
    assert not [r for r in first.rows() if r.serial % 5 == 1]
    first.add_foreign([*typed.table.rows(), Row(first.rows()[0].identity, 0, 1)], "RESTORE", True)
    audit, _ = typed.audit()
    assert "1 erased rows are still in /lake/s_decoded, the former decoded table" in str(audit)
    assert [e.erasure_id for e in goes_on(typed)] == ["erase-1", "erase-2"]
    assert typed.is_clean()
    typed.readdress()  # nothing is decoded there yet
    assert by_text(typed, text="key-2").erasure.records == 4
    first.table_id = None
    last = by_text(typed, text="key-3").erasure
    assert "the former decoded table at /lake/s_decoded: nothing is there" in str(last.unreached)


def test_a_plan_is_refused_where_the_erasure_would_be(typed):
    """One of both typed tables is at another address: nothing is decoded, so nothing is erased."""
    typed.former[typed.decode.table.uri] = typed.decoded
    typed.configure(decode={**DECODE, "table": {"uri": "/lake/other"}})
    typed.decoded = TableState(created=10)
    for plans in (True, False):
        with pytest.raises(BadInput, match="give both tables' addresses as they were"):
            by_text(typed, plans=plans)


def leaves_the_raw_table(world):
    """The stream file names another one, and a run begins it."""
    former = world.former[world.stream.table.uri] = world.table
    world.table = TableState(created=10)
    world.configure(table={"uri": "/lake/new"}, **({"decode": DECODE} if world.decode else {}))
    world.send(5)
    assert world.halts() == ["table_changed"]
    world.decide("approve")
    world.run("elsewhere")
    return former


def test_an_erasure_reads_once_what_the_ledger_has_written_to(typed, monkeypatch):
    """The whole history of the ledger names it."""
    typed.readdress()
    typed.send(1)
    typed.run("elsewhere")
    asked, read = [], Ledger.fold_closings
    monkeypatch.setattr(Ledger, "fold_closings", lambda ledger: (asked.append(1), read(ledger))[1])
    assert by_text(typed).erasure.records == 5
    assert asked == [1]


def test_raw_keys_are_asked_of_former_raw_tables_as_well(typed):
    """What tells each record in a newer generation, who shares its key, and what is undecided."""
    leaves_the_raw_table(typed)
    run = typed.open("erase")
    with pytest.raises(BadInput, match="other records share"):
        plan_erasure(run, tables_of(run), EraseRequest(EVERY, "asked", "ann", is_future=True))
    plan = by_text(typed, text="key-2", by_bytes=True, plans=True)
    assert len(plan.erasure.hashes) == sum(len(r.offsets) for r in plan.found.ranges) == 4
    typed.decoded.add_foreign(
        [r for r in typed.decoded.rows() if r.serial % 3 != 2], "DELETE", removes_rows=True
    )
    plan = by_text(typed, text="key-2", plans=True)
    undecided = [n for r in plan.found.undecided for n in range(*r.coordinates[3:])]
    assert undecided == [1, 4, 7, 10, 13, 16, 19, 22]


def test_records_that_no_raw_table_has_are_named(typed):
    """Nothing tells them in a newer generation, nor later ones."""
    leaves_the_raw_table(typed).table_id = None
    plan = by_text(typed, plans=True)
    assert "4 of these records are in no raw table that can be reached, today's or former" in str(
        plan.erasure.unreached
    )
    run = typed.open("erase")
    with pytest.raises(BadInput, match="17 of these records have no key of Kafka's"):
        plan_erasure(run, tables_of(run), EraseRequest(EVERY, "asked", "ann", is_future=True))


def test_the_share_of_an_erasure_counts_former_raw_tables_as_well(landed):
    """Today's may have few, or none."""
    landed.send(300)
    landed.run("later")
    former = leaves_the_raw_table(landed)
    erased(landed)
    assert KEY not in {key_of(row.serial) for row in former.rows()}


def test_a_ledger_put_back_before_the_raw_rows_went_goes_on_with_the_erasure(typed, monkeypatch):
    """The typed table's commit tells it."""
    typed.save_ledger()
    cut_off_at("erase:taken", typed, monkeypatch)
    typed.restore_ledger()
    typed.send(1)
    typed.run("later")
    assert [e.erasure_id for e in typed.ledger().read().erasing.open] == ["erase-1"]
    assert [e.records for e in goes_on(typed)] == [4]
    assert not [r for t in typed.tables for r in t.rows() if r.serial in (1, 6, 11, 16)]
    assert typed.is_clean()


def test_a_typed_table_that_an_older_ledger_cleans_up_is_nobody_s_finding(typed):
    """Its token is newer than the ledger, which was put back to before it was decoded again."""
    by_text(typed)
    typed.save_ledger()
    run = typed.open("again")
    decode_again(run, None)
    typed.restore_ledger()
    typed.decoded.files["left by an attempt"] = []
    typed.clock.milliseconds += 169 * 3_600_000
    assert [made.status for made in goes_on(typed)] == ["done"]
    assert not typed.incidents


def test_what_somebody_brings_back_goes_once_more(landed):
    """The audit names it at once."""
    before = landed.table.rows()
    erased(landed)
    landed.table.add_foreign(before, "RESTORE", removes_rows=True)
    with pytest.raises(Halted):  # the restore is decided about first
        goes_on(landed)
    landed.send(1)
    assert landed.halts() == ["table_changed"]
    landed.decide("approve")
    landed.run("later")
    assert sum(flaw.offsets for flaw in landed.audit()[0].foreign) == 34
    made = goes_on(landed)
    assert [e.erasure_id for e in made] == ["erase-1", "erase-2"]
    assert landed.is_clean()
    assert len(landed.offsets()) == 67
    assert [e.erasure_id for e in landed.ledger().erasures()] == ["erase-1", "erase-2"]


def test_files_go_when_their_time_has_come_and_not_before(landed):
    erased(landed)
    assert [e.status for e in goes_on(landed)] == ["removed"]
    landed.clock.milliseconds += 169 * 3_600_000
    assert [e.status for e in goes_on(landed)] == ["done"]
    assert goes_on(landed) == ()


def test_a_retention_that_has_grown_since_is_waited_for(landed):
    """The files are there still, so the erasure is not done."""
    erased(landed)
    landed.configure(maintenance={"vacuum_hours": 720})
    landed.clock.milliseconds += 169 * 3_600_000
    (waits,) = goes_on(landed)
    assert (waits.status, waits.due_at > waits.removed_at + timedelta(hours=719)) == (
        "removed",
        True,
    )
    landed.clock.milliseconds += 552 * 3_600_000
    assert [e.status for e in goes_on(landed)] == ["done"]


def test_nobody_erases_beside_a_landing(landed):
    with landed.ledger().lease("writer"), pytest.raises(StreamBusy):
        erased(landed)
    assert len(landed.offsets()) == 100


def test_an_empty_ledger_is_not_begun_by_an_erasure():
    world = Memory()
    with simulated(world.machine()), pytest.raises(BadInput, match="nothing was landed yet"):
        erased(world)
    assert world.store.version < 0


def test_a_key_that_nobody_has_changes_nothing(landed):
    run = landed.open("plan")
    asked = EraseRequest(AskedKeys(raw_keys=(b"nobody",)), "asked", "ann")
    assert plan_erasure(run, tables_of(run), asked).erasure is None
    version = landed.version
    assert erase(run, tables_of(run), asked).erasure is None
    assert landed.version == version


def test_keys_without_records_are_told_and_were_not_erased_before(typed, capsys):
    """A blank or another case is another key, of which nothing went: no report may say so."""
    keys = AskedKeys(
        tuple({"essay": text} for text in ("key-1 ", "key-1", "KEY-2", "key-9")), (b"nobody", KEY)
    )
    asked = EraseRequest(keys, "asked", "ann", most=1.0)
    run = typed.open("plan")
    plan = plan_erasure(run, tables_of(run), asked)
    assert plan.without == (1, 3, 4, 5)
    run = typed.open("erase")
    made = erase(run, tables_of(run), asked)
    assert made.without == (1, 3, 4, 5)
    assert "keys without a record in any table: number 1, 3, 4, 5. Look" in made.warnings[0]
    assert made.erasure.without_records == tuple(made.erasure.keys[n - 1] for n in made.without)
    page = erase_commands.page_of("orders", build_erasure(made.erasure, made.erasure.begun_at))
    assert page.count("**no record**") == 4
    assert "4 of 6 keys had no record" in page
    for text, before in (("key-1", ("erase-1",)), ("key-1 ", ()), ("KEY-2", ()), ("key-2", ())):
        found = by_text(typed, text=text, plans=True)
        assert (found.before, found.without == (1,)) == (before, text != "key-2")
    typed.ledger()


def test_keys_that_only_bytes_tell_have_records_where_somebody_takes_them(typed):
    """Not all that are asked for: each is told by its own word."""
    keys = AskedKeys(({"essay": "key-1"}, {"essay": "nobody"}), by_bytes=True)
    run = typed.open("erase")
    asked = EraseRequest(keys, "asked", "ann", most=1.0)
    assert plan_erasure(run, tables_of(run), asked).without == (2,)


def test_what_is_not_landed_yet_is_told_before_and_after(landed, monkeypatch):
    """It may be of the key, and comes with the next run: nobody may take it for erased."""
    landed.send(9)
    run = landed.open("plan")
    asked = EraseRequest(AskedKeys(raw_keys=(KEY,)), "asked", "ann", most=1.0)
    plan = plan_erasure(run, tables_of(run), asked)
    assert plan.unread == 9
    assert "unread offsets of the stream: 9" in plan.warnings[-1]
    made = erased(landed)
    page = erase_commands.page_of("orders", build_erasure(made, made.begun_at))
    assert (made.unread, "not landed when the erasure began: 9 offsets" in page) == (9, True)
    asked = replace(asked, keys=AskedKeys(raw_keys=(b"nobody",)))
    nothing = erase(landed.open("erase"), tables_of(landed.open("erase")), asked)
    assert (nothing.erasure, nothing.unread, len(nothing.warnings)) == (None, 9, 2)
    landed.run("later")
    assert plan_erasure(run, tables_of(run), asked).unread == 0

    def away(*_):
        raise ServiceAway("no broker answers")

    monkeypatch.setattr("tideline.operations.erase_finding.observe_topics", away)
    away_plan = plan_erasure(run, tables_of(run), asked)
    assert away_plan.unread is None
    assert "unread offsets of the stream: an unknown number" in away_plan.warnings[-1]


def test_the_page_names_what_it_has_not_reached(landed):
    page = erase_commands.page_of("orders", build_erasure(erased(landed), landed.clock.now()))
    for words in ("headers of other records", "other people's records", "test guesses"):
        assert words in page.partition(NOT_REACHED)[2]
