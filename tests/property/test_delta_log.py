"""Our client of Delta logs beside delta-rs: of random logs, others' commits in them, the same."""

import json
import random
import shutil
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction
from obstore.exceptions import AlreadyExistsError

from tideline import delta_log
from tideline.delta_checkpoint import NotUnderstood
from tideline.delta_log import CommitTaken, DeltaLog

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
                        table = DeltaTable(log.folder)
                        table.create_write_transaction(
                            [action],
                            "append",
                            table.schema(),
                            partition_by=["slot"],
                            commit_properties=CommitProperties(max_commit_retries=0),
                        )
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
