"""Stream files with several event types: what is refused, and what follows from the others."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from tests.worlds.build import ID
from tideline.decoding.decode_rules import (
    TypedTable,
    as_one_table,
    decoding_begins_anew,
    unknown_tables,
)
from tideline.decoding.schemas.records import is_like, record_names
from tideline.model.decoding import (
    OTHER_TYPES,
    DecodePlan,
    Expectation,
    PartPlan,
    ReaderSchema,
    TypePlan,
    WriterSchema,
)
from tideline.model.maintenance import kind_of, role_of
from tideline.model.observation import TableObservation
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.plan import LandedRange
from tideline.stream.edits import edits
from tideline.stream.stream import Stream, tables_of

CREATED = {"type": "created", "subject": "created-value"}
PAID = {"type": "paid", "record": "com.acme.Paid", "fields": ["id"]}
LOG = PartitionIdentity(ID, 0, 0)


def stream(*types, current=None, **decode):
    """A stream with these types."""
    value = {"format": "avro", "types": [*types], **decode.pop("value", {})}
    section = {"value": value, "tombstones": "drop", **decode}
    return Stream.model_validate(
        {
            "stream": "s",
            "kafka": {"topics": ["orders"]},
            "table": {"uri": "/lake/s"},
            "registry": {},
            "decode": section,
            "current": current,
        }
    )


def test_each_type_has_an_address_by_its_name():
    """`<table.uri>_{type}` by default."""
    found = tables_of(stream(CREATED, PAID))
    assert found == {
        "raw": "/lake/s",
        "decoded:created": "/lake/s_created",
        "decoded:paid": "/lake/s_paid",
        "quarantine": "/lake/s_quarantine",
    }
    given = stream(CREATED, PAID, table={"uri": "/lake/{type}/typed"})
    assert tables_of(given)["decoded:paid"] == "/lake/paid/typed"
    assert [kind_of(role) for role in found] == ["raw", "decoded", "decoded", "quarantine"]
    assert (role_of(""), role_of("paid")) == ("decoded", "decoded:paid")


def test_a_type_is_a_section_of_its_own():
    """What is said of all values, with its fields and its expectations."""
    rule = {"name": "some", "sql": "id > 0"}
    decode = stream(CREATED, PAID | {"expect": [rule]}, value={"subject": "all"}).decode
    created, paid = decode.of_type("created"), decode.of_type("paid")
    assert (created.value.subject, paid.value.subject) == ("created-value", "all")
    assert [f.field for f in paid.value.listed] == ["id"]
    assert ([e.name for e in paid.expectations], created.expectations) == (["some"], ())
    assert paid.types == ()
    assert paid.table.uri == "/lake/s_paid"
    protobuf = stream(PAID, CREATED, value={"format": "protobuf"}).decode
    assert protobuf.of_type("paid").value.message == "com.acme.Paid"
    assert protobuf.of_type("created").value.message is None


@pytest.mark.parametrize(
    ("types", "decode", "said"),
    [
        ((CREATED,), {"tombstones": "keep"}, "a record without a value names no type"),
        ((CREATED,), {"expect": [{"name": "a", "sql": "true"}]}, "give expect to each type"),
        ((CREATED,), {"transform": "a.b:c"}, "transform does not go with value.types"),
        ((CREATED,), {"on_value": {"id": "null"}}, "on_value does not go with value.types"),
        ((CREATED,), {"table": {"uri": "/lake/one"}}, "needs {type}"),
        ((CREATED, CREATED), {}, "each type once; created is named twice"),
        (({"type": "a"},), {}, "type a: give subject or record"),
        ((CREATED, CREATED | {"type": "b"}), {}, "types created, b claim the same records"),
        (({"type": "current", "record": "a"},), {}, "tables of other kinds"),
        (({"type": "A-b", "record": "a"},), {}, "should match pattern"),
        ((CREATED,), {"value": {"framing": "plain"}}, "framing plain lacks"),
        ((CREATED,), {"value": {"message": "M"}}, "message does not go with types: give record"),
        ((CREATED,), {"value": {"fields": ["id"]}}, "fields does not go with types: give fields"),
        ((CREATED,), {"value": {"envelope": "debezium"}}, "envelope does not go with types"),
        ((CREATED,), {"value": {"null_values": ["empty"]}}, "null_values does not go with types"),
        ((CREATED,), {"value": {"unavailable_value": "?"}}, "unavailable_value does not go"),
        ((CREATED,), {"value": {"format": "text"}}, "format text takes no types"),
        ((CREATED,), {"key": {"format": "avro", "subject": "k", "types": [CREATED]}}, "for value"),
        (
            (CREATED, PAID | {"fields": [{"field": "a", "as": "x"}]}),
            {"key": {"format": "avro", "subject": "k", "fields": [{"field": "b", "as": "X"}]}},
            "both have a column x",
        ),
        ((CREATED, PAID | {"subject": ":.dev:a"}), {}, "two contexts"),
    ],
)
def test_what_does_not_go_with_types(types, decode, said):
    """Each with a sentence that says so."""
    with pytest.raises(ValidationError) as refused:
        stream(*types, **decode)
    assert said in str(refused.value)


def test_an_address_with_a_type_needs_types():
    """Else the table would be called so."""
    one = {"value": {"format": "json"}, "table": {"uri": "/lake/{type}"}}
    with pytest.raises(ValidationError, match=r"\{type\} is for value\.types"):
        Stream.model_validate(
            {
                "stream": "s",
                "kafka": {"topics": ["t"]},
                "table": {"uri": "/lake/s"},
                "decode": one,
            }
        )


def test_types_need_a_registry():
    """Ids are its own."""
    data = stream(CREATED).model_dump(by_alias=True, exclude_unset=True)
    with pytest.raises(ValidationError, match="told by its ids"):
        Stream.model_validate(data | {"registry": None})


@pytest.mark.parametrize(
    ("current", "said"),
    [
        ({"key": ["id"]}, "type: got nothing; allowed: one of created, paid"),
        ({"type": "moved", "key": ["id"]}, "type: got moved; allowed: one of created, paid"),
        ({"type": "created", "key": ["id"], "deletes": {"tombstone": True}}, "tombstones: keep"),
        ({"type": "paid", "key": ["note"]}, "decode makes no column note"),
    ],
)
def test_a_current_table_is_of_one_type(current, said):
    """Which one has to be said; its columns are those of the type."""
    with pytest.raises(ValidationError) as refused:
        stream(CREATED, PAID, current=current)
    assert said in str(refused.value)


def test_a_current_table_of_a_type():
    """It is folded from that type's table; without types nothing is said of one."""
    found = stream(CREATED, PAID, current={"type": "paid", "key": ["id"]})
    assert found.source.table.uri == "/lake/s_paid"
    with pytest.raises(ValidationError, match=r"allowed: nothing without decode\.value\.types"):
        Stream.model_validate(
            {
                "stream": "s",
                "kafka": {"topics": ["t"]},
                "table": {"uri": "/lake/s"},
                "decode": {"value": {"format": "json"}},
                "current": {"type": "paid", "key": ["id"]},
            }
        )


def test_edits_of_types_are_told_by_their_names():
    """A new type, and one that has ended."""
    old, new = stream(CREATED), stream(PAID, CREATED | {"ended": True})
    found = {edit.key: edit for edit in edits(old, new)}
    assert [*found] == ["decode.value.types.created.ended", "decode.value.types.paid"]
    assert all("redrive FILE --class other_type" in edit.text for edit in found.values())


@pytest.mark.parametrize(
    ("pattern", "name", "is_so"),
    [
        ("com.acme.Paid", "com.acme.Paid", True),
        ("com.acme.Paid", "com-acme.Paid", False),
        ("com.*", "com.acme.Paid", True),
        ("*.Paid", "com.acme.Paid", True),
        ("*Paid", "com.acme.Paid2", False),
        ("*", "", True),
        ("", "a", False),
    ],
)
def test_patterns_of_names(pattern, name, is_so):
    """Only * is more than itself."""
    assert is_like(pattern, name) is is_so


def test_names_of_records():
    """The root's, a title, or each message's; none where a schema has none."""

    def names(kind, text):
        return record_names(WriterSchema(1, text, "", "", (), kind), lambda schema: b"")

    record = '{"type": "record", "name": "A", "namespace": "n", "fields": []}'
    assert names("avro", record) == ("n.A",)
    assert names("avro", f'["null", {record}]') == ("n.A",)
    assert names("avro", '"string"') == ()
    assert names("avro", "nonsense") == ()
    assert names("json", '{"title": "A", "type": "object"}') == ("A",)
    assert names("json", "true") == ()


def seen(table_id, token=None, exists=True):
    """A table as it is."""
    return TableObservation(exists=exists, table_id=table_id, token=token)


def test_a_table_of_a_new_type_may_be_missing_and_no_other():
    """One that holds rows is ours only if its commits are newer than the ledger."""
    known = {"a": "1", "quarantine": "9"}
    a, bad = (TypedTable("k", "u", seen(i, 3), n) for i, n in (("1", "a"), ("9", "quarantine")))
    new = TypedTable("b", "u", seen(None, exists=False), "b")
    assert [*unknown_tables([a, new, bad], known, 3)] == []
    assert not decoding_begins_anew([a, new, bad], known)
    rows = TypedTable("b", "u", seen("2", 4), "b")
    assert [*unknown_tables([a, rows, bad], known, 3)] == []  # of before the ledger was put back
    assert ["holds rows" in text for text in unknown_tables([a, rows, bad], known, 4)] == [True]
    assert ["event type a" in text for text in unknown_tables([new, bad], known, 3)] == [True]
    gone = TypedTable("a", "u", seen(None, exists=False), "a")
    assert ["is gone" in text for text in unknown_tables([gone, new, bad], known, 3)] == [True]
    others = [TypedTable(n, "u", seen("7"), n) for n in ("b", "quarantine")]
    assert decoding_begins_anew(others, known)
    assert [*unknown_tables(others, known, 3)] == []


def test_a_coordinate_in_two_tables_stands_twice():
    """Whatever type each of them is of."""
    one = {LOG: LandedRange(LOG, 3, (OffsetRange(0, 3),))}
    other = {LOG: LandedRange(LOG, 2, (OffsetRange(2, 4),))}
    found = as_one_table([one, other])[LOG]
    assert (found.rows, found.offsets, found.duplicates) == (5, (OffsetRange(0, 4),), 1)


def test_a_plan_without_types_is_its_own_table():
    """As it was stored by versions that know no types."""
    plan = DecodePlan(*("p", "r", None, "raw", 1, (), (), (), "keep", None, None, 0.5, "/t", "/q"))
    assert plan.tables == {"": "/t"}
    assert plan.of_type("") is plan
    assert plan.framed is plan.parts


def part(name, *ids, part="value", **facts):
    """A part that knows these ids."""
    writers = tuple(WriterSchema(n, "", "") for n in ids)
    reader = ReaderSchema(part, "avro", "", ())
    told = (part, "avro", "confluent", "s", writers, (), (), reader)
    return replace(PartPlan(*told), type=name, **facts)


def plan(*parts, **expect):
    """A plan of the types that have expectations, or none."""
    types = tuple(TypePlan(name, f"/{name}", rules) for name, rules in expect.items())
    facts = ("p", "r", None, "raw", 1, (), (), (*parts,), "drop", None, None, 0.5, "", "/q")
    return DecodePlan(*facts, types=types)


def test_the_id_of_a_keys_schema_is_of_no_type():
    """Else nobody would take a value that begins with it: neither a type, nor the quarantine."""
    key = part("", 4, part="key")
    found = plan(part("a", 1), part("b", 2, unfit=(3,)), part(OTHER_TYPES, foreign=(9,)), key)
    values, keys = replace(found, types=(TypePlan("a", "/a"),)).framed
    assert [w.schema_id for w in values.writers] == [1, 2, 3]
    assert keys is key


def test_a_type_without_a_schema_is_held_against_nothing():
    """Its table has none of the columns that the conditions name; and no row of it is good."""
    rules = (Expectation("known", "id > 0", "quarantine"),)
    parts = (part("a", 1), part("b", unfit=(2,)), part("", part="key"))
    found = plan(*parts, a=rules, b=rules)
    assert (found.of_type("a").expect, found.of_type("b").expect) == (rules, ())
    assert [*found.rules] == ["a.known", "b.known"]
