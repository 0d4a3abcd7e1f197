"""What every table promises through its port: `TablePort`, over each kind of world."""

from dataclasses import replace

import pytest

from tests.worlds.build import ID, OTHER_ID
from tests.worlds.tables import WORLDS, Attempted, Rows, change, coordinates
from tideline.errors import CommitConflict, Halted, VerificationFailed
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity


def at(start, end, partition=0, topic_id=ID, generation=0):
    return CoordinateRange("orders", topic_id, generation, partition, start, end)


@pytest.fixture(params=WORLDS)
def table_factory(request, tmp_path):
    """Makes a table; its partition columns are given."""

    def make(partition_by=("topic_id",)):
        return WORLDS[request.param](tmp_path / "table", partition_by)

    return make


@pytest.fixture
def world(table_factory):
    return table_factory()


def land(world, wanted, *rows, token=1, commit_id="p"):
    """One attempt, as the pipeline makes it, without its checks."""
    doing = change(*wanted, token=token, commit_id=commit_id)
    result = world.write(doing, *rows)
    files = world.port.written(doing, result).files
    world.port.commit(doing, files, world.port.observe().version)
    return doing


def test_what_an_attempt_wrote_is_told_before_it_is_committed(world):
    """Rows and offsets by log; the table is as it was."""
    doing = change(at(0, 10), at(0, 5, partition=1))
    result = world.write(doing, Rows(at(0, 10)), Rows(at(0, 5, 1), offsets=[0, 2, 3, 3]))
    written = world.port.written(doing, result)
    assert written.files == result.files
    held = written.landed
    one, two = (held[PartitionIdentity(ID, 0, p)] for p in (0, 1))
    assert (one.rows, one.offsets) == (10, (OffsetRange(0, 10),))
    assert (two.rows, two.duplicates) == (4, 1)
    assert two.offsets == (OffsetRange(0, 1), OffsetRange(2, 4))
    assert (world.rows(), world.port.observe().version) == ([], 0)


def test_a_commit_can_be_found_by_plan_and_token(world):
    """With the rows and bytes of the attempt's files."""
    land(world, [at(0, 10)], Rows(at(0, 10)), token=7)
    made = world.port.find_commit("p", 0)
    assert (made.version, made.token, made.rows) == (1, 7, 10)
    assert made.bytes > 0
    assert world.port.newest_token("tideline:l") == 7
    (newer,) = world.port.observe(0).newer
    assert newer.ledger_id == "l"
    assert world.rows() == coordinates([Rows(at(0, 10))])


def test_an_attempt_without_rows_commits_a_version(world):
    """Every planned offset was a transaction marker, or an aborted record."""
    land(world, [at(0, 10)])
    assert world.port.find_commit("p", 0).rows == 0
    land(world, [at(10, 20)], Rows(at(10, 10)), token=2, commit_id="q")
    assert world.port.find_commit("q", 0).rows == 0
    assert world.rows() == []


@pytest.mark.parametrize("partition_by", [["topic_id"], ["generation", "partition"], []])
def test_a_second_landing_replaces_the_first_and_nothing_else(table_factory, partition_by):
    """R2: exactly the coordinates; neighbours, other generations and other topics stay."""
    world = table_factory(partition_by)
    others = [
        Rows(at(0, 10)),
        Rows(at(30, 40)),
        Rows(at(10, 30, partition=1)),
        Rows(at(10, 30, generation=1)),
        Rows(at(10, 30, topic_id=OTHER_ID)),
    ]
    for token, rows in enumerate([*others, Rows(at(10, 30))], 1):
        land(world, [rows.at], rows, token=token)
    newer = Rows(at(10, 30), plan_id="newer")
    land(world, [at(10, 30)], newer, token=9)
    assert world.rows() == coordinates([*others, newer])


@pytest.mark.parametrize("partition_by", [["topic_id"], ["generation"], ["topic", "partition"], []])
def test_a_file_that_also_holds_other_rows_is_written_again_without(table_factory, partition_by):
    """Somebody compacted: rows of many plans and logs lie in one file."""
    world = table_factory(partition_by)
    others = [
        Rows(at(0, 10), key=b"k", header=b"v"),
        Rows(at(30, 40)),
        Rows(at(10, 30, partition=1)),
        Rows(at(10, 30, generation=1)),
        Rows(at(10, 30, topic_id=OTHER_ID)),
    ]
    world.append(*others, Rows(at(10, 30)))
    newer = Rows(at(10, 30), plan_id="newer")
    land(world, [at(10, 30)], newer)
    assert world.rows() == coordinates([*others, newer])
    version = world.port.observe().version
    held = world.port.landed([at(0, 40)], version)[PartitionIdentity(ID, 0, 0)]
    assert (held.rows, held.duplicates) == (40, 0)
    assert sum(s.rows for s in world.port.stored()) == 40 + 3 * 20


def test_rows_are_removed_by_a_change_without_files(world):
    """Also several ranges of one log, and where nothing stands: the token is what counts."""
    world.append(Rows(at(0, 40)), Rows(at(0, 40, partition=1)))
    doing = change(at(0, 10), at(20, 30), at(90, 99, partition=2), commit_id="p.removed")
    world.port.commit(doing, (), world.port.observe().version)
    left = [Rows(at(10, 20)), Rows(at(30, 40)), Rows(at(0, 40, partition=1))]
    assert world.rows() == coordinates(left)
    assert world.port.find_commit("p.removed", None).rows == 0
    nothing = change(at(70, 80), commit_id="q.removed", token=2)
    world.port.commit(nothing, (), world.port.observe().version)
    assert world.port.newest_token(nothing.app_id) == 2
    assert world.rows() == coordinates(left)


def test_a_commit_is_valid_for_one_version_only(world):
    """R2: whatever the other commit did; the caller looks again."""
    doing = change(at(0, 10))
    result = world.write(doing, Rows(at(0, 10)))
    version = world.port.observe().version
    world.keep_house()
    with pytest.raises(CommitConflict):
        world.port.commit(doing, result.files, version)
    assert world.rows() == []
    world.port.commit(doing, result.files, version + 1)
    assert len(world.rows()) == 10


def test_nothing_is_committed_to_a_table_of_another_ledger(world):
    """R13: it may have come into the place of the stream's own since somebody looked."""
    land(world, [at(0, 10)], Rows(at(0, 10)))
    ours = replace(change(at(0, 10), token=2), ledger_id="ours")
    with pytest.raises(Halted, match="ledger l, this stream's ledger is ours"):
        world.port.commit(ours, (), world.port.observe().version)
    assert (world.port.observe().version, len(world.rows())) == (1, 10)


@pytest.mark.parametrize("token", [3, 4])
def test_an_older_or_equal_token_commits_nothing(world, token):
    """R5: not even on the newest version."""
    land(world, [at(0, 10)], Rows(at(0, 10)), token=4)
    late = change(at(0, 10), token=token, commit_id="late")
    result = world.write(late, Rows(at(0, 10), plan_id="late"))
    with pytest.raises(CommitConflict):
        world.port.commit(late, result.files, world.port.observe().version)
    assert world.rows() == coordinates([Rows(at(0, 10))])


def refused(world, doing, result, match):
    """Nothing of the attempt gets into the table."""
    with pytest.raises(VerificationFailed, match=match):
        world.port.written(doing, result)
    assert (world.rows(), world.port.observe().version) == ([], 0)


def test_a_lost_file_is_missed(world):
    """A store that forgets, or somebody who tidies: half of a landing is no landing."""
    doing = change(at(0, 20))
    result = world.write(doing, Rows(at(0, 10)), Rows(at(10, 20)))
    world.lose(result.files[1])
    refused(world, doing, result, f"{result.files[1]} is missing")


def test_a_lost_file_that_no_manifest_names_is_missed(world):
    """Whatever a committer forgets: the rows were counted while they passed."""
    doing = change(at(0, 20))
    result = world.write(doing, Rows(at(0, 10)), Rows(at(10, 20)))
    world.lose(result.files[1])
    world.name(doing, result.files[:1])
    refused(world, doing, result, "counted 20 rows .* hold 10")


def test_a_missing_manifest_is_missed_where_rows_were_counted(world):
    """Where there are none, Spark may have written nothing at all."""
    doing = change(at(0, 10))
    assert world.port.written(doing, Attempted(0, ())).files == ()
    refused(world, doing, Attempted(10, ()), "manifest .* is missing")


def test_a_file_that_the_manifest_does_not_name_is_never_added(world):
    """ADR 28: a task that failed, or another attempt of it that was too slow, has left it."""
    doing = change(at(0, 10))
    result = world.write(doing, Rows(at(0, 10)))
    world.plant(result.files[0], f"{doing.folder}/part-99999.parquet")
    written = world.port.written(doing, result)
    assert written.landed[PartitionIdentity(ID, 0, 0)].rows == 10
    world.port.commit(doing, written.files, 0)
    assert world.rows() == coordinates([Rows(at(0, 10))])


@pytest.mark.parametrize("folder", ["_temporary/0", ".spark-staging-1", "a/_b"])
def test_what_lies_under_a_hidden_name_is_no_data(world, folder):
    """Delta's readers would pass over it, whoever names it."""
    doing = change(at(0, 10))
    result = world.write(doing, Rows(at(0, 10)))
    planted = f"{doing.folder}/{folder}/part-00000.parquet"
    world.plant(result.files[0], planted)
    world.name(doing, [*result.files, planted])
    refused(world, doing, replace(result, rows=20), "no data file by its name")
    world.name(doing, result.files)
    world.port.commit(doing, world.port.written(doing, result).files, 0)
    assert world.rows() == coordinates([Rows(at(0, 10))])


@pytest.mark.parametrize(
    "path", ["landed-q-1/part-0.parquet", "part-0.parquet", "{}/../part-0.parquet", "{}/part-0.crc"]
)
def test_a_file_outside_of_the_attempt_s_folder_is_refused(world, path):
    """Another attempt's, or anything else of the table's."""
    doing = change(at(0, 10))
    result = world.write(doing, Rows(at(0, 10)))
    elsewhere = path.format(doing.folder)
    world.plant(result.files[0], elsewhere)
    world.name(doing, [elsewhere])
    with pytest.raises(VerificationFailed):
        world.port.written(doing, result)


@pytest.mark.parametrize(
    "rows",
    [
        Rows(at(0, 11)),
        Rows(at(0, 10, partition=1)),
        Rows(at(0, 10, generation=1)),
        Rows(at(0, 10, topic_id=OTHER_ID)),
        Rows(at(0, 10), offsets=[0, 12]),
    ],
)
@pytest.mark.parametrize("partition_by", [["topic_id"], []])
def test_rows_that_were_not_planned_are_refused(table_factory, partition_by, rows):
    """R2: one row elsewhere is enough."""
    world = table_factory(partition_by)
    doing = change(at(0, 10))
    result = world.write(doing, Rows(at(0, 10)), rows)
    refused(world, doing, result, "not at planned coordinates")


def test_an_attempt_that_is_given_up_leaves_nothing(world):
    """And nothing of others is touched."""
    kept = land(world, [at(0, 10)], Rows(at(0, 10)))
    late = change(at(10, 20), commit_id="late", token=2)
    result = world.write(late, Rows(at(10, 20)))
    world.port.discard(late)
    world.port.discard(late)
    with pytest.raises(VerificationFailed, match="is missing"):
        world.port.written(late, result)
    assert world.rows() == coordinates([Rows(at(0, 10))])
    assert kept.folder != late.folder


def test_values_of_partition_columns_with_special_characters(table_factory):
    """Their folders' names are encoded once by Spark and once more by Delta's log."""
    world = table_factory(["topic"])
    rows = Rows(CoordinateRange("a%b_c.d", ID, 0, 0, 0, 10))
    land(world, [rows.at], rows)
    land(world, [rows.at], replace(rows, plan_id="again"), token=2, commit_id="q")
    assert world.rows() == coordinates([replace(rows, plan_id="again")])
