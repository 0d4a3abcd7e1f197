"""A store that ends a read early, a data file that is damaged, and a table that goes meanwhile."""

from types import SimpleNamespace

import obstore
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError

from tests.worlds.build import ID
from tests.worlds.damage import spoil_page
from tests.worlds.tables import Rows
from tideline.delta import delta_io, delta_log
from tideline.errors import ServiceAway, UnreadableTable, VerificationFailed
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.table.maintained_table import MaintainedTable
from tideline.table.schema import QUARANTINE_COLUMNS


def at(start, end):
    return CoordinateRange("orders", ID, 0, 0, start, end)


def filled(uri, files=2, columns=QUARANTINE_COLUMNS):
    """A table with ten rows in each of its files."""
    table = MaintainedTable(str(uri), {}, columns)
    table.create("orders", "l", ["topic_id"])
    for n in range(files):
        data = Rows(at(10 * n, 10 * n + 10)).table
        write_deltalake(str(uri), data, mode="append", schema_mode="merge")
    return table


class Short:
    """obstore, whose answers end with the last line but one; they tell the size of all."""

    def __init__(self):
        self.is_short = True

    def __getattr__(self, name):
        return getattr(obstore, name)

    def get(self, store, path, **options):
        found = obstore.get(store, path, **options)
        if not (self.is_short and path.endswith(".json")):
            return found
        lines = bytes(found.bytes()).strip().split(b"\n")
        return SimpleNamespace(bytes=lambda: b"\n".join(lines[:-1]), meta=found.meta)


@pytest.fixture
def short(monkeypatch):
    store = Short()
    monkeypatch.setattr(delta_log, "obstore", store)
    return store


def test_a_commit_of_which_a_store_gives_a_part_is_no_commit(tmp_path, short):
    """Its last lines are its files: who lands them again would leave a second copy beside them."""
    short.is_short = False
    filled(tmp_path / "t")
    table = MaintainedTable(str(tmp_path / "t"))
    short.is_short = True
    with pytest.raises(ServiceAway, match=r"of \d+ bytes of .*json have come"):
        table.observe()
    short.is_short = False
    version = table.observe().version
    assert table.landed([at(0, 20)], version)[PartitionIdentity(ID, 0, 0)].rows == 20


def test_a_ledger_of_which_a_store_gives_a_part_is_away(tmp_path, short):
    """Nobody is told to put it back from a copy."""
    short.is_short = False
    store = DeltaLedgerStore(str(tmp_path / "ledger"))
    store.commit(store.read(), put={"head": "one"})
    short.is_short = True
    with pytest.raises(ServiceAway, match="bytes"):
        DeltaLedgerStore(str(tmp_path / "ledger")).read()
    short.is_short = False
    assert store.read().documents == {"head": "one"}


READS = {
    "scan": lambda table: list(table.scan(["offset"])),
    "scan at": lambda table: list(table.scan(["value"], [at(0, 20)])),
    "rows with": lambda table: table.rows_with([{"partition": "0"}], ["offset"]),
    "rows of plans": lambda table: table.rows_of_plans(["p"]),
}


@pytest.mark.parametrize(
    ("read", "how"),
    [*((read, how) for read in READS for how in ("cut", "empty", "gone")), ("scan at", "page")],
)
def test_a_damaged_file_is_named_whoever_reads_it(tmp_path, read, how):
    """Waiting would not help; and whoever erases, sweeps or explains has to know which file."""
    table = filled(tmp_path / "t", 1)
    (path,) = (tmp_path / "t").rglob("part-*.parquet")
    if how == "gone":
        path.unlink()
    elif how == "page":
        spoil_page(path)
    else:
        path.write_bytes(path.read_bytes()[:-20] if how == "cut" else b"")
    with pytest.raises(VerificationFailed, match=f"data file .*{path.name} cannot be read"):
        READS[read](table)


@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize(
    "read", [lambda t: list(t.stored()), lambda t: list(t.scan(["offset"]))], ids=["audit", "scan"]
)
def test_a_table_that_is_swapped_while_it_is_read_is_not_called_damaged(
    tmp_path, monkeypatch, is_back, read
):
    """Its files went with it: nobody is told to take them out of the table."""
    table, real, here = filled(tmp_path / "t"), delta_io._store, [True]
    filled(tmp_path / "other", 3)

    def moving(*given):
        if not here:
            return real(*given)
        here.clear()
        (tmp_path / "t").rename(tmp_path / "away")
        (tmp_path / "other").rename(tmp_path / "t")
        return _Back(real(*given), tmp_path) if is_back else real(*given)

    table.observe()
    monkeypatch.setattr(delta_io, "_store", moving)
    with pytest.raises(ServiceAway, match=r"was away while|has another one in its place"):
        read(table)


class _Back:
    """A store from which the other table has gone again, once somebody has looked for a file."""

    def __init__(self, store, folder):
        self._store, self._folder = store, folder

    def open_input_file(self, path):
        try:
            return self._store.open_input_file(path)
        finally:
            (self._folder / "t").rename(self._folder / "other")
            (self._folder / "away").rename(self._folder / "t")


def test_a_listed_file_of_a_log_that_is_gone_is_no_broken_log(tmp_path):
    """Whoever moves a table does that between a look into its folder and the read."""
    table = MaintainedTable(str(tmp_path / "t"))
    for said in (
        "Kernel error: File not found: /t/_delta_log/00000000000000000010.json",
        "Kernel error: Arrow error: External: Object at location /t/_delta_log/9.checkpoint.parquet"
        " not found: No such file or directory",
        'Kernel error: Invalid table location: Path does not exist: "/t/".',
    ):
        assert isinstance(table._failure(DeltaError(said)), ServiceAway)
    broken = table._failure(DeltaError("Kernel error: Invalid Checkpoint: no checkpoints"))
    assert isinstance(broken, UnreadableTable)
    assert "If somebody was moving or restoring the table, run again" in str(broken)
