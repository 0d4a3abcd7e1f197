"""What OpenLineage is told: topics -> table, with the run's ranges as a facet.

Only Airflow's OpenLineage provider calls an operator's `get_openlineage_facets_on_complete`, which
imports this module: where the provider is not installed, nobody does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset, InputDataset, OutputDataset
from openlineage.client.generated.base import InputDatasetFacet, RunFacet
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.output_statistics_output_dataset import (
    OutputStatisticsOutputDatasetFacet,
)

from tideline.contract.events import build_decoded_event, build_landed_event
from tideline.kafka.kafka_settings import kafka_settings
from tideline.model.addresses import is_in_object_store
from tideline.model.current import FoldRecord
from tideline.model.decoding import DecodeRecord
from tideline.model.offsets import CoordinateRange
from tideline.model.run import RunRecord
from tideline.stream.stream import Stream

RANGES, RUN = "tideline_ranges", "tideline_run"
"""Names of the two facets that are ours."""


@attr.define
class RangesFacet(InputDatasetFacet):
    """What the run has read of a dataset: the ranges of the asset event, ends exclusive."""

    ranges: list[dict[str, Any]] = attr.field(factory=list)


@attr.define
class TidelineRunFacet(RunFacet):
    """The run as the ledger knows it."""

    stream: str = ""
    run_id: str = ""
    plan_id: str = ""


def lineage_of(stream: Stream, record: RunRecord | DecodeRecord | FoldRecord) -> OperatorLineage:
    """What a closed run, a verified decoding, or a verified fold has read and written."""
    if isinstance(record, RunRecord):
        return landed_lineage(stream, record)
    if isinstance(record, FoldRecord):
        return folded_lineage(stream, record)
    return decoded_lineage(stream, record)


def landed_lineage(stream: Stream, record: RunRecord) -> OperatorLineage:
    """Topics and table of a closed run with a commit."""
    event = build_landed_event(record)
    commit = record.table_commit
    assert commit is not None
    brokers = kafka_settings(stream.kafka.connection).servers
    namespace = f"kafka://{brokers.partition(',')[0].strip()}"
    topics = sorted({planned.topic for planned in event.ranges})
    return OperatorLineage(
        inputs=[
            InputDataset(namespace, topic, inputFacets=_ranges(event.ranges, topic))
            for topic in topics
        ],
        outputs=[_table(stream.table.uri, commit.version, event.rows, commit.bytes)],
        run_facets=_run(stream, record.run_id, event.plan_id),
    )


def decoded_lineage(stream: Stream, record: DecodeRecord) -> OperatorLineage:
    """Raw table, typed table and quarantine of a verified decoding."""
    assert stream.decode is not None
    event = build_decoded_event(record)
    uris = stream.decode.addresses
    of_types: list[tuple[str, int | None, int]]
    of_types = [(uris[t.name], t.table_version, t.rows) for t in record.by_type if t.name in uris]
    tables = (
        *(of_types or [(uris.get("", ""), event.table_version, event.decoded)]),
        (stream.decode.quarantine.uri, event.quarantine_version, event.quarantined),
    )
    raw = dataset_name(stream.table.uri)
    return OperatorLineage(
        inputs=[InputDataset(*raw, inputFacets=_ranges(event.ranges))],
        outputs=[
            _table(uri, version, rows) for uri, version, rows in tables if version is not None
        ],
        run_facets=_run(stream, record.plan.run_id, event.plan_id),
    )


def folded_lineage(stream: Stream, record: FoldRecord) -> OperatorLineage:
    """Typed table and current table of a verified fold."""
    assert stream.current is not None
    written = sum(bucket.rows for bucket in record.buckets)
    ranges = [r.as_coordinates for r in record.plan.ranges]
    typed = dataset_name(stream.source.table.uri)
    version = record.table_version or 0
    return OperatorLineage(
        inputs=[InputDataset(*typed, inputFacets=_ranges(ranges))],
        outputs=[_table(stream.current.table.uri, version, written)],
        run_facets=_run(stream, record.plan.run_id, record.plan.plan_id),
    )


_SCHEMES = {"s3a": "s3", "abfs": "abfss"}
"""Where OpenLineage's naming has another scheme."""


def dataset_name(uri: str) -> tuple[str, str]:
    """Namespace and name of a table, by OpenLineage's naming (spec/Naming.md).

    Args:
        uri: As in the stream file: a path, `file:///...` or an address in an object store.
    """
    if is_in_object_store(uri):
        scheme, _, rest = uri.partition("://")
        bucket, _, key = rest.partition("/")
        return f"{_SCHEMES.get(scheme, scheme)}://{bucket}", key.rstrip("/")
    return "file", uri.removeprefix("file://").rstrip("/")


def _ranges(ranges: Sequence[CoordinateRange], topic: str | None = None) -> dict[str, RangesFacet]:
    chosen = [asdict(r) for r in ranges if topic in (None, r.topic)]
    return {RANGES: RangesFacet(ranges=chosen)}


def _table(uri: str, version: int, rows: int, size: int | None = None) -> Dataset:
    statistics = OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size)
    return OutputDataset(
        *dataset_name(uri),
        facets={"version": DatasetVersionDatasetFacet(datasetVersion=str(version))},
        outputFacets={"outputStatistics": statistics},
    )


def _run(stream: Stream, run_id: str, plan_id: str) -> dict[str, TidelineRunFacet]:
    return {RUN: TidelineRunFacet(stream=stream.stream, run_id=run_id, plan_id=plan_id)}
