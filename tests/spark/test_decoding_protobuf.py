"""Protobuf records become typed rows; a bad one breaks only itself."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

import decode_rows
from devstack.protobuf_messages import message_class as message_of
from tests.worlds.protobuf_schemas import ALL, PROTO2, PROTO3, protobuf_part
from tests.worlds.raw_tables import decode_job, decode_plan, decoded, framing, job_of, planned
from tests.worlds.rows import raw_row, write_files

V1 = PROTO3 + "message Order { int32 id = 1; string note = 2; }\nmessage Other { int32 a = 1; }"
V2 = PROTO3 + "message Order { int64 id = 1; string remark = 2; optional double total = 3; }"
V3 = PROTO3 + "message Order { sint32 id = 1; double total = 3; }"


def order(schema_id, text, indexes=b"\0", **fields):
    return (
        framing(schema_id) + indexes + message_of(text, "shop.Order")(**fields).SerializeToString()
    )


GOOD = order(2, V2, id=1, remark="fine")
OTHER = message_of(V1, "shop.Other")(a=7).SerializeToString()
BAD = {
    "no bytes": (b"", "framing"),
    "four bytes": (framing(2)[:4], "framing"),
    "another magic byte": (b"\x01" + GOOD[1:], "framing"),
    "an id that the registry does not know": (framing(77) + GOOD[5:], "unknown_schema"),
    "an id of another subject": (framing(88) + GOOD[5:], "wrong_subject"),
    "nothing behind the id": (framing(2), "framing"),
    "indexes of another message": (framing(1) + b"\x02\x02" + OTHER, "type_mismatch"),
    "indexes of no message": (framing(1) + b"\x02\x04" + OTHER, "framing"),
    "indexes that are cut off": (framing(1) + b"\x04\x00", "framing"),
    "a count of indexes below zero": (framing(1) + b"\x01\x00", "framing"),
    "a forged count of indexes": (framing(1) + b"\xfe\xff\xff\xff\x0f" + OTHER, "framing"),
    "an index without an end": (framing(1) + b"\x02" + b"\x80" * 20, "framing"),
    "cut off": (GOOD[:-1], "malformed"),
    "cut off inside the number": (framing(2) + b"\0\x08\x80", "malformed"),
    "a number of eleven bytes": (framing(2) + b"\0\x08" + b"\xff" * 10 + b"\x01", "malformed"),
    "a forged length": (framing(2) + b"\0\x12\xff\xff\xff\xff\x07ab", "malformed"),
    "a length beyond an int": (framing(2) + b"\0\x12" + b"\xff" * 9 + b"\x01", "malformed"),
    "a field of the number 0": (GOOD + b"\x00", "malformed"),
    "an encoding that is none": (GOOD + b"\x0f", "malformed"),
    "garbage behind the record": (GOOD + b"garbage", "malformed"),
    "an end of a group that never began": (GOOD + b"\x0c", "malformed"),
    "groups in groups in groups": (framing(2) + b"\0" + b"\x53" * 100_000, "malformed"),
    "bytes that are no text": (framing(2) + b"\0\x12\x02\xff\xff", "invalid_utf8"),
    "half a character": (framing(2) + b"\0\x12\x01\xc3", "invalid_utf8"),
    "a string for a number": (framing(2) + b"\0\x0a\x01a", "type_mismatch"),
    "a number for a string": (framing(2) + b"\0\x10\x07", "type_mismatch"),
}


def part(**others):
    return protobuf_part({1: V1, 2: V2, 3: V3}, unknown=(77,), foreign=(88,), **others)


def decode(spark, tmp_path, rows, parts=None, **others):
    return decoded(spark, job_of(tmp_path, rows, parts or [part()], **others))


def test_three_writers_in_one_batch(spark, tmp_path):
    """A field keeps its column under another name; one that a writer has not is null."""
    rows = [
        raw_row(0, order(1, V1, id=-1)),
        raw_row(1, order(2, V2, id=2**40, remark="é")),
        raw_row(2, order(3, V3, id=-2, total=0.5)),
        raw_row(3, order(2, V2, total=0.0, indexes=b"\x02\x00")),
        raw_row(4, None),
        raw_row(5, framing(3) + b"\0"),
    ]
    result, typed, bad = decode(spark, tmp_path, rows)
    assert (result.raw_rows, result.tombstones, bad) == (6, 1, [])
    assert [(r["schema_id"], r["id"], r["note"], r["total"]) for r in typed] == [
        (1, -1, "", None),
        (2, 2**40, "é", None),
        (3, -2, None, 0.5),
        (2, 0, "", 0.0),
        (None, None, None, None),
        (3, 0, None, 0.0),
    ]
    assert list(typed[0]) == [
        *("topic_id", "generation", "topic", "partition", "offset", "timestamp"),
        *("is_tombstone", "schema_id", "id", "note", "total", "decode_plan_id"),
    ]


def test_a_bad_record_breaks_only_itself(spark, tmp_path):
    """Each kind has its class, and its neighbours are decoded."""
    rows = [raw_row(0, GOOD)]
    for data, _ in BAD.values():
        rows += [raw_row(len(rows), data, key=b"k"), raw_row(len(rows) + 1, GOOD)]
    result, typed, bad = decode(spark, tmp_path, rows)
    found = dict(zip(BAD, ((r["value"], r["error_class"]) for r in bad), strict=True))
    assert found == BAD
    assert {r["offset"] % 2 for r in typed} == {0}
    assert {(r["id"], r["note"]) for r in typed} == {(1, "fine")}
    assert len(typed) == len(BAD) + 1
    assert all(r["error"] and r["part"] == "value" and r["key"] == b"k" for r in bad)
    assert sum(result.classes.values()) == len(bad) == len(BAD)


def test_fields_that_the_schema_has_not_are_left_out(spark, tmp_path):
    """Producers may be newer than the schema that they name; a field twice counts once."""
    more = framing(2) + b"\0\x08\x05\x08\x06\x7a\x03abc"
    _, typed, bad = decode(spark, tmp_path, [raw_row(0, more)])
    assert ([r["id"] for r in typed], bad) == ([6], [])


def test_every_kind_of_field(spark, tmp_path):
    """Presence makes null; a scalar without it is its default; unknown enum numbers are text."""
    all_of = message_of(ALL, "shop.All")
    full = all_of(
        u32=2**32 - 1, u64=2**64 - 1, f64=2**63, s64=-(2**63), f=0.5, b=True, raw=b"\xff",
        color=7, colors=[1, 9], texts={"b": "2", "a": "1"},
        line={"sku": "x", "sizes": [3, 4], "color": 1}, more=[{"sku": "y"}, {}],
        right={"sku": "z"}, took={"seconds": 3, "nanos": 4}, count={"value": 0},
        text={"value": "t"}, flags={True: 1, False: 0},
    )  # fmt: skip
    setattr(full, "from", "me")
    full.lines[-1].sku = "m"
    full.at.FromDatetime(datetime(2026, 1, 2, 3, 4, 5, 678_901))
    full.times.add(seconds=-62_135_596_800)
    rows = [raw_row(n, m.SerializeToString()) for n, m in enumerate((full, all_of()))]
    wanted = protobuf_part(ALL, "plain", "shop.All")
    _, (made, empty), bad = decode(spark, tmp_path, rows, [wanted])
    own = {c.name for c in wanted.reader.columns}
    line = {"sku": "x", "sizes": [3, 4], "color": "RED"}
    no_line = {"sku": "", "sizes": [], "color": "NONE"}
    assert {n: v for n, v in made.items() if n in own} == {
        "u32": 2**32 - 1,
        "u64": Decimal(2**64 - 1),
        "f64": Decimal(2**63),
        "s64": -(2**63),
        "f": 0.5,
        "b": True,
        "raw": b"\xff",
        "color": "7",
        "colors": ["RED", "9"],
        "lines": [("-1", no_line | {"sku": "m"})],
        "texts": [("a", "1"), ("b", "2")],
        "line": line,
        "more": [no_line | {"sku": "y"}, no_line],
        "left": None,
        "right": no_line | {"sku": "z"},
        "at": datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC),
        "took": {"seconds": 3, "nanos": 4},
        "count": 0,
        "text": "t",
        "times": [datetime(1, 1, 1, tzinfo=UTC)],
        "from": "me",
        "flags": [("false", 0), ("true", 1)],
    }
    zeros = {"u32": 0, "u64": 0, "f64": 0, "s64": 0, "f": 0.0, "b": False, "raw": b""}
    lists = {"colors": [], "lines": [], "texts": [], "more": [], "times": [], "flags": []}
    assert {n: v for n, v in empty.items() if n in own and v is not None} == {
        **zeros,
        **lists,
        "color": "NONE",
    }
    assert bad == []


def test_times_that_no_calendar_has_are_out_of_range(spark, tmp_path):
    """Also inside of lists; found among good neighbours."""
    all_of = message_of(ALL, "shop.All")
    times = ({"seconds": 253_402_300_800}, {"seconds": 1, "nanos": -1}, {"seconds": 1})
    values = [all_of(times=[{}, time]).SerializeToString() for time in times]
    rows = [raw_row(n, values[n % 3]) for n in range(30)]
    _, typed, bad = decode(spark, tmp_path, rows, [protobuf_part(ALL, "plain", "shop.All")])
    assert [r["offset"] for r in typed] == list(range(2, 30, 3))
    assert {r["error_class"] for r in bad} == {"out_of_range"}


WRONG = {
    "an enum's name": (b"\x42\x03RED", "type_mismatch"),
    "a number for a map": (b"\x50\x01", "type_mismatch"),
    "a number for a message": (b"\x60\x01", "type_mismatch"),
    "a wrong type inside": (b"\x62\x02\x08\x01", "type_mismatch"),
    "a wrong type inside of a list": (b"\x6a\x02\x18\x01\x6a\x03\x1a\x01a", "type_mismatch"),
    "a wrong type in a map": (b"\x52\x04\x12\x02\x08\x01", "type_mismatch"),
    "beyond 32 bits": (b"\x08" + b"\xff" * 4 + b"\x1f", "out_of_range"),
    "beyond 32 bits in a list": (b"\x62\x07\x12\x05" + b"\xff" * 4 + b"\x0f", "out_of_range"),
    "beyond 32 bits in an enum": (b"\x40" + b"\xff" * 4 + b"\x1f", "out_of_range"),
    "101 levels": (b"\xab\x02" * 100 + b"\xac\x02" * 100, "malformed"),
    "a length beyond its message": (b"\x62\x02\x0a\x05hello", "malformed"),
    "a string beyond its message": (b"\x62\x03\x0a\x05abcde", "malformed"),
}
KEPT = {
    "both encodings of a list": (
        b"\x62\x0a\x12\x02\x01\x02\x10\x03\x12\x02\x04\x05",
        {"line": {"sku": "", "sizes": [1, 2, 3, 4, 5], "color": "NONE"}},
    ),
    "a message in two parts": (
        b"\x62\x03\x0a\x01x\x62\x02\x18\x01",
        {"line": {"sku": "x", "sizes": [], "color": "RED"}},
    ),
    "the last of a oneof": (
        b"\x72\x01a\x7a\x03\x0a\x01b",
        {"left": None, "right": {"sku": "b", "sizes": [], "color": "NONE"}},
    ),
    "the other way round": (b"\x7a\x03\x0a\x01b\x72\x01a", {"left": "a", "right": None}),
    "an enum's number below zero": (b"\x40" + b"\xff" * 9 + b"\x01", {"color": "-1"}),
    "a map's entry without key and value": (b"\x5a\x00", {"texts": [("", "")]}),
    "a key twice": (
        b"\x5a\x06\x0a\x01k\x12\x01a\x5a\x06\x0a\x01k\x12\x01b",
        {"texts": [("k", "b")]},
    ),
    "100 levels": (b"\xab\x02" * 99 + b"\xac\x02" * 99, {}),
}


def test_what_other_parsers_change_in_silence(spark, tmp_path):
    """A number is cut off, a known field in another encoding is passed over, at any depth."""
    wanted = protobuf_part(ALL, "plain", "shop.All")
    values = [data for data, _ in (*WRONG.values(), *KEPT.values())]
    _, typed, bad = decode(spark, tmp_path, values, [wanted])
    classes = [row["error_class"] for row in bad]
    assert dict(zip(WRONG, classes, strict=True)) == {k: c for k, (_, c) in WRONG.items()}
    for (kind, (_, fields)), row in zip(KEPT.items(), typed, strict=True):
        assert {name: row[name] for name in fields} == fields, kind


def test_an_enum_s_unknown_number_stands_as_digits(spark, tmp_path):
    """In proto2 as well: alone, in a list, in a map."""
    text = PROTO2 + (
        "enum K { A = 0; B = 1; } message Order { optional K one = 1; repeated K many = 2;"
        " repeated K packed = 3 [packed = true]; map<string, K> named = 4; }"
    )
    data = b"\x08\x07\x10\x01\x10\x08\x1a\x02\x00\x09\x22\x05\x0a\x01k\x10\x05"
    _, (row,), bad = decode(spark, tmp_path, [data], [protobuf_part(text, "plain")])
    assert bad == []
    assert (row["one"], row["many"], row["packed"]) == ("7", ["B", "8"], ["A", "9"])
    assert row["named"] == [("k", "5")]


OLD = (
    PROTO2
    + """
message Order {
  required int32 id = 1; optional string note = 2 [default = "none"]; enum Kind { A = 0; B = 1; }
  optional Kind kind = 3; repeated group Item = 4 { optional string sku = 5; }
  extensions 100 to 200;
}
extend Order { optional string more = 100; }
"""
)


def test_the_second_version_of_the_language(spark, tmp_path):
    """Everything single may be missing; text is checked all the same; what is required is."""
    make = message_of(OLD, "shop.Order")
    good = [make(id=1), make(id=2, note="x", kind=1, item=[{"sku": "s"}])]
    values = {
        0: good[0].SerializeToString(),
        1: good[1].SerializeToString(),
        2: good[0].SerializeToString() + b"\x18\x05",  # a number that the enum has not
        3: good[0].SerializeToString() + b"\xa2\x06\x01x",  # an extension
        4: b"",
        5: good[0].SerializeToString() + b"\x12\x01\xff",
        6: good[0].SerializeToString() + b"\x23\x2a\x01\xff\x24",
    }
    rows = [raw_row(n, value) for n, value in values.items()]
    _, typed, bad = decode(spark, tmp_path, rows, [protobuf_part(OLD, "plain")])
    assert [(r["offset"], r["id"], r["note"], r["kind"], r["item"]) for r in typed] == [
        (0, 1, None, None, []),
        (1, 2, "x", "B", [{"sku": "s"}]),
        (2, 1, None, "5", []),
        (3, 1, None, None, []),
    ]
    assert [(r["offset"], r["error_class"]) for r in bad] == [
        (4, "malformed"),
        (5, "invalid_utf8"),
        (6, "invalid_utf8"),
    ]


def test_records_without_framing(spark, tmp_path):
    """No bytes are a message of defaults; no row has an id."""
    text = V1.replace(
        "message Other", "message Outer { message Order { int32 n = 1; } }\nmessage Other"
    )
    inner = protobuf_part(text, "plain", "shop.Outer.Order")
    rows = [raw_row(0, b"\x08\x05"), raw_row(1, b""), raw_row(2, None), raw_row(3, b"\x80")]
    _, typed, bad = decode(spark, tmp_path, rows, [inner])
    assert [(r["offset"], r["n"], r["schema_id"]) for r in typed] == [
        (0, 5, None),
        (1, 0, None),
        (2, None, None),
    ]
    assert [(r["error_class"], r["schema_id"]) for r in bad] == [("malformed", None)]


@pytest.mark.parametrize("indexes", [b"\x04\x02\x00", b"\x84\x00\x82\x00\x00"])
def test_a_message_inside_of_another(spark, tmp_path, indexes):
    """Its indexes lead to it, however they are written; maps do not count as messages."""
    text = (
        PROTO3 + "message A {}\nmessage B { map<string, string> m = 1; message C { int32 n = 1; } }"
    )
    wanted = protobuf_part({4: text}, message="shop.B.C")
    rows = [raw_row(0, framing(4) + indexes + b"\x08\x07"), raw_row(1, framing(4) + b"\x02\x02")]
    _, typed, bad = decode(spark, tmp_path, rows, [wanted])
    assert [r["n"] for r in typed] == [7]
    assert [r["error_class"] for r in bad] == ["type_mismatch"]


def test_every_id_is_unknown(spark, tmp_path):
    """There is no writer at all, and no row is typed."""
    wanted = protobuf_part({}, unknown=(2,))
    result, typed, bad = decode(spark, tmp_path, [raw_row(0, GOOD)], [wanted])
    assert (typed, result.decoded.rows) == ([], 0)
    assert [(r["error_class"], r["schema_id"]) for r in bad] == [("unknown_schema", 2)]


def test_a_type_that_has_changed_within_its_column(spark, tmp_path):
    """Bytes that are text, and whole numbers beyond a long."""
    first = PROTO3 + "message Order { string s = 1; bytes b = 2; uint64 n = 3; double d = 4; }"
    second = PROTO3 + "message Order { bytes s = 1; string b = 2; sint64 n = 3; int32 d = 4; }"
    rows = [
        raw_row(0, order(1, first, s="x", b=b"y", n=2**64 - 1, d=0.5)),
        raw_row(1, order(2, second, s=b"\xc3\xa9", b="z", n=-(2**63), d=3)),
        raw_row(2, order(2, second, s=b"\xff")),
    ]
    _, typed, bad = decode(spark, tmp_path, rows, [protobuf_part({1: first, 2: second})])
    assert [(r["s"], r["b"], r["n"], r["d"]) for r in typed] == [
        ("x", b"y", Decimal(2**64 - 1), 0.5),
        ("é", b"z", Decimal(-(2**63)), 3.0),
    ]
    assert [r["error_class"] for r in bad] == ["invalid_utf8"]


@pytest.mark.slow
def test_large_records_fit_into_a_small_heap(spark, tmp_path):
    """Workers get a few at once: all records together are larger than the heap."""
    text = PROTO3 + "message Order { bytes raw = 1; int32 n = 2; }"
    large = order(1, text, raw=bytes(1_000_000), n=1)
    files = []
    for start in range(0, 1_500, 50):
        rows = [raw_row(n, large) for n in range(start, start + 50)]
        files += write_files(tmp_path / "raw", f"landed-{start}", rows)
    plan = decode_plan(tmp_path / "raw", [planned(0, 1_500)], [protobuf_part({1: text})])
    job = decode_job(tmp_path / "raw", files, plan)
    result = decode_rows.execute(spark.session, job)
    assert (result.decoded.rows, result.quarantined.rows) == (1_500, 0)
