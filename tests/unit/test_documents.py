"""Stored documents age: older formats are upgraded, newer ones and unknown fields are refused."""

import itertools
import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest

from tests.worlds.build import ID, NOW
from tideline.documents import FORMAT, dump, load, refuse_newer
from tideline.errors import NewerFormat, UnreadableDocument
from tideline.ledger.state import Control
from tideline.model.addresses import RelocationMarker
from tideline.model.decoding import DecodeRecord, Decoding, WriterSchema
from tideline.model.fleet import TopicList
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.maintenance import ExpiredRows
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.request import ResolvedTimestamp
from tideline.model.run import Rewind, RunRecord
from tideline.model.spark_job import DecodeJob, DecodeResult, SparkJob, SparkResult
from tideline.table.written_files import Manifest

KINDS = (
    Control,
    Head,
    RunRecord,
    Incident,
    ResolvedTimestamp,
    Rewind,
    RelocationMarker,
    Decoding,
    DecodeRecord,
    SparkJob,
    SparkResult,
    DecodeJob,
    DecodeResult,
    WriterSchema,
    ExpiredRows,
    Manifest,
    TopicList,
)
SHAPES = Path(__file__).parents[1] / "data" / "formats" / f"{FORMAT}.json"
WHERE = "ledger /lake/orders.ledger: document x"
_minutes = itertools.count(1)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def filled(hint):
    """A value of a type with every optional part there, and one item in every list."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Places:
        return Places.of_pieces([(filled(PartitionIdentity), filled(OffsetRange))])
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        names = [f.name for f in fields(hint)]
        return hint(**{n: ID if n == "topic_id" else filled(hints[n]) for n in names})
    if origin is Literal:
        return inner[-1]
    if origin in (Union, types.UnionType):
        return filled(next(i for i in inner if i is not types.NoneType))
    if origin is tuple:
        return tuple(filled(i) for i in inner if i is not ...)
    if origin is Mapping:
        return {"key": filled(inner[1])}
    if hint is datetime:
        return NOW + timedelta(minutes=next(_minutes))  # a window's end comes after its start
    if hint is object:
        return "long"
    if hint is date:
        return NOW.date()
    return hint(5) if hint in (int, float) else {str: "x", bool: True}[hint]


_OTHERS = ("kafka_options", "store_options", "classes", "failed", "new_ids", "new_schemas")
_MAPPINGS = tuple((name,) for name in (*_OTHERS, "types", "by_type"))
"""Fields with keys of somebody else's."""


def objects(data, path=()):
    """Every object in JSON data that stands for a dataclass, with its path."""
    if isinstance(data, dict) and path[-1:] not in _MAPPINGS:
        yield path, data
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from objects(value, (*path, key))


@every_kind
def test_the_number_comes_first_and_everything_is_read_back(kind):
    """Whoever looks into a store sees it at once."""
    value = filled(kind)
    text = dump(value)
    assert text.startswith(f'{{"format":{FORMAT},')
    assert load(kind, text, WHERE) == value
    assert load(kind, text.encode(), WHERE) == value


@every_kind
def test_white_space_and_order_do_not_matter(kind):
    """A person or a tool may have written it anew."""
    value = filled(kind)
    text = json.dumps(dict(sorted(json.loads(dump(value)).items())), indent=2)
    assert load(kind, text, WHERE) == value


@every_kind
def test_a_newer_format_is_refused_whatever_it_holds(kind):
    """It may mean something else; the message says what to do."""
    for text in (
        dump(filled(kind)).replace(f'"format":{FORMAT}', f'"format":{FORMAT + 1}', 1),
        json.dumps({"everything": "else", "format": FORMAT + 7}),
    ):
        with pytest.raises(NewerFormat, match=f"^{WHERE} has format .*up to {FORMAT}: upgrade"):
            load(kind, text, WHERE)
        with pytest.raises(NewerFormat, match=f"^{WHERE} has format"):
            refuse_newer(text, WHERE)


@every_kind
def test_an_unknown_field_is_refused_at_every_depth(kind):
    """Read and written again, it would be lost without a word."""
    whole = json.loads(dump(filled(kind)))
    paths = [path for path, _ in objects(whole)]
    assert () in paths
    for path in paths:
        data = json.loads(json.dumps(whole))
        target = data
        for step in path:
            target = target[step]
        first = next(name for name in target if name != "format")
        target["surprise"] = 1
        name = ".".join(map(str, (*path, "surprise")))
        for text in (json.dumps(data), json.dumps(data, separators=(",", ":"))):
            with pytest.raises(UnreadableDocument) as refused:
                load(kind, text, WHERE)
            said = f"{WHERE} cannot be read: unknown field {name}; allowed there: {first}"
            assert refused.value.message.startswith(said)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "invalid JSON"),
        ("{", "invalid JSON"),
        (f'{{"format":{FORMAT},"ledger_id":', "Invalid JSON"),
        (b"\xff", "decode"),
        ("[]", "a JSON list instead of an object"),
        ("null", "NoneType instead of an object"),
        ('{"format": "2"}', "format '2' instead of a whole number"),
        ('{"format": true}', "format True instead of a whole number"),
        ('{"format": 0}', "format 0 instead of a whole number"),
        ('{"ledger_id": "l"}', "field stream: "),
        ('{"ledger_id": 5, "stream": "s"}', "field ledger_id: "),
        ('{"ledger_id": "l", "stream": "s", "incidents": 5}', "field incidents: "),
        ('{"ledger_id": "l", "stream": "s", "incidents": [5]}', "field incidents.0: "),
        ("[" * 100_000, "invalid JSON"),
    ],
)
def test_a_damaged_document_is_refused_with_where_and_what(text, problem):
    """No traceback of a library at 3 a.m."""
    with pytest.raises(UnreadableDocument) as refused:
        load(Control, text, WHERE)
    assert refused.value.message.startswith(f"{WHERE} cannot be read: ")
    assert problem in refused.value.message


def test_a_damaged_job_shows_no_secret():
    """Neither in the message nor in what a traceback prints."""
    text = dump(filled(SparkJob)).replace('"key":"x"', '"password":["canary"]')
    assert "canary" in text
    with pytest.raises(UnreadableDocument, match=r"field kafka_options\.password: ") as refused:
        load(SparkJob, text, "job file")
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    assert "canary" not in refused.value.message


RANGE = {
    "topic": "orders",
    "topic_id": ID,
    "generation": 0,
    "partition": 0,
    "start_offset": 0,
    "end_offset": 9,
    "leader_epoch": 1,
    "log_start_offset": 0,
    "high_watermark": 9,
    "last_stable_offset": 9,
}
COORDINATES = ("topic", "topic_id", "generation", "partition", "start_offset", "end_offset")
IDENTITY = {"topic_id": ID, "generation": 0, "partition": 0}
GAP = {"offsets": {"start_offset": 3, "end_offset": 4}, "reason": "thinned"}
INCIDENT = {
    "incident_id": "incident-1",
    "run_id": "r",
    "opened_at": "2026-01-01T00:00:00Z",
    "finding": {"kind": "retention_loss", "expected": "e", "actual": "a"},
    "doubtful": [RANGE],
}
RUN = {"run_id": "r", "lane": "live", "status": "done", "request_digest": "d"} | {
    "updated_at": "2026-01-01T00:00:00Z",
    "landing": {"table_id": "t", "version": 3, "token": 1, "rows": 9, "bytes": 99},
    "verified": [{"planned": RANGE, "rows": 8, "gaps": [GAP]}],
    "evidence": [{"identity": IDENTITY, "gaps": [GAP]}],
    "resolved": [INCIDENT],
}


def test_format_1_a_run_is_upgraded_with_everything_in_it():
    """Its table commit, its gaps, and the incidents that it resolved."""
    run = load(RunRecord, json.dumps(RUN), WHERE)
    assert run.table_commit is not None
    assert run.table_commit.version == 3
    assert [i.unverified[0].end_offset for i in run.resolved] == [9]
    assert run.verified[0].gaps[0].reason == "compacted_batch"
    assert run.evidence[0].gaps[0].reason == "compacted_batch"
    assert load(RunRecord, dump(run), WHERE) == run


def test_format_1_incidents_are_upgraded_where_they_are_open_and_closed():
    """In the control document, and as entries of the history."""
    closed = load(Incident, json.dumps(INCIDENT), WHERE)
    control = {"ledger_id": "l", "stream": "s", "incidents": [INCIDENT]}
    assert load(Control, json.dumps(control), WHERE).incidents == (closed,)
    assert [r.end_offset for r in closed.unverified] == [9]


def test_format_1_a_head_is_upgraded():
    """What a decision has accepted stays accepted."""
    lost = {"identity": IDENTITY, "intervals": [{"start_offset": 3, "end_offset": 4}]}
    head = load(Head, json.dumps({"excused": [lost], "live_runs": 2}), WHERE)
    assert [len(r) for _, r in head.accepted_loss.pieces] == [1]


def test_format_1_rewinds_are_upgraded_under_way_and_in_the_history():
    """Their ranges carried what was observed when the undone runs were planned."""
    lost = {"planned": RANGE, "rows": 2, "expired": True, "reason": "x"}
    data = {"rewind_id": "rewind-1", "to_run": "r", "reason": "x", "by": "ann"} | {
        "begun_at": "2026-01-01T00:00:00Z",
        "head_key": "h",
        "removes": [RANGE],
        "lost": [lost],
    }
    rewind = load(Rewind, json.dumps(data), WHERE)
    assert (rewind.removes[0].end_offset, rewind.removes[0].leader_epoch) == (9, 1)
    assert rewind.lost[0].planned == rewind.removes[0]
    control = {"ledger_id": "l", "stream": "s", "rewind": data}
    assert load(Control, json.dumps(control), WHERE).rewind == rewind


@pytest.mark.parametrize(("number", "action"), [(1, "write"), (2, "append_files")])
def test_a_job_that_only_read_is_upgraded(number, action):
    """Format 1 had other names for actions, and format 2 has actions; both say who commits."""
    data = json.loads(dump(filled(SparkJob))) | {"format": number, "action": action}
    data |= {"ledger_id": "l", "token": 4, "app_id": "a", "staged_rows": 0, "ranges": [RANGE]}
    if number == 2:
        data["ranges"] = [{k: v for k, v in RANGE.items() if k in COORDINATES}]
    del data["folder"]
    job = load(SparkJob, json.dumps(data), "job file")
    assert (job.folder, job.ranges[0].end_offset) == ("landed-x-4", 9)


@pytest.mark.parametrize(
    ("number", "action"), [(1, "land"), (2, "replace_where"), (2, "publish"), (2, "remove")]
)
def test_a_job_that_replaced_rows_itself_is_refused(number, action):
    """Nobody in Spark commits any more."""
    data = json.loads(dump(filled(SparkJob))) | {"format": number, "action": action}
    with pytest.raises(UnreadableDocument, match="unknown field action"):
        load(SparkJob, json.dumps(data), "job file")


def test_format_1_may_be_said():
    """The number is missing there, and means the same when it is not."""
    assert load(Head, '{"format": 1, "excused": []}', WHERE) == load(Head, "{}", WHERE) == Head()


def test_a_field_of_an_older_format_is_unknown_in_the_present_one():
    """Upgrades belong to the number, not to what is found; an old name beside a new one, too."""
    with pytest.raises(UnreadableDocument, match="unknown field excused"):
        load(Head, json.dumps({"format": FORMAT, "excused": []}), WHERE)
    with pytest.raises(UnreadableDocument, match="unknown field excused"):
        load(Head, '{"excused": [], "accepted_loss": []}', WHERE)


def shape(hint):
    """A type as it is stored: names of fields and what they hold, no names of classes."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Places:
        return [shape(Places.ENTRY)]
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return {f.name: shape(hints[f.name]) for f in fields(hint)}
    if origin is Literal:
        return " | ".join(sorted(inner))
    if origin in (Union, types.UnionType):
        (some,) = (i for i in inner if i is not types.NoneType)
        return {"or null": shape(some)}
    if origin is tuple:
        return [shape(i) for i in inner if i is not ...]
    return "object" if origin is Mapping else hint.__name__


def test_what_is_stored_changes_with_a_number_only():
    """Otherwise two versions would mean different things by the same number.

    In a released format a change needs a new number, a step in `documents._UPGRADES`, a new file
    beside this one, and recordings of the format before (docs/adr/0017). To write the file of a
    format that is not released yet: `python -m tests.unit.test_documents`.
    """
    known = json.loads(SHAPES.read_text())
    assert {kind.__name__: shape(kind) for kind in KINDS} == known


if __name__ == "__main__":
    found = {kind.__name__: shape(kind) for kind in KINDS}
    SHAPES.write_text(json.dumps(found, indent=1) + "\n")
