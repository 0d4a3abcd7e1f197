"""Damage planted by hand in table and ledger: the audit names each kind, and says it is not clean.

There is no broker and no Spark here. `tests/spark/test_runs.py` audits a real run.
"""

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.worlds.build import ID, OTHER_ID, plan, planned
from tests.worlds.lake import NOW, hide_rows, overwrite_commit, replace_table, rows
from tideline.documents import dump
from tideline.errors import AuditNotClean, VerificationFailed
from tideline.model.observation import Gap
from tideline.model.offsets import Beginning, OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.plan import VerifiedRange
from tideline.model.run import RunRecord
from tideline.operations.questions import audit_stream, require_clean


def older_copy(lake):
    """The folder as it was before the second run, and somebody who commits since."""
    lake.commit_file(2).unlink()
    for _ in range(3):
        lake.append(rows(0, 0))


def wrong_partition_value(lake):
    """The log says that a file of partition 0 holds partition 1."""
    actions = lake.log(1)
    for action in actions:
        if action.get("add", {}).get("partitionValues", {}).get("partition") == "0":
            action["add"]["partitionValues"]["partition"] = "1"
    lake.write_log(1, *actions)


def moved_to(next_offset, known):
    """The head's positions, with partition 0 elsewhere."""
    first, *others = known.positions
    return (replace(first, next_offset=next_offset), *others)


def coverage_without_rows(lake):
    """The head and a closed run say what never was."""
    identity = PartitionIdentity(ID, 0, 0)
    frozen = plan(planned(200, 250), run_id="ghost", plan_id="plan-ghost")
    verified = (VerifiedRange(frozen.ranges[0], 50, ()),)
    ghost = RunRecord("ghost", "live", "done", "d", NOW, plan=frozen, verified=verified)

    def change(state):
        grown = state.head.coverage | {identity: (OffsetRange(0, 250),)}
        moved = tuple(
            replace(p, next_offset=250) if not p.partition else p for p in state.head.positions
        )
        assert identity in state.head.coverage
        return state.with_head(replace(state.head, coverage=grown, positions=moved)).with_run(ghost)

    lake.ledger.update(change)


def overlapping_plans(lake):
    """Two live runs say that they have landed the same offsets."""
    frozen = plan(planned(150, 200), run_id="again", plan_id="plan-again")
    verified = (VerifiedRange(frozen.ranges[0], 50, ()),)
    again = RunRecord("again", "live", "done", "d", NOW, plan=frozen, verified=verified)
    lake.ledger.update(lambda s: s.with_run(again))


def gap_in_accepted_loss(lake):
    """The head moved over 50 offsets; of 30 somebody has said that they are lost."""
    identity = PartitionIdentity(ID, 0, 0)
    lost = Places({identity: (OffsetRange(200, 230),)})

    def change(known):
        moved = tuple(
            replace(p, next_offset=250) if not p.partition else p for p in known.positions
        )
        return replace(known, positions=moved, accepted_loss=lost)

    lake.head(change)


def row_at_a_marker(lake):
    """The ledger has seen a transaction's marker there, and the table has a row."""
    record = lake.ledger.find_run("first", lake.ledger.read())
    one, other = record.verified
    gap = Gap(OffsetRange(50, 51), "marker")
    marked = replace(record, verified=(replace(one, rows=99, gaps=(gap,)), other))
    lake.ledger.update(lambda s: s.with_run(marked))


def history_lost(lake):
    """A closed run that only the head still knows."""
    DeltaTable(lake.ledger.store.location).delete("kind = 'run' AND key = 'second'")


def truncated(lake):
    whole = lake.file().read_bytes()
    lake.file().write_bytes(whole[: len(whole) // 2])


DAMAGE = {
    "a row is missing": (
        lambda lake: DeltaTable(lake.uri).delete("partition = 0 AND offset = 50"),
        r"missing: orders-0 \[50, 51\).*version 3: DELETE",
    ),
    "a file is missing": (
        lambda lake: lake.file().unlink(),
        r"missing: orders-0 \[0, 100\); damaged: .*partition=0/.*parquet \(it is gone\)",
    ),
    "a file is truncated": (truncated, r"missing: orders-0 \[0, 100\); damaged: .*parquet \("),
    "a file has no byte": (
        lambda lake: lake.file().write_bytes(b""),
        r"damaged: .*parquet \(Parquet file size is 0 bytes",
    ),
    "a file of the same name has fewer rows": (
        lambda lake: lake.replace_file(rows(0, 90)),
        r"missing: orders-0 \[90, 100\)",
    ),
    "a file of the same name has rows of another generation": (
        lambda lake: lake.replace_file(rows(0, 100, generation=4)),
        r"missing: orders-0 \[0, 100\); foreign: orders-0 \[0, 100\) of generation 4",
    ),
    "a row twice in one file": (
        lambda lake: lake.replace_file(pa.concat_tables([rows(0, 100), rows(7, 8)])),
        r"duplicates: orders-0 \[7, 8\)",
    ),
    "a row twice across files": (
        lambda lake: lake.append(rows(7, 9)),
        r"duplicates: orders-0 \[7, 9\)",
    ),
    "somebody's rows inside coverage": (
        lambda lake: lake.append(rows(20, 22, partition=1, plan_id="by hand", copies=2)),
        r"duplicates: orders-1 \[20, 22\)",
    ),
    "somebody's rows outside of coverage": (
        lambda lake: lake.append(rows(0, 3, partition=9)),
        r"foreign: orders-9 \[0, 3\)",
    ),
    "a row beyond the head": (
        lambda lake: lake.append(rows(5000, 5001)),
        r"foreign: orders-0 \[5000, 5001\)",
    ),
    "a file under another partition's value": (
        wrong_partition_value,
        r"duplicates: orders-1 \[0, 100\); missing: orders-0 \[0, 100\)",
    ),
    "a row with another topic id": (
        lambda lake: lake.append(rows(3, 4, topic_id=OTHER_ID)),
        rf"foreign: {OTHER_ID}-0 \[3, 4\)",
    ),
    "a row of a generation that never was": (
        lambda lake: lake.append(rows(3, 4, generation=1)),
        r"foreign: orders-0 \[3, 4\) of generation 1",
    ),
    "rows hidden by a deletion vector": (
        hide_rows,
        r"cannot write to a table with deletionVectors.*REORG TABLE t APPLY \(PURGE\)",
    ),
    "a commit that another engine has overwritten": (
        overwrite_commit,
        r"missing: orders-0 \[100, 200\).*have vanished.*version 2 \(plan-second, run second, "
        r"token 2: orders-0 \[100, 200\), orders-1 \[100, 200\)\)",
    ),
    "an older copy of the table that others went on with": (
        older_copy,
        r"missing: orders-0 \[100, 200\).*have vanished.*plan-second, run second",
    ),
    "an older version restored": (
        lambda lake: DeltaTable(lake.uri).restore(1),
        r"missing: orders-0 \[100, 200\).*version 3: RESTORE",
    ),
    "a table that is older than the ledger": (
        lambda lake: lake.commit_file(2).unlink(),
        r"older than the ledger.*plan-second, run second.*found version 1",
    ),
    "another table at the address": (replace_table, r"the table was replaced by another one"),
    "a table of another stream": (
        lambda lake: replace_table(lake, "payments"),
        r"a table of stream payments",
    ),
    "no table": (lambda lake: shutil.rmtree(lake.uri), r"the table is gone"),
    "coverage without rows": (coverage_without_rows, r"missing: orders-0 \[200, 250\)"),
    "two plans over the same offsets": (overlapping_plans, r"overlaps: orders-0 \[150, 200\)"),
    "an accepted loss that is too short": (gap_in_accepted_loss, r"gaps: orders-0 \[230, 250\)"),
    "a row where the log has a marker": (row_at_a_marker, r"foreign: orders-0 \[50, 51\)"),
    "a closed run taken out of the history": (
        history_lost,
        r"gaps: orders-0 \[100, 200\), orders-1 \[100, 200\)",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_never_clean(lake, kind):
    """By its place; the exit status is 6."""
    plant, named = DAMAGE[kind]
    plant(lake)
    with pytest.raises(AuditNotClean, match=named) as told:
        require_clean(lake.run)
    assert told.value.exit_code == 6


def test_a_record_that_the_ledger_holds_twice_is_read_once(lake):
    """Two processes that tidy up may both have written it; nothing of the table is wrong."""
    record = lake.ledger.find_run("second", lake.ledger.read())
    lake.ledger.update(lambda s: s.with_run(record))
    result, findings = audit_stream(lake.run)
    assert (result.clean, findings) == (True, ())


def test_a_record_that_stands_in_two_generations_is_named(lake):
    """Below a generation's first offset the older one is meant."""
    lake.append(rows(40, 60, generation=1, plan_id="plan-copy"))
    identity = PartitionIdentity(ID, 1, 0)
    frozen = plan(
        planned(40, 60, generation=1), lane="backfill", run_id="copy", plan_id="plan-copy"
    )
    verified = (VerifiedRange(frozen.ranges[0], 20, ()),)
    copy = RunRecord("copy", "backfill", "done", "d", NOW, plan=frozen, verified=verified)

    def change(state):
        covered = state.head.coverage | {identity: (OffsetRange(40, 60),)}
        begun = (Beginning(identity, 60),)
        return state.with_head(replace(state.head, coverage=covered, beginnings=begun)).with_run(
            copy
        )

    lake.ledger.update(change)
    with pytest.raises(AuditNotClean, match=r"duplicates: orders-0 \[40, 60\) of generation 1"):
        require_clean(lake.run)


def test_an_audit_changes_nothing(lake):
    """It only looks, whatever it finds."""
    lake.append(rows(7, 9))
    before = (DeltaTable(lake.uri).version(), dump(lake.ledger.read().head))
    assert not audit_stream(lake.run)[0].clean
    assert (DeltaTable(lake.uri).version(), dump(lake.ledger.read().head)) == before


def refuses_to_count(lake, named):
    table = lake.run.table
    with pytest.raises(VerificationFailed, match=rf"parquet cannot be read: .*{named}"):
        table.landed([planned(0, 600), planned(0, 600, 1)], table.observe().version)


STRANGE = {
    "another table": ({"a": ["x"]}, r"they lack topic_id, generation, partition, offset as"),
    "other types": (
        {"topic_id": [1], "generation": ["g"], "partition": ["p"], "offset": ["o"]},
        r"they lack topic_id, generation, partition, offset as",
    ),
    "an offset in halves": (
        {"topic_id": [ID], "generation": [0], "partition": [0], "offset": [1.5]},
        r"they lack offset as",
    ),
}


@pytest.mark.parametrize(("columns", "named"), STRANGE.values(), ids=STRANGE)
def test_a_table_of_somebody_else_is_audited_and_named(lake, columns, named):
    """What its rows lack, and what to do about a table that is not Tideline's."""
    shutil.rmtree(lake.uri)
    write_deltalake(lake.uri, pa.table(columns))
    with pytest.raises(AuditNotClean, match=named) as found:
        require_clean(lake.run)
    assert "give the stream a table and a ledger of its own" in str(found.value)
    refuses_to_count(lake, named)


@pytest.mark.parametrize("name", ["topic_id", "generation", "partition", "offset"])
@pytest.mark.parametrize("is_there", [True, False], ids=["null", "no column"])
def test_rows_without_coordinates_are_named(lake, name, is_there):
    """Delta lets anybody append them, since every column may be null."""
    data = rows(500, 503)
    field = data.schema.field(name)
    nothing = pa.nulls(len(data), field.type)
    data = data.drop_columns([name])
    data = data.append_column(field, nothing) if is_there else data
    write_deltalake(lake.uri, data, mode="append", schema_mode="merge")
    with pytest.raises(AuditNotClean, match=rf"^[^;]*damaged: .*they lack {name} as"):
        require_clean(lake.run)
    refuses_to_count(lake, rf"they lack {name} as")
