"""Our client of Delta logs beside delta-rs: of random logs, others' commits in them, the same."""

import io
import json
import random
import shutil
import threading
import time
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction
from obstore.exceptions import AlreadyExistsError

from tests.property.log_writer import theirs
from tideline.delta import delta_log
from tideline.delta.delta_checkpoint import (
    DamagedLog,
    DisputedLog,
    FilesElsewhere,
    NotUnderstood,
)
from tideline.delta.delta_io import read_commit
from tideline.delta.delta_log import CommitTaken, DeltaLog

SCHEMA = pa.schema([("slot", pa.string()), ("key", pa.string())])


def added(name, slot="a b/ü:1"):
    stats = {"numRecords": 1, "minValues": {"key": name}, "maxValues": {"key": name}}
    return AddAction(name, len(name), {"slot": slot}, 5, True, json.dumps(stats))


def removed(action, slot="a b/ü:1"):
    now = int(time.time() * 1000)
    return RemoveAction(action, True, now, None, {"slot": slot})


class Log:
    """A table that both write to, and what each of them says of it."""

    def __init__(self, folder, rng):
        self.folder, self.rng = str(folder), rng
        properties = {"delta.checkpointInterval": "1000"}
        DeltaTable.create(self.folder, SCHEMA, partition_by=["slot"], configuration=properties)
        self.log = DeltaLog(self.folder, {})
        self.known, self.files, self.count = None, [], 0

    def actions(self):
        new = [f"f{self.count}-{n}.parquet" for n in range(self.rng.randrange(3))]
        gone = self.rng.sample(self.files, min(len(self.files), self.rng.randrange(3)))
        self.files = [f for f in self.files if f not in gone] + new
        self.count += 1
        return [*map(added, new), *map(removed, gone)]

    def ours(self):
        state = self.log.newest(self.known if self.rng.random() < 0.5 else None)
        txn = {"appId": self.rng.choice("xy"), "version": state.version + 1}
        self.known = self.log.commit(state, self.actions(), {"txn": txn, "tideline": "test"})

    def theirs(self):
        table = DeltaTable(self.folder)
        transaction = Transaction(self.rng.choice("xyz"), table.version() + 1)
        table.create_write_transaction(
            self.actions(),
            "append",
            table.schema(),
            partition_by=["slot"],
            commit_properties=CommitProperties(app_transactions=[transaction]),
        )

    def says_something(self):
        DeltaTable(self.folder).alter.set_table_properties(
            {"tideline.x": str(self.count)}, raise_if_not_exists=False
        )

    def our_checkpoint(self):
        self.known = self.log.newest(self.known)
        self.log.write_checkpoint(self.known)

    def their_checkpoint(self):
        DeltaTable(self.folder).create_checkpoint()

    def cleaned_up(self):
        """Commits below the newest checkpoint go, as after a day; perhaps the hint, too."""
        logs = Path(self.folder, "_delta_log")
        if checkpoints := sorted(logs.glob("*.checkpoint.parquet")):
            for path in logs.glob("*.json"):
                if path.name < checkpoints[-1].name[:20]:
                    path.unlink()
            if self.rng.random() < 0.5:
                (logs / "_last_checkpoint").unlink(missing_ok=True)

    def compare(self):
        table = DeltaTable(self.folder)
        found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        theirs = {f["path"]: (f["size_bytes"], f["partition.slot"], f["min.key"]) for f in found}
        for known in (None, self.known):
            state = DeltaLog(self.folder, {}).newest(known)
            ours = {
                path: (
                    a["size"],
                    a["partitionValues"]["slot"],
                    json.loads(a["stats"])["minValues"]["key"],
                )
                for path, a in state.adds.items()
            }
            assert (state.version, ours) == (table.version(), theirs)
            for app in "xyz":
                mine = state.others.get(f"txn:{app}", {"version": None})["version"]
                assert mine == table.transaction_version(app)
            assert state.others["metaData"]["id"] == str(table.metadata().id)
            configuration = dict(table.metadata().configuration)
            assert state.others["metaData"]["configuration"] == configuration
        self.known = state


@pytest.mark.parametrize("seed", range(12))
def test_both_say_the_same_of_random_logs(tmp_path, seed, monkeypatch):
    rng = random.Random(seed)
    if seed % 3 == 0:  # who knows many files that are gone begins anew
        monkeypatch.setattr(delta_log, "_MOST_REMOVES", 3)
    log = Log(tmp_path / "t", rng)
    happens = [log.ours] * 6 + [log.theirs] * 3 + [log.says_something, log.our_checkpoint]
    happens += [log.their_checkpoint, log.cleaned_up]
    for _ in range(40):
        rng.choice(happens)()
        if rng.random() < 0.5:
            log.compare()
    log.our_checkpoint()
    log.cleaned_up()
    log.compare()


def test_files_that_were_taken_out_are_deleted_after_our_checkpoint(tmp_path):
    """delta-rs' vacuum knows them from it; those of a week ago are forgotten."""
    log = Log(tmp_path / "t", random.Random(1))
    names = [f"f{n}.parquet" for n in range(3)]
    for name in names:
        (tmp_path / "t" / name).write_text("x")
    old = RemoveAction("f1.parquet", True, 1, None, {"slot": "s"})
    for actions in ([added(n, "s") for n in names], [removed("f0.parquet", "s"), old]):
        state = log.log.newest()
        log.log.commit(state, actions, {"txn": {"appId": "x", "version": state.version + 1}})
    log.our_checkpoint()
    log.cleaned_up()
    log.known = None
    log.our_checkpoint()  # from what the first one says
    gone = DeltaTable(log.folder).vacuum(0, dry_run=True, enforce_retention_duration=False)
    assert gone == ["f0.parquet"]


@pytest.mark.parametrize("whose", ["another's", "ours", "nobody's"])
def test_who_is_refused_waits_until_the_other_commit_is_to_be_seen(tmp_path, monkeypatch, whose):
    """A store may refuse a PUT while another one, or an earlier one of ours, is under way."""
    log = Log(tmp_path / "t", random.Random(1))
    state, path = log.log.newest(), Path(log.folder, "_delta_log", f"{1:020d}.json")
    monkeypatch.setattr(delta_log, "_SEEN_SECONDS", 0.5 if whose == "nobody's" else 30.0)

    def refuse(store, key, body, mode):
        seen = {"another's": b'{"commitInfo": {}}', "ours": bytes(body)}
        if whose in seen:
            threading.Timer(0.2, path.write_bytes, [seen[whose]]).start()
        raise AlreadyExistsError(f"{key} already exists")

    monkeypatch.setattr(delta_log.obstore, "put", refuse)
    about = {"txn": {"appId": "x", "version": 1}}
    if whose == "ours":
        assert log.log.commit(state, [], about).version == 1
        return
    with pytest.raises(CommitTaken if whose == "another's" else AlreadyExistsError):
        log.log.commit(state, [], about)


WRITERS, EACH = 8, 10


def test_writers_of_both_kinds_lose_nothing(tmp_path):
    """Each tries again after it was refused: every file is there, each version once."""
    log = Log(tmp_path / "t", random.Random(1))
    start, failed = threading.Barrier(WRITERS), []

    def write(number):
        start.wait()
        for n in range(EACH):
            action, own = added(f"w{number}-{n}.parquet"), DeltaLog(log.folder, {})
            while True:
                try:
                    if number % 2:
                        state = own.newest()
                        txn = {"appId": f"w{number}", "version": n}
                        own.commit(state, [action], {"txn": txn})
                    else:
                        theirs(log.folder, action, f"w{number}")
                    break
                except (CommitTaken, delta_errors.CommitFailedError):
                    pass
                except Exception as error:
                    failed.append(error)
                    return

    threads = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert DeltaTable(log.folder).version() == WRITERS * EACH
    log.compare()
    assert len(log.known.adds) == WRITERS * EACH


NOT_OURS = {
    "a newer protocol": {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
    "a feature": {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["deletionVectors"],
        }
    },
    "a feature of writers": {
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering"]}
    },
    "a deletion vector": {"add": {"path": "f", "deletionVector": {"storageType": "u"}}},
    "an action that nobody knows": {"domainMetadata": {"domain": "d"}},
}


@pytest.mark.parametrize("what", NOT_OURS)
def test_what_it_does_not_understand_it_refuses(tmp_path, what):
    log = Log(tmp_path / "t", random.Random(1))
    path = Path(log.folder, "_delta_log", f"{1:020d}.json")
    path.write_text(json.dumps(NOT_OURS[what]))
    for known in (None, log.known):
        with pytest.raises(NotUnderstood):
            log.log.newest(known)


def test_a_log_with_a_hole_or_without_a_beginning_is_refused(tmp_path):
    log = Log(tmp_path / "t", random.Random(1))
    for _ in range(4):
        log.ours()
    logs = Path(log.folder, "_delta_log")
    for version in (2, 0):
        (logs / f"{version:020d}.json").unlink()
        with pytest.raises(NotUnderstood):
            log.log.newest()


def test_another_log_at_the_address_is_opened_anew(tmp_path):
    """At the same version; and where the folder is gone, there is none."""
    one, other = (Log(tmp_path / n, random.Random(n)) for n in ("one", "other"))
    for log in (one, other):
        for _ in range(3):
            log.ours()
    known = one.known
    shutil.rmtree(one.folder)
    assert one.log.newest(known) is None
    assert one.log.newest() is None
    shutil.copytree(other.folder, one.folder)
    found = one.log.newest(known)
    assert found.others["metaData"]["id"] == other.known.others["metaData"]["id"]
    assert [*found.adds] == [*other.known.adds]
    with pytest.raises(CommitTaken):
        one.log.commit(one.log.newest(), [], {"txn": {"appId": "x", "version": 1}}) and (
            one.log.commit(known, [], {"txn": {"appId": "x", "version": 1}})
        )


PATHS = (
    "a!b",
    "a$b",
    "a&b",
    "a'b",
    "(a)",
    "a+b",
    "a,b",
    "a;b",
    "a@b",
    "a:b",
    "ü b",
    "a%b",
    "a=~_.-b",
)


@pytest.mark.parametrize("whose", ["delta-rs", "in plain"])
def test_a_file_goes_by_the_path_by_which_the_log_knows_it(tmp_path, whose):
    """Each writer escapes other characters: a file that we take out is out for every reader."""
    log = Log(tmp_path / "t", random.Random(1))
    table = DeltaTable(log.folder)
    actions = [added(f"{path}.parquet") for path in PATHS]
    table.create_write_transaction(actions, "append", table.schema(), partition_by=["slot"])
    if whose == "in plain":
        path = Path(log.folder, "_delta_log", f"{1:020d}.json")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "add" in line and not {*"%:"} & {*unquote(line["add"]["path"])}:
                line["add"]["path"] = unquote(line["add"]["path"])
        path.write_text("\n".join(map(json.dumps, lines)))
    state = log.log.newest()
    assert len(state.adds) == len(PATHS)
    gone = [removed(unquote(path)) for path in state.adds]
    log.log.commit(state, gone, {"txn": {"appId": "x", "version": 2}})
    assert DeltaTable(log.folder).file_uris() == []
    assert log.log.newest().adds == {}


CHARACTERS = [chr(n) for n in range(32, 127) if chr(n) not in "/."] + ["ü", "\u0308", "😀"]


def test_delta_rs_takes_out_every_file_that_we_have_added(tmp_path):
    """It names a file by the path that it would have written: of another, rows would stay."""
    log = Log(tmp_path / "t", random.Random(1))
    names = [f"x/{n}{character}.parquet" for n, character in enumerate(CHARACTERS)]
    (tmp_path / "t" / "x").mkdir()
    for name in names:
        pq.write_table(pa.table({"key": ["k"]}), tmp_path / "t" / name)
    sizes = {name: (tmp_path / "t" / name).stat().st_size for name in names}
    actions = [AddAction(name, sizes[name], {"slot": "s"}, 5, True, None) for name in names]
    log.log.commit(log.log.newest(), actions, {"txn": {"appId": "x", "version": 1}})
    assert len(DeltaTable(log.folder).to_pyarrow_table()) == len(names)
    DeltaTable(log.folder).delete()
    assert [*log.log.newest().adds] == []
    assert DeltaTable(log.folder).file_uris() == []


@pytest.mark.parametrize(
    ("text", "days", "is_kept"),
    [
        (None, 6, True),
        (None, 8, False),
        ("interval 30 days", 8, True),
        ("INTERVAL 2 Weeks 3 days", 16, True),
        ("INTERVAL 2 Weeks 3 days", 18, False),
        ("interval 1 hour", 1, False),
        ("as long as we like", 400, True),
    ],
)
def test_a_checkpoint_keeps_removed_files_as_long_as_the_table_says(tmp_path, text, days, is_kept):
    """What it forgets is deleted as a file of nobody's; a text that is not understood keeps all."""
    log = Log(tmp_path / "t", random.Random(1))
    if text is not None:
        given = {"delta.deletedFileRetentionDuration": text}
        state = log.log.newest()
        meta = state.others["metaData"]
        meta = {**meta, "configuration": {**meta["configuration"], **given}}
        path = Path(log.folder, "_delta_log", f"{1:020d}.json")
        path.write_text(json.dumps({"metaData": meta}))
    (tmp_path / "t" / "f.parquet").write_text("x")
    ago = int(time.time() * 1000) - days * 24 * 3600 * 1000
    for action in (added("f.parquet"), RemoveAction("f.parquet", True, ago, 1, {"slot": "s"})):
        state = log.log.newest()
        log.log.commit(state, [action], {"txn": {"appId": "x", "version": state.version + 1}})
    for _ in range(2):  # the second one is made of what the first one says
        log.log.write_checkpoint(log.log.newest())
        log.cleaned_up()
    state = log.log.newest()
    rows = pq.read_table(io.BytesIO(state.expiring), columns=["remove"]).column(0).to_pylist()
    assert [r["path"] for r in rows if r] == (["f.parquet"] if is_kept else [])


def test_a_file_that_has_come_back_is_no_removed_file(tmp_path):
    """A restore adds what was removed: a checkpoint that has both lets readers take it for gone."""
    log = Log(tmp_path / "t", random.Random(1))
    for actions in ([added("f.parquet")], [removed("f.parquet")], [added("f.parquet")]):
        state = log.log.newest()
        log.log.commit(state, actions, {"txn": {"appId": "x", "version": state.version + 1}})
        log.our_checkpoint()
    log.cleaned_up()
    found = pq.read_table(io.BytesIO(log.log.newest().expiring), columns=["add", "remove"])
    assert [found.column(n).null_count for n in range(2)] == [len(found) - 1, len(found)]
    log.known = None
    log.compare()


ODD = {
    "a size that is a text": {
        "add": {"path": "g", "partitionValues": {"slot": "s"}, "size": "many"}
    },
    "a time that is a text": {
        "add": {"path": "g", "partitionValues": {"slot": "s"}, "size": 1, "modificationTime": "now"}
    },
    "partition values in a list": {
        "add": {"path": "g", "partitionValues": [["slot", "s"]], "size": 1}
    },
}


@pytest.mark.parametrize("what", ODD)
def test_a_checkpoint_that_cannot_be_written_fails_no_commit(tmp_path, what, caplog):
    """Nothing depends on one: the commit stands, and the log says why there is none."""
    log = Log(tmp_path / "t", random.Random(1))
    Path(log.folder, "_delta_log", f"{1:020d}.json").write_text(json.dumps(ODD[what]))
    made = log.log.commit(log.log.newest(), [], {"txn": {"appId": "x", "version": 2}})
    assert not log.log.checkpoint(made)
    assert "no checkpoint was written" in caplog.text
    assert log.log.newest().version == 2


@pytest.mark.parametrize("text", ["0", "", "10.5", "-5", "ten", " 10", "9" * 12, None])
def test_an_interval_of_checkpoints_that_is_no_number_is_the_default(tmp_path, text):
    log = Log(tmp_path / "t", random.Random(1))
    meta = log.log.newest().others["metaData"]
    meta = {**meta, "configuration": {"delta.checkpointInterval": text}}
    Path(log.folder, "_delta_log", f"{1:020d}.json").write_text(json.dumps({"metaData": meta}))
    state = log.log.newest()
    assert (state.interval, state.is_due) == (100, False)


SINGLE, PART = "checkpoint.parquet", "checkpoint.0000000001.0000000001.parquet"
V2 = "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"


@pytest.mark.parametrize("name", [SINGLE, PART, V2])
@pytest.mark.parametrize("commits", [0, 3])
def test_a_checkpoint_that_is_newer_than_each_commit_is_not_passed_over(tmp_path, name, commits):
    """The last commit and the hint were lost: an older version would count for the newest."""
    log = Log(tmp_path / "t", random.Random(1))
    for _ in range(3):
        log.ours()
    log.our_checkpoint()
    logs = Path(log.folder, "_delta_log")
    (logs / "_last_checkpoint").unlink()
    (logs / f"{3:020d}.{SINGLE}").rename(logs / f"{3:020d}.{name}")
    for version in range(commits, 4):
        (logs / f"{version:020d}.json").unlink()
    with pytest.raises(NotUnderstood, match=f"newer than the last commit, version {commits - 1}"):
        log.log.newest()


@pytest.mark.parametrize("name", [f"{v:020d}.{end}" for v in (2, 3, 4) for end in ("json", SINGLE)])
def test_what_lies_in_a_folder_of_the_log_is_none_of_it(tmp_path, name):
    """A copy of some of its files, for one; and a folder that a catalog keeps there."""
    log = Log(tmp_path / "t", random.Random(1))
    for _ in range(3):
        log.ours()
    before = log.log.newest()
    other = Path(log.folder, "_delta_log", "copy", name)
    other.parent.mkdir()
    other.write_text("any")
    for known in (None, before):
        assert log.log.newest(known) == before


@pytest.mark.parametrize("version", [10**10, 10**20 - 1])
def test_a_version_far_away_is_a_hole_and_costs_no_memory(tmp_path, version):
    log = Log(tmp_path / "t", random.Random(1))
    log.ours()
    Path(log.folder, "_delta_log", f"{version:020d}.json").write_text("any")
    for known in (None, log.known):
        with pytest.raises(NotUnderstood, match="a hole behind version"):
            log.log.newest(known)


@pytest.mark.parametrize("order", [1, -1])
def test_a_commit_that_adds_and_removes_a_file_is_damaged(tmp_path, order):
    """For delta-rs the first of the two counts, for Spark the last: nobody knows what was meant."""
    log = Log(tmp_path / "t", random.Random(1))
    add = {"path": "f", "partitionValues": {"slot": "s"}, "size": 1}
    lines = [{"add": add}, {"remove": {"path": "f", "deletionTimestamp": 1}}][::order]
    path = Path(log.folder, "_delta_log", f"{1:020d}.json")
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(DisputedLog, match="version 1 is damaged: it adds and removes f"):
        log.log.newest()


DAMAGED = {
    "nothing": b"",
    "a mark of byte order": b'\xef\xbb\xbf{"commitInfo": {}}',
    "blanks": b"\n \n",
    "NULs": bytes(100),
    "half a commit": b'{"commitInfo": {}}\n{"add": {"path": "f", "parti',
    "a web page": b"<html><body>502</body></html>",
    "a list": b"[]",
    "a number": b"1",
    "two actions in a line": b'{"txn": {"appId": "x", "version": 1}, "commitInfo": {}}',
    "an action that is a text": b'{"add": "f"}',
    "no path": b'{"add": {"size": 1}}',
    "no text": b"\xff\xfe\xfa",
    "brackets": b"[" * 100_000,
}


ODD_IN_A_LINE = ("two actions in a line", "an action that is a text", "no path")
"""What a commit says of itself can be read all the same."""


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_commit_is_told_with_its_version(tmp_path, what):
    """An empty one, too, which a power cut leaves: it is no version without actions."""
    log = Log(tmp_path / "t", random.Random(1))
    log.ours()
    Path(log.folder, "_delta_log", f"{2:020d}.json").write_bytes(DAMAGED[what])
    for known in (None, log.known):
        with pytest.raises(DamagedLog, match="version 2 is damaged"):
            log.log.newest(known)
    if what not in ODD_IN_A_LINE:
        for read in (log.log.actions, lambda version: read_commit(log.folder, version, {})):
            with pytest.raises(DamagedLog, match="version 2 is damaged"):
                read(2)


@pytest.mark.parametrize("cut", [0, 10, 100, -10])
def test_a_damaged_checkpoint_is_told_with_its_version(tmp_path, cut):
    log = Log(tmp_path / "t", random.Random(1))
    for _ in range(3):
        log.ours()
    log.our_checkpoint()
    (path,) = Path(log.folder, "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DamagedLog, match="version 3 is damaged"):
        log.log.newest()


@pytest.mark.parametrize(
    "hint", [b'{"version": 1e400}', b'{"version": null}', b"[]", b"[" * 100_000]
)
def test_a_hint_that_says_nothing_is_none(tmp_path, hint):
    log = Log(tmp_path / "t", random.Random(1))
    for _ in range(3):
        log.ours()
    log.our_checkpoint()
    Path(log.folder, "_delta_log", "_last_checkpoint").write_bytes(hint)
    assert log.log.newest().version == 3


def test_a_line_ends_with_a_line_feed_only(tmp_path):
    """JSON may have other breaks of lines inside of a text."""
    log = Log(tmp_path / "t", random.Random(1))
    line = json.dumps({"commitInfo": {"userMetadata": "a\u2028b\u0085c"}}, ensure_ascii=False)
    path = Path(log.folder, "_delta_log", f"{1:020d}.json")
    path.write_bytes(f"{line}\r\n".encode())
    assert log.log.actions(1) == read_commit(log.folder, 1, {}) == (json.loads(line),)
    assert log.log.newest().version == 1


@pytest.mark.parametrize("path", ["file:/elsewhere/f", "s3://bucket/f", "/elsewhere/f"])
def test_a_file_of_another_table_is_refused(tmp_path, path):
    """A shallow clone has them: they lie in another table's folder."""
    log = Log(tmp_path / "t", random.Random(1))
    add = {"add": {"path": path, "partitionValues": {"slot": "s"}, "size": 1}}
    Path(log.folder, "_delta_log", f"{1:020d}.json").write_text(json.dumps(add))
    with pytest.raises(FilesElsewhere, match="shallow clone"):
        log.log.newest()


def test_sums_of_hadoops_client_go_with_what_they_are_about(tmp_path):
    """It refuses a file that is another one than the sum beside it says."""
    log = Log(tmp_path / "t", random.Random(1))
    names = [f".{0:020d}.checkpoint.parquet.crc", "._last_checkpoint.crc"]
    for name in names:
        Path(log.folder, "_delta_log", name).write_text("x")
    log.our_checkpoint()
    assert not [n for n in names if Path(log.folder, "_delta_log", n).exists()]


def test_statistics_in_columns_become_text(tmp_path):
    """As Spark writes them where it is told to: a bound without an exact text is no bound."""
    log = Log(tmp_path / "t", random.Random(1))
    log.ours()
    log.our_checkpoint()
    (path,) = Path(log.folder, "_delta_log").glob("*.checkpoint.parquet")
    values = {
        "n": (2**62 + 1, pa.int64()),
        "f": (float("nan"), pa.float64()),
        "g": (0.1, pa.float32()),
        "d": (Decimal("1.25"), pa.decimal128(10, 2)),
        "at": (253402300800_000001, pa.timestamp("us", "UTC")),
        "local": (1, pa.timestamp("us")),
        "odd": (1, pa.timestamp("ns")),
        "born": (-1, pa.date32()),
        "options": ("ä", pa.string()),
        "raw": (b"x", pa.binary()),
        "so": (True, pa.bool_()),
        "none": (None, pa.date32()),
    }
    low = pa.struct([(name, kind) for name, (_, kind) in values.items()])
    bounds = {name: value for name, (value, _) in values.items()}
    said = pa.struct([("numRecords", pa.int64()), ("minValues", low)])
    file = {"partitionValues": [("slot", "s")], "size": 1}
    kinds = {"partitionValues": pa.map_(pa.string(), pa.string()), "size": pa.int64()}
    adds = [
        {"path": "f", "stats_parsed": {"numRecords": 7, "minValues": bounds}, **file},
        {"path": "g", "stats_parsed": None, **file},
    ]
    kind = pa.struct({"path": pa.string(), **kinds, "stats_parsed": said}.items())
    columns = {"add": pa.array([*adds, None, None], kind)}
    old = pq.read_table(path)
    for name in ("protocol", "metaData"):
        action = next(row for row in old.column(name).to_pylist() if row)
        columns[name] = pa.array([None, None, None, action], old.schema.field(name).type)
    pq.write_table(pa.table(columns), path)
    found = log.log.newest().adds
    assert json.loads(found["f"]["stats"]) == {
        "numRecords": 7,
        "minValues": {
            "n": 2**62 + 1,
            "g": pytest.approx(0.1),
            "at": "10000-01-01T00:00:00.000001Z",
            "local": "1970-01-01T00:00:00.000001",
            "born": "1969-12-31",
            "options": "ä",
            "so": True,
        },
    }
    assert "stats" not in found["g"]
    log.known = log.log.newest()
    log.log.write_checkpoint(log.known)
    assert log.log.newest().adds["f"]["stats"] == found["f"]["stats"]
