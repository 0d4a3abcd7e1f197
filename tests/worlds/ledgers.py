"""Ledgers: in a database of their own, with some work in them, or written by an earlier version.

What those are, and why they stay as they are, is in `tests/data/ledgers/README.md`.
"""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from devstack.airflow_services import connection_to
from tests.worlds.build import ID
from tests.worlds.streams import folder_of
from tideline.ledger.history import KINDS
from tideline.ledger.ledger import Ledger
from tideline.ledger.sql_store import METADATA
from tideline.model.addresses import LedgerKind, LedgerLocation
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Finding
from tideline.model.offsets import one_interval
from tideline.model.run import RunRecord
from tideline.stream.files import read_stream
from tideline.stream.stream import Stream
from tideline.wiring import open_store

DATA = Path(__file__).parents[1] / "data" / "ledgers"
MANIFEST = json.loads((DATA / "manifest.json").read_text())
RICH = ("delta", "sql")
"""Recordings with everything in them; the others are about moves."""
_ROOT = "/tmp/tideline-recorded"


class Recorded:
    """One recorded ledger in a folder of the test's own, both locations within reach.

    With `TIDELINE_TEST_BUCKET` it is unpacked among a store's objects.

    Args:
        name: Of the recording.
        folder: Where to unpack it.
    """

    def __init__(self, name: str, folder: Path) -> None:
        root = f"{os.environ.get('TIDELINE_TEST_BUCKET', '')}{folder}"
        unpack(name, folder_of(root))
        self.uri, self.folder = f"{root}/{name}", folder_of(root) / name
        self.stream_name = MANIFEST[name]["stream"]
        self.is_sql = name == "sql"
        for file in self.folder.glob("*.yaml"):
            file.write_text(file.read_text().replace(_ROOT, root))
        self.database = URL.create("sqlite", database=str(self.folder / "ledgers.db"))
        create_tables(self.database)
        with create_engine(self.database, poolclass=NullPool).begin() as connection:
            statement = text(
                "UPDATE tideline_document SET body = replace(body, :old, :new) WHERE slot = 'mark'"
            )
            connection.execute(statement, {"old": _ROOT, "new": root})
        os.environ["AIRFLOW_CONN_TIDELINE_LEDGER"] = connection_to(self.database)

    def location(self, kind: LedgerKind) -> LedgerLocation:
        """The Delta table beside the target table, or the rows in the SQLite file."""
        address = f"{self.uri}/lake/{self.stream_name}.ledger"
        return LedgerLocation(
            kind, address if kind == "delta" else "tideline_ledger", self.stream_name
        )

    def ledger(self, kind: LedgerKind | None = None) -> Ledger:
        """A new view of the ledger at a location; by default where the stream file says."""
        kind = kind or ("airflow" if self.is_sql else "delta")
        return Ledger(open_store(self.location(kind)), self.stream_name)

    def stream(self) -> Stream:
        """The recorded stream file, read back."""
        return read_stream(self.folder / f"{self.stream_name}.yaml")


def unpack(name: str, folder: Path) -> None:
    """Extract a recording's archive into a folder."""
    with tarfile.open(DATA / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")


_CONNECTION = "AIRFLOW_CONN_TIDELINE_LEDGER"


def create_tables(url: URL) -> URL:
    """What Airflow's commands do; the same address."""
    METADATA.create_all(create_engine(url, poolclass=NullPool))
    return url


def connect(url: URL) -> None:
    """From now on the connection `tideline_ledger` leads to this database."""
    os.environ[_CONNECTION] = connection_to(url)


def disconnect() -> None:
    """The connection is gone."""
    os.environ.pop(_CONNECTION, None)


def ledger_in(location, store=None):
    """The ledger at a location; `store` says how an object store is reached."""
    return Ledger(open_store(location, store), location.stream)


def work(location, runs, first=0, store=None):
    """A stream's life: runs closed and closed again, an open run, incidents open and closed."""
    ledger, now = ledger_in(location, store), datetime.now(UTC)
    for number in range(first, first + runs):
        record = RunRecord(f"run-{number}", "live", "done", "digest", now)
        ledger.update(lambda s, r=record: s.with_run(r).with_next_token())
        if number % 3 == 2:
            again = replace(record, run_id=f"run-{number - 1}", superseded_by="later")
            ledger.update(lambda s, r=again: s.with_run(r))
        finding = Finding("retention_loss", "e", "a", "t", "id", number, one_interval(1, 2))
        ledger.update(lambda s, f=finding: s.with_incidents([f], "r", now))
        if number % 2:
            opened = ledger.read().control.incidents[0]
            ledger.update(lambda s, i=opened: s.with_incidents_closed([i.closed("gone", now)]))
    is_open = RunRecord(f"open-{first}", "live", "proposed", "digest", now)
    position = PartitionPosition("t", ID, 0, 0, 100 + first)
    ledger.update(lambda s: replace(s.with_run(is_open), head=Head(positions=(position,))))


def answers(location, store=None):
    """Everything that anybody can ask a ledger, but for the versions of its store."""
    ledger = ledger_in(location, store)
    state = ledger.read()
    entries = [e for kind in KINDS for e in ledger.store.history(kind)]
    return {
        "control": replace(state.control, leases=()),
        "head": state.head,
        "runs": dict(state.runs),
        "closed runs": list(ledger.closed_runs()),
        "closed incidents": list(ledger.closed_incidents()),
        "one run": ledger.find_run("run-1"),
        "closings": ledger.closings(),
        "history": sorted(entries, key=lambda e: (e.kind, e.version, e.key)),
    }
