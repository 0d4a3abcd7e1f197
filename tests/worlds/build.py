"""Short ways to say a head, an observation, a plan."""

from __future__ import annotations

from datetime import UTC, datetime

from tideline.model.head import Head, PartitionPosition
from tideline.model.observation import (
    Observation,
    PartitionObservation,
    TableObservation,
    TopicObservation,
)
from tideline.model.offsets import PlannedRange
from tideline.model.plan import BatchPlan
from tideline.model.spark_job import SparkJob

CLUSTER = "cluster-1"
ID = "11111111-1111-4111-8111-111111111111"
OTHER_ID = "22222222-2222-4222-8222-222222222222"
THIRD_ID = "33333333-3333-4333-8333-333333333333"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NO_TABLE = TableObservation(exists=False)


def position(
    next_offset=100,
    partition=0,
    topic="orders",
    topic_id=ID,
    epoch=3,
    generation=0,
    seen_end=None,
):
    return PartitionPosition(topic, topic_id, generation, partition, next_offset, epoch, seen_end)


def head(*positions, **facts):
    return Head(cluster_id=CLUSTER, start="earliest", positions=positions, **facts)


def seen(start=0, end=200, partition=0, epoch=3, epoch_end=None, stable=None, **facts):
    return PartitionObservation(
        partition=partition,
        leader_epoch=epoch,
        log_start_offset=start,
        high_watermark=end,
        last_stable_offset=end if stable is None else stable,
        epoch_end_offset=end if epoch_end is None else epoch_end,
        **facts,
    )


def topic(*partitions, name="orders", topic_id=ID, **facts):
    return TopicObservation(name, topic_id, partitions, **facts)


def observation(*topics, cluster=CLUSTER, table=NO_TABLE):
    return Observation(NOW, cluster, topics, table)


def planned(start=100, end=200, partition=0, name="orders", topic_id=ID, generation=0, epoch=3):
    return PlannedRange(name, topic_id, generation, partition, start, end, epoch, 0, end, end)


def plan(*ranges, lane="live", run_id="run-1", plan_id="plan-1"):
    return BatchPlan(
        plan_id=plan_id,
        run_id=run_id,
        stream="orders",
        lane=lane,
        frozen_at=NOW,
        request_digest="digest",
        cluster_id=CLUSTER,
        isolation_level="read_committed",
        ranges=ranges,
        offset_lag=0,
        estimated_records=sum(len(r.offsets) for r in ranges),
        estimated_bytes=None,
        table_uri="/lake/orders",
        table_id=None,
        table_version=None,
    )


def spark_job(*ranges, kafka_options=None):
    return SparkJob(
        stream="orders",
        plan_id="p",
        run_id="r",
        table_uri="/lake/orders",
        folder="landed-p-1",
        partition_by=("topic_id",),
        isolation_level="read_committed",
        ranges=ranges or (planned(0, 10),),
        kafka_options=kafka_options or {},
        result_path="result",
    )
