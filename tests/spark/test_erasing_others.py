"""What an erasure must not take, must not raise, and must not leave; by the command line alone."""

import json
import shutil

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from tests.worlds.current_streams import Changing
from tests.worlds.traces import traces_in, traces_of
from tideline.cli.main import main
from tideline.model.addresses import is_in_object_store

PLANTED = 47114711
HOW = ("--reason", "asked for", "--now", "--yes", "--most", "1")


class Erased(Changing):
    """With commands; what one has printed is parsed."""

    @property
    def file(self):
        return str(self.harness.folder / "orders.yaml")

    def commands(self, capsys, name, *arguments, status=0):
        capsys.readouterr()
        ended = main([name, self.file, "--output", "json", *arguments])
        said = capsys.readouterr()
        assert ended == status, said
        return json.loads(said.out) if status == 0 else said.out + said.err

    def sends_bytes(self, *records):
        producer = KafkaProducer(bootstrap_servers=self.harness.broker.bootstrap_servers)
        for key, value in records:
            producer.send(self.harness.topic(), key=key, value=value, partition=0)
        producer.close()

    def raw(self):
        return DeltaTable(self.tables["raw"]).to_pyarrow_table().num_rows


@pytest.fixture
def orders(harness, spark):
    orders = Erased(harness, spark)
    orders.decode["quarantine"] = {"max_share": 1.0}
    return orders


@pytest.mark.slow  # four erasures: a minute
def test_nobody_else_goes_with_a_key_that_stands_among_others_bytes(orders, capsys):
    """Bytes prove nothing: such records are listed, and taken by an explicit word only.

    A tombstone that was dropped, with its key in another spelling, is one of them.
    """
    orders.decode["tombstones"] = "drop"
    orders.sends(("c", 1926, "a", 1), ("c", 7, "b", 1))
    other = b'{ "payload" : {"id": 1926}, "schema": null }'
    orders.sends_bytes(
        *((b"other-%d" % n, b'{"payload": {"note": "1926-11-%d' % (10 + n)) for n in range(10)),
        (other, None),
    )
    orders.run("one")
    plan = orders.commands(capsys, "erase", "--key", "key_id=1926", "--plan")
    assert plan["undecided"] == [[orders.harness.topic(), *plan["undecided"][0][1:4], 2, 13]]
    counts = {t["table"]: (t["rows"], t["undecided"]) for t in plan["erasure"]["tables"]}
    assert counts["quarantine"] == (0, 10)
    assert counts["raw"] == (1, 1)
    said = orders.commands(capsys, "erase", "--key", "key_id=1926", *HOW)
    assert (said["erasure"]["records"], said["erasure"]["audit"]) == (1, "clean")
    assert said["erasure"]["undecided"] == plan["undecided"]
    assert orders.raw() == 12
    said = orders.commands(capsys, "erase", "--key", "key_id=1926", "--quarantine-by-bytes", *HOW)
    assert (said["before"], said["erasure"]["records"]) == (["erase-1"], 11)
    assert traces_in(orders.harness.folder, "1926-11") == []


@pytest.mark.slow  # tests/steps has the same over memory
def test_no_row_rises_or_becomes_older(orders, capsys):
    """An erasure by another column takes all changes of keys that would be older, or none."""
    orders.sends(("c", 4, "zed", 1), ("u", 4, "bobby77", 2), ("d", 4, "bobby77", 2))
    orders.sends(("c", 1, "alice", 1), ("u", 1, "bobby77", 2), ("c", 5, "bobby77", 1))
    orders.sends(("c", 6, "bobby77", 1), ("u", 6, "new", 2))
    orders.run("one")
    plan = orders.commands(capsys, "erase", "--key", "note=bobby77", "--plan")
    assert (plan["older_keys"], plan["older_deleted"], plan["older_moved"]) == (3, 1, 2)
    before = orders.rows()
    why = orders.commands(capsys, "erase", "--key", "note=bobby77", *HOW, status=2)
    assert "3 keys keep older changes, 1 of them are deleted today" in why
    assert "--whole-keys" in why
    assert orders.rows() == before == {1: ("bobby77", 2), 5: ("bobby77", 1), 6: ("new", 2)}
    said = orders.commands(capsys, "erase", "--key", "note=bobby77", "--whole-keys", *HOW)
    assert (said["erasure"]["audit"], said["erasure"]["records"]) == ("clean", 8)
    assert orders.rows() == {}
    orders.fold("anew", "anew")
    assert orders.rows() == {}
    orders.sends(("c", 8, "one", 1), ("u", 8, "two", 2))
    orders.run("two")
    said = orders.commands(capsys, "erase", "--key", "note=one", *HOW)  # an older change only
    assert (said["older_keys"], said["older_moved"], said["erasure"]["records"]) == (1, 0, 1)
    assert orders.rows() == {8: ("two", 2)}


@pytest.mark.slow  # tests/steps has the same over memory
def test_tables_at_former_addresses_are_erased_from_or_named(orders, capsys):
    """The ledger's plans name them; one that is gone, or another ledger's, is said to be left."""
    orders.sends(("c", PLANTED, "a", 1), ("c", 7, "b", 1))
    orders.run("one")
    former = orders.tables
    new = {role: f"{uri}_new" for role, uri in former.items()}
    orders.decode["table"] = {"uri": new["decoded"]}
    orders.decode["quarantine"] |= {"uri": new["quarantine"]}
    orders.current["table"] = {"buckets": 4, "uri": new["current"]}
    orders.sends(("c", 8, "c", 1))
    orders.run("two")
    assert orders.tables["decoded"] == new["decoded"]
    if not is_in_object_store(former["quarantine"]):
        shutil.rmtree(former["quarantine"])
    orders.commands(capsys, "erase", "--key", f"key_id={PLANTED}", "--plan")
    said = orders.commands(capsys, "erase", "--key", f"key_id={PLANTED}", *HOW)
    assert {t["uri"] for t in said["erasure"]["tables"]} >= {former["decoded"], former["current"]}
    assert traces_in(orders.harness.folder, PLANTED) == []
    assert former["quarantine"] in said["erasure"]["elsewhere"][0]
    named = orders.commands(capsys, "doctor")["checks"]
    assert former["decoded"] in {line["place"] for line in named if line["state"] == "warning"}
    assert orders.commands(capsys, "audit")["clean"]


@pytest.mark.slow  # the simulated world puts ledgers back around each step
def test_a_ledger_that_was_put_back_refuses_later_records_still(orders, capsys):
    """Its table tells the erasure: what is refused, what tells a key again, what is due."""
    orders.sends(("c", PLANTED, "a", 1), ("c", 7, "b", 1))
    orders.run("one")
    ledger = orders.stream.ledger_location.address
    if is_in_object_store(ledger):
        pytest.skip("a backup is a copied folder here")
    copy = f"{ledger}.copy"
    shutil.copytree(ledger, copy)
    orders.commands(
        capsys, "erase", "--key", f"key_id={PLANTED}", *HOW[:2], "--future", "--most", "1"
    )
    shutil.rmtree(ledger)
    shutil.move(copy, ledger)
    orders.sends(("u", PLANTED, "later", 2), ("u", 7, "later", 2))
    assert "table_changed" in orders.commands(capsys, "run", status=3)
    assert "table_changed" in orders.commands(capsys, "audit", status=6)
    about = ("--choice", "approve", "--reason", "restored")
    orders.commands(capsys, "resolve", "--incident", "incident-1", *about)
    orders.commands(capsys, "run")
    known = orders.commands(capsys, "erasures")
    assert [(e["erasure_id"], e["future"]) for e in known["erasures"]] == [("erase-1", True)]
    assert known["refused"] == 1
    assert orders.rows() == {7: ("later", 2)}
    assert orders.commands(capsys, "erase")["erasures"][0]["status"] == "removed"
    assert orders.commands(capsys, "audit")["clean"]
    orders.sends(("u", 7, "x", 3))
    orders.run("next")
    said = orders.commands(capsys, "erase", "--key", "note=x", "--whole-keys", *HOW)
    assert said["erasure"]["erasure_id"] == "erase-2"
    assert traces_of(orders.stream, PLANTED) == []
