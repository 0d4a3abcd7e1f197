"""A table as our client of its log has opened it, beside delta-rs' object: the same."""

import json
import random
from dataclasses import replace

import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, RemoveAction

from tideline.delta.delta_log import DeltaLog
from tideline.table.columns import asked_of_writers, columns_of, schema_of
from tideline.table.log import NewestTable
from tideline.table.opened import LoggedTable, active_files
from tideline.table.schema import COLUMNS, delta_fields
from tideline.table.statistics import described_files

SCHEMA = schema_of(delta_fields(COLUMNS))
NEWER = Schema([*SCHEMA.fields, Field("local", PrimitiveType("timestamp_ntz"))])
"""Its protocol names a feature."""
TIMES = ("2026-11-26T01:02:03.456789Z", "1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z")


class World:
    """A table that others write to, with whatever statistics they have."""

    def __init__(self, folder, rng):
        self.uri, self.rng, self.count, self.files = str(folder), rng, 0, {}
        by = rng.choice([["topic_id"], ["topic_id", "partition"], []])
        self.by = by
        given = {"delta.checkpointInterval": "1000", "tideline.x": "ä"}
        properties = given if rng.random() < 0.8 else {}
        self.schema = SCHEMA if rng.random() < 0.5 else NEWER
        DeltaTable.create(
            self.uri,
            self.schema,
            partition_by=by,
            configuration=properties,
            raise_if_key_not_exists=False,
        )

    def add(self):
        rng, values = self.rng, {"topic_id": "a b/ü:1", "partition": "7"}
        folder = rng.choice(["", "landed-1/", "x=%3A y/"])
        path = f"{folder}f{self.count}.parquet"
        self.count += 1
        low = rng.randrange(-5, 100)
        said = {
            "topic_id": (rng.choice(["t", "t" * 40]), "t"),
            "generation": (0, rng.choice([0, 1])),
            "partition": (3, rng.choice([3, 3, 4])),
            "offset": (low, low + rng.randrange(10)),
            "timestamp": (TIMES[1], rng.choice(TIMES)),
        }
        said = {n: b for n, b in said.items() if n not in self.by and rng.random() < 0.8}
        statistics = {
            "numRecords": rng.randrange(10),
            "minValues": {n: low for n, (low, _) in said.items()},
            "maxValues": {n: high for n, (_, high) in said.items()},
            "nullCount": {n: rng.choice([0, 0, 0, 2]) for n in said if rng.random() < 0.9},
        }
        text = None if rng.random() < 0.2 else json.dumps(statistics)
        partition = {n: rng.choice([values[n], values[n], None]) for n in self.by}
        self.files[path] = partition
        return AddAction(path, 10 + self.count, partition, 5, True, text)

    def commit(self):
        table, rng = DeltaTable(self.uri), self.rng
        gone = rng.sample(sorted(self.files), min(len(self.files), rng.randrange(3)))
        actions = [RemoveAction(p, True, 9, 1, self.files.pop(p)) for p in gone]
        actions += [self.add() for _ in range(rng.randrange(4))]
        table.create_write_transaction(
            actions,
            "append",
            table.schema(),
            partition_by=self.by,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(rng.choice("xy"), table.version())],
                custom_metadata={"userMetadata": f"{self.count}"},
            ),
        )

    def describe(self):
        """As a program does that counts statistics again: files that are there, added once more."""
        table, rng = DeltaTable(self.uri), self.rng
        again = rng.sample(sorted(self.files), min(len(self.files), rng.randrange(3)))
        given = [(path, self.files[path], self.add()) for path in again]
        for path, partition, made in given:
            del self.files[made.path]
            actions = [AddAction(path, made.size, partition, 5, False, made.stats)]
            table.create_write_transaction(actions, "append", table.schema(), partition_by=self.by)

    def checkpoint(self):
        if self.rng.random() < 0.5:
            DeltaTable(self.uri).create_checkpoint()
        else:
            log = DeltaLog(self.uri, {})
            log.write_checkpoint(log.newest())


def plain(files):
    """By path, and partitions in their order: that of the files is not promised."""
    return {f.path: (f, [*(f.partition or {})]) for f in files}


@pytest.mark.parametrize("seed", range(20))
def test_both_say_the_same(tmp_path, seed):
    world = World(tmp_path / "t", random.Random(seed))
    kept = NewestTable(world.uri, {})
    for _ in range(25):
        world.rng.choice([world.commit] * 5 + [world.describe, world.checkpoint])()
        if world.rng.random() < 0.3:
            continue
        ours, theirs = kept.newest(), DeltaTable(world.uri)
        assert isinstance(ours, LoggedTable)
        assert ours.version() == theirs.version()
        assert plain(active_files(ours)) == plain(described_files(theirs))
        assert columns_of(ours) == columns_of(theirs)
        assert asked_of_writers(ours, SCHEMA) == asked_of_writers(theirs, SCHEMA)
        for name in ("partition_columns", "configuration"):
            assert getattr(ours.metadata(), name) == getattr(theirs.metadata(), name)
        assert ours.metadata().id == str(theirs.metadata().id)
        for app in "xyz":
            assert ours.transaction_version(app) == theirs.transaction_version(app)
        said = [(c["version"], c.get("userMetadata")) for c in kept.history(ours, 4)]
        assert said == [(c["version"], c.get("userMetadata")) for c in theirs.history(4)]


VALUES = {
    "empty texts": ({"topic_id": "", "partition": ""}, None),
    "nulls": ({"topic_id": None, "partition": None}, None),
    "none": ({}, None),
    "a sign": ({"topic_id": "a=b/c ü", "partition": "+1"}, None),
    "no number": ({"topic_id": "t", "partition": "1_0"}, None),
    "a number of rows that is none": ({}, {"numRecords": True}),
    "an offset that is none": (
        {},
        {"minValues": {"offset": True}, "maxValues": {"offset": True}, "nullCount": {"offset": 0}},
    ),
    "statistics that are no text": ({}, 5),
}


@pytest.mark.parametrize("what", VALUES)
def test_odd_values_of_others_are_read_as_delta_rs_reads_them(tmp_path, what):
    """Or delta-rs refuses them, and they prove nothing here."""
    uri, (values, said) = str(tmp_path), VALUES[what]
    DeltaTable.create(uri, SCHEMA, partition_by=["topic_id", "partition"])
    action = {"path": "f", "partitionValues": values, "size": 1, "modificationTime": 5}
    action |= {"dataChange": True, "stats": json.dumps(said) if isinstance(said, dict) else said}
    path = tmp_path / "_delta_log" / f"{1:020d}.json"
    path.write_text(json.dumps({"add": action}))
    (ours,) = active_files(NewestTable(uri, {}).newest())
    if what == "no number":
        with pytest.raises(DeltaError, match="Failed to parse value '1_0'"):
            [*described_files(DeltaTable(uri))]
        assert ours.constants == {"topic_id": "t"}
        return
    (theirs,) = described_files(DeltaTable(uri))
    spelled = {"topic_id": "a=b/c ü", "partition": "+1"} if what == "a sign" else theirs.partition
    assert replace(ours, partition=None) == replace(theirs, partition=None)
    assert ours.partition == spelled
