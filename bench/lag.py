"""`make bench-lag`: from a record to the run that lag has started, under a real Airflow.

Each time some records are sent to one of ten streams, when its last run has ended. Writes its table
into docs/airflow.md, between the two comments that name this module.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import yaml
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from bench.report import write_between
from bench.tables import Table
from devstack.airflow_client import AirflowClient
from devstack.postgres import Postgres
from devstack.process import wait_until
from devstack.stack import Stack

_STREAMS = 10
_LAG = {"lag_records": 10, "poll_seconds": 1}


def measure(times: int) -> Table:
    """From the last record's send to the start of the run's first task, and to its end."""
    table = Table(
        "Runs by lag",
        f"{times} times, one of {_STREAMS} streams; a poll each second, Airflow 3 on PostgreSQL,"
        " all on one machine.",
        ("from the last record", "median", "worst"),
    )
    database = Postgres().start()
    url = database.create_database("lag").render_as_string(hide_password=False)
    with tempfile.TemporaryDirectory(prefix="tl") as folder:
        stack = Stack.build(Path(folder), database_url=url)
        try:
            taken = _measured(stack, times)
        finally:
            stack.stop()
            database.stop()
    for what, at in (("to the event", 0), ("to the start of the run", 1), ("to its end", 2)):
        seconds = sorted(one[at] for one in taken)
        table.add(what, f"{median(seconds):.1f} s", f"{seconds[-1]:.1f} s")
    return table


def _measured(stack: Stack, times: int) -> list[tuple[float, float, float]]:
    names = [f"lag{n}" for n in range(_STREAMS)]
    for name in names:
        stream = {
            "stream": name,
            "kafka": {"topics": [name]},
            "table": {"uri": str(stack.lake / name)},
            "schedule": "@yearly",
            "trigger": _LAG,
        }
        (stack.streams / f"{name}.yaml").write_text(yaml.safe_dump(stream))
    stack.start()
    admin = KafkaAdminClient(bootstrap_servers=stack.broker.bootstrap_servers)
    admin.create_topics([NewTopic(name, 1, 1) for name in names])
    admin.close()
    client = stack.airflow.client()
    for name in names:
        client.wait_for_dag(name, timeout_seconds=300)
        client.pause(name, False)
    for name in names:
        wait_until(lambda name=name: _ended(client, name, 1), f"{name}: the clock's run", 300)
    producer = KafkaProducer(bootstrap_servers=stack.broker.bootstrap_servers, linger_ms=0)
    taken = []
    for number in range(times):
        name = names[number % _STREAMS]
        before = len(client.runs(name))
        for _ in range(10):
            producer.send(name, b"x", partition=0)
        producer.flush()
        sent = datetime.now(UTC)
        wait_until(lambda n=name, b=before: _ended(client, n, b + 1), name, 300, 0.5)
        run = client.runs(name)[-1]
        (event,) = client.upstream_events(name, str(run["dag_run_id"]))
        moments = (event["timestamp"], run["start_date"], run["end_date"])
        taken.append(tuple((_time(at) - sent).total_seconds() for at in moments))
        print(number, name, *(f"{seconds:.1f}" for seconds in taken[-1]), flush=True)
        time.sleep(0.3 * (number % 7))  # anywhere between two polls and two loops of the scheduler
    return taken


def _ended(client: AirflowClient, name: str, count: int) -> bool:
    states = [run["state"] for run in client.runs(name)]
    assert "failed" not in states, name
    return states.count("success") >= count


def _time(text: object) -> datetime:
    return datetime.fromisoformat(str(text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    page = Path(__file__).parents[1] / "docs" / "airflow.md"
    write_between(page, "bench.lag", measure(parser.parse_args().times))
