"""Several event types of one topic: each in a table of its own, and every raw row in one of all."""

import shutil
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.worlds.decoded_lake import DecodedLake, FakeDecoder, value_of
from tideline.contract.events import build_decoded_event
from tideline.decoding import decode_execution
from tideline.decoding.stream_checking import TypedTablesCheck as CheckedTables
from tideline.errors import BadInput, DecodingHalted, RegistryAway, ServiceAway, VerificationFailed
from tideline.model.decoding import OTHER_TYPES
from tideline.model.incident import Decision
from tideline.operations.erase_finding import AskedKeys, find_records
from tideline.operations.former_tables import former_addresses, open_former
from tideline.registry.registry_port import SchemaUnreadable
from tideline.stream.stream import tables_of

ID, NOTE, TOTAL = ("id", "long"), ("note", "string"), ("total", "double")
CREATED = {"type": "created", "subject": "created-value"}
PAID = {"type": "paid", "subject": "paid-value"}


def lake_of(folder, *types, name="", **decode):
    """A stream with these event types, in tables of that name."""
    value = {"format": "avro", "types": [*types]}
    table = {"uri": str(folder / f"typed{name}_{{type}}")}
    quarantine = {"uri": str(folder / f"bad{name}"), "max_share": 0.5}
    sections = {"value": value, "table": table, "quarantine": quarantine, "tombstones": "drop"}
    return DecodedLake(folder, **sections | decode)


@pytest.fixture
def lake(tmp_path):
    """Records of two types, a tombstone, and one of a type that nobody has named."""
    found = lake_of(tmp_path, CREATED, PAID)
    found.created = found.register(ID, NOTE, subject="created-value")
    found.paid = found.register(ID, TOTAL, subject="paid-value")
    found.moved = found.register(ID, subject="moved-value", record="Moved")
    found.lands(value_of(found.created), value_of(found.paid), None, value_of(found.moved))
    found.decodes("one")
    return found


def types(lake, *types):
    """The stream file has these types from now on."""
    lake.decode["value"] = {**lake.decode["value"], "types": [*types]}


def places(lake):
    """Offsets by table."""
    names = [one["type"] for one in lake.decode["value"]["types"]]
    found = {n: lake.typed(n) for n in names}
    return found | {"bad": lake.bad()}


def is_clean(lake):
    """Whether an audit finds each raw row once."""
    return lake.audits().clean


def decides(lake, choice):
    """Somebody answers the one open incident."""
    (incident,) = lake.ledger.read().open_incidents
    decision = Decision(choice, "ann", datetime.now(UTC), "it was meant")
    lake.ledger.update(lambda s: s.with_decision(incident.incident_id, decision))


def test_each_type_has_a_table_of_its_own(lake, caplog):
    """The id alone tells it; what no type claims is set aside and told, and counts as no fault."""
    told = "no type in decode.value.types claims schema 3 (subject moved-value, record Moved)"
    assert [told in record.message for record in caplog.get_records("setup")].count(True) == 1
    assert places(lake) == {"created": [0], "paid": [1], "bad": [(3, "other_type")]}
    columns = [DeltaTable(tables_of(lake.run("x").stream)[r]).schema().fields for r in _ROLES]
    assert [{f.name for f in found} & {"id", "note", "total"} for found in columns] == [
        {"id", "note"},
        {"id", "total"},
    ]
    job = lake.spark.jobs[-1]
    assert job.decoded == job.types["created"].output  # where a driver elsewhere looks for the job
    assert (job.decoded_files, [*job.types]) == ((), ["created", "paid"])
    record = lake.ledger.find_decoding("one")
    assert [(t.name, t.rows) for t in record.by_type] == [("created", 1), ("paid", 1)]
    assert (record.decoded, record.quarantined, record.tombstones) == (2, 1, 1)
    events = [build_decoded_event(record, name) for name in ("created", "paid", "")]
    assert [event.decoded for event in events] == [1, 1, 2]
    assert [event.table_version for event in events[:2]] == [
        t.table_version for t in record.by_type
    ]
    state = lake.ledger.read().decoding
    assert state.types == ("created", "paid")
    assert [*state.known_tables] == ["created", "paid", "quarantine"]
    assert is_clean(lake)
    assert lake.decodes("one").plan.run_id == "one"  # cleared
    assert places(lake) == {"created": [0], "paid": [1], "bad": [(3, "other_type")]}


_ROLES = ("decoded:created", "decoded:paid")


def test_the_registry_is_asked_once_for_an_id(lake):
    """For all types together, and for a foreign id as well."""
    asked = lake.registry.asked
    lake.lands(value_of(lake.created), value_of(lake.paid), value_of(lake.moved))
    lake.registry.away = True
    lake.decodes("two")
    assert lake.registry.asked == asked
    assert places(lake)["bad"] == [(3, "other_type"), (6, "other_type")]


def test_a_type_that_is_added_gets_its_records_by_a_redrive(lake):
    """Its table is new, and the others stay as they are; later records go there at once."""
    moved = {"type": "moved", "record": "Mov*"}
    types(lake, CREATED, moved, PAID)
    lake.lands(value_of(lake.moved))
    lake.decodes("two")
    assert places(lake) == {
        "created": [0],
        "moved": [4],
        "paid": [1],
        "bad": [(3, "other_type")],
    }
    assert lake.redrives("again").moved == 1
    assert places(lake) == {"created": [0], "moved": [3, 4], "paid": [1], "bad": []}
    assert lake.ledger.read().decoding.types == ("created", "moved", "paid")
    assert is_clean(lake)
    assert lake.decodes("one").plan.run_id == "one"  # a cleared run leaves what was moved since
    assert places(lake) == {"created": [0], "moved": [3, 4], "paid": [1], "bad": []}


def test_a_type_that_has_ended_keeps_its_table(lake):
    """Later records are of no type; decoded again, the older ones move, and none stands twice."""
    types(lake, CREATED, PAID | {"ended": True})
    lake.lands(value_of(lake.paid), value_of(lake.created))
    lake.decodes("two")
    assert places(lake) == {
        "created": [0, 5],
        "paid": [1],
        "bad": [(3, "other_type"), (4, "other_type")],
    }
    assert is_clean(lake)
    lake.decodes_again("again")
    assert places(lake)["paid"] == []
    assert [offset for offset, _ in places(lake)["bad"]] == [1, 3, 4]
    assert is_clean(lake)
    types(lake, CREATED, PAID)
    assert lake.redrives("back").moved == 2
    assert places(lake) == {"created": [0, 5], "paid": [1, 4], "bad": [(3, "other_type")]}


@pytest.mark.parametrize("left", [[CREATED], [CREATED, PAID | {"type": "bought"}]])
def test_a_type_that_has_a_table_stays_in_the_file(lake, left):
    """Taken out, or called otherwise, its rows would be nobody's."""
    types(lake, *left)
    lake.lands(value_of(lake.created))
    with pytest.raises(BadInput, match="does not name it: name the type, with ended: true"):
        lake.decodes("two")
    types(lake, CREATED, PAID)
    lake.decodes("three")
    assert places(lake) == {"created": [0, 4], "paid": [1], "bad": [(3, "other_type")]}


def test_an_audit_of_a_file_that_lacks_a_type_misses_no_rows(lake):
    """It says what the file lacks: the rows of that type stand where they stood."""
    types(lake, CREATED)
    with pytest.raises(BadInput, match="the ledger knows the typed table of event type paid"):
        lake.audits()
    types(lake, CREATED, PAID)
    assert is_clean(lake)


def test_an_audit_of_new_tables_has_all_to_decode(lake, tmp_path):
    """Before the run that decodes everything again, nothing is missing in them."""
    new = lake_of(tmp_path, name="2").decode
    lake.decode |= {key: new[key] for key in ("table", "quarantine")}
    audit = lake.audits()
    assert (audit.missing, audit.pending, audit.clean) == ((), 4, True)
    lake.lands(value_of(lake.created))
    lake.decodes("two")
    assert lake.audits().pending == 0
    assert is_clean(lake)


def test_what_was_told_otherwise_moves_once_it_is_decoded_again(lake):
    """A cleared run decodes as it did then, unless its records were decoded again since."""
    types(lake, CREATED | {"subject": "paid-value"}, PAID | {"subject": "created-value"})
    before = {"created": [0], "paid": [1], "bad": [(3, "other_type")]}
    after = {"created": [1], "paid": [0], "bad": [(3, "other_type")]}
    assert lake.decodes("one").plan.run_id == "one"
    assert places(lake) == before
    lake.decodes_again("again")
    assert places(lake) == after
    assert lake.decodes("one") is None
    assert places(lake) == after
    assert is_clean(lake)


def test_new_addresses_for_all_tables_begin_anew(lake, tmp_path):
    """With other types too; the tables of before are known to who erases."""
    new = lake_of(tmp_path, CREATED, {"type": "rest", "record": "*"}, name="2").decode
    types(lake, *new["value"]["types"])
    lake.decode |= {key: new[key] for key in ("table", "quarantine")}
    types(lake, PAID, {"type": "rest", "subject": "moved-value"})
    lake.lands(value_of(lake.created))
    lake.decodes("two")
    assert places(lake) == {
        "paid": [1],
        "rest": [3],
        "bad": [(0, "other_type"), (4, "other_type")],
    }
    former = {uri.rpartition("/")[2]: role for role, uri in former_addresses(lake.run("x"))}
    assert former == {"typed_created": "decoded", "typed_paid": "decoded", "bad": "quarantine"}
    assert is_clean(lake)


def test_one_table_does_not_become_several_by_an_edit(tmp_path):
    """Not with the same quarantine; with new addresses for all tables everything begins anew."""
    lake = DecodedLake(tmp_path)
    first = lake.register(ID, NOTE)
    lake.lands(value_of(first), b"nonsense")
    lake.decodes("one")
    several = lake_of(tmp_path, {"type": "all", "subject": "orders-value"}).decode
    before = dict(lake.decode)
    lake.decode |= several
    lake.lands(value_of(first))
    with pytest.raises(BadInput, match="the ledger knows one typed table"):
        lake.decodes("two")
    lake.decode["quarantine"] = {"uri": str(tmp_path / "other"), "max_share": 1.0}
    lake.decodes("two")
    assert places(lake) == {"all": [0, 2], "bad": [(1, "framing")]}
    lake.decode = before | {"quarantine": {"uri": str(tmp_path / "third"), "max_share": 1.0}}
    lake.decode["table"] = {"uri": str(tmp_path / "new")}
    lake.lands(value_of(first))
    lake.decodes("three")
    assert (lake.typed(), lake.bad()) == ([0, 2, 3], [(1, "framing")])
    assert lake.audits().clean


def test_an_id_that_two_types_claim_halts(lake):
    """Its records are nobody's until the file tells them apart, or somebody decides."""
    types(lake, CREATED | {"subject": "*-value", "record": "Order"}, PAID)
    lake.lands(value_of(lake.paid), value_of(lake.created))
    with pytest.raises(DecodingHalted, match=r"schema 2: types created, paid all claim it"):
        lake.decodes("two")
    decides(lake, "quarantine")
    lake.decodes("three")
    assert places(lake)["bad"] == [(3, "other_type"), (4, "type_mismatch")]
    types(lake, CREATED, PAID)
    assert lake.redrives("again").moved == 1
    assert places(lake) == {"created": [0, 5], "paid": [1, 4], "bad": [(3, "other_type")]}
    assert is_clean(lake)


def test_an_id_that_two_types_claim_halts_who_decodes_again(lake):
    """Its rows stand in a type's table: they stay there until somebody has decided."""
    types(lake, CREATED | {"subject": "*-value", "record": "Order"}, PAID)
    stood = places(lake)
    with pytest.raises(DecodingHalted, match=r"schema 2: types created, paid all claim it"):
        lake.decodes_again("two")
    assert places(lake) == stood == {"created": [0], "paid": [1], "bad": [(3, "other_type")]}
    decides(lake, "quarantine")
    lake.decodes_again("three")
    assert places(lake)["bad"] == [(1, "type_mismatch"), (3, "other_type")]
    assert lake.ledger.read().open_incidents == ()
    assert is_clean(lake)


@pytest.mark.parametrize(
    ("strategy", "created", "paid"),
    [
        ("TopicNameStrategy", ("orders-value", "com.Created"), ("orders-value", "com.Paid")),
        ("RecordNameStrategy", ("com.Created", "com.Created"), ("com.Paid", "com.Paid")),
        ("TopicRecordNameStrategy", ("o-com.Created", "com.Created"), ("o-com.Paid", "com.Paid")),
    ],
)
def test_what_tells_types_by_strategy_of_subjects(tmp_path, strategy, created, paid):
    """A subject for all types may be given once; a pattern does as well."""
    told = {
        "TopicNameStrategy": ({"record": "com.Created"}, {"record": "com.P*"}),
        "RecordNameStrategy": ({"subject": "com.Created"}, {"subject": "com.P*"}),
        "TopicRecordNameStrategy": ({"subject": "*.Created"}, {"record": "com.Paid"}),
    }
    pairs = zip(("created", "paid"), told[strategy], strict=True)
    lake = lake_of(tmp_path, *({"type": name, **how} for name, how in pairs))
    if strategy == "TopicNameStrategy":
        lake.decode["value"]["subject"] = "orders-value"
    ids = [lake.register(ID, subject=s, record=r) for s, r in (created, paid)]
    strange = lake.register(ID, subject="strange", record="org.Else")
    lake.lands(*(value_of(n) for n in (*ids, strange)))
    lake.decodes("one")
    assert places(lake) == {"created": [0], "paid": [1], "bad": [(2, "other_type")]}


def test_a_subject_with_new_versions_of_a_type(lake):
    """The type's columns grow, and no other's."""
    later = lake.register(ID, NOTE, ("more", "string"), subject="created-value")
    lake.lands(value_of(later), value_of(lake.paid))
    lake.decodes("two")
    names = {f.name for f in DeltaTable(str(lake.folder / "typed_created")).schema().fields}
    assert "more" in names
    assert "more" not in {
        f.name for f in DeltaTable(str(lake.folder / "typed_paid")).schema().fields
    }
    assert places(lake)["created"] == [0, 4]


def test_a_schema_that_does_not_fit_its_type_is_of_that_type_alone(lake):
    """The others go on once somebody has decided."""
    wrong = lake.register(("id", {"type": "array", "items": "int"}), subject="paid-value")
    lake.lands(value_of(wrong), value_of(lake.created))
    with pytest.raises(DecodingHalted, match="paid: "):
        lake.decodes("two")
    decides(lake, "quarantine")
    lake.decodes("three")
    assert places(lake) == {
        "created": [0, 5],
        "paid": [1],
        "bad": [(3, "other_type"), (4, "type_mismatch")],
    }


def test_ids_that_the_registry_does_not_know_and_no_ids_at_all(lake):
    """They are as bad as without types, and count towards max_share."""
    lake.lands(value_of(99), b"nonsense", *[value_of(lake.paid)] * 3)
    lake.decodes("two")
    assert places(lake)["bad"][1:] == [(4, "unknown_schema"), (5, "framing")]
    lake.lands(*[b"nonsense"] * 3, *[value_of(lake.moved)] * 9)
    lake.decodes("three")  # a quarter is bad; the others are of no type
    lake.lands(*[b"nonsense"] * 3, value_of(lake.paid))
    with pytest.raises(DecodingHalted, match="quarantine"):
        lake.decodes("four")


@pytest.mark.parametrize("place", range(1, 4))
@pytest.mark.parametrize("again", ["the same", "another", "with a type more"])
def test_an_attempt_that_dies_between_two_commits(lake, monkeypatch, place, again):
    """Whoever comes next leaves one copy, wherever the records go by then."""
    lake.lands(value_of(lake.paid), value_of(lake.moved), value_of(lake.created))
    moved = {"type": "moved", "subject": "moved-value"}
    if again == "with a type more":
        types(lake, CREATED, PAID)
    commits, real = [0], decode_execution._commit

    def dying(*arguments):
        commits[0] += 1
        if commits[0] == place:
            raise ServiceAway("it was killed")
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(decode_execution, "_commit", dying)
        with pytest.raises(ServiceAway, match="killed"):
            lake.decodes("two")
    if again == "with a type more":
        types(lake, moved, CREATED, PAID)
    lake.decodes("two" if again == "the same" else "three")
    if again == "with a type more":
        assert lake.redrives("again").moved == 2
    lake.decodes("four")
    at = {name: found for name, found in places(lake).items() if name != "moved"}
    bad = [] if again == "with a type more" else [(3, "other_type"), (5, "other_type")]
    assert at == {"created": [0, 6], "paid": [1, 4], "bad": bad}
    assert lake.ledger.read().decoding.open is None
    assert is_clean(lake)


@pytest.mark.parametrize("place", range(1, 4))
def test_records_decoded_again_into_another_table_and_killed(lake, monkeypatch, place):
    """A record that moves from one type to another stands in one of them in the end."""
    types(lake, CREATED | {"subject": "paid-value"}, PAID | {"subject": "created-value"})
    commits, real = [0], decode_execution._commit

    def dying(*arguments):
        commits[0] += 1
        if commits[0] == place:
            raise ServiceAway("it was killed")
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(decode_execution, "_commit", dying)
        with pytest.raises(ServiceAway, match="killed"):
            lake.decodes_again("again")
    lake.lands(value_of(lake.created))
    lake.decodes("two")
    assert places(lake) == {"created": [1], "paid": [0, 4], "bad": [(3, "other_type")]}
    assert is_clean(lake)


def test_rows_that_are_lost_or_doubled_halt_before_they_count(lake):
    """The application's word is held against the raw rows, over all tables."""
    good = lake.spark
    lake.lands(value_of(lake.paid))
    for spark in (FakeDecoder(loses=[4]), FakeDecoder(doubles=[4])):
        lake.spark = spark
        with pytest.raises(VerificationFailed):
            lake.decodes("two")
    lake.spark = good
    lake.decodes("two")
    assert places(lake)["paid"] == [1, 4]


def test_a_copy_in_the_table_of_another_type_is_found(lake):
    """By an audit, and by the plan that is verified: it is one record."""
    uri = str(lake.folder / "typed_created")
    copy = DeltaTable(uri).to_pyarrow_table().slice(0, 1)
    copy = copy.set_column(copy.schema.get_field_index("offset"), "offset", [[1]])
    write_deltalake(uri, copy.cast(DeltaTable(uri).to_pyarrow_table().schema), mode="append")
    audit = lake.audits()
    assert [(f.start_offset, f.end_offset) for f in audit.doubled] == [(1, 2)]
    lake.decodes("one")  # cleared: it commits to all tables
    assert places(lake)["created"] == [0]
    assert is_clean(lake)


def test_a_cleared_run_takes_copies_out_of_a_table_that_came_later(lake):
    """Its plan does not know that type; what it decodes stands in its own tables alone."""
    types(lake, CREATED, PAID, {"type": "moved", "subject": "moved-value"})
    lake.redrives("again")
    uri = str(lake.folder / "typed_moved")
    copy = DeltaTable(uri).to_pyarrow_table()
    places_of_copy = copy.set_column(copy.schema.get_field_index("offset"), "offset", [[1]])
    write_deltalake(uri, places_of_copy.cast(copy.schema), mode="append")
    assert not is_clean(lake)
    lake.decodes("one")
    assert places(lake) == {"created": [0], "paid": [1], "moved": [3], "bad": []}
    assert is_clean(lake)


def test_what_a_rewind_undoes_leaves_all_tables(lake):
    """And comes again with the raw rows."""
    lake.lands(value_of(lake.paid), value_of(lake.moved))
    lake.decodes("two")
    lake.covers(1)
    lake.decodes("three")
    assert places(lake) == {"created": [0], "paid": [], "bad": []}
    lake.covers(6)
    lake.decodes("four")
    assert places(lake) == {
        "created": [0],
        "paid": [1, 4],
        "bad": [(3, "other_type"), (5, "other_type")],
    }
    assert is_clean(lake)


def test_a_ledger_that_was_put_back_to_before_a_type(lake):
    """The table of that type is newer than the ledger, and its own: what is there is undone."""
    saved = dict(lake.store.documents)
    version, history = lake.store.version, {k: [*v] for k, v in lake.store.history.items()}
    types(lake, CREATED, PAID, {"type": "moved", "subject": "moved-value"})
    lake.redrives("again")
    assert lake.typed("moved") == [3]
    lake.store.documents.clear()
    lake.store.documents.update(saved)
    lake.store.version = version
    lake.store.history.clear()
    lake.store.history.update(history)
    lake.lands(value_of(lake.moved))
    lake.decodes("two")
    lake.decodes("three")
    assert lake.typed("moved") == [3, 4]
    assert lake.bad() == []
    assert is_clean(lake)


def test_a_strange_table_at_a_new_types_address_is_refused(lake):
    """Of whoever: also of this stream, if no decoding of this ledger has written it."""
    types(lake, CREATED, PAID, {"type": "moved", "subject": "moved-value"})
    write_deltalake(str(lake.folder / "typed_moved"), pa.table({"topic_id": ["x"]}))
    with pytest.raises(BadInput, match="typed_moved was not created by Tideline"):
        lake.redrives("again")
    assert lake.typed("created") == [0]


def test_a_deleted_table_is_named(lake):
    """One of several."""
    uri = str(lake.folder / "typed_paid")
    shutil.rmtree(uri)
    lake.lands(value_of(lake.created))
    with pytest.raises(BadInput, match=r"decode.value.types.paid: table .*typed_paid is gone"):
        lake.decodes("two")


def test_a_registry_that_is_away_stops_new_ids_only(lake):
    """Nothing moves until it is back."""
    later = lake.register(ID, NOTE, ("more", "string"), subject="created-value")
    lake.lands(value_of(later))
    lake.registry.away = True
    with pytest.raises(RegistryAway):
        lake.decodes("two")
    lake.registry.away = False
    lake.decodes("two")
    assert places(lake)["created"] == [0, 4]


def poisoned(lake, schema_id):
    """The registry gives the texts of all schemas but of this one, as where a reference is gone."""
    real = lake.registry.schema

    def schema(asked, version):
        if asked == schema_id:
            raise SchemaUnreadable("it refers to addr:1, which is not there")
        return real(asked, version)

    lake.registry.schema = schema


def test_a_schema_that_nobody_can_read_is_trouble_of_its_records(tmp_path):
    """Also of a subject that holds records of all types: it is not known which record it is."""
    named = ({"type": "created", "record": "Created"}, {"type": "paid", "record": "Paid"})
    lake = lake_of(tmp_path, *named)
    lake.decode["value"]["subject"] = "orders-value"
    created, paid = (lake.register(ID, record=record) for record in ("Created", "Paid"))
    broken = lake.register(ID, NOTE, record="Paid")
    poisoned(lake, broken)
    lake.lands(value_of(created), value_of(paid), value_of(broken))
    lake.decodes("one")
    assert places(lake) == {"created": [0], "paid": [1], "bad": [(2, "type_mismatch")]}
    del lake.registry.schema  # the reference is there again
    assert lake.redrives("again").moved == 1
    assert places(lake) == {"created": [0], "paid": [1, 2], "bad": []}


def test_a_schema_that_nobody_can_read_halts_where_the_stream_file_says_so(lake):
    """As an id that the registry does not know, and as without types."""
    lake.decode["on_schema"] = {"unknown_id": "halt"}
    broken = lake.register(ID, ("more", "string"), subject="paid-value")
    poisoned(lake, broken)
    lake.lands(value_of(broken), value_of(lake.created))
    with pytest.raises(DecodingHalted, match="schema 4: it refers to addr:1"):
        lake.decodes("two")
    assert places(lake)["created"] == [0]


@pytest.mark.parametrize(
    ("types", "decode", "asked"),
    [
        ([{"type": "a", "record": "A"}, {"type": "b", "subject": ":.dev:b"}], {}, ":.dev:"),
        ([{"type": "a", "record": "A"}, {"type": "b", "subject": "b"}], {}, "*"),
        (
            [{"type": "a", "record": "A"}, {"type": "b", "subject": ":.dev:b", "ended": True}],
            {},
            ":.dev:",
        ),
        (
            [{"type": "a", "record": "A"}],
            {"key": {"format": "avro", "subject": ":.dev:orders-key"}},
            ":.dev:",
        ),
    ],
)
def test_ids_are_asked_for_in_the_context_of_the_stream(tmp_path, types, decode, asked):
    """A type that its record alone tells has that of the others: each context has its own ids."""
    lake = lake_of(tmp_path, *types, **decode)
    lake.register(ID, subject=":.dev:orders-key", record="Key")
    lake.lands(value_of(lake.register(ID, subject=":.dev:a", record="A")))
    questions, real = [], lake.registry.subjects_of
    lake.registry.subjects_of = lambda i, subject: (questions.append(subject), real(i, subject))[1]
    lake.decodes("one")
    assert questions == [asked]
    assert places(lake)["a"] == [0]


def test_the_share_is_of_the_records_of_the_types_as_well(lake):
    """Who reads two of many types is told when most of theirs are bad."""
    lake.decode["quarantine"]["max_share"] = 0.05
    wrong = lake.register(("id", {"type": "array", "items": "int"}), subject="paid-value")
    lake.decode["on_schema"] = {"incompatible": "quarantine"}
    lake.lands_rows([value_of(lake.moved)] * 40)
    lake.lands(value_of(wrong), value_of(lake.paid))
    with pytest.raises(DecodingHalted, match=r"found 1 of 2 records of its types \(50.0%\)"):
        lake.decodes("two")
    assert places(lake)["paid"] == [1]


def test_validate_asks_for_the_subjects_of_types(lake):
    """A subject that is none, and a field that no schema has, by the keys of their type."""
    moved = {"type": "moved", "subject": "moved-value", "fields": ["id", "nope"]}
    typo = {"type": "typo", "subject": "piad-value"}
    ended = {"type": "gone", "subject": "gone-value", "ended": True}
    types(
        lake,
        CREATED,
        PAID | {"fields": ["total"]},
        moved,
        typo,
        ended,
        {"type": "a", "record": "A"},
    )
    run = lake.run("look")
    known, tables = lake.ledger.read().decoding, CheckedTables()
    found = {
        key: allowed for key, _, allowed in tables.wrong(run.stream.decode, run.registry, known)
    }
    assert [*found] == ["decode.value.types.moved.fields.1", "decode.value.types.typo.subject"]
    assert found["decode.value.types.moved.fields.1"].endswith("allowed: id")
    assert "does not know the subject piad-value" in found["decode.value.types.typo.subject"]
    assert [*tables.wrong(run.stream.decode)] == []  # nobody was asked


def test_the_part_of_no_type_remembers_what_it_was_told(lake):
    """Subject and record of foreign ids; who redrives reads them in the quarantine."""
    others = lake.ledger.read().decoding.part("value", OTHER_TYPES)
    assert others.foreign == (lake.moved,)
    assert others.unreadable == ((lake.moved, "subject moved-value, record Moved"),)


def test_keys_are_looked_for_in_each_types_table(lake):
    """In those that have the columns; of the others it is said that no row is found by them."""
    run = lake.run("erase")
    former, _ = open_former(run)
    state = lake.ledger.update(lambda s: s.with_secret("00"))
    for column, has in (("id", set()), ("note", {"typed_paid"}), ("total", {"typed_created"})):
        key = {column: "7"}
        asked = AskedKeys((key,)) if column != "total" else None
        if asked is None:
            with pytest.raises(BadInput, match="several keys are one value"):
                AskedKeys((key,)).spelled(run, former)
            continue
        found = find_records(run, asked.spelled(run, former), asked, state, former)
        assert {
            text.split("of ")[-1].split(":")[0].rpartition("/")[2] for text in found.unasked
        } == has


def test_each_type_spells_a_key_as_its_own_column_does(tmp_path):
    """A text is no number, nor another text: neither hides a record, nor finds somebody else's."""
    lake = lake_of(tmp_path, CREATED, PAID)
    number = lake.register(ID, subject="created-value")
    text = lake.register(("id", "string"), subject="paid-value", record="Paid")
    lake.lands(value_of(number), *[value_of(text)] * 3)
    lake.decodes("one")
    rows = {0: "7", 1: "'7'", 2: "'007'", 3: "'abc'"}
    for offset, value in rows.items():
        table = DeltaTable(str(tmp_path / f"typed_{'paid' if offset else 'created'}"))
        table.update(updates={"id": value}, predicate=f"offset = {offset}")
    run = lake.run("erase")
    former, _ = open_former(run)
    state = lake.ledger.update(lambda s: s.with_secret("00"))
    places = {"7": [0, 1], "007": [0, 2], "abc": [3], "8": []}
    for given in [(key,) for key in places] + [("abc", "7")]:
        asked = AskedKeys(tuple({"id": key} for key in given))
        found = find_records(run, asked.spelled(run, former), asked, state, former)
        there = [o for r in found.ranges for o in range(r.start_offset, r.end_offset)]
        assert there == sorted(o for key in given for o in places[key])
        assert any("typed_created: no row" in text for text in found.unasked) == ("abc" in given)
        assert found.had == {n for n, key in enumerate(given) if places[key]}


def test_a_type_without_a_table_yet_is_no_trouble(lake):
    """Nothing was decoded since it was added: who audits, erases or redrives goes on."""
    types(lake, CREATED, PAID, {"type": "moved", "subject": "moved-value"})
    assert is_clean(lake)
    run = lake.run("erase")
    former, _ = open_former(run)
    state = lake.ledger.update(lambda s: s.with_secret("00"))
    asked = AskedKeys(({"note": "7"},), (b"nobody's",))
    found = find_records(run, asked.spelled(run, former), asked, state, former)
    assert found.ranges == ()
    assert lake.decodes("two") is None
    assert lake.decodes("one").plan.run_id == "one"
    assert is_clean(lake)
