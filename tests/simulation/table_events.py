"""What others may do to the table, and what its store, the ledger's store and Spark may suffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.table import Row, Version
from tests.simulation.world import World

FOREIGN = 100_000
"""Rows that others append are at offsets from here on."""


def optimize(world: World) -> None:
    """Somebody compacts all tables: files hold rows of several plans afterwards."""
    for table in world.every_table:
        if table.versions:
            table.add_foreign(table.rows(), "OPTIMIZE", removes_rows=False)


def foreign_delete(world: World, percent: int) -> None:
    """Somebody deletes the rows with the highest offsets."""
    rows = sorted(world.table.rows(), key=lambda r: (r.offset, r.identity))
    if rows:
        kept = rows[: len(rows) * (100 - percent) // 100]
        _take(world, kept)
        world.table.add_foreign(kept, "DELETE", removes_rows=True)
        world.happened("table_changed")


def foreign_append(world: World, copies: int) -> None:
    """Somebody appends rows: copies of some that are there."""
    rows = world.table.rows()
    if rows and not world.foreign:
        added = [Row(r.identity, r.offset + FOREIGN, r.serial) for r in rows[:copies]]
        world.table.add_foreign([*rows, *added], "WRITE", removes_rows=False)
        world.foreign |= {(r.identity, r.offset) for r in added}


def restore(world: World, back: int) -> None:
    """Somebody restores an earlier version, as a commit of its own."""
    versions = world.table.versions
    if len(versions) > 1:
        earlier = versions[max(0, len(versions) - 1 - back)]
        rows = [row for group in earlier.rows.values() for row in group]
        stood = {(r.identity, r.offset) for r in world.table.rows()}
        world.restored |= {(r.identity, r.offset) for r in rows} - stood
        _take(world, rows)
        world.table.add_foreign(rows, "RESTORE", removes_rows=True)
        world.happened("table_changed")


def vanish(world: World) -> None:
    """Another engine overwrites the newest commit, as on a store without conditional put."""
    versions = world.table.versions
    if len(versions) > 1:
        before = versions[-2]
        _take(world, [row for group in before.rows.values() for row in group])
        versions[-1] = Version(before.rows, "OPTIMIZE", tokens=before.tokens)
        world.happened("table_changed")


def lose_table_answer(world: World) -> None:
    """The next commit to the table happens, and its answer is lost."""
    world.table.lost_answers = 1


def lose_typed_answer(world: World, of_quarantine: int) -> None:
    """The same of the typed table (0), of the quarantine (1), or of the current table (2)."""
    (world.decoded, world.quarantine, world.current)[of_quarantine].lost_answers = 1


def lose_ledger_answer(world: World) -> None:
    """The next commit to the ledger happens, and its answer is lost."""
    world.store.lost_answers = 1


def ledger_away(world: World, calls: int) -> None:
    """The ledger's store does not answer for a while."""
    world.store.away = calls


def save_ledger(world: World) -> None:
    """Somebody backs the ledger up, folder or database."""
    world.back_up()


def restore_ledger(world: World) -> None:
    """Somebody puts the last backup back, whoever is at work."""
    if world.put_back():
        world.happened("table_changed")


def vacuum(world: World) -> None:
    """Somebody vacuums without retention: files that the newest version does not name are gone."""
    for table in world.every_table:
        table.files.clear()
        table.files_from = max(0, len(table.versions) - 1)


def clean_log(world: World, kept: int) -> None:
    """A checkpoint was written, and the table's log keeps its last commits only."""
    table = world.table
    oldest = max(table.log_start, len(table.versions) - kept)
    if oldest > table.log_start:
        table.log_start = oldest
        world.happened("table_changed")  # what was committed in between, nobody can tell


def untell(world: World, hidden: int) -> None:
    """Commits from here on tell no epochs (1), as those of an older version, or do (0)."""
    world.table.tells_epochs = not hidden


def spark_loses(world: World, reads: int) -> None:
    """Spark's next reads lose a record each."""
    world.spark.loses = reads
    world.happened("unexplained_gap")  # also of topics that are created later


def spark_repeats(world: World, reads: int) -> None:
    """Spark's next reads write a record twice each."""
    world.spark.repeats = reads


def spark_fails(world: World, times: int) -> None:
    """The next Spark applications end badly."""
    world.spark.fails = times


def drop_table(world: World) -> None:
    """Somebody deletes the whole table, log and all."""
    if world.table.table_id is not None:
        _take(world, [])
        world.table.table_id, world.table.versions, world.table.log_start = None, [], 0
        world.happened("table_changed")


def drop_typed(world: World, which: int) -> None:
    """Somebody deletes all typed tables (0), so that all is decoded again; or one, by mistake."""
    every = (*world.typed_tables.values(), world.quarantine)
    for table in (every, (world.decoded,), (world.quarantine,))[which]:
        table.table_id, table.versions = None, []


def drop_current(world: World) -> None:
    """Somebody deletes the current table, so that all is folded again."""
    world.current.table_id, world.current.versions = None, []


def change_current(world: World, how: int) -> None:
    """Somebody takes a row out of the current table (0), doubles one (1), or an older version (2).

    The last is put in its place as a commit of its own; or as an older copy, log and all (3).
    """
    rows: list[Any] = world.current.rows()
    if not rows:
        return
    if how == 3:
        versions = world.current.versions
        del versions[max(1, len(versions) - 1) :]
        world.current.log_start = min(world.current.log_start, len(versions) - 1)
        world.happened("current_changed")
        return
    changed = (rows[1:], [*rows, rows[0]], [*_before(world.current.versions)])[how]
    world.current.add_foreign(changed, "RESTORE", removes_rows=True)
    world.happened("current_changed")


def restore_typed(world: World, back: int) -> None:
    """Somebody puts an older version of the typed tables (quarantine: 0) back: newer rows go."""
    tables = (world.quarantine,) if back == 0 else (*world.typed_tables.values(),)
    for table in tables:
        if len(table.versions) > 1:
            earlier = table.versions[max(0, len(table.versions) - 1 - back)]
            stood = {row for rows in earlier.rows.values() for row in rows}
            left = [row for row in table.rows() if row in stood]
            table.add_foreign(left, "RESTORE", removes_rows=True)
            world.happened("typed_restored")


def _before(versions: Sequence[Version]) -> Iterable[Row]:
    earlier = versions[max(0, len(versions) - 2)]
    return (row for rows in earlier.rows.values() for row in rows)


def _take(world: World, left: Iterable[Row]) -> None:
    """Note which raw rows others take away."""
    stays = {(r.identity, r.offset) for r in left}
    world.taken |= {(r.identity, r.offset) for r in world.table.rows()} - stays


def put_copy_back(world: World, back: int) -> None:
    """Somebody puts an older copy of the table in its place, log and all."""
    versions = world.table.versions
    if len(versions) > 1:
        stood = {(r.identity, r.offset) for r in world.table.rows()}
        del versions[max(1, len(versions) - back) :]
        world.table.log_start = min(world.table.log_start, len(versions) - 1)
        stands = {(r.identity, r.offset) for r in world.table.rows()}
        world.restored |= stands - stood
        world.taken |= stood - stands
        world.happened("table_changed")


def overwrite(world: World) -> None:
    """Somebody writes every row anew, without any of the newest plan."""
    newest = world.table.newest
    if newest is not None and newest.rows:
        last = max(r.serial for r in world.table.rows())
        kept = [r for r in world.table.rows() if r.serial != last]
        _take(world, kept)
        world.table.add_foreign(kept, "OVERWRITE", removes_rows=True)
        world.happened("table_changed")


def move_away(world: World) -> None:
    """Somebody renames the table, log and all, until `move_back`."""
    table = world.table
    if table.table_id is not None and world.moved_away is None:
        world.moved_away = replace(table)
        drop_table(world)


def move_back(world: World) -> None:
    """The table has its name again, unless another one stands there."""
    if world.moved_away is not None and world.table.table_id is None:
        moved, world.moved_away = world.moved_away, None
        world.table.table_id, world.table.versions = moved.table_id, moved.versions
        world.table.ledger_id, world.table.log_start = moved.ledger_id, moved.log_start
        world.table.stream = moved.stream


def occupy(world: World) -> None:
    """Somebody makes another table at the address; it goes away once people have time."""
    drop_table(world)
    table = world.table
    table.table_id, table.stream, table.ledger_id = "theirs", "another", "another"
    table.versions, table.log_start = [Version({}, "CREATE TABLE")], 0
    world.happened("table_changed")


def leave(world: World) -> None:
    """The table of others at the address goes away."""
    if world.table.table_id == "theirs":
        drop_table(world)
