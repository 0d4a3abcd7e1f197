"""The table is created once, with our marks, and only on empty ground."""

from pathlib import Path

import pytest

from tests.real import table_rows
from tideline.errors import BadInput


def test_a_table_s_creation_that_was_cut_off_is_begun_again(world, spark):
    """Spark takes what a creation left for a table, and would write one without our marks."""
    world.create(partitions=1)
    world.send(10)
    stream = world.stream()
    log = Path(stream.table.uri, "_delta_log")
    (log / "_staged_commits").mkdir(parents=True)
    (log / ".00000000000000000000.json.a.tmp").touch()
    world.run(stream, "one", spark)
    assert len(table_rows(stream)) == 10
    assert world.audit(stream)[0].clean


def test_a_folder_with_other_things_is_no_table_s_place(world, spark):
    """Refused before anything is written into it."""
    world.create(partitions=1)
    world.send(10)
    stream = world.stream()
    folder = Path(stream.table.uri)
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match=r"not empty and holds no Delta table: notes\.txt"):
        world.run(stream, "one", spark)
    assert [p.name for p in folder.iterdir()] == ["notes.txt"]
