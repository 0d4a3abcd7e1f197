"""Which change is the last: over incarnations of a topic, and over all rows that went at once.

On a real broker; what the command line says and the table holds.
"""

import json
import shutil
from dataclasses import replace
from uuid import UUID

import pytest
from kafka.admin import NewPartitions

from tests.worlds.current_streams import Changing
from tests.worlds.streams import decide
from tideline.cli.main import main
from tideline.errors import FoldingHalted
from tideline.model.request import RunRequest
from tideline.wiring import open_ledger, open_run


def create_anew(orders, shelf, shelves):
    """The topic is created again, until its id sorts into one of equal parts of all ids.

    An id to sort before a given one would be waited for without end where that one is very low.

    Args:
        shelf: Which part, from 0.
        shelves: How many parts.
    """
    while True:
        orders.harness.delete()
        orders.harness.create(partitions=1)
        if UUID(orders.harness.topic_id()).int * shelves >> 128 == shelf:
            return


def command(orders, *words, capsys):
    """A command of `tideline` on the stream's file: its exit status, and what it printed."""
    _ = orders.stream
    status = main([*words, str(orders.harness.folder / "orders.yaml")])
    return status, capsys.readouterr()


@pytest.mark.slow  # four folds by a real broker: a minute
def test_a_topic_that_grows_after_all_rows_went_halts(harness, spark, capsys):
    """New rows in new partitions are in no table before somebody says what orders them."""
    orders = Changing(harness, spark, partitions=1)
    orders.sends(*(("c", n, "a", n) for n in range(10)), ("t",), ("c", 99, "after", 1))
    orders.run("one")
    assert orders.rows() == {99: ("after", 1)}
    with harness.admin() as admin:
        admin.create_partitions({harness.topic(): NewPartitions(3)})
    orders.sends(("c", 11, "b", 1), ("c", 12, "b", 1), partition=1)
    orders.sends(("c", 21, "b", 1), partition=2)
    orders.current["every"] = 1.0
    orders.run("waits")
    for words in (("fold", "--check"), ("audit", "--buckets", "1")):
        status, said = command(orders, *words, capsys=capsys)
        assert (status, "all rows went (op t), in a topic of 3" in said.out) == (6, True)
    assert orders.head.incidents == ()  # who looks writes nothing
    orders.current["every"] = 0.0
    orders.sends(("c", 22, "b", 1), partition=2)
    with pytest.raises(FoldingHalted, match=r"key_moved.*all rows went .op t., in a topic of 3"):
        orders.run("two")
    status, said = command(orders, "fold", capsys=capsys)
    assert (status, "key_moved" in said.err) == (3, True)
    decide(orders.stream, "by_time", orders.head.incidents[0].incident_id)
    orders.fold()
    assert orders.rows().keys() == {99, 11, 12, 21, 22}
    status, said = command(orders, "fold", "--check", capsys=capsys)
    assert status == 0, said


@pytest.mark.parametrize("sorts_first", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_backlog_of_two_incarnations(harness, spark, sorts_first):
    """The rows of the topic of today count, in whatever order ids sort and runs decode."""
    orders = Changing(harness, spark)
    create_anew(orders, int(sorts_first), 2)
    sections = orders.decode, orders.current
    orders.more = {"on_reset": {"topic_recreated": "restart"}, "limits": {"max_records_per_run": 9}}
    orders.sends(*(("c", n, "old", n) for n in range(8)))
    raw = harness.stream(name="orders", **orders.more)
    harness.run(raw, "raw 1", spark)
    create_anew(orders, int(not sorts_first), 2)
    orders.sends(*(("u", n, "new", n) for n in range(6)), ("d", 7), (None, 7))
    harness.run(raw, "raw 2", spark)
    orders.more["limits"] = {"max_records_per_run": 4}
    orders.decode, orders.current = sections
    for n in range(3):
        orders.run(f"d{n}")
    wanted = {n: ("new", n) for n in range(6)} | {6: ("old", 6)}
    assert orders.rows() == wanted
    orders.fold("anew", "anew")
    assert orders.rows() == wanted


@pytest.mark.slow  # half a minute beside other parts
def test_a_table_that_is_made_anew_follows_the_same_order(harness, spark, capsys):
    """Three incarnations; the table is deleted, and folded from what is decoded."""
    orders = Changing(harness, spark)
    create_anew(orders, 2, 3)
    orders.more = {"on_reset": {"topic_recreated": "restart"}}
    orders.sends(*(("c", n, "0", n) for n in range(4)))
    orders.run("one")
    create_anew(orders, 1, 3)
    orders.sends(("u", 1, "1", 1), ("u", 2, "1", 2), ("d", 3), (None, 3))
    orders.run("two")
    create_anew(orders, 0, 3)
    orders.sends(("u", 1, "2", 1))
    orders.run("three")
    wanted = {0: ("0", 0), 1: ("2", 1), 2: ("1", 2)}
    assert orders.rows() == wanted
    shutil.rmtree(orders.tables["current"])
    orders.fold()
    assert orders.rows() == wanted
    with open_run(orders.stream, "look", RunRequest()) as run:
        assert len(run.ledger.read().head.order_of_incarnations.ids) == 3
    words = ("explain", "--key", "key_id=1", "--output", "json")
    status, said = command(orders, *words, capsys=capsys)
    assert status == 0
    assert [c["values"]["note"] for c in json.loads(said.out)["changes"]] == ["2", "1", "0"]


@pytest.mark.slow  # half a minute beside other parts
def test_a_ledger_of_before_learns_the_order_and_folds_anew_once(harness, spark):
    """It has no list of incarnations, and has guessed: a dead topic's rows stand in the table."""
    orders = Changing(harness, spark)
    create_anew(orders, 1, 2)
    orders.more = {"on_reset": {"topic_recreated": "restart"}}
    orders.sends(*(("c", n, "old", n) for n in range(4)))
    orders.run("one")
    create_anew(orders, 0, 2)
    orders.sends(("u", 1, "new", 1), ("d", 2), (None, 2))
    orders.run("two")
    ledger, (old, new) = open_ledger(orders.stream), orders.head.eras

    def guessed(state):
        folding = replace(state.folding, eras=(new, old))
        return replace(state, head=replace(state.head, incarnations=()), folding=folding)

    ledger.update(guessed)
    orders.fold("upgraded")
    assert orders.head.eras == (old, new)
    assert orders.rows() == {0: ("old", 0), 1: ("new", 1), 3: ("old", 3)}
    assert ledger.read().head.order_of_incarnations.ids == (old, new)
    folds = orders.head.folds
    orders.sends(("u", 0, "new", 0))
    orders.run("three")
    assert not ledger.find_fold("three").plan.is_anew
    assert orders.head.folds == folds + 1
