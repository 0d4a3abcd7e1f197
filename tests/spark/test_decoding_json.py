"""JSON documents become typed rows; a bad one breaks only itself."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import get_args

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from tests.worlds.json_oracle import LONG_S
from tests.worlds.raw_tables import decoded, framing, job_of, named_files
from tests.worlds.raw_tables import json_part as part
from tests.worlds.rows import raw_row
from tests.worlds.spark_ways import by_connect, by_spark_submit, comes_out_the_same
from tideline.decoding.schemas.json_schema import SCHEMALESS
from tideline.decoding.spark.judging import judge
from tideline.decoding.spark.row_columns import read_raw_rows, typed
from tideline.model.decoding import ErrorClass, without_case
from tideline.model.spark_job import Output

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": "string"},
        "total": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "unit price": {"type": "number"}},
            },
        },
        "rates": {"type": "object", "additionalProperties": {"type": "number"}},
    },
}
SHOWN_FIELDS = "spark.sql.debug.maxToStringFields"
GOOD = b'{"id":1,"note":"fine","total":0.5,"at":"2026-01-02T03:04:05.678Z","lines":[],"rates":{}}'
BAD = {
    "nothing": (b"", "malformed"),
    "spaces": (b" \n", "malformed"),
    "cut off": (GOOD[:-1], "malformed"),
    "single quotes": (b"{'id':1}", "malformed"),
    "names without quotes": (b"{id:1}", "malformed"),
    "a comment": (b'{"id":/*one*/1}', "malformed"),
    "NaN": (b'{"total":NaN}', "malformed"),
    "Infinity": (b'{"total":-Infinity}', "malformed"),
    "a leading zero": (b'{"id":01}', "malformed"),
    "a line break in a string": (b'{"note":"a\nb"}', "malformed"),
    "an escape that is none": (rb'{"note":"\x"}', "malformed"),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, "malformed"),
    "a comma before its end": (b'{"id":1,}', "malformed"),
    "a comma only": (b"{,}", "malformed"),
    "a name without a value": (b'{"id"}', "malformed"),
    "a colon without a value": (b'{"id": }', "malformed"),
    "cut off behind an empty object": (b'{"x":{}', "malformed"),
    "cut off in a string": (b'{"note":"}', "malformed"),
    "cut off behind a string's brace": (b'{"note":"{}', "malformed"),
    "cut off in an escape": (b'{"note":"\\}', "malformed"),
    "an end without a beginning": (b"}", "malformed"),
    "a list that ends as an object": (b"[1}", "malformed"),
    "another kind of space": (b'{"id":\x0c1}', "malformed"),
    "no JSON behind a wrong type": (b'{"note":{"a":1,},"id":"x"}', "malformed"),
    "1,001 levels": (b'{"x":' + b"[" * 1_000 + b"]" * 1_000 + b"}", "malformed"),
    "10,000 levels": (b'{"x":' * 10_000 + b"1" + b"}" * 10_000, "malformed"),
    "10,000 lists": (b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "malformed"),
    "a number of 5,000 digits": (b'{"total":' + b"9" * 5_000 + b"}", "malformed"),
    "text behind it": (GOOD + b" x", "trailing_bytes"),
    "a document behind it": (GOOD + GOOD, "trailing_bytes"),
    "an item behind it": (GOOD + b"," + GOOD, "trailing_bytes"),
    "an item's beginning behind it": (GOOD + b',{"id":[1', "trailing_bytes"),
    "an end behind it": (GOOD + b"]}", "trailing_bytes"),
    "an end and a beginning behind it": (GOOD + b'],"a":[' + GOOD, "trailing_bytes"),
    "an empty object behind it": (GOOD + b"{}", "trailing_bytes"),
    "an empty object behind an empty one": (b"{} {}", "trailing_bytes"),
    "a member behind it": (GOOD + b',"x":1}', "trailing_bytes"),
    "text with an end behind it": (GOOD + b" x} \n", "trailing_bytes"),
    "another kind of space behind it": (GOOD + b"\x0c", "trailing_bytes"),
    "a comma": (GOOD + b",", "trailing_bytes"),
    "a zero byte": (GOOD + b"\0", "trailing_bytes"),
    "bytes that are no text": (b'{"note":"\xff"}', "invalid_utf8"),
    "half a character": (b'{"note":"\xc3"}', "invalid_utf8"),
    "a surrogate's bytes": (b'{"note":"\xed\xa0\x80"}', "invalid_utf8"),
    "half a character's escape": (rb'{"note":"\ud83d."}', "invalid_utf8"),
    "the other half": (rb'{"note":"\\\uDE00"}', "invalid_utf8"),
    "two first halves": (rb'{"note":"\ud83d\ud83d\ude00"}', "invalid_utf8"),
    "a name twice": (b'{"id":1,"id":1}', "duplicate_field"),
    "an unknown name twice": (b'{"x":1,"x":1}', "duplicate_field"),
    "a name twice inside": (b'{"lines":[{"n":1,"n":2}]}', "duplicate_field"),
    "a name twice deep inside": (b'{"x":[[{"y":1,"y":2}]]}', "duplicate_field"),
    "a name twice, null at first": (b'{"id":null,"id":1}', "duplicate_field"),
    "a name twice, null at last": (b'{"id":1,"id":null}', "duplicate_field"),
    "a name twice, once escaped": (rb'{"id":1,"\u0069d":2}', "duplicate_field"),
    "a name twice, spaces behind it": (b'{"id" :1,"id"\n:2}', "duplicate_field"),
    "a name twice, spaces behind one": (b'{"id":1,"id"\t:2}', "duplicate_field"),
    "a name twice in a map": (b'{"rates":{"a":1,"a":2}}', "duplicate_field"),
    "a name twice with names inside": (b'{"lines":[{"n":1}],"lines":[{"n":2}]}', "duplicate_field"),
    "a name twice inside and nulls": (b'{"id":null,"lines":[{"n":1,"n":2}]}', "duplicate_field"),
    "null twice inside": (b'{"x":1,"lines":[{"n":1,"n":null}]}', "duplicate_field"),
    "a name twice in an object for a string": (b'{"note":{"a":1,"a":1}}', "duplicate_field"),
    "a name in another case": (b'{"ID":1}', "type_mismatch"),
    "a string for an integer": (b'{"id":"1","note":"a"}', "type_mismatch"),
    "a fraction for an integer": (b'{"id":1.5}', "type_mismatch"),
    "a string for a number": (b'{"total":"1.5"}', "type_mismatch"),
    "NaN in quotes": (b'{"total":"NaN"}', "type_mismatch"),
    "a boolean for a number": (b'{"total":true}', "type_mismatch"),
    "no time": (b'{"at":"yesterday"}', "type_mismatch"),
    "a number for a list": (b'{"lines":5}', "type_mismatch"),
    "an object for a list": (b'{"lines":{"n":1}}', "type_mismatch"),
    "a wrong type inside": (b'{"id":1,"lines":[{"n":1},{"n":"x"}]}', "type_mismatch"),
    "a list of it": (b"[" + GOOD + b"]", "type_mismatch"),
    "a number": (b"5", "type_mismatch"),
    "null": (b"null", "type_mismatch"),
    "a string": (b'"x"', "type_mismatch"),
    "beyond a long": (b'{"id":9223372036854775808}', "out_of_range"),
    "beyond a double": (b'{"total":1e400}', "out_of_range"),
    "beyond a double inside": (b'{"rates":{"a":-1e400}}', "out_of_range"),
    "a whole number that a double rounds": (b'{"total":9007199254740993}', "out_of_range"),
    "one inside": (b'{"lines":[{"unit price":-9007199254740993}]}', "out_of_range"),
    "one of 60 digits": (b'{"total":' + b"7" * 60 + b"}", "out_of_range"),
}
LENIENT = {
    "spaces around it": (b" \n" + GOOD + b"\t\r\n", {"id": 1, "note": "fine"}),
    "nothing in it": (b"{}", {}),
    "nulls": (b'{"id":null,"lines":null,"rates":{"a":null}}', {"rates": [("a", None)]}),
    "a space in it": (b"{ \r\n\t}", {"id": None}),
    "only empty things": (b'{"x":{},"lines":[],"rates":{}}', {"lines": [], "rates": []}),
    "lines of it": (b'{\n  "id": 3,\n  "note": "b"\n}\n', {"id": 3, "note": "b"}),
    "spaces before colons": (b'{"id" : 4, "rates"\n:{ "a"\t:1}}', {"id": 4}),
    "a string of names": (rb'{"note":"a\":b\":"}', {"note": 'a":b":'}),
    "1,000 levels": (b'{"id":5,"x":' + b"[" * 999 + b"]" * 999 + b"}", {"id": 5}),
    "unknown fields": (b'{"id":2,"x":{"y":[1,{"z":2}]},"ID":3}', {"id": 2}),
    "the longest long": (b'{"id":-9223372036854775808}', {"id": -(2**63)}),
    "a large double": (b'{"total":1e300}', {"total": 1e300}),
    "whole numbers of a double": (
        b'{"total":9007199254740992,"rates":{"a":18014398509481984}}',
        {"total": 2.0**53, "rates": [("a", 2.0**54)]},
    ),
    "many digits behind the point": (
        b'{"total":0.12345678901234567890}',
        {"total": 0.12345678901234568},
    ),
    "text of all kinds": ('{"note":"é\\u0000😀\\n"}'.encode(), {"note": "é\0😀\n"}),
    "a character's two escapes": (rb'{"note":"\ud83d\ude00"}', {"note": "😀"}),
    "no escape, but a backslash": (rb'{"note":"\\ud83d"}', {"note": r"\ud83d"}),
    "text that looks like the end": (b'{"note":"}]},{]}"}', {"note": "}]},{]}"}),
    "no seconds' parts": (
        b'{"at":"2026-01-02T03:04:05+02:00"}',
        {"at": datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)},
    ),
    "objects inside": (
        b'{"lines":[{"n":1,"unit price":2},null,{}]}',
        {"lines": [{"n": 1, "unit_price": 2.0}, None, {"n": None, "unit_price": None}]},
    ),
}


def decode(spark, tmp_path, values, *parts, **others):
    return decoded(spark, job_of(tmp_path, values, parts or [part(SCHEMA)], **others))


def _rules():
    """The rows of the table on the page: type, value, what becomes of it."""
    page = Path(__file__).parents[2] / "docs" / "decoding.md"
    table = page.read_text().split("| type | in the document | becomes |\n|---|---|---|\n")[1]
    rows = table.split("\n\n")[0].splitlines()
    return [[cell.strip(" `") for cell in row.strip("|").split(" | ")] for row in rows]


TYPES = {
    **{name: {"type": name} for name in ("integer", "number", "boolean", "string")},
    **{name: {"type": "string", "format": name} for name in ("date-time", "date")},
    "several types, or none": {},
}


def test_each_value_becomes_what_the_page_says(spark, tmp_path):
    """Each row of its table."""
    rules = _rules()
    assert {kind for kind, _, _ in rules} == TYPES.keys()
    schema = {"type": "object", "properties": TYPES}
    values = [f'{{"{kind}": {value}}}'.encode() for kind, value, _ in rules]
    _, typed, bad = decode(spark, tmp_path, values, part(schema))
    found = {row["offset"]: (row["error_class"], row["error"]) for row in bad}
    names = dict(zip(TYPES, [c.name for c in part(schema).reader.columns], strict=True))
    for row in typed:
        value = row[names[rules[row["offset"]][0]]]
        is_time = isinstance(value, date)
        found[row["offset"]] = (repr(_written(value) if is_time else value), None)
    told = {n: (becomes, error) for n, (becomes, error) in found.items()}
    assert [told[n][0] for n in range(len(rules))] == [becomes for _, _, becomes in rules]
    for n, (kind, _, becomes) in enumerate(rules):
        assert becomes not in get_args(ErrorClass) or told[n][1].startswith(f"{kind}: ")


def _written(value):
    """A day or a time, in UTC, without what is zero behind its point."""
    if not isinstance(value, datetime):
        return value.isoformat()
    text = value.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if "." in text else text


def every_kind():
    """Bad documents, each between two good ones."""
    values = [GOOD]
    for data, _ in BAD.values():
        values += [data, GOOD]
    return values


@pytest.mark.slow
@pytest.mark.parametrize("way", [by_spark_submit, by_connect])
def test_in_whatever_spark_a_bad_record_breaks_only_itself(spark, tmp_path, request, way):
    """In 1 GB of heap, whatever the depth and the length of its numbers."""

    def job_for(folder, offsets):
        return job_of(folder, every_kind(), [part(SCHEMA)], offsets=offsets)

    comes_out_the_same(spark, way, request, tmp_path, job_for)


def test_a_bad_record_breaks_only_itself(spark, tmp_path):
    """Each kind has its class, and its neighbours are decoded."""
    result, typed, bad = decode(spark, tmp_path, every_kind())
    assert {(r["offset"] % 2, r["note"]) for r in typed} == {(0, "fine")}
    assert len(typed) == len(BAD) + 1
    found = dict(zip(BAD, ((r["value"], r["error_class"]) for r in bad), strict=True))
    assert found == BAD
    assert all(r["error"] for r in bad)
    assert sum(result.classes.values()) == len(BAD)


def test_each_document_is_read_once(spark, tmp_path, capsys):
    """Spark's optimizer copies the reading neither into its uses nor below other steps."""
    job = job_of(tmp_path, [GOOD], [part(SCHEMA)])
    raw = read_raw_rows(spark.session, job)
    judged = raw.transform(judge(job.plan)).observe(Observation(), F.count("*").alias("rows"))
    spark.session.conf.set(SHOWN_FIELDS, 1_000)
    judged.filter("error_class IS NULL").transform(typed(job.plan)).explain()
    spark.session.conf.unset(SHOWN_FIELDS)
    text = capsys.readouterr().out
    assert text.count(".invoke(") == 1, text


def test_what_json_allows_is_read(spark, tmp_path):
    """Nulls and missing fields, unknown ones, numbers as far as their columns hold them."""
    result, typed, bad = decode(spark, tmp_path, [data for data, _ in LENIENT.values()])
    assert (bad, result.classes) == ([], {})
    for (kind, (_, wanted)), row in zip(LENIENT.items(), typed, strict=True):
        assert {k: row[k] for k in wanted} == wanted, kind
    assert typed[1]["id"] is typed[1]["lines"] is typed[1]["rates"] is None


def test_no_other_encoding_is_guessed(spark, tmp_path):
    """JSON is UTF-8; these bytes are UTF-8 as well, with zeros in it."""
    values = ['{"id":1}'.encode(name) for name in ("utf-16-be", "utf-16-le", "utf-32-be")]
    _, typed, bad = decode(spark, tmp_path, values)
    assert (typed, [row["error_class"] for row in bad]) == ([], ["malformed"] * 3)


def test_versions_by_their_ids(spark, tmp_path):
    """Removed fields keep their values; names that a table cannot have are mapped."""
    first = {
        "type": "object",
        "properties": {"offset": {"type": "number"}, "a b": {"type": "string"}},
    }
    second = {
        "type": "object",
        "properties": {
            "offset": {"type": "integer"},
            "OFFSET": {"type": "boolean"},
            "day": {"type": "string", "format": "date"},
        },
    }
    values = [
        framing(1) + b'{"offset":1.5,"a b":"x"}',
        framing(2) + b'{"offset":2,"OFFSET":true,"day":"2026-01-02"}',
    ]
    _, typed, bad = decode(spark, tmp_path, values, part(first, second, framing="confluent"))
    assert bad == []
    names = ("schema_id", "value_offset", "a_b", "value_OFFSET_2", "day")
    assert [tuple(row[n] for n in names) for row in typed] == [
        (1, 1.5, "x", None, None),
        (2, 2.0, None, True, date(2026, 1, 2)),
    ]


def test_what_has_no_type_is_kept_as_text(spark, tmp_path):
    """As JSON; a string without its quotes."""
    schema = {"type": "object", "properties": {"x": {}}}
    values = [b'{"x":{"a":[1,"b"]}}', b'{"x":"s"}', b'{"x":12}', b'{"x":null}']
    _, typed, bad = decode(spark, tmp_path, values, part(schema))
    assert bad == []
    assert [r["x"] for r in typed] == ['{"a":[1,"b"]}', "s", "12", None]


def test_unknown_fields_are_refused_where_the_schema_does(spark, tmp_path):
    """The others are read."""
    closed = {"type": "object", "properties": {"a": {"type": "integer"}}} | {
        "additionalProperties": False
    }
    _, typed, bad = decode(spark, tmp_path, [b'{"a":1}', b'{"a":1,"b":2}', b"{}"], part(closed))
    assert [r["a"] for r in typed] == [1, None]
    assert [r["error_class"] for r in bad] == ["type_mismatch"]


@pytest.mark.parametrize(
    ("schema", "data", "wanted", "bad"),
    [
        ({"type": "string"}, b'"k1"', "k1", b'"k1","x":"k2"'),
        ({"type": ["string", "null"]}, b"null", None, b'"k1"}'),
        ({"type": "array", "items": {"type": "integer"}}, b"[1,2]", [1, 2], b"[1,2]]"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            b'{"a":1}',
            [("a", 1)],
            b"{},",
        ),
    ],
)
def test_documents_that_are_no_objects(spark, tmp_path, schema, data, wanted, bad):
    """They are one column, and nothing slips in behind them."""
    _, typed, refused = decode(spark, tmp_path, [data, bad], part(schema))
    assert [r["value"] for r in typed] == [wanted]
    assert [r["value"] for r in refused] == [bad]


def test_keys_and_tombstones(spark, tmp_path):
    """A key is decoded beside the value, and without one."""
    key = part({"type": "object", "properties": {"id": {"type": "integer"}}}, name="key")
    values = [
        raw_row(0, GOOD, key=b'{"id":5}'),
        raw_row(1, None, key=b'{"id":6}'),
        raw_row(2, GOOD),
    ]
    result, typed, bad = decode(spark, tmp_path, values, part(SCHEMA), key)
    assert (bad, result.tombstones) == ([], 1)
    assert [(r["key_id"], r["id"], r["is_tombstone"]) for r in typed] == [
        (5, 1, False),
        (6, None, True),
        (None, 1, False),
    ]


ANYTHING = {
    "an object": (b' {"a":{"b":[1,null,true,"x"]}}\n', {"a": {"b": [1, None, True, "x"]}}),
    "a list": (b"[1,[],{}]", [1, [], {}]),
    "a number": (b"5", 5),
    "a fraction": (b"-0.25", -0.25),
    "a string": (rb'"}]\u0000"', "}]\0"),
    "true": (b"true", True),
    "null": (b"null", None),
    "38 digits": (b'{"n":%s}' % (b"9" * 38), {"n": int("9" * 38)}),
    "more digits in a string": (b'{"n":"%s"}' % (b"9" * 60), {"n": "9" * 60}),
    "a large exponent": (b'{"n":1e300,"s":"Infinity"}', {"n": 1e300, "s": "Infinity"}),
    "nothing in it": (b"{}", {}),
    "large": (json.dumps(["x" * 1000] * 5000).encode(), ["x" * 1000] * 5000),
}
NOTHING = {
    **{k: v for k, v in BAD.items() if v[1] not in ("type_mismatch", "out_of_range")},
    "beyond a double": (b'{"n":[-1e400]}', "out_of_range"),
    "beyond a double, alone": (b"1E+999", "out_of_range"),
    "39 digits": (b'{"n":%s}' % (b"9" * 39), "out_of_range"),
    "39 digits beside a string": (b'{"n":%s,"s":"%s"}' % (b"8" * 39, b"9" * 60), "out_of_range"),
    "a name twice in a list": (b'[{"a":1,"a":2}]', "duplicate_field"),
    "a name twice in a large one": (
        b'{"a":{"b":1,"b":2},"x":"%s"}' % (b"x" * 5_000_000),
        "duplicate_field",
    ),
    "a member behind it, without an end": (GOOD + b',"x":1', "trailing_bytes"),
    "the same member behind it": (GOOD + b',"value":1', "trailing_bytes"),
    "an item behind a number": (b"5,6", "trailing_bytes"),
}


def test_without_a_schema_a_document_is_a_variant(spark, tmp_path):
    """Whatever it holds; what is no document, or changes by being read, is in quarantine."""
    values = [data for data, _ in (*ANYTHING.values(), *NOTHING.values())]
    _, _, bad = decode(spark, tmp_path, values, part(json.loads(SCHEMALESS)))
    either = {"trailing_bytes": "malformed"}  # the document is inside of another one
    found = {r["offset"]: either.get(r["error_class"], r["error_class"]) for r in bad}
    classes = (name for _, name in NOTHING.values())
    wanted = {len(ANYTHING) + n: either.get(c, c) for n, c in enumerate(classes)}
    assert found == wanted
    files = map(str, named_files(Output(str(tmp_path / "decoded"), "decoded-1")))
    read = spark.session.read.parquet(*files).select("offset", F.to_json("value").alias("value"))
    rows = {r["offset"]: json.loads(r["value"]) for r in read.collect()}
    assert rows == {n: wanted for n, (_, wanted) in enumerate(ANYTHING.values())}


def test_a_key_without_a_schema_beside_a_value_with_one(spark, tmp_path):
    """Each part is decoded in its own way; headers are there if they are asked for."""
    key = part(json.loads(SCHEMALESS), name="key")
    headers = [{"key": "trace", "value": b"1"}]
    values = [raw_row(0, GOOD, key=b'["a",1]', headers=headers), raw_row(1, GOOD, key=b"{")]
    own = ("is_tombstone", "headers")
    _, typed, bad = decode(spark, tmp_path, values, part(SCHEMA), key, own_columns=own)
    assert [(r["id"], r["headers"]) for r in typed] == [(1, headers)]
    assert [(r["offset"], r["part"], r["error_class"]) for r in bad] == [(1, "key", "malformed")]
    files = map(str, named_files(Output(str(tmp_path / "decoded"), "decoded-1")))
    read = spark.session.read.parquet(*files).select(F.to_json("key_value").alias("key"))
    assert [json.loads(r["key"]) for r in read.collect()] == [["a", 1]]


TWINS = [
    "s",
    LONG_S,
    "\u00b5",
    "\u03bc",
    "i",
    "\u0131",
    "\u0130",
    "\u03c3",
    "\u03c2",
    "k",
    "\u212a",
]
"""Spark takes s, micro, i, sigma and k each for one name; lower case tells some of them apart."""


def test_names_that_spark_takes_for_one_become_columns(spark, tmp_path):
    """Of the outermost object, and inside; each holds its own value."""
    inner = {"type": "object", "properties": {name: {"type": "integer"} for name in TWINS}}
    schema = {"type": "object", "properties": inner["properties"] | {"inside": inner}}
    values = {name: number for number, name in enumerate(TWINS)}
    data = json.dumps(values | {"inside": values}).encode()
    wanted = part(schema)
    _, (row,), bad = decode(spark, tmp_path, [data], wanted)
    assert bad == []
    assert [row[c.name] for c in wanted.reader.columns][:-1] == list(values.values())
    assert list(row["inside"].values()) == list(values.values())


def test_names_are_compared_as_java_compares_them(spark):
    """Each character that has an upper or a lower case."""
    jvm = getattr(spark.session, "_jvm", None)
    if jvm is None:
        pytest.skip("a client of Spark Connect has no JVM")
    character = jvm.java.lang.Character
    for number in range(0x10000):
        one = chr(number)
        has_case = one.upper() != one or one.lower() != one
        if has_case and character.getType(number):  # 0: newer than Java's Unicode
            found = chr(character.toLowerCase(character.toUpperCase(number)))
            assert without_case(one) == found, hex(number)
