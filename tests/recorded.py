"""Ledgers that an earlier version wrote (tests/data/ledgers/README.md), unpacked for a test."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from devstack.airflow_services import connection_to
from tests.harness import folder_of
from tests.ledger_database import create_tables
from tideline.ledger.ledger import Ledger
from tideline.model.addresses import LedgerKind, LedgerLocation
from tideline.stream.files import read_stream
from tideline.stream.stream import Stream
from tideline.wiring import open_store

DATA = Path(__file__).parent / "data" / "ledgers"
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
