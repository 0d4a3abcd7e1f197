"""The suppress list, the hashes, and what an audit says of erased coordinates."""

import hashlib
import hmac
import os
import re
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.worlds.build import ID, NOW, head, position
from tideline.cli.main import main
from tideline.documents import dump
from tideline.errors import BadInput
from tideline.folding.fold_rules import unproven_since
from tideline.ledger.state import Control, LedgerState
from tideline.model.current import Folding
from tideline.model.erasures import (
    ErasedFrom,
    Erasing,
    Erasure,
    SealedErasure,
    ToldErasure,
    key_hash,
    raw_key_hash,
    record_hash,
)
from tideline.model.head import Head, KnownCommit
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import Stored
from tideline.operations.erase_finding import AskedKeys, keys_below, read_keys
from tideline.rules.audit import audit
from tideline.rules.older_ledger import erased_by, erasures_in

LOG = PartitionIdentity(ID, 0, 0)


def at(start, end, partition=0, generation=0):
    return CoordinateRange("orders", ID, generation, partition, start, end)


SECRET = "ab" * 32


def erasure(*ranges, **facts):
    raw = ErasedFrom("raw", "/lake/orders", 2, 1, 100)
    return Erasure(
        **{
            "erasure_id": "erase-1",
            "reason": "asked",
            "by": "ann",
            "begun_at": NOW,
            "columns": ("id",),
            "keys": ("hash",),
            "ranges": ranges,
            "tables": (raw,),
            "kafka": (),
            "due_at": NOW + timedelta(days=7),
            **facts,
        }
    )


def test_the_list_merges_what_it_keeps_out_and_refuses_each_record_once():
    erasing = Erasing().begin(erasure(at(3, 4), at(4, 6)), ["b", "a"])
    assert erasing.erased == {LOG: (OffsetRange(3, 6),)}
    assert (erasing.hashes, erasing.future, erasing.begun) == (("a", "b"), (), 1)
    erasing = erasing.refusing([at(9, 10), at(9, 10), at(3, 4)])
    assert erasing.refused == 1
    assert erasing.refusing([at(9, 10)]).refused == erasing.refused


def test_later_records_are_refused_only_where_somebody_asked_for_it():
    assert Erasing().begin(erasure(at(0, 1), is_future=True), ["a"]).future == ("a",)


def test_a_newer_generation_is_doubted_where_an_older_one_is_erased():
    """The same place may hold the same record; in another topic or an older one it does not."""
    erasing = Erasing().begin(erasure(at(3, 6)), [])
    assert erasing.doubted([at(0, 10, generation=1)]) == (at(3, 6, generation=1),)
    assert erasing.doubted([at(0, 10)]) == ()
    assert erasing.doubted([at(0, 10, partition=1, generation=1)]) == ()


def test_a_key_is_told_by_rfc_2104_and_a_record_as_spark_tells_it():
    wanted = hmac.new(bytes.fromhex(SECRET), b"id\0" + b"4711", hashlib.sha256).hexdigest()
    assert key_hash(SECRET, "id", b"4711") == wanted
    assert raw_key_hash(SECRET, b"k") == (
        "key:" + hashlib.sha256(bytes.fromhex(SECRET) + b"k").hexdigest()
    )
    told = [(None, b"k"), (b"k", None), (b"k", b""), (b"k", b"v"), (None, b"kv"), (None, None)]
    hashes = {record_hash(SECRET, key, value) for key, value in told}
    assert len({*hashes, raw_key_hash(SECRET, b"k"), raw_key_hash(SECRET, b"")}) == 8


def test_the_hash_of_a_key_is_that_of_the_same_key_asked_for_again():
    """And another for another column, another ledger, another value."""
    one = AskedKeys(({"id": "1"},), (b"k",)).hashes(SECRET)
    assert len({*one}) == 2
    assert AskedKeys(({"id": "1"}, {"id": "1"})).hashes(SECRET) == one[:1]
    others = (AskedKeys(({"no": "1"},)), AskedKeys(({"id": "2"},)), AskedKeys(({"id": "k"},)))
    assert not {h for asked in others for h in asked.hashes(SECRET)} & {*one}
    assert not {*AskedKeys(({"id": "1"},)).hashes("cd" * 32)} & {*one}


def test_a_key_has_one_hash_whatever_the_order_of_its_columns():
    one, other = ({"id": "1", "region": "eu"}, {"region": "eu", "id": "1"})
    assert AskedKeys((one,)).hashes(SECRET) == AskedKeys((other,)).hashes(SECRET)
    assert AskedKeys((other,)).columns == ("id,region",)


@pytest.mark.parametrize("kind", ["double", "float", "boolean"])
def test_a_column_that_rounds_is_no_key(kind):
    """Another customer's key may be the same value of it."""
    decoded = SimpleNamespace(columns=lambda: ({"name": "id", "type": kind},))
    run = SimpleNamespace(typed=SimpleNamespace(by_type={"": decoded}, quarantine=None), table=None)
    with pytest.raises(BadInput, match=rf"id is {kind}: .* allowed: --raw-key"):
        AskedKeys(({"id": "9007199254740993"},)).spelled(run, ())


def told(erasing, number=1, **facts):
    """What a commit of that ledger tells."""
    name = f"erase-{number}"
    sealed = SealedErasure(erasure(erasure_id=name, hashes=("a",), **facts), erasing.seal)
    return ToldErasure(name, (at(3, 6),), sealed)


def test_a_ledger_learns_what_its_own_secret_has_sealed():
    """Of another secret's hashes it says that they are not known, until somebody asks again."""
    mine, other = Erasing(SECRET), Erasing("cd" * 32)
    known = mine.learning(told(mine, 4, is_future=True))
    assert (known.begun, known.hashes, known.future, known.untold) == (4, ("a",), ("a",), ())
    assert [(e.erasure_id, e.ranges) for e in known.open] == [("erase-4", (at(3, 6),))]
    assert known.learning(told(mine, 4, is_future=True)) == known
    lost = mine.learning(told(other, is_future=True))
    assert (lost.hashes, lost.future, lost.untold, len(lost.open)) == ((), (), ("erase-1",), 1)
    assert lost.begin(erasure(at(0, 1)), []).untold == ("erase-1",)
    assert lost.begin(erasure(at(0, 1), settles=("erase-1",)), []).untold == ()
    assert lost.learning(told(mine, 2, settles=("erase-1",))).untold == ()
    bare = mine.learning(ToldErasure("erase-2", (at(3, 6),), None))
    assert (bare.begun, bare.untold, bare.open) == (2, ("erase-2",), ())
    assert mine.seal != other.seal
    assert SECRET not in dump(told(mine).sealed)


@pytest.mark.parametrize(
    ("key", "facts", "leaves_older"),
    [
        (("id",), {}, False),
        (("id", "tenant"), {}, False),
        (("note",), {}, True),
        (("id",), {"columns": ("id,tenant",)}, True),
        (("id", "tenant"), {"columns": ("id,tenant", "id")}, False),
        (("id",), {"columns": ("id", "note")}, True),
        (("key_id",), {"columns": ("raw key",)}, False),
        (("id",), {"columns": ("raw key",)}, True),
        (("note",), {"whole": ("note",)}, False),
        (("id", "note"), {"whole": ("note",), "columns": ("total",)}, True),
    ],
)
def test_an_erasure_leaves_older_changes_of_keys_of_another_table(key, facts, leaves_older):
    """All changes of a key are found by a part of it, and whether that is so asks that key."""
    made = erasure(at(3, 4), **facts)
    assert made.leaves_older(key, "/lake/new", ("key_id",)) == leaves_older


def test_nothing_tells_which_keys_a_raw_key_is_of_where_none_is_decoded():
    assert erasure(at(3, 4), columns=("raw key",)).leaves_older(("id",), "/lake/new", ())


def test_of_an_erasure_that_noted_no_key_the_table_tells_that_it_was_asked():
    """Of a version before: a table that was there was looked at, and another one was not."""
    there = ErasedFrom("current", "/lake/there", 1, 1, 1)
    made = erasure(at(3, 4), columns=("note",), tables=(there,))
    asked = [made.leaves_older(("id",), uri, ()) for uri in ("/lake/there", "/lake/new")]
    assert asked == [False, True]


def test_changes_that_were_erased_out_of_histories_make_a_table_unproven():
    """A current table that is made of what is left says an older state."""
    partial = Places.of([at(3, 4)])
    assert unproven_since(Folding(), Head(), NOW) is None
    assert unproven_since(Folding(), Head(), NOW, partial) == NOW
    assert unproven_since(Folding(lost=partial), Head(), NOW) == NOW


def test_an_erasure_is_overdue_a_day_after_its_files_were_due_or_it_was_cut_off():
    removed = erasure(status="removed")
    assert not removed.is_overdue(NOW + timedelta(days=8))
    assert removed.is_overdue(NOW + timedelta(days=8, seconds=1))
    assert not replace(removed, status="done").is_overdue(NOW + timedelta(days=99))
    assert erasure().is_overdue(NOW + timedelta(days=2))


def test_the_state_keeps_no_coordinates_twice():
    """Those of what is out of the tables are in the list, and in the history."""
    begun = erasure(at(3, 6))
    state = LedgerState(0, Control("id", "orders")).with_erasure_begun(begun, ["a"])
    assert state.erasing.open[0].ranges
    assert state.control.recounts == 1
    out = state.with_erasure(replace(begun, status="removed"))
    assert out.erasing.open[0].ranges == ()
    assert out.noted[-1].ranges == begun.ranges
    assert out.erasing.erased == state.erasing.erased
    done = out.with_erasure(replace(begun, status="done"))
    assert (done.erasing.open, done.erasing.erased) == ((), state.erasing.erased)
    assert SECRET not in repr(Erasing(SECRET))
    assert SECRET in dump(Erasing(SECRET))


@pytest.mark.parametrize(("is_removing", "foreign"), [(True, 0), (False, 1)])
def test_an_audit_misses_nothing_that_was_erased_and_finds_what_has_come_back(is_removing, foreign):
    known = head(position(10), coverage=NOWHERE)
    known = replace(known, coverage=Erasing().keeping_out([at(0, 10)]).erased)
    erasing = Erasing().begin(erasure(at(3, 6)), [])
    if not is_removing:
        erasing = erasing.with_open(erasure(at(3, 6), status="done"))
    held = [Stored(LOG, 8, (OffsetRange(0, 4), OffsetRange(6, 10)), ())]
    found = audit(known, (), (), held, erasing)
    assert (found.missing, found.erased) == ((), 2)
    assert sum(flaw.offsets for flaw in found.foreign) == foreign


def test_an_older_ledger_learns_from_the_table_what_was_erased():
    commits = [
        KnownCommit.of(3, 3, "erase-1.removed", "run", [at(3, 6)]),
        KnownCommit.of(4, 4, "plan.removed", "run", [at(7, 8)]),
    ]
    assert erased_by(commits) == (at(3, 6),)
    assert erasures_in([replace(commits[0], commit_id="erase-no.removed")]) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "got no key"),
        ("id\n", "got no key"),
        ("id,region\n1\n", "key 1: got 1 value"),
        ("id\n1\n\n''\n,\n", "key 3: got 2 values"),
        ("jane@x.org,1990\njoe@x.org\n", "key 1: got 1 value"),
        ("id\n" + "x" * 131_073 + "\n", "line 2 is no CSV"),
        ('id\n"jane@x.org\njoe@x.org\n', "line 3 is no CSV"),
        ('id\n"jane@x.org"joe\n', "line 2 is no CSV"),
        ("jane@x.org,jane@x.org\n1,2\n", "a column is named twice"),
        ("jane@x.org\n\udcff", "no UTF-8"),
        ("id\n" + "jane@x.org\n" * 1_000_000, "more than 10,000,000 bytes"),
    ],
)
def test_a_file_without_keys_is_refused_and_no_message_shows_one(tmp_path, text, why):
    file = tmp_path / "keys.csv"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput, match=why) as refused:
        read_keys(file)
    assert not {"jane", "joe", "1990", "xxx"} & {*re.findall(r"\w+", str(refused.value))}
    assert refused.value.__cause__ is None or "jane" not in str(refused.value.__cause__)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make):
    """A pipe would hang, and a device never end."""
    make(tmp_path / "keys.csv")
    with pytest.raises(BadInput, match=r"keys\.csv: cannot be read: (not a regular|a folder)"):
        read_keys(tmp_path / "keys.csv")


def test_keys_of_a_form_stand_in_the_folder_that_the_site_names(tmp_path, monkeypatch):
    """A worker can read much that whoever fills in a form may not; not even whether it is there."""
    folder, other = tmp_path / "keys", tmp_path / "keys-of-others"
    for each in (folder, other, folder / "today"):
        each.mkdir()
        (each / "k.csv").write_text("id\n1\n")
    (folder / "out.csv").symlink_to(other / "k.csv")
    (folder / "in.csv").symlink_to("today/k.csv")
    (folder / "gone.csv").symlink_to(other / "nothing.csv")
    (folder / "loop.csv").symlink_to("loop.csv")
    (folder / "up").symlink_to(tmp_path)
    for unset in (None, "", "relative", str(tmp_path / "nothing"), str(folder / "k.csv")):
        monkeypatch.setenv("TIDELINE_ERASE_KEYS", unset or "")
        if unset is None:
            monkeypatch.delenv("TIDELINE_ERASE_KEYS")
        with pytest.raises(BadInput, match=r"keys_from: TIDELINE_ERASE_KEYS .* absolute path"):
            keys_below(str(folder / "k.csv"))
    monkeypatch.setenv("TIDELINE_ERASE_KEYS", str(folder))
    for good in ("k.csv", "today/k.csv", "in.csv", str(folder / "today" / ".." / "k.csv")):
        assert read_keys(keys_below(good)) == ({"id": "1"},)
    said = set()
    outside = ("../keys-of-others/k.csv", str(other / "k.csv"), "/etc/passwd", "/etc/nothing")
    links = ("out.csv", "gone.csv", "up/keys-of-others/k.csv", "loop.csv", "a\0b", "x" * 9000)
    for bad in (*outside, *links, "~/.netrc", "."):
        with pytest.raises(BadInput) as refused:
            read_keys(keys_below(bad))
        said.add(refused.value.message)
    assert len(said) <= 4
    assert not any("others" in text or "passwd" in text for text in said)


def test_keys_of_several_columns(tmp_path):
    file = tmp_path / "keys.csv"
    file.write_text('id,region\r\n1,eu\n2,"a,b"\n\u2028,"x\n"')
    assert [list(key.values()) for key in read_keys(file)] == [
        ["1", "eu"],
        ["2", "a,b"],
        ["\u2028", "x\n"],
    ]


@pytest.mark.parametrize(
    "given",
    [
        ("--plan",),
        ("--reason", "request 7"),
        ("--future",),
        ("--now", "--yes"),
        ("--quarantine-by-bytes",),
        ("--whole-keys",),
        ("--settles", "erase-1"),
    ],
)
def test_options_about_keys_need_a_key(tmp_path, capsys, given):
    """Without one the command finishes what is begun, and deletes files, also beside --plan."""
    path = tmp_path / "s.yaml"
    path.write_text(f"stream: s\nkafka: {{topics: [t]}}\ntable: {{uri: {tmp_path}/lake/t}}\n")
    assert main(["erase", str(path), *given]) == 2
    said = capsys.readouterr().err
    assert f"{given[0]}: got no key; allowed only with --key, --raw-key or --keys-from" in said
    assert not (tmp_path / "lake").exists()
