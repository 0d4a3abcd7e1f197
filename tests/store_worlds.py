"""A table in a real object store, as the contract test of the table wants it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.object_stores import Bucket
from tests.table_worlds import LEDGER, STREAM, DeltaWorld
from tideline.table.delta_table import TargetTable
from tideline.table.maintained_table import MaintainedTable


class StoreWorld(DeltaWorld):
    """Spark's files and other programs get there beside the proxy, through the server's folder.

    Args:
        bucket: Where the table is.
        partition_by: The table's partition columns.
    """

    def __init__(self, bucket: Bucket, partition_by: Sequence[str] = ("topic_id",)) -> None:
        self.bucket = bucket
        self.folder, self.partition_by = bucket.path(), tuple(partition_by)
        self.port: TargetTable = MaintainedTable(bucket.uri(), bucket.options)
        self.port.create(STREAM, LEDGER, partition_by)
