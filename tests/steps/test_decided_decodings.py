"""A decision about records that cannot be decoded: carried out for these, and for nothing else."""

from dataclasses import replace

import pytest

from tests.worlds.memory import Memory
from tideline.decoding.readers import halt_unless_decided
from tideline.errors import DecodingHalted
from tideline.model.decoding import PartPlan, ReaderSchema
from tideline.operations.redrive import decode_again, redrive

DECODE = {"value": {"format": "json"}, "quarantine": {"max_share": 0.2}}


def typed(memory):
    """Offsets in the typed table, and in quarantine."""
    return [sorted(r.offset for r in t.rows()) for t in (memory.decoded, memory.quarantine)]


def incidents(memory: Memory):
    """Those that halt decoding."""
    return memory.ledger().read().decoding.incidents


def halts(memory, run_id="halted"):
    """A run halts; the id of its incident."""
    with pytest.raises(DecodingHalted) as halted:
        memory.run(run_id)
    return halted.value.incidents[0].incident_id


@pytest.fixture
def halted(memory):
    """One of ten records is in quarantine; the ten that came then cannot be decoded."""
    memory.configure(decode=DECODE)
    memory.spark.garbled = {3, *range(11, 21)}  # serials count from 1
    memory.send(10)
    memory.run("lands")
    memory.send(10)
    assert halts(memory) == "incident-1"
    return memory


@pytest.mark.parametrize("choice", ["quarantine", None])
def test_a_redrive_of_other_records_answers_nothing(halted, choice):
    """Neither is the decision carried out, nor is the question gone."""
    if choice is not None:
        halted.decide(choice, "incident-1")
    halted.spark.garbled -= {3}
    redrive(halted.open("redrive"))
    assert typed(halted) == [[*range(10)], []]
    assert [i.incident_id for i in incidents(halted)] == ["incident-1"]
    if choice is None:
        assert halts(halted, "next") == "incident-2"
        return
    halted.run("next")
    assert typed(halted) == [[*range(10)], [*range(10, 20)]]
    assert not incidents(halted)


def test_a_decision_about_decoding_again_waits_for_it(memory):
    """Runs that come meanwhile decode other records, and halt for themselves."""
    memory.configure(decode=DECODE)
    memory.send(10)
    memory.run("lands")
    memory.spark.garbled = {*range(1, 10), *range(14, 20)}
    with pytest.raises(DecodingHalted):
        decode_again(memory.open("again"))
    memory.decide("quarantine", "incident-1")
    memory.send(3)
    memory.run("next")
    assert [i.is_decided for i in incidents(memory)] == [True]
    memory.send(6)
    assert halts(memory) == "incident-2"
    decode_again(memory.open("later"))
    assert typed(memory) == [[9, 10, 11, 12], [*range(9)]]
    assert [i.incident_id for i in incidents(memory)] == ["incident-2"]
    memory.decide("quarantine", "incident-2")
    memory.run("last")
    assert typed(memory)[1] == [*range(9), *range(13, 19)]
    assert not incidents(memory)


def test_whoever_decides_retry_lets_a_later_run_close_it(memory):
    """Of records that were decoded again, and whose rows of before stay."""
    memory.configure(decode=DECODE)
    memory.send(10)
    memory.run("lands")
    memory.spark.garbled = {*range(1, 10)}
    with pytest.raises(DecodingHalted):
        decode_again(memory.open("again"))
    memory.decide("retry", "incident-1")
    memory.send(3)
    memory.run("next")
    assert typed(memory) == [[*range(13)], []]
    assert not incidents(memory)


def test_a_decision_about_a_schema_is_none_about_others(memory):
    """Nor about the same trouble of another part or event type."""
    memory.configure(decode=DECODE)
    run = memory.open("run")
    part = PartPlan("value", "avro", "", "s", (), (), (), ReaderSchema("value", "avro", "", ()))
    reasons = ["schema 7: no columns", "120 new fields at a time (allowed: 100)"]
    with pytest.raises(DecodingHalted):
        halt_unless_decided(run, part, reasons)
    memory.decide("quarantine", "incident-1")
    for decided in (reasons, reasons[:1], ["121 new fields at a time (allowed: 100)"]):
        halt_unless_decided(run, part, decided)
    for other, said in ((replace(part, part="key"), reasons), (part, ["schema 9: no columns"])):
        with pytest.raises(DecodingHalted, match=r"beside what is decided: .*value: schema 7"):
            halt_unless_decided(run, other, said)
        memory.decide("quarantine", incidents(memory)[-1].incident_id)
        halt_unless_decided(run, other, said)
        halt_unless_decided(
            run, part, reasons
        )  # that is found first by the next run, and asks nobody again


@pytest.mark.parametrize("choice", ["quarantine", None])
def test_what_halted_decoding_ends_with_the_section_and_is_found_again_with_it(halted, choice):
    """Nobody decodes any more: the stream is neither halted, nor is anything to be decided."""
    if choice is not None:
        halted.decide(choice, "incident-1")
    halted.configure()
    assert halted.run("without").status == "nothing_to_do"
    assert not incidents(halted)
    assert "has no decode since run without" in halted.closed[-1].outcome
    halted.configure(decode=DECODE)
    assert halts(halted, "with it") == "incident-2"
