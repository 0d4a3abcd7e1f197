"""A key is asked for by its columns, and a part of it may be null."""

import json
from argparse import Namespace
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.worlds.build import ID
from tideline.cli import reading as command
from tideline.cli.main import build_parser
from tideline.cli.output import CommandOutput
from tideline.errors import BadInput
from tideline.folding import explaining
from tideline.folding.explaining import ExplainedKey, explain_key
from tideline.model.current import Layout
from tideline.model.offsets import PlaceInLog
from tideline.table.delta_table import TargetTable
from tideline.table.scans import earliest_from, newest_marked, quarantined, rows_at

ROWS = [
    {"tenant": None, "id": 1, "n": 1},
    {"tenant": "null", "id": 1, "n": 2},
    {"tenant": "", "id": 1, "n": 3},
    {"tenant": None, "id": 2, "n": 4},
    {"tenant": "a", "id": None, "n": 5},
]
TYPES = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("n", pa.int64())])


@pytest.mark.parametrize("partition_by", [None, ["tenant"], ["id"]])
def test_rows_are_found_by_a_part_that_is_null(tmp_path, partition_by):
    """It is no text; a file that is older than a column has null there."""
    uri = str(tmp_path / "t")
    if partition_by is None:
        older = pa.table({"id": [1, 2], "n": [6, 7]})
        write_deltalake(uri, older)
    write_deltalake(
        uri,
        pa.Table.from_pylist(ROWS, TYPES),
        mode="append",
        partition_by=partition_by,
        schema_mode="merge",
    )

    def found(*keys):
        return {row["n"] for row in TargetTable(uri, {}).rows_with(keys, ["n"])}

    before = set() if partition_by else {6}
    empty = {3} if partition_by == ["tenant"] else set()  # null, by Delta's protocol
    assert found({"tenant": None, "id": "1"}) == {1} | empty | before
    assert found({"tenant": "null", "id": "1"}) == {2}
    assert found({"id": None, "tenant": "a"}) == {5}
    assert found({"id": None, "tenant": "b"}) == set()
    both = found({"tenant": None, "id": "2"}, {"tenant": "", "id": "1"})
    assert both == {4} | ({3} - empty) | (set() if partition_by else {7})


@pytest.fixture
def asked(monkeypatch):
    """What the command has asked for, by what stands behind `--key`."""
    seen = []

    def explained(_, key):
        seen.append(key)
        return ExplainedKey(key, None, False, ())

    stream = SimpleNamespace(current=True, stream="orders")
    monkeypatch.setattr(command, "open_run", lambda *_: nullcontext())
    monkeypatch.setattr(explaining, "explain_key", explained)

    def ask(*words, as_json=False):
        given = [word for text in words for word in ("--key", text)]
        options = build_parser().parse_args(["explain", "f.yaml", *given])
        assert isinstance(options, Namespace)
        command.explain_record(stream, options, CommandOutput(as_json))
        return seen[-1]

    return ask


def test_a_column_without_a_value_is_null(asked, capsys):
    assert asked("tenant", "id=1") == {"tenant": None, "id": "1"}
    assert capsys.readouterr().out.startswith("tenant is null, id=1: no row")
    assert asked("tenant=", "id=a=b") == {"tenant": "", "id": "a=b"}
    assert asked("tenant=null") == {"tenant": "null"}
    capsys.readouterr()
    asked("tenant", "id=1", as_json=True)
    assert json.loads(capsys.readouterr().out)["key"] == {"tenant": None, "id": "1"}


@pytest.mark.parametrize("given", [("id=1", "id=2"), ("id=1", "id=1"), ("id", "id=1")])
def test_a_column_that_is_given_twice_is_refused(asked, given):
    """One of both would be asked for in silence."""
    with pytest.raises(BadInput, match=r"--key: got a column twice"):
        asked(*given)


def test_a_key_that_is_null_as_a_whole_is_none(monkeypatch):
    plan = SimpleNamespace(layout=Layout(("tenant", "id"), 4))
    monkeypatch.setattr(explaining, "plan_recompute", lambda *_, **__: plan)
    run = SimpleNamespace(
        ledger=SimpleNamespace(read=lambda: None), stream=SimpleNamespace(stream="orders")
    )
    with pytest.raises(BadInput, match="--key: got null alone; allowed: one value at least"):
        explain_key(run, {"tenant": None, "id": None})


def test_a_time_that_python_cannot_hold_stops_nothing(tmp_path):
    """A producer that sends microseconds: quarantine, a key's changes and snapshots can be read."""
    uri = str(tmp_path / "t")
    far = pa.array([1_700_000_000_000_000_000, None, 0, -(2**62)]).cast(pa.timestamp("us", "UTC"))
    log = {"topic_id": ID, "generation": 0, "partition": 0, "topic": "orders"}
    rows = {name: [value] * 4 for name, value in log.items()}
    rows |= {"offset": [*range(4)], "timestamp": far, "snapshot": ["last"] * 4}
    rows |= {"error_class": ["malformed"] * 4}
    types = {"generation": pa.int32(), "partition": pa.int32()}
    columns = {n: pa.array(v, types.get(n)) for n, v in rows.items()}
    write_deltalake(uri, pa.table(columns))
    table = TargetTable(uri, {})
    (found,) = quarantined(table, (), datetime(2026, 1, 1, tzinfo=UTC))
    assert (found.start_offset, found.end_offset) == (0, 2)
    assert len(table.rows_with([{"partition": "0"}], ["timestamp"])) == 4
    assert [row["offset"] for row in rows_at(table, None, ("timestamp",))] == [*range(4)]
    newest = newest_marked(table, ID, "snapshot", ("last",), None)
    assert (newest + timedelta(days=1)).year == 9999
    assert earliest_from(table, [PlaceInLog(ID, 0, 0, 0)]).year == 1


KINDS = {
    "n": (pa.int64(), "a whole number in digits, of int64"),
    "at": (pa.timestamp("us", "UTC"), "a time, as 2026-01-31T00:00:00Z, with its offset from UTC"),
    "here": (pa.timestamp("us"), "a time, as 2026-01-31T00:00:00"),
    "day": (pa.date32(), "a day, as 2026-01-31"),
    "raw": (pa.binary(), "hexadecimal digits"),
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("n", text) for text in ("", " 7", "+7", "7.0", "7e0", "1_0", "7\0")),
        *(("n", text) for text in ("\u0667", "9" * 20, "9" * 5000)),
        *(("at", text) for text in ("2026-01-31", "2026-01-31T00:00:00", "yesterday", "0")),
        *(("here", text) for text in ("2026-01-31T00:00:00Z", "31.01.2026")),
        *(("day", text) for text in ("2026-1-1", "2026-13-01", "20260131", "2026-01-31T00:00:00")),
        ("raw", "0x7"),
    ],
)
def test_a_text_that_is_no_value_of_its_column_is_refused(tmp_path, name, text):
    """With how such a value is written."""
    kind, allowed = KINDS[name]
    write_deltalake(str(tmp_path), pa.table({name: pa.array([None], kind)}))
    table = TargetTable(str(tmp_path), {})
    for ask in (
        lambda: table.rows_with([{name: text}], [name]),
        lambda: table.spelled([{name: text}]),
    ):
        with pytest.raises(BadInput) as refused:
            ask()
        assert refused.value.message.endswith(f"; allowed: {allowed}")
        assert len(refused.value.message) < 200


def test_one_number_has_several_spellings(tmp_path):
    write_deltalake(str(tmp_path), pa.table({"n": [0, 7]}))
    keys = [{"n": text} for text in ("7", "007", "0x7", "-0")]
    assert [k["n"] for k in TargetTable(str(tmp_path), {}).spelled(keys)] == ["7", "7", "7", "0"]
