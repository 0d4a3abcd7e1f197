"""Decoding on a standalone cluster, whose executors have nothing of Tideline but its jar."""

import json
from contextlib import suppress

import psutil
import pytest

from tests.faults.recorder import Recorder
from tests.worlds.protobuf_schemas import PROTO3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

DAYS = {"2026-01-05": 1_767_571_200_000, "2026-01-06": 1_767_657_600_000}
SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "additionalProperties": False,
}
KEYS = ("\n\x01a", "\n\x01b")
"""Messages whose field 1 is a text of one letter."""


class Documents(Recorder):
    """Values are JSON documents; one in a hundred is half of one."""

    def _value(self, size=0):
        self.sent += 1
        value = document(self.sent)
        return value[:-1] if self.sent % 100 == 0 else value


def document(number):
    return json.dumps({"number": number}).encode()


def decoded(case):
    """Typed rows as the documents they were, and quarantined ones, with their copies."""
    typed = case.read("typed", "number", "is_tombstone")
    rows = [(*at, None if is_tombstone else document(n)) for *at, n, is_tombstone in typed]
    return case.hashed(rows) + case.hashed(case.read("quarantine", "value"))


def has_python(executor):
    """Whether it runs, or has run, a task with a Python worker."""
    with suppress(psutil.NoSuchProcess):
        return any("pyspark.daemon" in child.cmdline() for child in executor.children())
    return False


def test_a_table_by_days_whose_executor_is_killed(cluster_case, spark_cluster, tmp_path):
    """JSON values, Protobuf keys; the failed task's files are in no manifest; so for a replay."""
    case = cluster_case
    case.log = Documents(case.harness.broker.bootstrap_servers)
    (tmp_path / "event.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "key.proto").write_text(PROTO3 + "message Key { string id = 1; }\n")
    key = {"format": "protobuf", "schema": str(tmp_path / "key.proto"), "message": "shop.Key"}
    case.follow(
        partitions=2,
        count=0,
        decode={
            "value": {"format": "json", "schema": str(tmp_path / "event.json")},
            "key": key,
            "table": {"uri": case.address("typed"), "partition_by": ["event_date"]},
            "quarantine": {"uri": case.address("quarantine")},
            "event_time": {},
        },
    )
    for partition in range(2):
        for at in DAYS.values():
            case.log.send(case.topic, 2_000, partition, keys=KEYS, timestamp_ms=at)
        case.log.send_tombstones(case.topic, 10, partition)
    run = case.start("run", "--run-id", "one")
    found = []

    def is_decoding():
        found.extend(item for item in spark_cluster.executors().items() if has_python(item[1]))
        return bool(found)

    case.wait_while(run, is_decoding, "no executor has a Python worker")
    number, victim = found[0]
    victim.kill()
    case.ends_well(run)
    case.judge("landing")
    _, tasks = spark_cluster.tasks(case.harness.name)
    assert "ExecutorLostFailure" in {task.end for task in tasks if task.executor == number}
    case.judge("decoding, an executor killed", decoded(case))
    days = {row["event_date"] for row in case.table("typed").partitions()}
    assert days >= set(DAYS)
    assert {key for *_, key in case.read("typed", "key_id")} >= {"a", "b"}
    case.ends_well(case.start("decode", "--run-id", "one"))
    case.judge("decoding once more", decoded(case))
