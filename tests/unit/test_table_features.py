"""What a table may ask of its writers: refused by name, before anything is read (R13)."""

import json

import pytest
from deltalake import DeltaTable
from deltalake import exceptions as delta_errors

from tideline.errors import Halted, ServiceAway
from tideline.model.observation import ColumnChange, TableObservation, TableProperty
from tideline.model.table_features import table_refusals
from tideline.rules.foreign_changes import table_findings
from tideline.table.delta_table import TargetTable
from tideline.table.log import NewestTable

OF_READERS = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
HARMLESS = ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns")


@pytest.fixture
def folder(tmp_path):
    """A table as Tideline creates it."""
    TargetTable(str(tmp_path / "t")).create("orders", "ledger-1", [])
    return tmp_path / "t"


def commit(folder, *actions):
    """One commit of somebody else, written by hand."""
    version = DeltaTable(str(folder)).version() + 1
    lines = [{"commitInfo": {"operation": "BY HAND"}}, *actions]
    path = folder / "_delta_log" / f"{version:020d}.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def protocol(*features):
    """A protocol that lists features."""
    action = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(features)}
    if readers := [f for f in features if f in OF_READERS or f.startswith("reader")]:
        action |= {"minReaderVersion": 3, "readerFeatures": readers}
    return {"protocol": action}


def metadata(folder, columns=(), drop=(), **properties):
    """The table's metadata with other properties and columns."""
    log = (folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    action = next(a for line in log if "metaData" in (a := json.loads(line)))["metaData"]
    schema = json.loads(action["schemaString"])
    schema["fields"] = [f for f in schema["fields"] if f["name"] not in drop] + list(columns)
    action["schemaString"] = json.dumps(schema)
    action["configuration"] |= {f"delta.{k}": v for k, v in properties.items()}
    return {"metaData": action}


def column(name="extra", kind="string", nullable=True, **marks):
    return {"name": name, "type": kind, "nullable": nullable, "metadata": marks}


def takes_files(folder):
    """Make sure that delta-rs can commit to a table that the rule lets pass."""
    table = DeltaTable(str(folder))
    table.create_write_transaction([], "append", table.schema())
    assert DeltaTable(str(folder)).version() == table.version() + 1


def findings(folder):
    """What a plan of a stream with one landed run meets."""
    table = TargetTable(str(folder)).observe(0)
    known = None if table.unreadable else str(DeltaTable(str(folder)).metadata().id)
    return list(table_findings(known, table, "orders", "ledger-1", 0))


@pytest.mark.parametrize("feature", [*HARMLESS, "timestampNtz", "columnMapping"])
def test_a_feature_without_effect_is_no_reason(folder, feature):
    """Delta keeps it in the protocol when its property is gone."""
    commit(folder, protocol(feature))
    assert findings(folder) == []
    takes_files(folder)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_older_protocol_without_effect_is_no_reason(folder, version):
    """What a dropped constraint leaves behind."""
    commit(folder, {"protocol": {"minReaderVersion": 2, "minWriterVersion": version}})
    assert findings(folder) == []
    takes_files(folder)


def test_a_further_column_that_may_be_null_is_no_reason(folder):
    """Rows without it are right; so are properties without effect."""
    commit(folder, metadata(folder, [column()], logRetentionDuration="interval 9 days"))
    assert findings(folder) == []
    takes_files(folder)


FEATURES = (
    "allowColumnDefaults",
    "checkpointProtection",
    "clustering",
    "deletionVectors",
    "domainMetadata",
    "icebergCompatV2",
    "identityColumns",
    "inCommitTimestamp",
    "rowTracking",
    "somethingNew",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_that_asks_for_another_writer_is_refused_by_name(folder, feature):
    """Up front, with what takes it away; a decision could not help."""
    commit(folder, protocol(feature))
    (finding,) = findings(folder)
    assert (finding.kind, finding.choices) == ("table_changed", ("fail",))
    assert feature in finding.cause
    assert "DROP FEATURE " + feature in finding.next_step or "new table" in finding.next_step


@pytest.mark.parametrize(
    ("properties", "name", "remedy"),
    [
        ({"appendOnly": "true"}, "appendOnly", "UNSET TBLPROPERTIES ('delta.appendOnly')"),
        ({"enableChangeDataFeed": "TRUE"}, "enableChangeDataFeed", "UNSET TBLPROPERTIES"),
        ({"columnMapping.mode": "name"}, "columnMapping", "'none'"),
        ({"constraints.low": "offset > 5"}, "CHECK constraint low", "DROP CONSTRAINT low"),
        ({"setTransactionRetentionDuration": "interval 1 day"}, "setTransaction", "UNSET"),
    ],
)
def test_a_property_with_effect_is_refused_and_its_going_is_enough(
    folder, properties, name, remedy
):
    """The stream goes on by itself when it is unset."""
    commit(folder, metadata(folder, **properties))
    (finding,) = findings(folder)
    assert name in finding.cause
    assert remedy in finding.next_step
    assert str(finding).endswith("then the next run goes on by itself.")
    commit(folder, metadata(folder))
    assert findings(folder) == []


@pytest.mark.parametrize(
    ("columns", "drop", "name"),
    [
        ([column(nullable=False)], (), "column extra (required)"),
        ([column(**{"delta.generationExpression": "offset + 1"})], (), "column extra (generated)"),
        ([column(**{"delta.identity.start": 1})], (), "column extra (identity)"),
        ([column(**{"delta.invariants": "{}"})], (), "column extra (invariant)"),
        ([column("value", "string")], ("value",), "column value (type)"),
        ([], ("key", "value"), "column key (missing), column value (missing)"),
    ],
)
def test_a_column_that_a_writer_would_have_to_serve_is_refused(folder, columns, drop, name):
    """By its name, with what is different about it."""
    commit(folder, metadata(folder, columns, drop))
    (finding,) = findings(folder)
    assert name in finding.cause


def test_a_feature_of_readers_that_cannot_be_read_is_a_finding_and_no_passing_fault(folder):
    """Trying again would never help."""
    commit(folder, protocol("readerNovelty"))
    (finding,) = findings(folder)
    assert "readerNovelty" in finding.actual
    assert finding.choices == ("fail",)
    with pytest.raises(Halted, match=r"readerNovelty.*Drop the feature") as refused:
        TargetTable(str(folder)).newest_token("app")
    assert not refused.value.retriable


def foreign(folder, protocol=None, fields=None, later=""):
    """The log of a table that another program has created, and a text for its next commit."""
    schema = {"type": "struct", "fields": [column()] if fields is None else fields}
    made = {"id": "t", "format": {"provider": "parquet", "options": {}}, "createdTime": 0}
    made |= {"schemaString": json.dumps(schema), "partitionColumns": [], "configuration": {}}
    lines = [protocol or {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}]
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    text = "\n".join(json.dumps(line) for line in (*lines, {"metaData": made}))
    (log / f"{0:020d}.json").write_text(text)
    if later:
        (log / f"{1:020d}.json").write_text(later)
    return folder


CATALOG = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["catalogManaged"],
    "writerFeatures": ["catalogManaged", "inCommitTimestamp"],
}
NEWER = {"minReaderVersion": 9, "minWriterVersion": 9}


@pytest.mark.parametrize(
    ("made", "said", "named"),
    [
        (
            {"protocol": {"protocol": CATALOG}},
            "catalog-managed table",
            "catalogManaged: the table is catalog-managed",
        ),
        ({"protocol": {"protocol": NEWER}}, "reader version 9", "reader version 9"),
        ({"fields": []}, "empty schema", "an empty schema: somebody has made the table without"),
        ({"fields": [column(kind="weird")]}, "table type: 'weird'", "table type: 'weird'"),
        ({"later": "{garbage"}, "Json error", "Json error"),
        ({"later": "\n"}, "version 1 is damaged: it is empty", "it is empty"),
    ],
)
def test_a_table_that_cannot_be_read_as_it_stands_is_refused_by_name(tmp_path, made, said, named):
    """Its store answers: to wait for that would be to wait for ever."""
    folder = foreign(tmp_path / "t", **made)
    (finding,) = findings(folder)
    assert named in finding.actual
    assert finding.choices == ("fail",)
    with pytest.raises(Halted, match=said) as refused:
        TargetTable(str(folder)).newest_token("app")
    assert (refused.value.exit_code, refused.value.table) == (3, str(folder))
    assert "\n" not in refused.value.why
    assert "unknown>" not in refused.value.why  # delta-rs adds where in itself it was


def test_a_log_that_is_damaged_goes_on_once_its_file_is_put_right(tmp_path):
    folder = foreign(tmp_path / "t", later="\n")
    (finding,) = findings(folder)
    assert "put that version's file in _delta_log back from a copy" in finding.next_step
    (folder / "_delta_log" / f"{1:020d}.json").unlink()
    assert not [f for f in findings(folder) if "damaged" in f.actual]


def test_a_listing_that_has_missed_a_file_is_done_again(folder, monkeypatch):
    """Files that are written while a folder is listed may be in the list or not."""
    port, listed = TargetTable(str(folder)), []

    def newest(kept):
        listed.append(kept)
        if len(listed) == 1:
            raise delta_errors.DeltaError("Kernel error: Expected contiguous commit files")
        return DeltaTable(str(folder))

    monkeypatch.setattr(NewestTable, "newest", newest)
    assert port.observe().unreadable is None


def test_a_disk_that_fails_is_away(folder):
    """delta-rs says so as if it were about the log."""
    (folder / "_delta_log" / f"{1:020d}.json").symlink_to("/proc/self/mem")
    with pytest.raises(ServiceAway, match="Input/output error"):
        TargetTable(str(folder)).observe()


def test_several_reasons_are_named_together():
    """One incident, everything that has to be done."""
    table = TableObservation(
        True,
        features=("deletionVectors",),
        properties=(TableProperty("delta.appendOnly", "true"),),
        columns=(ColumnChange("value", "type"),),
    )
    assert [r.name for r in table_refusals(table)] == [
        "deletionVectors",
        "delta.appendOnly",
        "column value (type)",
    ]
    assert list(table_refusals(TableObservation(False))) == []
