"""A table at one version, as our own client has read its log; it has the names of delta-rs' own.

What else delta-rs does with a table, it does with an object of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from deltalake import DeltaTable, Schema

from tideline.delta.delta_checkpoint import Action, LogState
from tideline.table.statistics import DataFile, described_files, logged_file

Described = Mapping[str, tuple[Action, DataFile]]
"""Files with the log's action that describes them, by their path in the log."""


class _Metadata(NamedTuple):
    id: str
    partition_columns: list[str]
    configuration: dict[str, str]


class _Asked(NamedTuple):
    min_writer_version: int
    writer_features: list[str] | None = None
    reader_features: list[str] | None = None


@dataclass(frozen=True)
class LoggedTable:
    """A table as its log's state has it.

    Args:
        table_uri: Its address.
        state: What the log says.
        known: Files that were described for an earlier version.
    """

    table_uri: str
    state: LogState
    known: Described = field(default_factory=dict, repr=False)

    def version(self) -> int:
        """Of its newest commit."""
        return self.state.version

    def metadata(self) -> _Metadata:
        """As the log has it."""
        found = self.state.others["metaData"]
        properties = found.get("configuration") or {}
        return _Metadata(found["id"], [*found["partitionColumns"]], dict(properties))

    def protocol(self) -> _Asked:
        """As the log has it."""
        found = self.state.others["protocol"]
        features = (found.get("writerFeatures"), found.get("readerFeatures"))
        return _Asked(found["minWriterVersion"], *features)

    def schema(self) -> Schema:
        """Its columns."""
        return Schema.from_json(self.state.others["metaData"]["schemaString"])

    def transaction_version(self, app_id: str) -> int | None:
        """The newest transaction of an application."""
        found = self.state.others.get(f"txn:{app_id}")
        return None if found is None else int(found["version"])

    @property
    def described(self) -> Described:
        """The files that were described so far."""
        found: Described = self.__dict__.get("files", self.known)
        return found

    @cached_property
    def files(self) -> Described:
        """Its data files, in the log's order.

        A commit may add a file that is there once more, with other statistics.
        """
        split_by = self.metadata().partition_columns
        columns = json.loads(self.state.others["metaData"]["schemaString"])["fields"]
        types = {column["name"]: column["type"] for column in columns}
        found = dict[str, tuple[Action, DataFile]]()
        for path, action in self.state.adds.items():
            known = self.known.get(path)
            if known is None or known[0] is not action:
                known = (action, logged_file(action, types, split_by))
            found[path] = known
        return found


Opened = LoggedTable | DeltaTable
"""A table at one version, whoever has opened it."""


def active_files(table: Opened) -> Iterator[DataFile]:
    """The data files of a table at its version, in the log's order."""
    if isinstance(table, LoggedTable):
        yield from (file for _, file in table.files.values())
    else:
        yield from described_files(table)
